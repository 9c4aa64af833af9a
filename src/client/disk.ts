import type { FileHandle } from "node:fs/promises";

export type Disk = {
  /** Resolves when all of a piece is in the file, with where it ends. */
  write(piece: Uint8Array, at: number): Promise<number>;
  /** Waits until nothing is under way: the file may be closed then. Rejects when the disk has not kept something. */
  settle(): Promise<void>;
};

/** What is written is sent to the disk each time it comes to this much. */
const syncBytes = 64 * 1024 * 1024;

/**
 * Writes to a file, and has the disk work meanwhile, so that the sync at the end is a short one. A failure of that is told by the next
 * `write` and by each `settle`: the system tells it once, and the sync at the end would not hear of it.
 */
export function createDisk(file: Pick<FileHandle, "write" | "datasync">): Disk {
  let unsynced = 0;
  let syncing: Promise<void> | undefined;
  let failure: { error: unknown } | undefined;
  const check = () => {
    if (failure) throw failure.error;
  };
  const sync = async () => {
    try {
      await file.datasync();
    } catch (error) {
      failure ??= { error };
    }
    syncing = undefined;
  };
  return {
    async write(piece, at) {
      check();
      for (let done = 0; done < piece.byteLength; ) {
        const { bytesWritten } = await file.write(piece, done, piece.byteLength - done, at + done);
        done += bytesWritten;
      }
      unsynced += piece.byteLength;
      if (unsynced >= syncBytes && !syncing) {
        unsynced = 0;
        syncing = sync();
      }
      return at + piece.byteLength;
    },
    async settle() {
      await syncing;
      check();
    },
  };
}
