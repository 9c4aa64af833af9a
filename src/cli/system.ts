import { setMaxListeners } from "node:events";
import { homedir } from "node:os";
import { createFetch } from "../client/http.ts";
import { systemCode, VidgenError } from "../errors.ts";
import { type Io, systemClock } from "../io.ts";
import { systemProcesses } from "../lease.ts";

/** The real outside world: the only code that says `process`. */
export function systemIo(): Io {
  const { signal, leave } = catchSignals();
  process.on("uncaughtException", onUncaught);
  // The callback of each write reports a closed pipe (`| head`); without a listener Node would throw as well.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    platform: process.platform,
    nodeVersion: process.versions.node,
    pid: process.pid,
    processes: systemProcesses(process.pid),
    uid: process.getuid?.(),
    home: findHome(),
    fetch: createFetch(process.env, { nodeVersion: process.versions.node }),
    ...systemClock,
    launch,
    signal,
    leave,
    unsettled: new Set(),
  };
}

/** Prints one line instead of a stack, and exits. */
function onUncaught(error: unknown): void {
  process.stderr.write(
    `error: Something went wrong inside vidgen: ${error instanceof Error ? error.message : error}\n`,
  );
  process.exit(1);
}

/** In some containers the system does not know the user, and `homedir` throws. */
function findHome(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}

function catchSignals(): { signal: AbortSignal; leave: AbortSignal } {
  const first = new AbortController();
  const second = new AbortController();
  // A command that follows a thousand generations adds a thousand listeners.
  setMaxListeners(0, first.signal, second.signal);
  const onSignal = (reason: VidgenError) => {
    if (!first.signal.aborted) return first.abort(reason);
    second.abort(reason);
    // The second signal ends the process even if a bug keeps the command from ending.
    setTimeout(() => process.exit(reason.exit), 3_000).unref();
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
