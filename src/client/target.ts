import { basename, resolve } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import type { Disk, DiskFile } from "../io.ts";
import type { Naming } from "./naming.ts";

/** A place for a video, claimed before anything is paid: the `.part` file exists and can be written. */
export type Target = {
  /** `-o` for the command that resumes this one. */
  place: string;
  part: DiskFile;
  /** Where the `.part` is, as an absolute path. */
  partPath(): string;
  /** Renames the `.part` after the generation, once its id is known, so that a later process finds it. */
  settle(naming: Naming): Promise<void>;
  /** Makes `release` leave the `.part`: the download can be resumed. */
  keep(): void;
  /** Renames the finished `.part` to the path of the video and returns that. Throws `output` when such a file has appeared meanwhile. */
  commit(naming: Naming): Promise<string>;
  /** Ends the claim and deletes the `.part`; does nothing after `commit`. */
  release(): Promise<void>;
};

export type ClaimOptions = {
  overwrite: boolean;
  /** Part of the names of temporary files: no other claim has the same. */
  unique: string;
  /** Set when the generation exists already: then the file's name is known too. */
  naming?: Naming | undefined;
  /**
   * Called with the absolute path of a `.part` before it is created or taken over, to write down whose it is: a crash must not leave one
   * without an owner. Deletes one that cannot be resumed. Returns false when it must be left alone.
   */
  own(partPath: string, file: { exists: boolean; id?: string | undefined }): Promise<boolean>;
};

/** `-o` as it was typed, and the path of the file once the generation is known. */
export type Named = { output: string; nameOf(naming: Naming): string };

/** Creates a `.part` file, or takes over one that an ended process has left. */
export async function claimPart(
  firstPath: string,
  { output, nameOf }: Named,
  options: ClaimOptions,
  disk: Disk,
): Promise<Target> {
  let partPath = firstPath;
  const part = await openPart(partPath, options, disk);
  let isHeld = true;
  let isKept = false;
  return {
    place: output,
    part,
    partPath: () => resolve(partPath),
    async settle(naming) {
      const lasting = `${nameOf(naming)}.part`;
      if (lasting === partPath) return;
      const exists = (await kindOf(lasting, disk)) !== "none";
      // Under its first name the video can still be finished, though no later process would find it.
      if (!(await options.own(resolve(lasting), { exists, id: naming.id }))) return;
      try {
        await disk.rename(partPath, lasting);
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
        if (options.overwrite) await disk.rename(partPath, path);
        else await renameNew(partPath, path, disk);
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
      if (!isKept) await disk.rm(partPath, { force: true });
    },
  };
}

async function openPart(path: string, { naming, own }: ClaimOptions, disk: Disk): Promise<DiskFile> {
  const exists = (await kindOf(path, disk)) !== "none";
  if (!(await own(resolve(path), { exists, id: naming?.id })))
    throw Object.assign(new Error("claimed"), { code: "EEXIST", path });
  const isLeft = exists && (await kindOf(path, disk)) !== "none";
  return disk.open(path, isLeft ? "r+" : "wx+", 0o666);
}

/** Throws `output` when something exists there that must not be replaced. */
export async function checkFree(path: string, overwrite: boolean, disk: Disk): Promise<void> {
  const kind = await kindOf(path, disk);
  if (kind === "none" || (kind === "file" && overwrite)) return;
  if (kind === "file") throw existsError(path);
  throw new VidgenError("output", `${path} is neither a file nor a folder.`);
}

/** A link counts as its target; a dangling one counts as a file, which must not be overwritten either. */
export async function kindOf(path: string, disk: Disk): Promise<"none" | "file" | "folder" | "other"> {
  const found = (await unlessMissing(disk.stat(path))) ?? (await unlessMissing(disk.lstat(path)));
  if (!found) return "none";
  if (found.isDirectory()) return "folder";
  return found.isFile() || found.isSymbolicLink() ? "file" : "other";
}

function unlessMissing<Found>(found: Promise<Found>): Promise<Found | undefined> {
  return found.catch((error) => {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return undefined;
    throw error;
  });
}

/** Renames, but never over a file that exists. Throws `output` then. */
export async function renameNew(from: string, to: string, disk: Disk): Promise<void> {
  try {
    await disk.link(from, to);
  } catch (error) {
    if (systemCode(error) === "EEXIST") throw existsError(to);
    // A file system without hard links: a check just before the rename is the best there is.
    await checkFree(to, false, disk);
    return disk.rename(from, to);
  }
  await disk.rm(from);
}

function existsError(path: string): VidgenError {
  const hint = "Add --overwrite to replace it, or choose another name with -o.";
  const cause = Object.assign(new Error("exists"), { code: "EEXIST" });
  return new VidgenError("output", `${path} already exists.`, { hint, cause });
}

/** Whether a claim failed because the file exists or is being saved. */
export function isExistsError(error: unknown): boolean {
  return error instanceof VidgenError && systemCode(error.cause) === "EEXIST";
}

/** The error for a system call that failed while saving. */
export function outputError(error: unknown, path: string): VidgenError {
  if (error instanceof VidgenError) return error;
  const code = systemCode(error);
  const hint =
    code === "EEXIST" ? "Another vidgen process may be saving it. If none is, delete that .part file." : undefined;
  const file = error instanceof Error && "path" in error ? String(error.path) : `${path}.part`;
  const reason = systemReason(error, {
    EEXIST: `${basename(file)} already exists`,
    ENOENT: "the folder does not exist",
    EACCES: "permission denied",
  });
  return new VidgenError("output", `Cannot save ${path}: ${reason}.`, { hint, cause: error });
}
