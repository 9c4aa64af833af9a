import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { usage, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { acquireLease, type LeaseIo } from "../../lease.ts";
import { type Content, hasContent, hashFile, readContent } from "../ledger/content.ts";
import type { FilmLine } from "../ledger/history.ts";
import { identify, isSameFile } from "../ledger/identity.ts";
import { checkFree, checkReplaceable, existsError, isExistsError, outputError, renameNew } from "../save/files.ts";
import { checkWindowsNames, leaseOfPart, partPathOf } from "../save/output-path.ts";
import { type ClipFacts, readClip } from "./clip.ts";
import { commonArgs, type Ffmpeg, lastLine, runProgram } from "./ffmpeg.ts";
import { type FilmPlan, planCopy, planEncoding } from "./plan.ts";
import { checkWhole } from "./whole.ts";

export type FilmClip = {
  file: string;
  /** Whether its first frame is the last frame of the previous clip. */
  isContinued?: boolean | undefined;
};

export type Film = {
  path: string;
  /** Whether the pictures were copied without loss. */
  copied: boolean;
  frames: number;
  seconds: number;
  /** The positions, from 0, of the continued clips whose duplicate first frame was left out. Empty for a copied film. */
  dropped: number[];
  /** Whether it already existed, joined from the same clips. */
  isUpToDate: boolean;
};

export type JoinOptions = {
  ffmpeg: Ffmpeg;
  signal: AbortSignal;
  /** Called with the progress in percent, which never decreases. */
  onProgress?: ((percent: number) => void) | undefined;
  /** Called when the film is complete, before it gets its name. */
  onWhole?: ((film: Omit<FilmLine, "kind">) => Promise<void>) | undefined;
} & ReplaceOptions;

/** Which file a film may replace: any file, or an unchanged earlier film. */
export type ReplaceOptions = { overwrite?: boolean | undefined; earlier?: FilmLine | undefined };

type JoinIo = LeaseIo & Pick<Io, "env" | "run" | "limit" | "platform">;

/** Limited because ffmpeg opens all clips at the same time, and its command line lists them. */
export const maxFilmClips = 200;

/**
 * Joins clips, in this order, into one .mp4. Their pictures are copied if all are of the same kind, else
 * encoded at the largest size and the highest rate; the sound is always encoded again. The film gets its name
 * when it is complete: an existing file stays unless it may be replaced. Throws `usage` for clips that cannot
 * be joined, `output`, or the signal's reason; then it leaves no file. Without `overwrite`, an `earlier` film
 * of the same clips stays unchanged.
 */
export async function joinClips(
  clips: readonly FilmClip[],
  outputPath: string,
  options: JoinOptions,
  io: JoinIo,
): Promise<Film> {
  const { overwrite, earlier, signal } = options;
  if (clips.length === 0) throw usage("There are no clips to join.");
  if (clips.length > maxFilmClips) throw usage(`A film can have at most ${maxFilmClips} clips, not ${clips.length}.`);
  // Compared by real path and inode, because the path may go through a linked folder.
  const existingFile = await identify(outputPath, io.disk).catch(() => undefined);
  for (const { file } of clips) {
    await checkWhole(file, io.disk);
    if (isSameFile(await identify(file, io.disk), existingFile))
      throw usage(`${outputPath} is one of the clips: choose another name for the film.`);
  }
  await checkFilmPath(outputPath, options, io);
  const part = partPathOf({ folder: dirname(outputPath), file: outputPath }, "film");
  const acquired = await acquireLease(leaseOfPart(part), io, { signal }).catch((error) => {
    throw signal.aborted ? signal.reason : outputError(error, outputPath);
  });
  if (acquired.kind === "held")
    throw new VidgenError(
      "output",
      `Process ${acquired.holder.pid} is writing ${outputPath}: wait until it has ended.`,
    );
  const { lease } = acquired;
  try {
    const leasedOptions = { ...options, signal: AbortSignal.any([signal, lease.lost]) };
    const hash = await hashClips(clips, leasedOptions.signal, io.disk);
    if (!overwrite && earlier?.clips === hash && (await hasContent(outputPath, earlier, io.disk))) {
      const { copied, frames, seconds } = earlier;
      return { path: outputPath, copied, frames, seconds, dropped: [], isUpToDate: true };
    }
    options.onProgress?.(0);
    const film = await writeFilm(clips, part, leasedOptions, io);
    const content = await syncFilm(part, leasedOptions.signal, io.disk);
    await lease.confirm();
    const { copied, frames, seconds } = film;
    await options.onWhole?.({ file: outputPath, clips: hash, copied, frames, seconds, ...content });
    await checkFilmPath(outputPath, options, io);
    const isReplacing = await mayReplace(outputPath, options, io.disk);
    await (isReplacing ? io.disk.rename(part, outputPath) : renameNew(part, outputPath, io.disk));
    options.onProgress?.(100);
    return { path: outputPath, ...film, isUpToDate: false };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw isExistsError(error) ? filmExistsError(outputPath) : outputError(error, outputPath);
  } finally {
    // Also removes the partial file of a killed process, which has the same name.
    await io.disk.rm(part, { force: true }).catch(() => {});
    await lease.release();
  }
}

/** The hash of the clips' contents, their order, and which ones are continued. */
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

type FilmPathIo = Pick<Io, "disk" | "platform">;

/**
 * Throws `usage` for a name that the platform cannot use, and `output` if the file exists and may not be
 * replaced, or cannot be written.
 */
export async function checkFilmPath(outputPath: string, replacing: ReplaceOptions, io: FilmPathIo): Promise<void> {
  await checkFilmFree(outputPath, replacing, io);
  const { disk } = io;
  await disk.access(dirname(outputPath), disk.constants.W_OK).catch((error) => {
    throw outputError(error, outputPath);
  });
}

/** The first half of `checkFilmPath`, which does not need the folder to exist. */
export async function checkFilmFree(outputPath: string, replacing: ReplaceOptions, io: FilmPathIo): Promise<void> {
  checkWindowsNames(outputPath, io.platform);
  const { disk } = io;
  await checkFree(outputPath, await mayReplace(outputPath, replacing, disk), disk).catch((error) => {
    throw isExistsError(error) ? filmExistsError(outputPath) : outputError(error, outputPath);
  });
  await checkReplaceable(outputPath, io);
}

async function mayReplace(
  outputPath: string,
  { overwrite = false, earlier }: ReplaceOptions,
  disk: Disk,
): Promise<boolean> {
  return overwrite || (earlier !== undefined && hasContent(outputPath, earlier, disk));
}

function filmExistsError(outputPath: string): VidgenError {
  const { code, cause } = existsError(outputPath);
  const message = `${outputPath} already exists, and is not the film that this batch joined there, or was changed since.`;
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

type WrittenFilm = Omit<Film, "path" | "isUpToDate">;

async function writeFilm(
  clips: readonly FilmClip[],
  part: string,
  options: JoinOptions,
  io: JoinIo,
): Promise<WrittenFilm> {
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

/** Returns a function that takes the output of `-progress` for a film of this length. */
function createProgress(seconds: number, onProgress: JoinOptions["onProgress"]): (text: string) => void {
  let rest = "";
  let last = 0;
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const us = Number(/^out_time_us=(\d+)/.exec(line)?.[1]);
      // 100 is reported after the check and the rename.
      const percent = Math.min(99, Math.floor(us / seconds / 10_000));
      if (!(percent > last)) continue;
      last = percent;
      onProgress?.(percent);
    }
  };
}

/** Throws `output` unless the film is complete: ffmpeg exits with 0 even if a part is missing. */
async function checkFilm(part: string, plan: FilmPlan, options: JoinOptions, io: JoinIo): Promise<void> {
  const { frames, seconds, soundSeconds } = await readClip(part, options, io).catch((error) => {
    if (options.signal.aborted) throw options.signal.reason;
    throw incompleteFilmError("it cannot be read", error);
  });
  if (frames !== plan.frames) throw incompleteFilmError(`it has ${frames} frames instead of ${plan.frames}`);
  // The duration of two video or audio frames (AAC, 1,024 samples), whichever is longer.
  const tolerance = Math.max(2 / plan.rate, 2_048 / 48_000);
  const isNear = (length: number) => Math.abs(length - plan.seconds) <= tolerance;
  if (!isNear(seconds))
    throw incompleteFilmError(`it is ${seconds.toFixed(2)} s long instead of ${plan.seconds.toFixed(2)} s`);
  if (plan.hasSound && !isNear(soundSeconds ?? 0))
    throw incompleteFilmError(
      `its sound is ${(soundSeconds ?? 0).toFixed(2)} s long instead of ${plan.seconds.toFixed(2)} s`,
    );
}

function incompleteFilmError(reason: string, cause?: unknown): VidgenError {
  return new VidgenError("output", `ffmpeg wrote an incomplete film: ${reason}. The clips are unchanged.`, {
    cause,
  });
}
