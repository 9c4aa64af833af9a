import { resolve } from "node:path";
import type { Batch } from "../client/batch/batch.ts";
import type { PlannedRow } from "../client/batch/plan.ts";
import { type Ffmpeg, requireFfmpeg } from "../client/film/ffmpeg.ts";
import { checkFilmTarget, type Film, joinClips, maxFilmClips } from "../client/film/join.ts";
import { usage } from "../errors.ts";
import type { Context } from "./context.ts";

type FilmOptions = { overwrite: boolean | undefined; isDryRun: boolean | undefined };

/** Checks what a film of these rows needs, before anything is paid. Throws `usage`, and `output` where the film cannot be written. */
export async function prepareFilm(
  target: string,
  { rows, plan }: Pick<Batch, "rows" | "plan">,
  { overwrite = false, isDryRun }: FilmOptions,
  { io }: Pick<Context, "io">,
): Promise<Ffmpeg> {
  if (rows.length > maxFilmClips)
    throw usage(`--join takes ${maxFilmClips} clips at most, and the file has ${rows.length} rows. Nothing was sent.`);
  for (const { line, outputPath } of rows) {
    if (outputPath === undefined) throw usage(`--join needs -o: line ${line} is not saved. Nothing was sent.`);
    if (resolve(outputPath) === resolve(target))
      throw usage(`--join ${target} is also the file of line ${line}. Nothing was sent.`);
  }
  const ffmpeg = await requireFfmpeg({ feature: "--join", encodes: plan.to_start > 0 }, io, io.signal);
  // A dry run has not made the folders of the clips.
  if (!isDryRun) await checkFilmTarget(target, overwrite, io.disk);
  return ffmpeg;
}

type MakeOptions = {
  ffmpeg: Ffmpeg;
  overwrite: boolean | undefined;
  /** The saved videos by the keys of their rows. */
  files: ReadonlyMap<string, string>;
};

/** Joins the videos of all rows in the order of the file; `undefined`, with a note, where one has none. Throws as `joinClips` does. */
export async function makeFilm(
  target: string,
  { rows, oldFrames }: Pick<Batch, "rows" | "oldFrames">,
  { ffmpeg, overwrite, files }: MakeOptions,
  { io, output }: Pick<Context, "io" | "output">,
): Promise<Film | undefined> {
  const missing = rows.filter(({ key }) => !files.has(key)).map(({ line }) => line);
  if (missing.length > 0) {
    output.note(`${target} was not made: there is no video of ${nameLines(missing)}.`);
    return undefined;
  }
  const clips = rows.map((row, index) => ({
    file: files.get(row.key) as string,
    isContinued: isContinued(row, rows[index - 1]) && !oldFrames.has(row.key),
  }));
  let shown = 0;
  const onProgress = (percent: number) => {
    // Without a terminal each state is a line.
    if (!output.isLive && percent - shown < 10 && percent < 100) return;
    shown = percent;
    output.progress(`Joining ${target}: ${percent}%`);
  };
  try {
    const film = await joinClips(clips, target, { ffmpeg, overwrite, signal: io.signal, onProgress }, io);
    output.clearProgress();
    output.note(describeFilm(film, rows));
    return film;
  } finally {
    output.clearProgress();
  }
}

function isContinued({ source }: PlannedRow, before: PlannedRow | undefined): boolean {
  return source !== undefined && source === before?.key;
}

function describeFilm({ path, copied, frames, seconds, dropped }: Film, rows: readonly PlannedRow[]): string {
  const how = copied ? "the pictures were copied" : "the clips differ, so that they were encoded anew";
  const lines = dropped.flatMap((index) => rows[index]?.line ?? []);
  const left = lines.length === 0 ? "" : `; without the first frame of ${nameLines(lines)}, which is the one before`;
  return `${path}: ${rows.length} clips, ${seconds.toFixed(1)} s, ${frames} frames; ${how}${left}.`;
}

const maxNamed = 10;

function nameLines(lines: readonly number[]): string {
  const more = lines.length > maxNamed ? ` and ${lines.length - maxNamed} more` : "";
  return `${lines.length === 1 ? "line" : "lines"} ${lines.slice(0, maxNamed).join(", ")}${more}`;
}
