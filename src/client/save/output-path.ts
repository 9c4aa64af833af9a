import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { usage } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { isUuid } from "../../protocol/id.ts";
import {
  fileName,
  fillId,
  fillIn,
  fillWords,
  findWindowsFault,
  type NameParts,
  type Naming,
} from "../../video/naming.ts";
import { createFolder, kindOf, outputError } from "./files.ts";

/** Where -o saves a video, as far as that is known before its generation has an id. */
export type ResolvedOutput = {
  /** The value of -o for the command that resumes this one: with a number in place of `{n}`. */
  outputPath: string;
  folder: string;
  /** The path of the file, if that does not depend on the id. */
  file: string | undefined;
  fileOf(naming: Naming): string;
  /** Set for "-": the video is streamed to stdout from a temporary folder. */
  isTemporary: boolean;
};

type ResolveOptions = {
  nameParts: NameParts;
  /** The day for `{date}`, such as "2026-01-31". */
  date: string;
  /** The number for `{n}`. */
  n: number;
  /** A unique name for a temporary folder. */
  uniqueName: string;
};

type OutputIo = Pick<Io, "disk" | "platform">;

/** Throws `usage` for a path with a name that the platform cannot use. */
export function checkWindowsNames(path: string, platform: string): void {
  const fault = platform === "win32" ? findWindowsFault(path) : undefined;
  if (fault !== undefined) throw usage(`${path} ${fault}.`, "Choose another name.");
}

/**
 * Resolves the value of -o: a file, a folder (an existing one, or a name that ends in a slash), or "-". Fills
 * in the placeholders, and creates the folders whose names contain one, or end in a slash. Returns
 * `undefined` if the name with this number exists. Throws `usage` and `output`.
 */
export async function resolveOutput(
  outputPath: string,
  options: ResolveOptions,
  io: OutputIo,
): Promise<ResolvedOutput | undefined> {
  const resolved = await inspectOutput(outputPath, options, io);
  if (resolved === undefined) return undefined;
  const { disk } = io;
  const { folder, file, isTemporary, mustCreateFolder } = resolved;
  if (isTemporary)
    await disk.mkdir(folder, { mode: 0o700 }).catch((error) => {
      throw outputError(error, file ?? folder);
    });
  else if (mustCreateFolder) await createFolder(folder, file ?? folder, disk);
  return resolved;
}

/** As `resolveOutput`, but creates no folder: `mustCreateFolder` says whether its folder must be created. */
export async function inspectOutput(
  outputPath: string,
  { nameParts, date, n, uniqueName }: ResolveOptions,
  { disk, platform }: OutputIo,
): Promise<(ResolvedOutput & { mustCreateFolder: boolean }) | undefined> {
  if (outputPath === "") throw usage("The output path is empty.");
  const numberedPath = fillIn(outputPath, new Map([["n", String(n)]]));
  const filledPath = fillWords(numberedPath, nameParts, date);
  checkWindowsNames(filledPath, platform);
  // A missing folder is a typing error, unless its name comes from the template.
  const mustCreateFolder = dirname(numberedPath) !== dirname(filledPath);
  const common = { outputPath: numberedPath, isTemporary: false, mustCreateFolder };
  try {
    if (outputPath === "-") {
      const folder = join(tmpdir(), `vidgen-${uniqueName}`);
      const file = join(folder, "video.mp4");
      return { outputPath, folder, file, fileOf: () => file, isTemporary: true, mustCreateFolder };
    }
    if (numberedPath !== outputPath && (await kindOf(filledPath, disk)) !== "none") return undefined;
    if (filledPath.includes("{id}"))
      return {
        ...common,
        folder: dirname(filledPath),
        file: undefined,
        fileOf: (naming) => fillId(filledPath, naming),
      };
    if (await isFolder(filledPath, disk)) {
      const fileOf = (naming: Naming) => join(filledPath, fileName(naming));
      return {
        ...common,
        folder: filledPath,
        file: undefined,
        fileOf,
        mustCreateFolder: mustCreateFolder || /[/\\]$/.test(filledPath),
      };
    }
    return { ...common, folder: dirname(filledPath), file: filledPath, fileOf: () => filledPath };
  } catch (error) {
    throw outputError(error, filledPath);
  }
}

/**
 * The absolute path of an attempt's partial file: a later process of the attempt finds it, and no other attempt uses it. `owner`
 * is the attempt, or the id of a generation that was started elsewhere.
 */
export function partPathOf({ folder, file }: Pick<ResolvedOutput, "folder" | "file">, owner: string): string {
  const digits = isUuid(owner) ? owner.toLowerCase() : createHash("sha256").update(owner).digest("hex");
  const prefix = file === undefined ? ".vidgen-" : `${basename(file)}.`;
  return resolve(folder, `${prefix}${digits.slice(0, 8)}.part`);
}

/** The name of a partial file beside a video file whose name is known. */
const partName = /^(.+)\.[0-9a-f]{8}\.part$/;

/** The video file to which a partial file belongs, or its folder if the video file's name depends on the id. */
export function outputOfPart(part: string): string {
  const [, file] = partName.exec(basename(part)) ?? [];
  return file === undefined ? dirname(part) : join(dirname(part), file);
}

/**
 * The lease that decides who writes a partial file. All partial files of a video share one lease, unless the
 * name of the video depends on the id.
 */
export function leaseOfPart(part: string): string {
  const [, file] = partName.exec(basename(part)) ?? [];
  const name = file === undefined ? basename(part, ".part") : `.${file}`;
  return join(dirname(part), `${name}.lock`);
}

/** Whether a name is that of a partial file of this video file. */
export function isPartOf(name: string, file: string): boolean {
  return partName.exec(name)?.[1] === basename(file);
}

/** The info file beside a video (see `info.ts`). */
export function infoPath(video: string): string {
  return `${video}.json`;
}

/**
 * Whether an output path is a folder: an existing one, or a name that ends in a slash. Throws `output` if
 * that cannot be checked.
 */
export async function isFolder(output: string, disk: Disk): Promise<boolean> {
  if (/[/\\]$/.test(output)) return true;
  const kind = await kindOf(output, disk).catch((error) => {
    throw outputError(error, output);
  });
  return kind === "folder";
}

/** The folder of an output path before its first placeholder. */
export function folderOf(output: string): string {
  const [beforePlaceholder = ""] = output.split("{");
  return /[/\\]$/.test(beforePlaceholder) ? beforePlaceholder : dirname(beforePlaceholder);
}

/** The file for the video of a generation at an output path in which only `{id}` is left to fill in. Changes nothing. */
export async function findOutputPath(output: string, naming: Naming, disk: Disk): Promise<string> {
  const byId = fillId(output, naming);
  return (await isFolder(byId, disk)) ? join(byId, fileName(naming)) : byId;
}
