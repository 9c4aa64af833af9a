import { randomBytes, randomUUID } from "node:crypto";
import { open, rm, stat, statfs } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { systemCode, systemReason } from "../../errors.ts";

/** More than a file system keeps beside a file's name. */
const trialBytes = 64 * 1024;

/**
 * Why nothing can be kept in a folder, which may have to be made first; `undefined` when it can. It is tried: a disk that is full, or a
 * quota that is used up, shows in nothing else.
 */
export async function whyNotKept(folder: string): Promise<string | undefined> {
  const place = await existing(folder);
  const path = join(place, `.vidgen-trial-${randomUUID()}`);
  try {
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(randomBytes(trialBytes));
      await file.sync();
    } finally {
      await file.close();
      await rm(path, { force: true });
    }
    return undefined;
  } catch (error) {
    return systemReason(error, { ENOENT: "it takes no files" });
  }
}

/** The free bytes of the file system that a folder is on, or will be. */
export async function freeBytesIn(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(await existing(folder));
  return bavail * bsize;
}

/** What to add to a line about a folder that is on another file system than the current one; else "". */
export async function roomElsewhere(folder: string): Promise<string> {
  try {
    const place = await existing(folder);
    const [there, here] = await Promise.all([stat(place), stat(resolve("."))]);
    return there.dev === here.dev ? "" : `; ${formatRoom(await freeBytesIn(place))} free there`;
  } catch {
    return "";
  }
}

/** Such as "0.40 GB". */
export function formatRoom(bytes: number): string {
  return `${(bytes / 1e9).toFixed(bytes < 1e10 ? 2 : 0)} GB`;
}

/** The folder, or the nearest one above it that is there. */
async function existing(folder: string): Promise<string> {
  const parent = dirname(folder);
  const isMissing = await stat(folder).then(
    () => false,
    (error) => systemCode(error) === "ENOENT",
  );
  return isMissing && parent !== folder ? existing(parent) : folder;
}
