import { setMaxListeners } from "node:events";
import { fstatSync } from "node:fs";
import { constants, homedir } from "node:os";
import { basename, delimiter, dirname } from "node:path";
import { setFlagsFromString } from "node:v8";
import { createFetch } from "../client/http/http.ts";
import { createRedaction } from "../client/http/redaction.ts";
import { engineKeyNames, findKeys } from "../connect/keys.ts";
import { asVidgenError, exits, VidgenError } from "../errors.ts";
import { type Io, systemMachine } from "../io.ts";

/** The real outside world. Only this file and `io.ts` use `process`. */
export function systemIo(): Io {
  const unsettled = new Set<string>();
  const { signal, abandon, onHangUp } = catchSignals(unsettled);
  // Node reports an unhandled rejection here as well.
  process.on("uncaughtException", (error) => abort(asVidgenError(error), unsettled));
  // The callback of each write reports a closed pipe (`| head`); without a listener Node would throw as well.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    isOneStream: isOneStream(),
    hasReader: hasReader(),
    env: process.env,
    program: findProgram(),
    nodeVersion: process.versions.node,
    pid: process.pid,
    home: findHome(),
    cwd: findCurrentFolder(),
    uid: process.geteuid?.(),
    fetch: createFetch(process.env, { nodeVersion: process.versions.node }),
    loadDelivery: async () => (await import("../client/http/free.ts")).loadUndici(process.versions.node),
    readSocket: async (url, options) => {
      const { createSocketReader } = await import("../client/http/socket.ts");
      return createSocketReader(process.env)(url, options);
    },
    ...systemMachine,
    launch,
    page: async (text, pager) => (await import("./terminal/pager.ts")).runPager(text, pager, envWithoutKeys()),
    optimizeForSize: () => setFlagsFromString("--optimize-for-size"),
    onHangUp,
    signal,
    abandon,
    unsettled,
  };
}

/**
 * Ends the process with a code, or with the signal that the code means, because a shell ends its loop, which
 * may start the next paid generation, only if the child died of the signal. If the signal has no effect, as
 * for the first process of a container, the code is used.
 */
export function endProcess(code: number): void {
  const name = signalNames.find((name) => constants.signals[name] + 128 === code);
  // On Windows `kill` ends the process with exit code 1.
  if (name !== undefined && process.platform !== "win32") {
    process.removeAllListeners(name);
    process.kill(process.pid, name);
  }
  process.exit(code);
}

/** Ends the process in the middle of its command, with exit code 6 during a paid request. */
function abort(error: VidgenError, unsettled: ReadonlySet<string>): void {
  let { message, exit } = error;
  if (unsettled.size > 0) {
    exit = exits.unknown.exit;
    message = `${message.replace(/\.?$/, ".")} The start request was sent: it may have been charged (attempt ${[...unsettled].join(", ")}).
  Check your account for a new generation before retrying; \`vidgen list --status unknown\` shows the attempt.`;
  }
  const { hide, redact } = createRedaction();
  for (const key of findKeys({ env: process.env, home: findHome(), platform: process.platform })) hide(key);
  process.stderr.write(`error: ${redact(message)}\n`);
  endProcess(exit);
}

/** Returns `vidgen` if a shell finds it by that name, otherwise Node with the path of the script, as in a clone. */
function findProgram(): string[] {
  const { argv, env } = process;
  const [, script = ""] = argv;
  const isFound = (env.PATH ?? "").split(delimiter).includes(dirname(script));
  return isFound && basename(script) === "vidgen" ? ["vidgen"] : ["node", script];
}

function isOneStream(): boolean {
  try {
    const [stdout, stderr] = [fstatSync(1), fstatSync(2)];
    return stdout.ino > 0 && stdout.ino === stderr.ino && stdout.dev === stderr.dev;
  } catch {
    return false;
  }
}

function hasReader(): boolean {
  try {
    const stdout = fstatSync(1);
    return stdout.isFIFO() || stdout.isSocket();
  } catch {
    return false;
  }
}

/** In some containers the system does not know the user, and `homedir` throws. */
function findHome(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}

function findCurrentFolder(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined;
  }
}

const signalNames = ["SIGINT", "SIGHUP", "SIGTERM"] as const;

function catchSignals(unsettled: ReadonlySet<string>): Pick<Io, "signal" | "abandon" | "onHangUp"> {
  const first = new AbortController();
  const second = new AbortController();
  // A command that follows a thousand generations adds a thousand listeners.
  setMaxListeners(0, first.signal, second.signal);
  const onSignal = (reason: VidgenError) => {
    if (!first.signal.aborted) return first.abort(reason);
    second.abort(reason);
    // The second signal ends the process even if a bug keeps the command from ending.
    setTimeout(() => abort(reason, unsettled), 3_000).unref();
  };
  process.on("SIGINT", () => onSignal(new VidgenError("interrupted", "Interrupted.")));
  let hangUp = () => onSignal(new VidgenError("hung_up", "The terminal was closed."));
  process.on("SIGHUP", () => hangUp());
  process.on("SIGTERM", () => onSignal(new VidgenError("terminated", "Terminated.")));
  const onHangUp = (call: () => void) => {
    if (process.platform !== "win32") hangUp = call;
  };
  return { signal: first.signal, abandon: second.signal, onHangUp };
}

async function launch(command: string, args: string[]): Promise<void> {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, args, { detached: true, stdio: "ignore", env: envWithoutKeys() });
  child.unref();
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
}

/** The environment for another program, which needs none of vidgen's keys. */
function envWithoutKeys(): Io["env"] {
  const { VIDGEN_API_KEY: _, ...env } = process.env;
  for (const name of engineKeyNames(env)) delete env[name];
  return env;
}
