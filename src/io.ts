import type { Readable, Writable } from "node:stream";

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
  /** Read it at once: nothing holds the sender back. Leaving the loop early, or the request's own signal, ends it. */
  body: AsyncIterable<Uint8Array> | null;
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

/** The real clock: the only timers there are. */
export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  async sleep(ms, signal) {
    signal?.throwIfAborted();
    const end = performance.now() + ms;
    for (let left = ms; left > 0; left = end - performance.now()) await timer(Math.min(left, longestTimerMs), signal);
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
