import { lstat, mkdtemp, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { acquireLease, type LeaseIo, readHolder } from "../../lease.ts";

/** A folder for the files that a process has not finished. */
export type Scratch = { folder: string; close(): Promise<void> };

/** A folder that is younger may belong to a process that has not acquired its lease yet. */
const minAgeMs = 3_600_000;

/** Makes a folder for this process, with a path that begins with `start`, and removes those that killed processes have left. */
export async function openScratch(start: string, io: LeaseIo): Promise<Scratch> {
  const folder = await mkdtemp(start);
  const acquired = await acquireLease(leaseOf(folder), io);
  const { uid } = await lstat(folder);
  const prefix = basename(start);
  for (const name of await readdir(dirname(start))) {
    // Another process may be removing it, too.
    if (name.startsWith(prefix)) await removeStale(join(dirname(start), name), uid, io).catch(() => {});
  }
  return {
    folder,
    async close() {
      if (acquired.kind === "acquired") await acquired.lease.release();
      // What cannot be removed now is removed by a later process.
      await rm(folder, { recursive: true, force: true }).catch(() => {});
    },
  };
}

/** The folder of another user is left alone: that user could replace it by a link while it is removed. */
async function removeStale(folder: string, uid: number, io: LeaseIo): Promise<void> {
  const stats = await lstat(folder);
  const isOld = io.date().getTime() - stats.mtimeMs > minAgeMs;
  if (stats.uid !== uid || !isOld || (await readHolder(leaseOf(folder), io))) return;
  await rm(folder, { recursive: true, force: true });
}

function leaseOf(folder: string): string {
  return join(folder, "process.lease");
}
