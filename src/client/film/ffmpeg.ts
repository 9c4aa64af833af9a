import { basename, dirname, join } from "node:path";
import { systemCode, systemReason, VidgenError } from "../../errors.ts";
import type { Io, RunProgramOptions, RunResult } from "../../io.ts";
import { plainText, shorten } from "../../protocol/text.ts";
import { kindOf } from "../save/files.ts";

/** The commands of the two programs. */
export type Ffmpeg = {
  ffmpeg: string;
  ffprobe: string;
  /** Such as "5.1.9-0+deb12u1". */
  version: string;
  /** Whether it encodes H.264: without libx264 only clips of the same kind can be joined. */
  hasX264: boolean;
};

/** The I/O to run them. */
export type RunIo = Pick<Io, "env" | "run" | "limit"> & { disk: Pick<Io["disk"], "stat"> };

export type FfmpegIo = RunIo & { disk: Pick<Io["disk"], "stat" | "lstat"> };

/** The commands that install ffmpeg. */
export const ffmpegInstallHint = "apt install ffmpeg, brew install ffmpeg, winget install ffmpeg";

/**
 * Finds ffmpeg and ffprobe by FFMPEG_PATH, which names the program or its folder, else on the PATH. Rejects
 * only when aborted.
 */
export async function findFfmpeg(
  io: FfmpegIo,
  signal: AbortSignal,
): Promise<{ kind: "found"; ffmpeg: Ffmpeg } | { kind: "missing"; reason: string }> {
  const ffmpeg = await findProgram(io);
  // The PATH is searched for a name without a folder.
  const name = basename(ffmpeg).replace(/ffmpeg/i, "ffprobe");
  const sibling = dirname(ffmpeg) === "." ? name : join(dirname(ffmpeg), name);
  try {
    // The version is in the banner on stderr.
    const { code, stdout, stderr } = await runWatched(ffmpeg, ["-encoders"], { signal }, io);
    const version = /^ffmpeg version (\S+)/m.exec(stderr)?.[1];
    if (code !== 0 || version === undefined) return { kind: "missing", reason: `${ffmpeg} is not a usable ffmpeg` };
    for (const ffprobe of new Set([sibling, "ffprobe"])) {
      if (!(await canRun(ffprobe, io, signal))) continue;
      return { kind: "found", ffmpeg: { ffmpeg, ffprobe, version, hasX264: /\blibx264\b/.test(stdout) } };
    }
    return { kind: "missing", reason: "ffprobe, a part of ffmpeg, was not found" };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof VidgenError) return { kind: "missing", reason: error.message.replace(/\.$/, "") };
    const reason = systemReason(error, { ENOENT: "it was not found" });
    return { kind: "missing", reason: ffmpeg === "ffmpeg" ? reason : `${ffmpeg}: ${reason}` };
  }
}

async function findProgram({ env, disk }: FfmpegIo): Promise<string> {
  const path = env.FFMPEG_PATH || "ffmpeg";
  if (path === "ffmpeg") return path;
  // `kindOf` calls only `stat` and `lstat`.
  const kind = await kindOf(path, disk as Io["disk"]).catch(() => "none");
  return kind === "folder" ? join(path, "ffmpeg") : path;
}

async function canRun(program: string, io: FfmpegIo, signal: AbortSignal): Promise<boolean> {
  try {
    return (await runWatched(program, ["-version"], { signal }, io)).code === 0;
  } catch (error) {
    if (signal.aborted || systemCode(error) === undefined) throw error;
    return false;
  }
}

/**
 * As `findFfmpeg`, for a command that needs ffmpeg; must be called before anything is sent. `feature` is what
 * needs ffmpeg, such as "--from"; `encodes` is set if ffmpeg may have to encode. Throws `usage`, which says
 * that nothing was sent.
 */
export async function requireFfmpeg(
  { feature, encodes }: { feature: string; encodes: boolean },
  io: FfmpegIo,
  signal: AbortSignal,
): Promise<Ffmpeg> {
  const found = await findFfmpeg(io, signal);
  if (found.kind === "missing") {
    const hint = `The reason: ${found.reason}. FFMPEG_PATH may name the program or its folder.`;
    throw new VidgenError("usage", `${feature} needs ffmpeg: ${ffmpegInstallHint}. ${nothingSent}`, { hint });
  }
  if (encodes && !found.ffmpeg.hasX264) {
    const message = `${feature} needs an ffmpeg with libx264, and ${found.ffmpeg.ffmpeg} has none. ${nothingSent}`;
    throw new VidgenError("usage", message, {
      hint: `Install a complete one: ${ffmpegInstallHint}; or set FFMPEG_PATH.`,
    });
  }
  return found.ffmpeg;
}

const nothingSent = "Nothing was sent, nothing was charged.";

const formats = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm";

/**
 * The arguments for an input file. Its name is never parsed as an option, a URL or a pattern. A video may come from a hostile
 * service: the whitelists keep ffmpeg from reading a playlist named .mp4, which could refer to other files and URLs.
 */
