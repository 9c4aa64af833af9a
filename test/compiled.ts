import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "rolldown";
import { onTestFinished } from "vitest";
import { removeFolder } from "./folder.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const scriptPath = join(root, "test/script.ts");

/**
 * Compiles a script that imports from `src` as if it were a file of `test`, for a process of its own: Node 20 takes no TypeScript, and what is
 * built for the package keeps its parts to itself. Returns its file, which lies where packages are found.
 */
export function compile(script: string): Promise<string> {
  return compileFile(scriptPath, {
    name: "script",
    resolveId: (id) => (id === scriptPath ? id : undefined),
    load: (id) => (id === scriptPath ? script : undefined),
  });
}

/** The same for a file that there is. */
export async function compileFile(input: string, plugin?: Plugin): Promise<string> {
  const folder = mkdtempSync(join(root, "node_modules/.vidgen-"));
  onTestFinished(() => removeFolder(folder));
  const file = join(folder, "script.mjs");
  await build({
    input,
    platform: "node",
    external: /^(node:|[a-z@])/,
    output: { file, format: "esm", codeSplitting: false },
    logLevel: "silent",
    plugins: [plugin],
  });
  return file;
}
