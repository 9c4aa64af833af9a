import { randomUUID } from "node:crypto";
import { type MakeDirectoryOptions, type PathLike, writeSync } from "node:fs";
import * as files from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import type { Readable, Writable } from "node:stream";
import { inUse, systemCode } from "./errors.ts";

/** A time limit: `signal` aborts at the limit, or when the parent aborts. `restart` restarts the time, `clear` cancels it. */
export type Limit = { signal: AbortSignal; restart(): void; clear(): void };

/**
 * `reach` is for a request with a key and no TLS, which goes through no proxy: with "private" only to an
 * address in a private network or of this machine; with "this machine" the address is known to be of this
 * machine. For a POST: `unsentSignal` aborts the request as long as no byte of it was written, and has no
 * effect later. `beforeSend` is called right before the first byte is written; if it throws, the request is
 * not sent. `onUpload` is called each time the system has accepted a part of the body, with the number of
 * remaining bytes, and `onReceived` each time bytes of the reply have arrived.
 */
export type FetchInit = Pick<RequestInit, "method" | "signal"> & {
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  reach?: "private" | "this machine" | undefined;
  unsentSignal?: AbortSignal;
  beforeSend?: () => void;
  onUpload?: (bytesLeft: number) => void;
  onReceived?: () => void;
};

/** The used part of a `Response`. Node's own class would load all of Node's fetch. */
export type HttpResponse = {
  status: number;
  headers: Pick<Headers, "get">;
  /**
   * Must be read without pauses, since there is no back-pressure. Leaving the loop early, or an abort of the
   * request, closes the connection.
   */
  body: AsyncIterable<Uint8Array> | null;
  text(): Promise<string>;
};

/**
 * The error of `Io["fetch"]`, one for each request, since several may share a `cause`. Its message and code are those of `cause`,
 * a failure of the connection or the signal's reason.
 */
export class RequestError extends Error {
  /** Node prints this name; the name of the class is minified. */
  static override readonly name = "RequestError";
  /** Whether any byte of the request was written. */
  readonly sent: boolean;

  constructor(cause: unknown, { sent }: { sent: boolean }) {
    super(messageOf(cause), { cause });
    this.name = RequestError.name;
    this.sent = sent;
  }
}

/** For OpenSSL errors, returns only the reason, because the message also has internal functions and files. */
function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return "library" in cause && "reason" in cause ? `TLS error: ${cause.reason}` : cause.message;
}

type Terminal = { isTTY?: boolean; columns?: number };

/** Identifies a process, also among later processes with the same PID and processes in other containers. */
export type ProcessId = {
  /** The boot of a machine; its host name where boots have no id. */
  machine: string;
  /** The PID namespace; `-` on systems without them. */
  namespace: string;
  pid: number;
  /** When it started, in the system's own units; `-` if that is unknown. */
  start: string;
};

/** The processes of this machine. */
export type Processes = {
  self(): Promise<ProcessId>;
  /** When a process of this namespace started; `undefined` if no process has this id, and for a zombie. */
  startOf(pid: number): Promise<string | undefined>;
};

/** An open file. */
export type DiskFile = Pick<
  files.FileHandle,
  "fd" | "read" | "write" | "stat" | "truncate" | "sync" | "datasync" | "close"
>;

/**
 * The calls of `node:fs/promises` that the client and the leases use. Keep it small, because the simulated
 * disk implements each one.
 */
export type Disk = Pick<
  typeof files,
  | "access"
  | "constants"
  | "link"
  | "lstat"
  | "mkdir"
  | "readdir"
  | "realpath"
  | "rename"
  | "rm"
  | "rmdir"
  | "stat"
  | "utimes"
> & {
  open(path: string, flags: string, mode?: number): Promise<DiskFile>;
  /** For downloads, which must not wait between chunks: see `unlimitedBytes` in `free.ts`. */
  writeSync(fd: number, bytes: Uint8Array, offset: number, length: number, position: number): number;
};

