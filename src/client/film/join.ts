import { dirname, resolve } from "node:path";
import { usage, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { acquireLease, type LeaseIo } from "../../lease.ts";
import { checkFree, existsError, isExistsError, outputError, renameNew } from "../save/files.ts";
import { leaseOfPart, partOf } from "../save/output-path.ts";
import { type ClipFacts, readClip } from "./clip.ts";
import { commonArgs, type Ffmpeg, lastLine, runProgram } from "./ffmpeg.ts";
import { type Plan, planCopy, planEncoding } from "./plan.ts";
import { checkWhole } from "./whole.ts";

export type FilmClip = {
  file: string;
  /** Whether it begins with the frame that the clip before ends with. */
  isContinued?: boolean | undefined;
};

export type Film = {
  path: string;
  /** Whether the pictures were copied: then nothing was lost. */
  copied: boolean;
  frames: number;
  seconds: number;
  /** The positions, from 0, of the continued clips whose first frame was left out: it is shown once only. Always none in a copied film. */
  dropped: number[];
};

export type JoinOptions = {
  ffmpeg: Ffmpeg;
  overwrite?: boolean | undefined;
  signal: AbortSignal;
  /** In percent, growing. */
  onProgress?: ((percent: number) => void) | undefined;
};

type JoinIo = LeaseIo & Pick<Io, "env" | "run">;

/** All clips are open at the same time, and the command line describes each. */
export const maxFilmClips = 200;

/**
 * Joins clips, in this order, into one .mp4. Their pictures are copied if all agree, else encoded at the size of the largest and the highest rate; the
 * sound is always made anew. The film gets its name when it is whole: an existing file stays unless `overwrite` is set. Throws `usage` for clips
 * that cannot be joined, `output`, or the signal's reason; then it leaves no file.
 */
export async function joinClips(
  clips: readonly FilmClip[],
  target: string,
  options: JoinOptions,
  io: JoinIo,
): Promise<Film> {
  const { overwrite = false, signal } = options;
  if (clips.length === 0) throw usage("There are no clips to join.");
  if (clips.length > maxFilmClips) throw usage(`${clips.length} clips are more than the ${maxFilmClips} of a film.`);
  for (const { file } of clips) {
    if (resolve(file) === resolve(target))
      throw usage(`${target} is one of the clips: choose another name for the film.`);
    await checkWhole(file, io.disk);
  }
  await checkFilmTarget(target, overwrite, io.disk);
  const part = partOf({ folder: dirname(target), file: target }, "film");
  const acquired = await acquireLease(leaseOfPart(part), io, { signal }).catch((error) => {
    throw signal.aborted ? signal.reason : outputError(error, target);
  });
  if (acquired.kind === "held")
    throw new VidgenError("output", `Process ${acquired.holder.pid} is writing ${target}: wait until it has ended.`);
  const { lease } = acquired;
  try {
    const running = { ...options, signal: AbortSignal.any([signal, lease.lost]) };
    const film = await writeFilm(clips, part, running, io);
    await sync(part, io.disk);
    await lease.confirm();
    await checkFilmTarget(target, overwrite, io.disk);
    await (overwrite ? io.disk.rename(part, target) : renameNew(part, target, io.disk));
    options.onProgress?.(100);
    return { path: target, ...film };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw isExistsError(error) ? filmExistsError(target) : outputError(error, target);
  } finally {
    // A part of an earlier process that was killed has the same name.
    await io.disk.rm(part, { force: true }).catch(() => {});
    await lease.release();
  }
}

/** Throws `output` for a film that exists, unless `overwrite` is set, or that cannot be written. */
export async function checkFilmTarget(target: string, overwrite: boolean, disk: Disk): Promise<void> {
  await checkFree(target, overwrite, disk).catch((error) => {
    throw isExistsError(error) ? filmExistsError(target) : outputError(error, target);
  });
  await disk.access(dirname(target), disk.constants.W_OK).catch((error) => {
    throw outputError(error, target);
  });
}

function filmExistsError(target: string): VidgenError {
  const { code, message, cause } = existsError(target);
  return new VidgenError(code, message, { hint: "Add --overwrite to replace it, or choose another name.", cause });
}

async function sync(path: string, disk: Disk): Promise<void> {
  const file = await disk.open(path, "r+");
  await file.sync().finally(() => file.close());
}

type Written = Omit<Film, "path">;

async function writeFilm(clips: readonly FilmClip[], part: string, options: JoinOptions, io: JoinIo): Promise<Written> {
  const facts: ClipFacts[] = [];
  for (const { file } of clips) facts.push(await readClip(file, options, io));
  const plan =
    planCopy(facts) ?? planEncoding(facts.map((clip, i) => ({ clip, isContinued: clips[i]?.isContinued === true })));
  if (!plan.copied && !options.ffmpeg.hasX264)
    throw new VidgenError(
      "output",
      `These clips differ, and ${options.ffmpeg.ffmpeg} has no libx264 to encode them anew.`,
    );
  await io.disk.rm(part, { force: true });
  const output = ["-movflags", "+faststart", "-map_metadata", "-1", "-map_chapters", "-1", "-f", "mp4", `file:${part}`];
  const args = [...commonArgs, "-progress", "pipe:1", ...plan.args, ...output];
  const onStdout = createProgress(plan.seconds, options.onProgress);
  const result = await runProgram(
    options.ffmpeg.ffmpeg,
    args,
    { signal: options.signal, stdin: plan.stdin, onStdout },
    io,
  );
  if (result.code !== 0) throw new VidgenError("output", `ffmpeg could not join the clips: ${lastLine(result)}.`);
  await checkFilm(part, plan, options, io);
  const { copied, frames, seconds, dropped } = plan;
  return { copied, frames, seconds, dropped };
}

/** Takes the lines that `-progress` writes, for a film of so many seconds. */
function createProgress(seconds: number, onProgress: JoinOptions["onProgress"]): (text: string) => void {
  let rest = "";
  let last = 0;
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const us = Number(/^out_time_us=(\d+)/.exec(line)?.[1]);
      // The rest is the check and the rename.
      const percent = Math.min(99, Math.floor(us / seconds / 10_000));
      if (!(percent > last)) continue;
      last = percent;
      onProgress?.(percent);
    }
  };
}

/** ffmpeg exits with 0 also where a part of the film is missing. Throws `output` unless it is whole. */
async function checkFilm(part: string, plan: Plan, options: JoinOptions, io: JoinIo): Promise<void> {
  const { frames, seconds, soundSeconds } = await readClip(part, options, io).catch((error) => {
    if (options.signal.aborted) throw options.signal.reason;
    throw notWhole("it cannot be read", error);
  });
  if (frames !== plan.frames) throw notWhole(`it has ${frames} frames instead of ${plan.frames}`);
  // Two frames of the picture or of the sound (AAC, 1,024 samples), whichever take longer.
  const tolerance = Math.max(2 / plan.rate, 2_048 / 48_000);
  const isNear = (length: number) => Math.abs(length - plan.seconds) <= tolerance;
  if (!isNear(seconds)) throw notWhole(`it is ${seconds.toFixed(2)} s long instead of ${plan.seconds.toFixed(2)} s`);
  if (plan.hasSound && !isNear(soundSeconds ?? 0))
    throw notWhole(`its sound is ${(soundSeconds ?? 0).toFixed(2)} s long instead of ${plan.seconds.toFixed(2)} s`);
}

function notWhole(reason: string, cause?: unknown): VidgenError {
  return new VidgenError("output", `ffmpeg wrote a film that is not whole: ${reason}. The clips are unchanged.`, {
    cause,
  });
}
