import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** An empty folder, which is removed with the test. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "vidgen-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** The only partial file in a folder. */
export function findPart(folder: string): string {
  const [name, ...others] = readdirSync(folder).filter((each) => /\.[0-9a-f]{8}\.part$|^\.vidgen-.*\.part$/.test(each));
  if (name === undefined || others.length > 0) throw new Error(`partial files in ${folder}: ${[name, ...others]}`);
  return join(folder, name);
}
