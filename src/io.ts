import { setMaxListeners } from "node:events";
import { fstatSync, writeSync } from "node:fs";
import { homedir } from "node:os";
import type { Readable, Writable } from "node:stream";
import { systemCode, VidgenError } from "./errors.ts";

const { process } = globalThis;

/** A time limit: `signal` aborts when the time is over or the parent aborts; `clear` ends it. */
export type Limit = { signal: AbortSignal; clear(): void };

/** `unsentSignal` aborts the request as long as no byte of it was written, and does nothing after that. */
export type FetchInit = Pick<RequestInit, "method" | "signal"> & {
  headers?: Record<string, string>;
  body?: string;
  unsentSignal?: AbortSignal;
};

/** What is used of a `Response`: Node's own takes as long to load as all of its fetch. */
export type HttpResponse = {
  status: number;
  headers: Pick<Headers, "get" | "has">;
  /**
   * Leaving the loop early ends the reply, as `cancel` does. Who has no more use for a piece may `release` it, once: its memory then holds
   * a later one.
   */
  body: (AsyncIterable<Uint8Array> & { cancel(): Promise<void>; release?(piece: Uint8Array): void }) | null;
  text(): Promise<string>;
};

/** Both must be done when they return. */
export type TerminalHold = { leave(): void; back(): void };

type Terminal = { isTTY?: boolean; columns?: number };

/** Everything of the outside world, passed in: the streams, the environment, the network, the clock and the signals. */
export type Io = {
  stdin: Readable & Terminal;
  stdout: Writable & Terminal;
  stderr: Writable & Terminal;
  /**
   * Writes to a stdout that is no terminal without opening it as a stream, which takes 3 ms. Returns what is left to be written. While a pipe is
   * full nothing else goes on: only for what is the last that a command does.
   */
  writeAtOnce(text: string): Uint8Array;
  /** How wide the terminal is that stdout is; `undefined` where it is none. */
  columns: number | undefined;
  env: Readonly<Record<string, string | undefined>>;
  platform: string;
  /** Such as "20.18.1". */
  nodeVersion: string;
  pid: number;
  /** The number of the user; `undefined` where users have none. */
  uid: number | undefined;
  /** The home folder, or "" where there is none. */
  home: string;
  /**
   * fetch-shaped. When it rejects, the error's `sent` says whether any byte of the request was written. A POST gets a connection of its
   * own, so that a stale one cannot make its outcome unclear. Redirects are never followed.
   */
  fetch(url: string, init?: FetchInit): Promise<HttpResponse>;
  /** Milliseconds on a clock that only goes forward; for every duration and deadline. */
  now(): number;
  /** The time of day; for what people and other machines read. */
  date(): Date;
  /** Resolves after `ms`; rejects with the signal's reason when that aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  limit(ms: number, parent: AbortSignal, reason: Error): Limit;
  /** Resolves when all that has come in by now was handed out, so that what it leads to can be done in one go. */
  turn(): Promise<void>;
  /** Whether a process of this machine runs. */
  isRunning(pid: number): boolean;
  /** Starts a program of this machine, without a shell, and leaves it to itself. Rejects where it cannot be started. */
  launch(command: string, args: string[]): Promise<void>;
  /** Has the terminal given back before the process stops at Ctrl-Z or ends, whatever ends it, and taken again when it goes on. */
  holdTerminal(hold: TerminalHold): void;
  /** Aborts at the first Ctrl-C, SIGTERM or SIGHUP, with a `VidgenError` as its reason. */
  signal: AbortSignal;
  /** Aborts at the second one: leave at once. */
  leave: AbortSignal;
};

/** The part of `Io` that waits and tells the time. */
export type Clock = Pick<Io, "now" | "date" | "sleep" | "limit" | "turn">;

/** A longer timer fires at once (Node keeps the delay in 31 bits). */
const longestTimerMs = 2 ** 31 - 1;

/** The real world: the only code that says `process`, and the only timers and fetch. */
export function systemIo(): Io {
  const { signal, leave } = catchSignals();
  process.on("uncaughtException", onUncaught);
  return {
    // Each is opened when it is used: that takes up to 3 ms.
    get stdin() {
      return process.stdin;
    },
    get stdout() {
      return quietWhenClosed(process.stdout);
    },
    get stderr() {
      return quietWhenClosed(process.stderr);
    },
    get columns() {
      return mayBeTerminal() && process.stdout.isTTY ? process.stdout.columns : undefined;
    },
    writeAtOnce,
    env: process.env,
    platform: process.platform,
    nodeVersion: process.versions.node,
    pid: process.pid,
    isRunning,
    uid: process.getuid?.(),
    get home() {
      return findHome();
    },
    fetch: createFetch({ isOwnProcess: true }),
    ...systemClock,
    launch,
    holdTerminal,
    signal,
    leave,
  };
}

/** What a library may have of the real world: it leaves signals, streams and the process's end to whoever uses it. */
export function libraryIo(): Clock & Pick<Io, "fetch" | "pid" | "isRunning"> {
  return { pid: process.pid, isRunning, fetch: createFetch({ isOwnProcess: false }), ...systemClock };
}

