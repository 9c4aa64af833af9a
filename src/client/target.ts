import { constants } from "node:fs";
import { access, type FileHandle, link, lstat, mkdir, mkdtemp, open, rename, rm, stat, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import { faultOfMp4 } from "./mp4.ts";
import { fileName, idWord, type Naming } from "./naming.ts";
import { fillIn } from "./template.ts";

/** A place for a video, claimed before anything is paid: the `.part` file exists and can be written. */
export type Target = {
  /** `-o` for the command that goes on with this one. */
  place: string;
  part: FileHandle;
  /** Where the `.part` is, as an absolute path. */
  partPath(): string;
  /** Gives the `.part` in a folder its lasting name, once the generation is known, so that another run finds it. */
  settle(naming: Naming): Promise<void>;
  /** From now on `release` leaves the `.part` where it is: it can be gone on with. */
  keep(): void;
  /** Gives the finished `.part` its name and returns that. Throws `output` when a file of this name has come into being meanwhile. */
  commit(naming: Naming): Promise<string>;
  /** Lets go of what was claimed; after `commit` there is nothing left to do. */
  release(): Promise<void>;
};

export type ClaimOptions = {
  overwrite: boolean;
  /** A word that no other claim has. */
  unique: string;
  /** Set when the generation is known already: then a folder's file name is too. */
  naming?: Naming | undefined;
  /** Told of the absolute path of a `.part` before it comes into being, so that no crash leaves one whose owner nobody knows. */
  onPart?(partPath: string): Promise<void>;
  /** Whether a `.part` that is there has been left by a process that is gone. */
  mayTakeOver?(partPath: string): Promise<boolean>;
};

/**
 * Claims the place that `-o` names: a file, a folder (one that exists, or a name that ends in a slash), or "-" for a file of its own that
 * is streamed to stdout later. Throws `output` when it cannot be written, or exists and `overwrite` is not set.
 */
export async function claimTarget(output: string, options: ClaimOptions): Promise<Target> {
  try {
    if (output === "-") return await claimTemporary();
    const folder = await folderOf(output);
    if (folder === undefined) return await claimFile(output, { output, nameOf: () => output }, options);
    return await claimLater(folder, { output, nameOf: (naming) => join(folder, fileName(naming)) }, options);
  } catch (error) {
    throw outputError(error, output);
  }
}

/** `-o`, and the name that it comes to once the generation is known. */
type Named = { output: string; nameOf(naming: Naming): string };

/** As `claimTarget`, for a file with `{id}` in its name and nothing else left to fill in. */
export async function claimNamedById(output: string, options: ClaimOptions): Promise<Target> {
  const nameOf = ({ id }: Naming) => fillIn(output, { id: idWord(id) });
  try {
    return await claimLater(dirname(output), { output, nameOf }, options);
  } catch (error) {
    throw outputError(error, output);
  }
}

/** The name depends on the generation, which may not be known yet: until it is, the `.part` has one of its own. */
async function claimLater(folder: string, named: Named, options: ClaimOptions): Promise<Target> {
  if (options.naming) return claimFile(named.nameOf(options.naming), named, options);
  return claim(join(folder, `.vidgen-${options.unique}.part`), named, options);
}

async function claimFile(path: string, named: Named, options: ClaimOptions): Promise<Target> {
  await checkFree(path, options.overwrite);
  await access(dirname(path), constants.W_OK).catch((error) => {
    throw withFolderHint(error, path);
  });
  const target = await claim(`${path}.part`, named, options);
  try {
    // The one whose `.part` was there before may have saved its video since the check.
    await checkFree(path, options.overwrite);
    return target;
  } catch (error) {
    await target.release();
    throw error;
  }
}

async function claim(firstPath: string, { output, nameOf }: Named, options: ClaimOptions): Promise<Target> {
  let partPath = firstPath;
  const part = await openPart(partPath, options);
  let isHeld = true;
  let isKept = false;
  return {
    place: output,
    part,
    partPath: () => resolve(partPath),
    async settle(naming) {
      const lasting = `${nameOf(naming)}.part`;
      if (lasting === partPath) return;
      await options.onPart?.(resolve(lasting));
      try {
        await rename(partPath, lasting);
      } catch (error) {
        throw outputError(error, nameOf(naming));
      }
      partPath = lasting;
    },
    keep() {
      isKept = true;
    },
    async commit(naming) {
      const path = nameOf(naming);
      try {
        await part.sync();
        if (options.overwrite) await rename(partPath, path);
        else await renameNew(partPath, path);
      } catch (error) {
        throw outputError(error, path);
      }
      isHeld = false;
      await part.close();
      return path;
    },
    async release() {
      if (!isHeld) return;
      isHeld = false;
      await part.close();
      if (!isKept) await rm(partPath, { force: true });
    },
  };
}

async function openPart(path: string, { unique, onPart, mayTakeOver }: ClaimOptions): Promise<FileHandle> {
  const isThere = (await kindOf(path)) !== "none";
  const checkOwner = async () => {
    if (!isThere || (await mayTakeOver?.(resolve(path)))) return;
    throw Object.assign(new Error("claimed"), { code: "EEXIST", path });
  };
  await checkOwner();
  await onPart?.(resolve(path));
  // Another may have come to the same end meanwhile: each sees what the other has written down.
  await checkOwner();
  return isThere ? takeOver(path, `${path}.${unique}`) : open(path, "wx+", 0o666);
}

/** Of several that try at once, one alone can move the file aside. */
async function takeOver(path: string, aside: string): Promise<FileHandle> {
  await rename(path, aside);
  try {
    await link(aside, path);
  } finally {
    await unlink(aside);
  }
  return open(path, "r+");
}

async function claimTemporary(): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), "vidgen-"));
  const named = { output: "-", nameOf: () => join(folder, "video.mp4") };
  const target = await claim(join(folder, "video.part"), named, { overwrite: true, unique: "" });
  return {
    ...target,
    async release() {
      await target.release();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The folder that `output` stands for, made if it has to be; `undefined` when it names a file. */
async function folderOf(output: string): Promise<string | undefined> {
  if (/[/\\]$/.test(output)) {
    await mkdir(output, { recursive: true });
    return output;
  }
  return (await kindOf(output)) === "folder" ? output : undefined;
}

/** Whether there is anything under this name, or somebody is about to save there. */
export async function isTaken(path: string): Promise<boolean> {
  return (await kindOf(path)) !== "none" || (await kindOf(`${path}.part`)) !== "none";
}

/** Whether several videos have room there: a folder that exists, or a name that ends in a slash. */
export async function isFolder(output: string): Promise<boolean> {
  return /[/\\]$/.test(output) || (await kindOf(output)) === "folder";
}

async function checkFree(path: string, overwrite: boolean): Promise<void> {
  const kind = await kindOf(path);
  if (kind === "none" || (kind === "file" && overwrite)) return;
  if (kind === "file") throw existsError(path);
  throw new VidgenError("output", `${path} is neither a file nor a folder.`);
}

/** A link counts as what it leads to, one that leads nowhere as a file: it must not be written over either. */
async function kindOf(path: string): Promise<"none" | "file" | "folder" | "other"> {
  const found = (await unlessMissing(stat(path))) ?? (await unlessMissing(lstat(path)));
  if (!found) return "none";
  if (found.isDirectory()) return "folder";
  return found.isFile() || found.isSymbolicLink() ? "file" : "other";
}

async function unlessMissing<Found>(looking: Promise<Found>): Promise<Found | undefined> {
  return looking.catch((error) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
}

/** Renames, but never over a file that has come into being since the check. */
async function renameNew(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (systemCode(error) === "EEXIST") throw existsError(to);
    // Some file systems have no hard links: the check is all there is.
    await checkFree(to, false);
    return rename(from, to);
  }
  await unlink(from);
}

function existsError(path: string): VidgenError {
  const hint = "--overwrite replaces it; -o names another place.";
  const cause = Object.assign(new Error("exists"), { code: "EEXIST" });
  return new VidgenError("output", `${path} exists.`, { hint, cause });
}

/** Whether a claim failed since the file is there, or somebody is about to save it. */
export function isExistsError(error: unknown): boolean {
  return error instanceof VidgenError && systemCode(error.cause) === "EEXIST";
}

/** A failed system call while saving, in words. */
export function outputError(error: unknown, path: string): VidgenError {
  if (error instanceof VidgenError) return error;
  const code = systemCode(error);
  const hint =
    code === "EEXIST" ? "Another vidgen may be saving there. If none is, delete that .part file." : undefined;
  const file = error instanceof Error && "path" in error ? String(error.path) : `${path}.part`;
  const reason = systemReason(error, {
    EEXIST: `${basename(file)} exists`,
    ENOENT: "the folder does not exist",
    EACCES: "no permission to write there",
  });
  return new VidgenError("output", `Cannot save ${path}: ${reason}.`, { hint, cause: error });
}

/** What to do where the folder that a file was to go to is not there. */
function withFolderHint(error: unknown, path: string): unknown {
  const folder = dirname(path);
  if (systemCode(error) !== "ENOENT" || folder === ".") return error;
  // A name that a shell would read as something else is left out.
  const command = /^[\w./][\w@%+=:,./-]*$/.test(folder) ? ` (mkdir -p ${folder})` : "";
  return outputError(error, path).with({
    hint: `Make it first${command}, or end -o in / for a folder that is made.`,
  });
}

/** The whole video that an earlier run has saved there for this generation; `undefined` when there is none. */
export async function findSaved(output: string, naming: Naming): Promise<string | undefined> {
  const byId = fillIn(output, { id: idWord(naming.id) });
  const path = (await isFolder(byId)) ? join(byId, fileName(naming)) : byId;
  const file = await open(path, "r").catch(() => undefined);
  if (!file) return undefined;
  const fault = await faultOfMp4(file).finally(() => file.close());
  return fault === undefined ? path : undefined;
}
