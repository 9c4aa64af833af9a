import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { usage } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { isUuid } from "../../protocol/id.ts";
import { fileName, fillId, fillIn, fillWords, type Naming, type Words } from "../../video/naming.ts";
import { kindOf, makeFolder, outputError } from "./files.ts";

/** Where a video goes, as far as that is known before its generation has an id. */
export type Place = {
  /** `-o` for the command that resumes this one: with a number for `{n}`. */
  outputPath: string;
  folder: string;
  /** The path of the file, where that does not depend on the id. */
  file: string | undefined;
  fileOf(naming: Naming): string;
  /** For "-": the video is streamed to stdout from a folder that nobody else uses. */
  isTemporary: boolean;
};

type PlaceOptions = {
  words: Words;
  /** The day for `{date}`, such as "2026-01-31". */
  date: string;
  /** The number for `{n}`. */
  n: number;
  /** A name that no other place has. */
  unique: string;
};

/**
 * The place that `-o` names: a file, a folder (one that exists, or a name that ends in a slash), or "-". Fills in the names in braces, and
 * makes the folders whose names come from them, or end in a slash. `undefined` where something has the name with this number already. Throws
 * `usage` and `output`.
 */
export async function findPlace(outputPath: string, options: PlaceOptions, disk: Disk): Promise<Place | undefined> {
  const place = await lookForPlace(outputPath, options, disk);
  if (place === undefined) return undefined;
  const { folder, file, isTemporary, isMade } = place;
  if (isTemporary)
    await disk.mkdir(folder, { mode: 0o700 }).catch((error) => {
      throw outputError(error, file ?? folder);
    });
  else if (isMade) await makeFolder(folder, file ?? folder, disk);
  return place;
}

/** The same, but makes no folder: `isMade` says whether its folder is to be made. */
export async function lookForPlace(
  outputPath: string,
  { words, date, n, unique }: PlaceOptions,
  disk: Disk,
): Promise<(Place & { isMade: boolean }) | undefined> {
  if (outputPath === "") throw usage("The output path is empty.");
  const numbered = fillIn(outputPath, new Map([["n", String(n)]]));
  const filled = fillWords(numbered, words, date);
  // A folder that is missing is a typing error, unless its name comes from the template.
  const isMade = dirname(numbered) !== dirname(filled);
  const known = { outputPath: numbered, isTemporary: false, isMade };
  try {
    if (outputPath === "-") {
      const folder = join(tmpdir(), `vidgen-${unique}`);
      const file = join(folder, "video.mp4");
      return { outputPath, folder, file, fileOf: () => file, isTemporary: true, isMade };
    }
    if (numbered !== outputPath && (await kindOf(filled, disk)) !== "none") return undefined;
    if (filled.includes("{id}"))
      return { ...known, folder: dirname(filled), file: undefined, fileOf: (naming) => fillId(filled, naming) };
    if (await isFolder(filled, disk)) {
      const fileOf = (naming: Naming) => join(filled, fileName(naming));
      return { ...known, folder: filled, file: undefined, fileOf, isMade: isMade || /[/\\]$/.test(filled) };
    }
    return { ...known, folder: dirname(filled), file: filled, fileOf: () => filled };
  } catch (error) {
    throw outputError(error, filled);
  }
}

/**
 * The partial file of an attempt at a place, as an absolute path: a later process of the attempt finds it, and no other attempt has it. `owner`
 * is the attempt, or the id of a generation that was started elsewhere.
 */
export function partOf({ folder, file }: Pick<Place, "folder" | "file">, owner: string): string {
  const short = isUuid(owner) ? owner.toLowerCase() : createHash("sha256").update(owner).digest("hex");
  const begin = file === undefined ? ".vidgen-" : `${basename(file)}.`;
  return resolve(folder, `${begin}${short.slice(0, 8)}.part`);
}

const ofFile = /^(.+)\.[0-9a-f]{8}\.part$/;

/** The file that a partial file is for, or its folder where the file's name depends on the id. */
export function placeOfPart(part: string): string {
  const [, file] = ofFile.exec(basename(part)) ?? [];
  return file === undefined ? dirname(part) : join(dirname(part), file);
}

/** The lease that decides who writes a partial file: one for all those of a file, where its name does not depend on the id. */
export function leaseOfPart(part: string): string {
  const [, file] = ofFile.exec(basename(part)) ?? [];
  const name = file === undefined ? basename(part, ".part") : `.${file}`;
  return join(dirname(part), `${name}.lock`);
}

/** Whether a name is that of a partial file of this file. */
export function isPartOf(name: string, file: string): boolean {
  return ofFile.exec(name)?.[1] === basename(file);
}

/** The info file beside a video (see `info.ts`). */
export function infoPath(video: string): string {
  return `${video}.json`;
}

/** Whether `output` names a folder: one that exists, or a name that ends in a slash. Throws `output` where that cannot be told. */
export async function isFolder(output: string, disk: Disk): Promise<boolean> {
  if (/[/\\]$/.test(output)) return true;
  const kind = await kindOf(output, disk).catch((error) => {
    throw outputError(error, output);
  });
  return kind === "folder";
}

/** The folder of an output path, as far as it is known before the names in braces are filled in. */
export function folderOf(output: string): string {
  const [known = ""] = output.split("{");
  return /[/\\]$/.test(known) ? known : dirname(known);
}

/** Where `output` saves the video of a generation; only `{id}` is filled in. Changes nothing. */
export async function findOutputPath(output: string, naming: Naming, disk: Disk): Promise<string> {
  const byId = fillId(output, naming);
  return (await isFolder(byId, disk)) ? join(byId, fileName(naming)) : byId;
}
