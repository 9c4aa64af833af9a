import { basename, dirname, join, resolve } from "node:path";
import type { Disk } from "../../io.ts";

/** The number of a file in its file system; a text where a number would be rounded, because the numbers of NTFS have 64 bits. */
export type FileId = number | string;

/** `found` must have been read with `bigint`. */
export function fileIdOf(found: { ino: bigint }): FileId {
  return found.ino > Number.MAX_SAFE_INTEGER ? String(found.ino) : Number(found.ino);
}

/** Identifies a file also through links and after a rename: by its path and its inode. */
export type FileIdentity = {
  /** Absolute, without symbolic links. */
  path: string;
  inode?: FileId | undefined;
  /** When the inode was created, in milliseconds, since numbers are reused. 0 if the file system does not record it. */
  born?: number | undefined;
};

/** Rejects with the system's error. */
export async function identify(file: string, disk: Disk): Promise<FileIdentity> {
  const path = await disk.realpath(file);
  const { birthtimeMs: born } = await disk.stat(path);
  return { path, inode: fileIdOf(await disk.stat(path, { bigint: true })), born };
}

export function isSameFile(one: FileIdentity | undefined, other: FileIdentity | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  if (one.path === other.path) return true;
  return one.inode !== undefined && one.inode === other.inode && one.born === other.born;
}

/** The absolute path without symbolic links, also of a file that does not exist yet. */
export async function findRealPath(file: string, disk: Pick<Disk, "realpath">): Promise<string> {
  const path = resolve(file);
  const found = await disk.realpath(path).catch(() => undefined);
  if (found !== undefined || dirname(path) === path) return found ?? path;
  return join(await findRealPath(dirname(path), disk), basename(path));
}

/** A full path, and whether its file system ignores letter case. */
export type FullPath = { path: string; foldsCase: boolean };

/**
 * The full path of an output path, without links, so that two spellings can be compared. A folder keeps its slash at
 * the end. `undefined` for "-". Changes nothing.
 */
async function findFullPath(outputPath: string | undefined, disk: Disk): Promise<FullPath | undefined> {
  if (outputPath === undefined || outputPath === "-") return undefined;
  const isFolder = await disk.stat(outputPath).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const fullPath = resolve(outputPath);
  const path = isFolder
    ? await findRealPath(fullPath, disk)
    : join(await findRealPath(dirname(fullPath), disk), basename(fullPath));
  return { path: path + (/[/\\]$/.test(outputPath) ? "/" : ""), foldsCase: await foldsCase(path, disk) };
}

/** Checks whether the nearest existing folder is also found by its name in the other case. */
async function foldsCase(path: string, disk: Disk): Promise<boolean> {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    const name = basename(folder);
    const otherName = name === name.toLowerCase() ? name.toUpperCase() : name.toLowerCase();
    const found = otherName === name ? undefined : await disk.stat(folder, { bigint: true }).catch(() => undefined);
    if (found === undefined) continue;
    return disk.stat(join(dirname(folder), otherName), { bigint: true }).then(
      ({ ino }) => ino === found.ino,
      () => false,
    );
  }
  return false;
}

/** An output path in the form that the journal keeps. */
export type RecordedOutput = { outputPath: string | undefined; fullPath: FullPath | undefined };

/** Redacts the path, because the journal never contains a key. */
export async function recordOutput(
  outputPath: string | undefined,
  redact: (text: string) => string,
  disk: Disk,
): Promise<RecordedOutput> {
  const full = await findFullPath(outputPath, disk);
  return {
    outputPath: outputPath === undefined ? undefined : redact(outputPath),
    fullPath: full && { ...full, path: redact(full.path) },
  };
}
