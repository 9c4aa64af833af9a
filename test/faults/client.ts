import process from "node:process";
import { Readable, Writable } from "node:stream";
import { main } from "../../src/cli/main.ts";
import { createFetch } from "../../src/client/http/http.ts";
import { VidgenError } from "../../src/errors.ts";
import type { Clock, Io } from "../../src/io.ts";
import { realIo } from "../real-io.ts";

export type Run = { code: number; stdout: string; stderr: string };

export type RunOptions = {
  /** How many times faster than life its clock goes: 100 makes 1.2 s of two minutes. */
  speed?: number;
  /** Interrupts it, as Ctrl-C does, this long after its start; in real milliseconds. */
  interruptMs?: number | undefined;
  /** What is to be different about its world. */
  io?: Partial<Io>;
};

export type Env = Record<string, string>;

const system = realIo();

/** Runs the real client in this process over real sockets; its streams, its environment and its clock are its own. */
export async function vidgen(argv: string[], env: Env, options: RunOptions = {}): Promise<Run> {
  const { speed = 100, interruptMs } = options;
  const run = { code: -1, stdout: "", stderr: "" };
  const interrupt = new AbortController();
  const timer =
    interruptMs === undefined
      ? undefined
      : setTimeout(() => interrupt.abort(new VidgenError("interrupted", "Interrupted.")), interruptMs);
  const io: Io = {
    ...system,
    ...createFastClock(speed),
    // As each process does, it looks once which proxies there are.
    fetch: createFetch(process.env),
    env,
    stdin: Readable.from([]),
    stdout: collect((text) => (run.stdout += text)),
    stderr: collect((text) => (run.stderr += text)),
    signal: interrupt.signal,
    launch: async () => {},
    abandon: new AbortController().signal,
    ...options.io,
  };
  run.code = await main(argv, io);
  clearTimeout(timer);
  return run;
}

function collect(add: (text: string) => void): Writable {
  const decoder = new TextDecoder();
  return new Writable({
    write(chunk, _, done) {
      add(decoder.decode(chunk, { stream: true }));
      done();
    },
  });
}

/** The real clock, faster: sleeps, limits and what it shows keep together. */
function createFastClock(speed: number): Clock {
  const start = Date.now();
  const now = () => performance.now() * speed;
  const begin = now();
  return {
    now,
    date: () => new Date(start + now() - begin),
    sleep: (ms, signal) => system.sleep(ms / speed, signal),
    limit: (ms, parent, reason) => system.limit(ms / speed, parent, reason),
  };
}

/** What is no word for people: a stack, a warning of Node's, or a byte that a terminal would obey. */
export function ugliness({ stdout, stderr }: Pick<Run, "stdout" | "stderr">): string[] {
  const found: string[] = [];
  if (/^\s+at .*[:(]/m.test(stdout + stderr)) found.push("a stack");
  const control = [...(stdout + stderr)].find((letter) => /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/u.test(letter));
  if (control !== undefined) found.push(`U+${control.codePointAt(0)?.toString(16).padStart(4, "0")}`);
  if (/^\(node:\d+\)/m.test(stderr)) found.push("a warning of Node's own");
  if (/inside vidgen|"code": "bug"/.test(stderr)) found.push("a crash");
  return found;
}
