import { mkdtempSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { lacks } from "./needs.ts";

/** An empty folder, which is removed with the test. */
export function makeFolder(parent = tmpdir()): string {
  const folder = mkdtempSync(join(parent, "vidgen-test-"));
  onTestFinished(() => removeFolder(folder));
  return folder;
}

/** Waits for files in it that are being closed. What a test "kills" in its own process never closes its files: Windows keeps them, and the folder. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 }).catch((error) => {
    if (!lacks("removal of open files")) throw error;
  });
}

/** The only partial file in a folder. */
export function findPart(folder: string): string {
  const [name, ...others] = readdirSync(folder).filter((each) => /\.[0-9a-f]{8}\.part$|^\.vidgen-.*\.part$/.test(each));
  if (name === undefined || others.length > 0) throw new Error(`partial files in ${folder}: ${[name, ...others]}`);
  return join(folder, name);
}