const systemClock: Clock = {
  now: monotonicMs,
  date: () => new Date(),
  async sleep(ms, signal) {
    signal?.throwIfAborted();
    const end = monotonicMs() + ms;
    for (let left = ms; left > 0; left = end - monotonicMs()) await timer(Math.min(left, longestTimerMs), signal);
  },
  limit(ms, parent, reason) {
    const controller = new AbortController();
    const onParent = () => controller.abort(parent.reason);
    const timeout = setTimeout(() => controller.abort(reason), Math.min(ms, longestTimerMs));
    parent.addEventListener("abort", onParent, { once: true });
    if (parent.aborted) onParent();
    const clear = () => {
      clearTimeout(timeout);
      parent.removeEventListener("abort", onParent);
    };
    return { signal: controller.signal, clear };
  },
  turn: () => new Promise((resolve) => setImmediate(resolve)),
};

/** As `performance.now`, which takes Node 20 half a millisecond to load. */
function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1_000_000;
}

function timer(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timeout);
      reject(signal?.reason);
    };
    const timeout = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** One line instead of a stack; but for a known slip of undici 7 the program goes on. */
function onUncaught(error: unknown): void {
  if (isPausedParser(error)) return;
  process.stderr.write(
    `error: Something went wrong inside vidgen: ${error instanceof Error ? error.message : error}\n`,
  );
  process.exit(1);
}

/**
 * A server that closes while its reply is still being read makes undici 7 throw where nobody can catch it (nodejs/undici#5360, mended in 8
 * alone). The reply itself is read on, or ends as one that broke off.
 */
function isPausedParser(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    error.code === "ERR_ASSERTION" &&
    /client-h1\.js|[\\/]undici-[\w-]+\.cjs/.test(error.stack ?? "")
  );
}

/** A user whom the system does not know, as in some containers, has none. */
function findHome(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return systemCode(error) === "EPERM";
  }
}

function catchSignals(): { signal: AbortSignal; leave: AbortSignal } {
  const first = new AbortController();
  const second = new AbortController();
  // A command that follows a thousand generations has as many listeners.
  setMaxListeners(0, first.signal, second.signal);
  const onSignal = (reason: VidgenError) => {
    if (!first.signal.aborted) return first.abort(reason);
    second.abort(reason);
    // Nothing may hold the second one up, not even a defect.
    setTimeout(() => process.exit(reason.exit), 500).unref();
  };
  process.on("SIGINT", () => onSignal(new VidgenError("interrupted", "Interrupted.")));
  process.on("SIGHUP", () => onSignal(new VidgenError("hung_up", "The terminal has gone.")));
  process.on("SIGTERM", () => onSignal(new VidgenError("terminated", "Terminated.")));
  return { signal: first.signal, leave: second.signal };
}

async function launch(command: string, args: string[]): Promise<void> {
  const { spawn } = await import("node:child_process");
  const { VIDGEN_API_KEY: _, ...env } = process.env;
  const child = spawn(command, args, { detached: true, stdio: "ignore", env });
  child.unref();
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
}

function holdTerminal({ leave, back }: TerminalHold): void {
  const onStop = () => {
    leave();
    // Without a listener the signal does what it always does.
    process.off("SIGTSTP", onStop);
    process.kill(process.pid, "SIGTSTP");
  };
  const onContinue = () => {
    process.off("SIGTSTP", onStop).on("SIGTSTP", onStop);
    back();
  };
  process.on("SIGTSTP", onStop).on("SIGCONT", onContinue).on("exit", leave);
}

/** `| head` closes the pipe early: whoever writes is told by its callback, and nothing is thrown. */
function quietWhenClosed<Stream extends Writable>(stream: Stream): Stream {
  return stream.listeners("error").includes(ignore) ? stream : stream.on("error", ignore);
}

function ignore(): void {}

/** What a pipe has no room for is left: only a stream can wait for that. So is everything when it fails: the stream says why. */
function writeAtOnce(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  if (mayBeTerminal()) return bytes;
  try {
    return bytes.subarray(writeSync(1, bytes));
  } catch {
    return bytes;
  }
}

function mayBeTerminal(): boolean {
  try {
    return fstatSync(1).isCharacterDevice();
  } catch {
    return true;
  }
}

/** undici's parts, loaded with the first request. */
function createFetch({ isOwnProcess }: { isOwnProcess: boolean }): Io["fetch"] {
  let loaded: Promise<Io["fetch"]> | undefined;
  const load = async (url: string) => {
    const http = await import("./http/fetch.ts");
    if (isOwnProcess && process.versions.node.startsWith("20.")) await http.delayTiering(url);
    return http.createFetch(process.env);
  };
  // A program that was replaced while it ran has sent nothing.
  const onMissing = (error: unknown) => {
    loaded = undefined;
    throw Object.assign(error instanceof Error ? error : new Error(String(error)), { sent: false });
  };
  return async (url, init) => {
    loaded ??= load(url).catch(onMissing);
    return (await loaded)(url, init);
  };
}
