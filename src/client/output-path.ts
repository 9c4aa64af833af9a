import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { systemCode } from "../errors.ts";
import type { Disk } from "../io.ts";
import { fileName, fillId, fillIn, fillWords, type Naming, type Words } from "./naming.ts";
import {
  type ClaimOptions,
  checkFree,
  claimPart,
  isExistsError,
  kindOf,
  type Named,
  outputError,
  type Target,
} from "./target.ts";

export type OutputPathOptions = ClaimOptions & {
  words: Words;
  /** The day for `{date}`, such as "2026-01-31". */
  date: string;
  /** The first number to try for `{n}`. */
  first: number;
};

/**
 * Fills in the names in braces and claims the place: `{n}` becomes the first number whose file does not exist. Throws as `claimTarget`
 * does.
 */
export async function claimOutputPath(outputPath: string, options: OutputPathOptions, disk: Disk): Promise<Target> {
  for (let n = options.first; ; n++) {
    const numbered = fillIn(outputPath, new Map([["n", String(n)]]));
    const filled = fillWords(numbered, options.words, options.date);
    const isNumbered = numbered !== outputPath;
    try {
      if (isNumbered && (await kindOf(filled, disk)) !== "none") continue;
      // A folder that is missing is a typing error, unless its name comes from the template.
      if (dirname(numbered) !== dirname(filled)) await disk.mkdir(dirname(filled), { recursive: true });
      return { ...(await claimTarget(filled, options, disk)), outputPath: numbered };
    } catch (error) {
      // Another process may be saving under this number.
      if (!isNumbered || !isExistsError(error)) throw outputError(error, filled);
    }
  }
}

/**
 * Claims a file, a folder (one that exists, or a name that ends in a slash), or for "-" a temporary file, which the caller streams to
 * stdout. Only `{id}` is filled in. Throws `output` when the file cannot be written, or exists and `overwrite` is not set.
 */
export async function claimTarget(output: string, options: ClaimOptions, disk: Disk): Promise<Target> {
  try {
    if (output === "-") return await claimTemporary(options.unique, disk);
    if (output.includes("{id}"))
      return await claimLater(dirname(output), { output, nameOf: ({ id }) => fillId(output, id) }, options, disk);
    if (/[/\\]$/.test(output)) await disk.mkdir(output, { recursive: true });
    const nameOf = (naming: Naming) => join(output, fileName(naming));
    if ((await kindOf(output, disk)) === "folder") return await claimLater(output, { output, nameOf }, options, disk);
    return await claimFile(output, { output, nameOf: () => output }, options, disk);
  } catch (error) {
    throw outputError(error, output);
  }
}

/** Claims a file that is named after its generation. Until that has an id, the `.part` has a temporary name. */
async function claimLater(folder: string, named: Named, options: ClaimOptions, disk: Disk): Promise<Target> {
  if (options.naming) return claimFile(named.nameOf(options.naming), named, options, disk);
  return claimPart(join(folder, `.vidgen-${options.unique}.part`), named, options, disk);
}

async function claimFile(path: string, named: Named, options: ClaimOptions, disk: Disk): Promise<Target> {
  await checkFree(path, options.overwrite, disk);
  await disk.access(dirname(path), disk.constants.W_OK).catch((error) => {
    throw withFolderHint(error, path);
  });
  const target = await claimPart(`${path}.part`, named, options, disk);
  try {
    // The process that wrote an earlier `.part` may have finished the video since the first check.
    await checkFree(path, options.overwrite, disk);
    return target;
  } catch (error) {
    await target.release();
    throw error;
  }
}

async function claimTemporary(unique: string, disk: Disk): Promise<Target> {
  const folder = join(tmpdir(), `vidgen-${unique}`);
  await disk.mkdir(folder, { mode: 0o700 });
  const named = { output: "-", nameOf: () => join(folder, "video.mp4") };
  const options = { overwrite: true, unique, own: async () => ({}) };
  const target = await claimPart(join(folder, "video.part"), named, options, disk);
  return {
    ...target,
    async release() {
      await target.release();
      await disk.rm(folder, { recursive: true, force: true });
    },
  };
}

/** Whether `output` names a folder: one that exists, or a name that ends in a slash. */
export async function isFolder(output: string, disk: Disk): Promise<boolean> {
  return /[/\\]$/.test(output) || (await kindOf(output, disk)) === "folder";
}

/** Adds a hint for a file whose folder does not exist. */
function withFolderHint(error: unknown, path: string): unknown {
  const folder = dirname(path);
  if (systemCode(error) !== "ENOENT" || folder === ".") return error;
  // The command is left out when a shell would not read the name literally.
  const command = /^[\w./][\w@%+=:,./-]*$/.test(folder) ? ` (mkdir -p ${folder})` : "";
  return outputError(error, path).with({
    hint: `Create it first${command}, or end -o with / to have it created.`,
  });
}

/** Where `output` saves the video of a generation; only `{id}` is filled in. */
export async function findOutputPath(output: string, naming: Naming, disk: Disk): Promise<string> {
  const byId = fillId(output, naming.id);
  return (await isFolder(byId, disk)) ? join(byId, fileName(naming)) : byId;
}
