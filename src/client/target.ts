import { basename, dirname, resolve } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import type { Disk, DiskFile } from "../io.ts";
import { type Content, hasContent } from "./content.ts";
import { syncFolder } from "./lines.ts";
import type { Naming } from "./naming.ts";

/** A place for a video, claimed before anything is paid: the `.part` file exists and can be written. */
export type Target = {
  /** `-o` for the command that resumes this one. */
  outputPath: string;
  part: DiskFile;
  /** Where the `.part` is, as an absolute path. */
  partPath(): string;
  /** Renames the `.part` after the generation, once its id is known, so that a later process finds it. */
  settle(naming: Naming): Promise<void>;
  /** Makes `release` leave the `.part`: the download can be resumed. */
  keep(): void;
  /**
   * Renames the finished `.part`, which has this content, to the path of the video and returns that. Throws `output` when such a file has
   * appeared meanwhile, or when another program has replaced the `.part`.
   */
  commit(naming: Naming, content: Content): Promise<string>;
  /** Ends the claim and deletes the `.part`, unless that is another program's by now; does nothing after `commit`. */
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
   * without an owner. Returns the inode of one that is resumed. Deletes any other one, or returns `undefined` when it must be left alone.
   */
  own(partPath: string, file: { exists: boolean; id?: string | undefined }): Promise<Owned | undefined>;
};

export type Owned = { inode?: number | undefined };

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
  const { ino: inode } = await part.stat();
  let isHeld = true;
  let isKept = false;
  return {
    outputPath: output,
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
    async commit(naming, content) {
      const path = nameOf(naming);
      try {
        await part.sync();
        if (!(await hasContent(partPath, content, disk))) throw replacedError(partPath);
        const isLinked = !options.overwrite && (await linkNew(partPath, path, disk));
        if (!isLinked) await disk.rename(partPath, path);
        if (!(await hasContent(path, content, disk))) throw replacedError(path);
        // Another program may have put a file of its own there since. The video is saved, also where its first name stays.
        const left = isLinked ? await disk.lstat(partPath).catch(() => undefined) : undefined;
        if (left?.ino === inode) await disk.rm(partPath).catch(() => {});
        await syncFolder(dirname(path), disk);
      } catch (error) {
        throw outputError(error, path);
      }
      isHeld = false;
      await part.close().catch(() => {});
      return path;
    },
    async release() {
      if (!isHeld) return;
      isHeld = false;
      const found = await disk.lstat(partPath).catch(() => undefined);
      // Left where the system refuses to remove it: nothing is lost by that, and a later run of the same takes it over.
      if (found?.ino === inode && !isKept) await disk.rm(partPath, { force: true }).catch(() => {});
      // Closed last: until then no other file can have its inode.
      await part.close().catch(() => {});
    },
  };
}

async function openPart(path: string, { naming, own }: ClaimOptions, disk: Disk): Promise<DiskFile> {
  const exists = (await kindOf(path, disk)) !== "none";
  const owned = await own(resolve(path), { exists, id: naming?.id });
  if (!owned) throw claimedError(path);
  if (owned.inode === undefined) return disk.open(path, "wx+", 0o666);
  const part = await disk.open(path, "r+");
  if ((await part.stat()).ino === owned.inode) return part;
  await part.close();
  throw claimedError(path);
}

function claimedError(path: string): Error {
  return Object.assign(new Error("claimed"), { code: "EEXIST", path });
}

function replacedError(path: string): VidgenError {
  const hint = `Move ${path} away, or choose another name with -o.`;
  return new VidgenError("output", `Cannot save the video: another program has replaced ${path}.`, { hint });
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
  await ((await linkNew(from, to, disk)) ? disk.rm(from) : disk.rename(from, to));
}

/** Gives a file a second name, unless such a file exists: then it throws `output`. False on a file system without hard links. */
async function linkNew(from: string, to: string, disk: Disk): Promise<boolean> {
  try {
    await disk.link(from, to);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") throw existsError(to);
    // A check just before the rename is the best there is.
    await checkFree(to, false, disk);
    return false;
  }
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
    code === "EEXIST" ? "Another vidgen process may be saving it. If none is, move that .part file away." : undefined;
  const file = error instanceof Error && "path" in error ? String(error.path) : `${path}.part`;
  const reason = systemReason(error, {
    EEXIST: `${basename(file)} already exists`,
    ENOENT: "the folder does not exist",
    EACCES: "permission denied",
  });
  return new VidgenError("output", `Cannot save ${path}: ${reason}.`, { hint, cause: error });
}
