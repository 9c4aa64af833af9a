import { lstat, mkdtemp, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { acquireLease, type LeaseIo, readHolder } from "../../lease.ts";

/** A folder for unfinished files of this process. */
export type Scratch = { folder: string; close(): Promise<void> };

/** A younger folder may belong to a process that has not acquired its lease yet. */
const minAgeMs = 3_600_000;

/** Creates a folder for this process whose path begins with `start`, and removes the folders of processes that were killed. */
export async function openScratch(start: string, io: LeaseIo): Promise<Scratch> {
  const folder = await mkdtemp(start);
  const acquired = await acquireLease(leasePath(folder), io);
  const { uid } = await lstat(folder);
  const prefix = basename(start);
  for (const name of await readdir(dirname(start))) {
    // Another process may be removing the same folder.
    if (name.startsWith(prefix)) await removeStale(join(dirname(start), name), uid, io).catch(() => {});
  }
  return {
    folder,
    async close() {
      if (acquired.kind === "acquired") await acquired.lease.release();
      // A folder that cannot be removed now is removed by a later process.
      await rm(folder, { recursive: true, force: true }).catch(() => {});
    },
  };
}

/** Skips a folder of another user, who could replace it by a link while it is removed. */
async function removeStale(folder: string, uid: number, io: LeaseIo): Promise<void> {
  const stats = await lstat(folder);
  const isOld = io.date().getTime() - stats.mtimeMs > minAgeMs;
  if (stats.uid !== uid || !isOld || (await readHolder(leasePath(folder), io))) return;
  await rm(folder, { recursive: true, force: true });
}

function leasePath(folder: string): string {
  return join(folder, "process.lease");
}