export type RunProgramOptions = {
  /** Kills the program when it aborts. */
  signal: AbortSignal;
  env: Readonly<Record<string, string | undefined>>;
  /** The text for the program's stdin; by default nothing. */
  stdin?: string | undefined;
  /** Called with each part of its stdout, which is then not collected. */
  onStdout?: ((text: string) => void) | undefined;
  /** Called with each part of its stderr, which is also collected. */
  onStderr?: ((text: string) => void) | undefined;
};

/** The result of a program. `code` is `null` if a signal ended it; `stderr` is the last part of its error output. */
export type RunResult = { code: number | null; stdout: string; stderr: string };

export type ReadSocketOptions = {
  headers: Record<string, string>;
  signal: AbortSignal;
  onText(text: string): void;
};

/** All access to the outside world: streams, environment, network, disk, clock and signals. */
export type Io = {
  stdin: Readable & Terminal & { setRawMode?(mode: boolean): unknown };
  stdout: Writable & Terminal;
  stderr: Writable & Terminal;
  /** Whether stdout and stderr are the same terminal, file or pipe: then a reader cannot distinguish them. */
  isOneStream: boolean;
  /** Whether stdout is a pipe or a socket, whose reader may stop early. */
  hasReader?: boolean;
  env: Readonly<Record<string, string | undefined>>;
  /** The words that call vidgen again as this process was called; without them it is `vidgen`. */
  program?: readonly string[] | undefined;
  /** As `process.platform`. */
  platform: string;
  /** Such as "20.19.0". */
  nodeVersion: string;
  pid: number;
  /** The home folder; "" if the user has none. */
  home: string;
  /** The current folder; `undefined` if it was deleted. */
  cwd?: string | undefined;
  /** The user id, on systems that have one. */
  uid?: number | undefined;
  /**
   * Like `fetch`, but rejects with a `RequestError`, which says whether the request was sent; any other error
   * counts as sent. A POST gets a connection of its own, because a stale keep-alive connection would make its
   * outcome unclear. Redirects are not followed.
   */
  fetch(url: string, init?: FetchInit): Promise<HttpResponse>;
  /**
   * Loads what `fetch` needs for polls and downloads. Rejects with `output` if that cannot run here. A
   * `fetch` without it needs nothing.
   */
  loadDelivery?: (() => Promise<unknown>) | undefined;
  /**
   * Opens a WebSocket, and calls `onText` with each text message. Resolves when it is closed by the other
   * side or the signal. Never rejects.
   */
  readSocket?(url: string, options: ReadSocketOptions): Promise<void>;
  /** Milliseconds on a monotonic clock, for durations and deadlines. */
  now(): number;
  /** The time of day, for output and for other machines. */
  date(): Date;
  /** Resolves after `ms`; rejects with the signal's reason when that aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  limit(ms: number, parent: AbortSignal, reason: Error): Limit;
  /** A random number from 0 to below 1. */
  random(): number;
  /** A new random UUID. */
  uuid(): string;
  disk: Disk;
  /** The processes of this machine, for the leases. */
  processes: Processes;
  /**
   * Runs a program without a shell until it ends, with any exit code. Rejects with the system's error if it
   * cannot be started, and with the signal's reason on abort, after the program has ended.
   */
  run(command: string, args: readonly string[], options: RunProgramOptions): Promise<RunResult>;
  /** Starts a detached program without a shell. Rejects when it cannot be started. */
  launch(command: string, args: string[]): Promise<void>;
  /** Shows a text in a pager at the terminal, until the user quits it. Returns false if there is no pager. */
  page?(text: string, pager: string): Promise<boolean>;
  /** Makes V8 prefer small memory over speed, for the rest of the process. */
  optimizeForSize(): void;
  /**
   * From now on, SIGHUP calls this instead of ending the command. Has no effect on Windows, where the system
   * ends the process soon after SIGHUP.
   */
  onHangUp(call: () => void): void;
  /** Aborts at the first Ctrl-C, SIGTERM or SIGHUP, with a `VidgenError` as its reason. */
  signal: AbortSignal;
  /** Aborts at the second one, after which the command must end at once. */
  abandon: AbortSignal;
  /**
   * The attempts whose request has no response yet: if the process exits meanwhile, it may have been charged,
   * and exits with 6.
   */
  unsettled: Set<string>;
};

