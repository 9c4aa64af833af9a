import { basename, dirname, join, resolve } from "node:path";
import type { Disk } from "../../io.ts";

/** A file by all that it can be known by again: links, and new names, lead to the same inode. */
export type FileIdentity = {
  /** Absolute, without symbolic links. */
  path: string;
  inode?: number | undefined;
  /** When the inode was made, in milliseconds: a later file may get the same number. 0 where the file system does not tell. */
  born?: number | undefined;
};

/** Rejects with the system's error. */
export async function identify(file: string, disk: Disk): Promise<FileIdentity> {
  const path = await disk.realpath(file);
  const { ino: inode, birthtimeMs: born } = await disk.stat(path);
  return { path, inode, born };
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
