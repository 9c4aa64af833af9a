import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { usage, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { acquireLease, type LeaseIo } from "../../lease.ts";
import { type Content, hasContent, hashFile, readContent } from "../ledger/content.ts";
import type { FilmLine } from "../ledger/history.ts";
import { identify, isSameFile } from "../ledger/identity.ts";
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
  /** It was there, joined from the same clips. */
  isUpToDate: boolean;
};

export type JoinOptions = {
  ffmpeg: Ffmpeg;
  signal: AbortSignal;
  /** In percent, growing. */
  onProgress?: ((percent: number) => void) | undefined;
  /** Called when the film is whole, before it gets its name. */
  onWhole?: ((film: Omit<FilmLine, "kind">) => Promise<void>) | undefined;
} & Replacing;

/** Which file a film may replace: any one, or an earlier film that is unchanged. */
export type Replacing = { overwrite?: boolean | undefined; earlier?: FilmLine | undefined };

type JoinIo = LeaseIo & Pick<Io, "env" | "run" | "limit">;

/** All clips are open at the same time, and the command line describes each. */
export const maxFilmClips = 200;

/**
 * Joins clips, in this order, into one .mp4. Their pictures are copied if all agree, else encoded at the size of the largest and the highest rate; the
 * sound is always made anew. The film gets its name when it is whole: an existing file stays unless it may be replaced. Throws `usage` for clips
 * that cannot be joined, `output`, or the signal's reason; then it leaves no file. An `earlier` film of the same clips stays as it is, without `overwrite`.
 */
export async function joinClips(
  clips: readonly FilmClip[],
  target: string,
  options: JoinOptions,
  io: JoinIo,
): Promise<Film> {
  const { overwrite, earlier, signal } = options;
  if (clips.length === 0) throw usage("There are no clips to join.");
  if (clips.length > maxFilmClips) throw usage(`${clips.length} clips are more than the ${maxFilmClips} of a film.`);
  // Also by another path, such as one through a linked folder.
  const there = await identify(target, io.disk).catch(() => undefined);
  for (const { file } of clips) {
    await checkWhole(file, io.disk);
    if (isSameFile(await identify(file, io.disk), there))
      throw usage(`${target} is one of the clips: choose another name for the film.`);
  }
  await checkFilmTarget(target, options, io.disk);
  const part = partOf({ folder: dirname(target), file: target }, "film");
  const acquired = await acquireLease(leaseOfPart(part), io, { signal }).catch((error) => {
    throw signal.aborted ? signal.reason : outputError(error, target);
  });
  if (acquired.kind === "held")
    throw new VidgenError("output", `Process ${acquired.holder.pid} is writing ${target}: wait until it has ended.`);
  const { lease } = acquired;
  try {
    const running = { ...options, signal: AbortSignal.any([signal, lease.lost]) };
    const hash = await hashClips(clips, running.signal, io.disk);
    if (!overwrite && earlier?.clips === hash && (await hasContent(target, earlier, io.disk))) {
      const { copied, frames, seconds } = earlier;
      return { path: target, copied, frames, seconds, dropped: [], isUpToDate: true };
    }
    options.onProgress?.(0);
    const film = await writeFilm(clips, part, running, io);
    const content = await syncFilm(part, running.signal, io.disk);
    await lease.confirm();
    const { copied, frames, seconds } = film;
    await options.onWhole?.({ file: target, clips: hash, copied, frames, seconds, ...content });
    await checkFilmTarget(target, options, io.disk);
    const isReplacing = await mayReplace(target, options, io.disk);
    await (isReplacing ? io.disk.rename(part, target) : renameNew(part, target, io.disk));
    options.onProgress?.(100);
    return { path: target, ...film, isUpToDate: false };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw isExistsError(error) ? filmExistsError(target) : outputError(error, target);
  } finally {
    // A part of an earlier process that was killed has the same name.
    await io.disk.rm(part, { force: true }).catch(() => {});
    await lease.release();
  }
}

/** Identifies what a film is joined from: the contents of the clips, their order, and which ones are continued. */
async function hashClips(clips: readonly FilmClip[], signal: AbortSignal, disk: Disk): Promise<string> {
  const hash = createHash("sha256");
  for (const { file, isContinued = false } of clips) {
    const opened = await disk.open(file, "r").catch((error) => {
      throw outputError(error, file);
    });
    const content = await hashFile(opened, signal).finally(() => opened.close());
    hash.update(`${content.digest("hex")} ${isContinued}\n`);
  }
  return hash.digest("hex");
}

/** Throws `output` for a file that exists and may not be replaced, or that cannot be written. */
export async function checkFilmTarget(target: string, replacing: Replacing, disk: Disk): Promise<void> {
  await checkFilmFree(target, replacing, disk);
  await disk.access(dirname(target), disk.constants.W_OK).catch((error) => {
    throw outputError(error, target);
  });
}

/** The first half of `checkFilmTarget`, where the folder of the film may not exist yet. */
export async function checkFilmFree(target: string, replacing: Replacing, disk: Disk): Promise<void> {
  await checkFree(target, await mayReplace(target, replacing, disk), disk).catch((error) => {
    throw isExistsError(error) ? filmExistsError(target) : outputError(error, target);
  });
}

async function mayReplace(target: string, { overwrite = false, earlier }: Replacing, disk: Disk): Promise<boolean> {
  return overwrite || (earlier !== undefined && hasContent(target, earlier, disk));
}

function filmExistsError(target: string): VidgenError {
  const { code, cause } = existsError(target);
  const message = `${target} already exists, and is not the film that this batch joined there, or was changed since.`;
  return new VidgenError(code, message, { hint: "Add --overwrite to replace it, or choose another name.", cause });
}

async function syncFilm(path: string, signal: AbortSignal, disk: Disk): Promise<Content> {
  const file = await disk.open(path, "r+");
  try {
    await file.sync();
    return await readContent(file, (await hashFile(file, signal)).digest("hex"));
  } finally {
    await file.close();
  }
}

type Written = Omit<Film, "path" | "isUpToDate">;

async function writeFilm(clips: readonly FilmClip[], part: string, options: JoinOptions, io: JoinIo): Promise<Written> {
  const facts: ClipFacts[] = [];
  for (const { file } of clips) facts.push(await readClip(file, options, io));
  const plan =
    planCopy(facts) ?? planEncoding(facts.map((clip, i) => ({ clip, isContinued: clips[i]?.isContinued === true })));
  if (!plan.copied && !options.ffmpeg.hasX264)
    throw new VidgenError(
      "output",
      `These clips differ, and ${options.ffmpeg.ffmpeg} has no libx264 to re-encode them.`,
    );
  await io.disk.rm(part, { force: true });
  const output = ["-movflags", "+faststart", "-map_metadata", "-1", "-map_chapters", "-1", "-f", "mp4", `file:${part}`];
  const args = [...commonArgs, "-progress", "pipe:1", ...plan.args, ...output];
  const onStdout = createProgress(plan.seconds, options.onProgress);
  const result = await runProgram(
    options.ffmpeg.ffmpeg,
    args,
    { signal: options.signal, stdin: plan.stdin, onStdout, output: part },
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