/** The part of `Io` that waits and reads the time. */
export type Clock = Pick<Io, "now" | "date" | "sleep" | "limit">;

/** The client's access to its machine. With it and the service's answers, the client is deterministic. */
export type Machine = Clock & Pick<Io, "platform" | "random" | "uuid" | "disk" | "processes" | "run">;

/** A path with `~` replaced by the home folder, as a shell would do. */
export function expandHome(path: string, { home, platform }: Pick<Io, "home" | "platform">): string {
  return path.replace(platform === "win32" ? /^~(?=[/\\])/ : /^~(?=\/)/, () => home || "~");
}

/** Node's maximum timer delay (31 bits); a longer delay would fire at once. */
const maxTimerMs = 2 ** 31 - 1;

/** The real clock. No other code sets timers. */
export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  async sleep(ms, signal) {
    signal?.throwIfAborted();
    const end = performance.now() + ms;
    for (let left = ms; left > 0; left = end - performance.now()) await timer(Math.min(left, maxTimerMs), signal);
  },
  limit(ms, parent, reason) {
    const controller = new AbortController();
    const onParent = () => controller.abort(parent.reason);
    const timeout = setTimeout(() => controller.abort(reason), Math.min(ms, maxTimerMs));
    parent.addEventListener("abort", onParent, { once: true });
    if (parent.aborted) onParent();
    const clear = () => {
      clearTimeout(timeout);
      parent.removeEventListener("abort", onParent);
    };
    return { signal: controller.signal, restart: () => void timeout.refresh(), clear };
  },
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

/** The start time of a process on systems that do not report it. */
export const unknownStart = "-";

/** Reads start times from /proc on Linux. Elsewhere they are unknown. */
function systemProcesses(pid: number): Processes {
  let self: Promise<ProcessId> | undefined;
  const startOf = async (other: number) => {
    const text = await readOptional(`/proc/${other}/stat`);
    // The second field, the name in parentheses, may contain spaces and parentheses; the third follows the last ")".
    const fields = /.*\) (.*)/s.exec(text ?? "")?.[1]?.split(" ");
    // The third field is the state, such as Z for a zombie; the 22nd is the start time.
    if (fields) return /^[ZXx]$/.test(fields[0] ?? "") ? undefined : fields[19];
    return isRunning(other) ? unknownStart : undefined;
  };
  const readSelf = async () => {
    const boot = await readOptional("/proc/sys/kernel/random/boot_id");
    const namespace = await files.readlink("/proc/self/ns/pid").catch(() => "-");
    return {
      machine: (boot ?? hostname()).trim().replace(/[^\w.-]|_/g, "-"),
      namespace: namespace.replace(/\D/g, "") || "-",
      pid,
      start: (await startOf(pid)) ?? unknownStart,
    };
  };
  return {
    self() {
      self ??= readSelf();
      return self;
    },
    startOf,
  };
}

async function readOptional(path: string): Promise<string | undefined> {
  return files.readFile(path, "utf8").catch(() => undefined);
}

/** Whether a process with this id runs on this machine. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return systemCode(error) === "EPERM";
  }
}

const maxStderr = 65_536;

async function run(command: string, args: readonly string[], options: RunProgramOptions): Promise<RunResult> {
  const { signal, env, stdin, onStdout, onStderr } = options;
  const { spawn } = await import("node:child_process");
  signal.throwIfAborted();
  const child = spawn(command, args, { env, stdio: [stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"] });
  const result = { stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", onStdout ?? ((text) => (result.stdout += text)));
  child.stderr?.setEncoding("utf8").on("data", (text) => {
    result.stderr = (result.stderr + text).slice(-maxStderr);
    onStderr?.(text);
  });
  // A program may end before it has read all of its stdin, and its exit code says whether that is an error.
  child.stdin?.on("error", () => {}).end(stdin);
  const onAbort = () => {
    child.kill("SIGKILL");
    // A child process of the program may keep the streams open.
    for (const stream of child.stdio) stream?.destroy();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const code = await new Promise<number | null>((resolve, reject) =>
      child.once("close", resolve).once("error", reject),
    );
    signal.throwIfAborted();
    return { code, ...result };
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Like Node's `mkdir`, but returns nothing. Node's own recursive one never returns if an existing folder,
 * such as /proc, does not allow new folders.
 */
