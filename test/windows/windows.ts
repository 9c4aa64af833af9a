import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join, posix, win32 } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Env } from "../faults/client.ts";

/** The folder of Wine's drive C:, as `set-up.mjs` makes it; `undefined` on Windows itself. */
export const prefix = process.platform === "win32" ? undefined : (process.env.WINEPREFIX ?? "");

/** The name on Windows of a file below the folder of the tests. */
export function nameOf(path: string): string {
  return prefix === undefined ? path : `C:\\${win32.normalize(posix.relative(join(prefix, "drive_c"), path))}`;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const bin = prefix === undefined ? join(root, "bin/vidgen.js") : "C:\\vidgen\\bin\\vidgen.js";

export type Ended = { code: number | null; stdout: string; stderr: string };

/** Runs Node on Windows with these arguments in a folder. `kill` ends it at once, as TerminateProcess does. */
export function spawnNode(argv: string[], cwd: string, env: Env = {}): { kill(): void; ended: Promise<Ended> } {
  mkdirSync(cwd, { recursive: true });
  // One file each: under Wine, one pipe for both ends in EBADF.
  const number = next++;
  const [out, err] = [join(cwd, `.out-${number}`), join(cwd, `.err-${number}`)];
  const streams = [openSync(out, "w"), openSync(err, "w")] as const;
  const wine = { WINEPREFIX: prefix, WINEDEBUG: "-all", NODE_OPTIONS: "--require C:/wine-setup.cjs" };
  const [command, args] =
    prefix === undefined ? [process.execPath, argv] : [process.env.WINE ?? "wine64", ["C:\\node.exe", ...argv]];
  const child = spawn(command, args, {
    cwd,
    env: { PATH: process.env.PATH, SystemRoot: process.env.SystemRoot, ...(prefix === undefined ? {} : wine), ...env },
    stdio: ["ignore", ...streams],
  });
  for (const stream of streams) closeSync(stream);
  const ended = once(child, "close").then(([code]) => ({
    code: code as number | null,
    stdout: readFileSync(out, "utf8"),
    stderr: readFileSync(err, "utf8"),
  }));
  return { kill: () => void child.kill("SIGKILL"), ended };
}

let next = 0;

export function spawnVidgen(argv: string[], cwd: string, env: Env) {
  return spawnNode([bin, ...argv], cwd, env);
}