export function inputArgs(file: string): string[] {
  return ["-protocol_whitelist", "file", "-format_whitelist", formats, "-i", `file:${file}`];
}

/** The arguments for a list of files on stdin that is read as one input. */
export const listArgs = [
  ...["-f", "concat", "-safe", "0"],
  ...["-protocol_whitelist", "file,pipe", "-format_whitelist", `concat,${formats}`, "-i", "pipe:0"],
];

export const commonArgs = ["-nostdin", "-hide_banner", "-v", "error", "-y"];

type ProgramOptions = Omit<RunProgramOptions, "env" | "onStderr"> & {
  /** The file that the program writes. */
  output?: string;
};

/**
 * Runs ffmpeg or ffprobe. Rejects with `output` if it cannot be started, or is ended after a minute without
 * progress, or with the signal's reason.
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
  io: RunIo,
): Promise<RunResult> {
  try {
    return await runWatched(program, args, options, io);
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (error instanceof VidgenError) throw error;
    throw new VidgenError("output", `Cannot run ${program}: ${systemReason(error)}.`, { cause: error });
  }
}

/** Longer than a slow disk and the largest picture need between two signs of progress. */
const stallLimitMs = 60_000;
const checkEveryMs = 15_000;

async function runWatched(
  program: string,
  args: readonly string[],
  { signal, stdin, output, onStdout }: ProgramOptions,
  io: RunIo,
): Promise<RunResult> {
  const [runEnd, stall] = [new AbortController(), new AbortController()];
  const progress = createProgressReader();
  const result = { stdout: "", stderr: "" };
  let messages = 0;
  const snapshot = async () => `${progress.snapshot()} ${messages} ${await stampOf(output, io)}`;
  const watch = async () => {
    let last = await snapshot();
    for (let quietMs = 0; quietMs < stallLimitMs; ) {
      await waitMs(checkEveryMs, runEnd.signal, io);
      if (runEnd.signal.aborted) return;
      const current = await snapshot();
      quietMs = current === last ? quietMs + checkEveryMs : 0;
      last = current;
    }
    const line = lastLine({ code: 1, ...result }, "it wrote nothing");
    const seconds = stallLimitMs / 1000;
    stall.abort(new VidgenError("output", `${program} made no progress for ${seconds} s and was ended: ${line}.`));
  };
  void watch();
  try {
    const { code, stderr } = await io.run(program, args, {
      signal: AbortSignal.any([signal, stall.signal]),
      env: programEnv(io.env),
      stdin,
      onStdout(text) {
        progress.add(text);
        if (onStdout) onStdout(text);
        else result.stdout += text;
      },
      onStderr(text) {
        messages++;
        result.stderr = (result.stderr + text).slice(-maxStderr);
      },
    });
    return { code, stdout: result.stdout, stderr };
  } finally {
    runEnd.abort();
  }
}

const maxStderr = 65_536;

/** Resolves after this time, or when `over` aborts. Never rejects. */
function waitMs(ms: number, over: AbortSignal, { limit }: Pick<Io, "limit">): Promise<void> {
  const { signal, clear } = limit(ms, over, new Error("it has passed"));
  return new Promise<void>((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  }).finally(clear);
}

/** Size and modification time of a file: they change while it is written, even if it does not grow. */
async function stampOf(path: string | undefined, { disk }: RunIo): Promise<string> {
  if (path === undefined) return "";
  const { size, mtimeMs } = await disk.stat(path).catch(() => ({ size: 0, mtimeMs: 0 }));
  return `${size} ${mtimeMs}`;
}

/**
 * Reads the progress of a program. A program that hangs may repeat the lines of `-progress` with other rates,
 * so rates are ignored.
 */
function createProgressReader() {
  const values = new Map<string, string>();
  let [rest, otherLines] = ["", 0];
  return {
    add(text: string): void {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const [, name, value = ""] = /^(\w+)=(.*)$/.exec(line) ?? [];
        if (name === undefined) otherLines++;
        else if (/^(frame|total_size|out_time_us)$/.test(name)) values.set(name, value);
      }
    },
    snapshot: () => `${[...values.values()].join(" ")} ${otherLines}`,
  };
}

/** The environment without keys, URLs and FFREPORT, which makes ffmpeg write a log into the current folder. */
function programEnv(env: Io["env"]): Io["env"] {
  const isKept = (name: string) => !/^(FFREPORT$|VIDGEN_)|KEY|TOKEN|SECRET|PASSWORD|_URL$|_PROXY$/i.test(name);
  return Object.fromEntries(Object.entries(env).filter(([name]) => isKept(name)));
}

/** The last line of a program's error output. */
export function lastLine(
  { code, stderr }: RunResult,
  byDefault = code === null ? "it was killed" : `exit code ${code}`,
): string {
  const lines = plainText(stderr)
    .split(/[\n\t]+/)
    .map((line) => line.trim());
  const line = lines.filter((each) => each !== "" && each !== "Conversion failed!").at(-1);
  return shorten(line ?? byDefault, 300);
}
