import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { slowness } from "../slowness.ts";
import type { Env } from "./client.ts";

export const bin = fileURLToPath(new URL("../../bin/vidgen.js", import.meta.url));

export type Ended = { code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string; ms: number };

export type Spawned = { pid: number; kill(signal: NodeJS.Signals): void; ended: Promise<Ended> };

/** A run that takes longer has hung. */
const longestMs = 60_000 * slowness;

type Limits = { limitMs?: number };

/** The environment of a command that uses this service. */
export function envOf({ baseUrl }: { baseUrl: string }, home: string): Env {
  return { VIDGEN_HOME: home, VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: "key" };
}

/** Starts the built program in a process of its own, with this environment and no more. */
export function spawnVidgen(argv: string[], env: Env, cwd: string, limits: Limits = {}): Spawned {
  return spawnProcess(process.execPath, [bin, ...argv], env, cwd, limits);
}

export function spawnProcess(
  command: string,
  argv: string[],
  env: Env,
  cwd: string,
  { limitMs = longestMs }: Limits = {},
): Spawned {
  const start = performance.now();
  const child = spawn(command, argv, { cwd, env: { PATH: process.env.PATH ?? "", HOME: cwd, ...env } });
  const watchdog = setTimeout(() => child.kill("SIGKILL"), limitMs);
  let stdout = "";
  let stderr = "";
  child.stdin.end();
  child.stdout.setEncoding("utf8").on("data", (text) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  const ended = once(child, "close").then(([code, signal]) => {
    clearTimeout(watchdog);
    return { code, signal, stdout, stderr, ms: performance.now() - start };
  });
  return { pid: child.pid ?? 0, kill: (signal) => void child.kill(signal), ended };
}
