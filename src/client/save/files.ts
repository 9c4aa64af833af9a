import { basename } from "node:path";
import { systemCode, systemHint, systemReason, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";

/** Throws `output` if a file, folder or device exists at a path that must not be replaced. */
export async function checkFree(path: string, overwrite: boolean, disk: Disk): Promise<void> {
  const kind = await kindOf(path, disk);
  if (kind === "none" || (kind === "file" && overwrite)) return;
  if (kind === "file") throw existsError(path);
  const what = kind === "folder" ? "a folder, not a file" : "neither a file nor a folder";
  throw new VidgenError("output", `${path} is ${what}.`);
}

/** Throws `output` for a read-only file on Windows, where it cannot be replaced. */
export async function checkReplaceable(path: string, { disk, platform }: Pick<Io, "disk" | "platform">): Promise<void> {
  if (platform !== "win32" || (await kindOf(path, disk)) === "none") return;
  await disk.access(path, disk.constants.W_OK).catch((cause) => {
    const hint = "Make it writable, or choose another name with -o.";
    throw new VidgenError("output", `${path} is read-only: Windows does not let another file replace it.`, {
      hint,
      cause,
    });
  });
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

/** The bytes of a file. Rejects with the system's error. */
export async function readWhole(path: string, disk: Pick<Disk, "open">): Promise<Buffer> {
  const file = await disk.open(path, "r");
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Renames a file. Throws `output` if the new name exists. */
export async function renameNew(from: string, to: string, disk: Disk): Promise<void> {
  await ((await linkNew(from, to, disk)) ? disk.rm(from) : disk.rename(from, to));
}

/** Creates a hard link. Throws `output` if the name exists. Returns false on a file system without hard links. */
export async function linkNew(from: string, to: string, disk: Disk): Promise<boolean> {
  try {
    await disk.link(from, to);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") throw existsError(to);
    // Without hard links, a check just before the rename is the best protection.
    await checkFree(to, false, disk);
    return false;
  }
}

export function existsError(
  path: string,
  hint = "Add --overwrite to replace it, or choose another name with -o.",
): VidgenError {
  const cause = Object.assign(new Error("exists"), { code: "EEXIST" });
  return new VidgenError("output", `${path} already exists.`, { hint, cause });
}

/** Whether a claim failed because the file exists or is being saved. */
export function isExistsError(error: unknown): boolean {
  return error instanceof VidgenError && systemCode(error.cause) === "EEXIST";
}

/** Creates a folder and its parents for a video at `path`. Throws `output`. */
export async function createFolder(folder: string, path: string, disk: Pick<Disk, "mkdir">): Promise<void> {
  await disk.mkdir(folder, { recursive: true }).catch((error) => {
    if (systemCode(error) === "ENOENT") throw cannotCreateError(path, error);
    // A file with the name of the folder exists.
    const cause = systemCode(error) === "EEXIST" ? Object.assign(new Error("exists"), { code: "ENOTDIR" }) : error;
    throw outputError(cause, path);
  });
}

/** The error where the system allows no new files or folders, such as in /proc. */
export function cannotCreateError(path: string, cause: unknown): VidgenError {
  const hint = "The system allows no new files there; choose another folder with -o.";
  return new VidgenError("output", `Cannot save ${path}: no file can be created there.`, { hint, cause });
}

/** The error for a failed system call while saving. */
export function outputError(error: unknown, path: string): VidgenError {
  if (error instanceof VidgenError) return error;
  const code = systemCode(error);
  const hint =
    code === "EEXIST" ? "Another program may have created it: move that .part file away." : systemHint(error);
  const file = error instanceof Error && "path" in error ? String(error.path) : `${path}.part`;
  const reason = systemReason(error, {
    EEXIST: `${basename(file)} already exists`,
    ENOENT: "the folder does not exist",
    EACCES: "permission denied",
  });
  return new VidgenError("output", `Cannot save ${path}: ${reason}.`, { hint, cause: error });
}