async function makeDirectory(
  path: string,
  { recursive = false, ...options }: MakeDirectoryOptions = {},
): Promise<void> {
  if (!recursive) return files.mkdir(path, options);
  for (let tries = 1; !(await isFolder(path)); tries++) {
    try {
      return await files.mkdir(path, options);
    } catch (error) {
      // Another process may have created it meanwhile.
      if (await isFolder(path)) return;
      const parent = dirname(path);
      // At the second try the parent exists.
      if (systemCode(error) !== "ENOENT" || parent === path || tries === 2) throw error;
      await makeDirectory(parent, { recursive, ...options }).catch((error) => {
        // Where the parent is a file, Windows says ENOENT first. EEXIST would mean that the video exists.
        if (error.code === "EEXIST") error.code = "ENOTDIR";
        throw error;
      });
    }
  }
}

async function isFolder(path: PathLike, { stat }: Pick<Disk, "stat"> = files): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/**
 * How long to wait for another program to close a file: a virus scanner or a sync client needs less than a
 * second, a player never closes it by itself.
 */
const inUseMs = 5_000;

/**
 * The disk of a platform. On Windows, a file that another program has open can often be neither opened,
 * renamed, replaced nor removed: these calls are tried again for some seconds, and then reject with `EBUSY`.
 * Writes are not tried again, so nothing is written twice.
 */
export function createDisk(platform: string, disk: Disk, { now, sleep }: Pick<Clock, "now" | "sleep">): Disk {
  if (platform !== "win32") return disk;
  /** `canWait` says whether another program may be the reason of this error, so that a later try may succeed. */
  async function retry<Result>(
    call: () => Promise<Result>,
    canWait: (code: string) => boolean | Promise<boolean> = () => true,
  ): Promise<Result> {
    const end = now() + inUseMs;
    for (let waitMs = 10; ; waitMs = Math.min(waitMs * 2, 250)) {
      try {
        return await call();
      } catch (error) {
        const code = systemCode(error) ?? "";
        if (!["EBUSY", "EPERM", "EACCES"].includes(code) || !(await canWait(code))) throw error;
        if (now() >= end) throw inUseError(error);
        await sleep(waitMs);
      }
    }
  }
  return {
    ...disk,
    // Windows never renames anything to an existing folder, even if no program has it open.
    rename: (from, to) =>
      retry(
        () => disk.rename(from, to),
        async () => !(await isFolder(to, disk)),
      ),
    link: (from, to) => retry(() => disk.link(from, to)),
    rm: (path, options) => retry(() => disk.rm(path, options)),
    rmdir: (path, options) => retry(() => disk.rmdir(path, options)),
    open: (path, flags, mode) =>
      retry(
        () => disk.open(path, flags, mode),
        // For a file that is only read, the other codes mean that the user may not read it.
        (code) => code === "EBUSY" || flags !== "r",
      ),
  };
}

/** The error for a file that another program did not close in time. Windows has several codes for it. */
function inUseError(cause: unknown): Error {
  return Object.assign(new Error(messageOf(cause), { cause }), cause, inUse);
}

/** The real machine. */
export const systemMachine: Machine = {
  ...systemClock,
  platform: process.platform,
  random: Math.random,
  uuid: randomUUID,
  disk: createDisk(process.platform, { ...files, mkdir: makeDirectory as Disk["mkdir"], writeSync }, systemClock),
  processes: systemProcesses(process.pid),
  run,
};
