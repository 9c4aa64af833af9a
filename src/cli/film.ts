import { resolve, sep } from "node:path";
import type { Batch } from "../client/batch/batch.ts";
import type { PlannedRow } from "../client/batch/row-state.ts";
import { type Ffmpeg, requireFfmpeg } from "../client/film/ffmpeg.ts";
import {
  checkFilmFree,
  checkFilmPath,
  type Film,
  joinClips,
  maxFilmClips,
  type ReplaceOptions,
} from "../client/film/join.ts";
import type { FilmEvent } from "../client/generation/events.ts";
import { folderOf } from "../client/save/output-path.ts";
import { nameLines } from "../connect/format.ts";
import { asVidgenError, usage, VidgenError } from "../errors.ts";
import type { Context } from "./context.ts";
import type { Output } from "./terminal/output.ts";

type FilmOptions = { overwrite: boolean | undefined; isDryRun: boolean | undefined };

/** The checked film of a batch, ready to be made. */
export type BatchFilm = ReplaceOptions & { filmPath: string; ffmpeg: Ffmpeg };

/**
 * Checks what a film of these rows needs, before anything is paid. Throws `usage`, and `output` if the film
 * cannot be written.
 */
export async function prepareFilm(
  filmPath: string,
  { rows, plan, findFilm, checkProtected }: Pick<Batch, "rows" | "plan" | "findFilm" | "checkProtected">,
  { overwrite, isDryRun }: FilmOptions,
  { io }: Pick<Context, "io">,
): Promise<BatchFilm> {
  if (rows.length > maxFilmClips)
    throw usage(`--join takes ${maxFilmClips} clips at most, and the file has ${rows.length} rows. Nothing was sent.`);
  for (const { line, outputPath } of rows) {
    if (outputPath === undefined) throw usage(`--join needs -o: line ${line} is not saved. Nothing was sent.`);
    if (resolve(outputPath) === resolve(filmPath))
      throw usage(`--join ${filmPath} is also the file of line ${line}. Nothing was sent.`);
  }
  await checkProtected(filmPath);
  const ffmpeg = await requireFfmpeg({ feature: "--join", encodes: plan.to_start > 0 }, io, io.signal);
  const earlier = await findFilm(filmPath);
  // A dry run has not made the folders of the clips.
  const folder = (path: string) => `${resolve(folderOf(path))}${sep}`;
  const isMadeLater = isDryRun && rows.some((row) => folder(row.outputPath ?? "").startsWith(folder(filmPath)));
  const check = isMadeLater ? checkFilmFree : checkFilmPath;
  await check(filmPath, { overwrite, earlier }, io);
  return { filmPath, ffmpeg, overwrite, earlier };
}

/**
 * Joins the videos of all rows in the order of the file, as `joinClips` does. `files` are the saved videos by
 * the keys of their rows. Returns the film as `--json` shows it; `undefined`, with a note, if a row has no
 * video.
 */
export async function makeFilm(
  { filmPath, ...plan }: BatchFilm,
  files: ReadonlyMap<string, string>,
  { rows, oldFrameKeys, recordFilm }: Pick<Batch, "rows" | "oldFrameKeys" | "recordFilm">,
  { io, output }: Pick<Context, "io" | "output">,
): Promise<Omit<FilmEvent & { event: "joined" }, "event"> | undefined> {
  const missingLines = rows.filter(({ key }) => !files.has(key)).map(({ line }) => line);
  if (missingLines.length > 0) {
    output.note(`${filmPath} was not made: there is no video of ${nameLines(missingLines)}.`);
    return undefined;
  }
  const clips = rows.map((row, index) => ({
    file: files.get(row.key) as string,
    isContinued: isContinued(row, rows[index - 1]) && !oldFrameKeys.has(row.key),
  }));
  try {
    const joinOptions = {
      ...plan,
      signal: io.signal,
      onProgress: createFilmProgress(filmPath, output),
      onWhole: recordFilm,
    };
    const film = await joinClips(clips, filmPath, joinOptions, io);
    const { copied, frames, seconds, isUpToDate: up_to_date } = film;
    const joined = { file: filmPath, copied, frames, seconds, up_to_date };
    output.clearProgress();
    output.note(up_to_date ? `${filmPath} is up to date.` : describeFilm(film, rows));
    output.event({ event: "joined", ...joined });
    return joined;
  } catch (error) {
    // The rows may have been paid for in this run, but `usage` would say that nothing was sent.
    const known = asVidgenError(error);
    throw known.code === "usage" ? new VidgenError("output", known.message, { ...known, cause: known }) : known;
  } finally {
    output.clearProgress();
  }
}

/** Shows each percent at a terminal, and steps of 10 elsewhere. */
function createFilmProgress(file: string, output: Output): (percent: number) => void {
  let last: number | undefined;
  return (percent) => {
    const isStep = last === undefined || percent - last >= 10 || percent === 100;
    if (isStep) {
      last = percent;
      output.event({ event: "joining", file, percent });
    }
    if (isStep || output.isLive) output.progress(`Joining ${file}: ${percent}%`);
  };
}

function isContinued({ source }: PlannedRow, rowBefore: PlannedRow | undefined): boolean {
  return source !== undefined && source === rowBefore?.key;
}

function describeFilm({ path, copied, frames, seconds, dropped }: Film, rows: readonly PlannedRow[]): string {
  const methodText = copied ? "the video was copied without re-encoding" : "the clips differ, so they were re-encoded";
  const lines = dropped.flatMap((index) => rows[index]?.line ?? []);
  const droppedText =
    lines.length === 0 ? "" : `; left out the first frame of ${nameLines(lines)}, a repeat of the frame before it`;
  return `${path}: ${rows.length} clips, ${seconds.toFixed(1)} s, ${frames} frames; ${methodText}${droppedText}.`;
}
