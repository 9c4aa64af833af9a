import { setMaxListeners } from "node:events";
import { fstatSync, writeSync } from "node:fs";
import { homedir } from "node:os";
import type { Writable } from "node:stream";
import { createFetch } from "../client/http.ts";
import { systemCode, VidgenError } from "../errors.ts";
import { type Io, systemClock, type TerminalHold } from "../io.ts";

const { process } = globalThis;

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
    fetch: createFetch(process.env, { nodeVersion: process.versions.node }),
    ...systemClock,
    launch,
    holdTerminal,
    signal,
    leave,
  };
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
    /client-h1\.js|[\\/]undici-[\w-]+\.js/.test(error.stack ?? "")
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
