import { execSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { missing, notPosix } from "./needs.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Runs once, before the tests: builds `dist/` when one of the chosen tests runs the built program and that is older than what it is made of, since
 * a test must not pass on an old program. What it returns is called after the tests.
 */
export default function setup({ vitest, name }: TestProject): () => void {
  const newer = findNewerSource();
  if (newer !== undefined && vitest.state.getPaths().some(isOfBuild)) {
    process.stderr.write(`dist/ is older than ${relative(root, newer)}: building it.\n`);
    execSync("npm run --silent build", { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  }
  return () => {
    const lines = { slow: missing, fast: notPosix }[name];
    for (const line of lines ?? []) process.stderr.write(`${line}\n`);
  };
}

/** A file or folder that has changed since the last build began; `undefined` when `dist/` is up to date. */
function findNewerSource(): string | undefined {
  // The first file that the build writes, and the last: without that, it has broken off.
  const [first, last] = ["dist/cli.cjs", "dist/SKILL.md"].map((file) => join(root, file)) as [string, string];
  const builtAt = existsSync(last) && existsSync(first) ? statSync(first).mtimeMs : 0;
  // A folder changes when a file in it is added, renamed or removed.
  const sources = ["src", "bin", "package.json", "package-lock.json", "tsconfig.json"].flatMap((name) => {
    const path = join(root, name);
    const inside = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
    return [path, ...inside.map((each) => join(path, each))];
  });
  return sources.find((path) => statSync(path).mtimeMs > builtAt);
}

/** Whether a test, or what it imports from `test/`, names a part of the built program: most tests run the sources. */
function isOfBuild(file: string): boolean {
  const seen = new Set<string>();
  const look = (path: string): boolean => {
    if (seen.has(path)) return false;
    seen.add(path);
    const text = readFileSync(path, "utf8");
    if (/\b(dist\/|bin\/vidgen)|from "vidgen\b/.test(text)) return true;
    const imports = [...text.matchAll(/from "(\.[^"]+\.ts)"/g)].map(([, name = ""]) => resolve(dirname(path), name));
    // A script in a test's text has imports of its own.
    return imports.filter((each) => each.startsWith(join(root, "test")) && existsSync(each)).some(look);
  };
  return look(file);
}
