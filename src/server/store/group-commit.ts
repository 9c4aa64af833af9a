import { setImmediate } from "node:timers/promises";

/** What waits to be written: it hears of an error. */
export type BatchItem = { reject(error: unknown): void };

export type GroupCommit<Item> = {
  add(item: Item): void;
  /** Resolves when all that waits is written; what is added later is rejected. */
  close(): Promise<void>;
};

/**
 * Group commit: what is added at about the same time, and while an earlier batch is written, makes up one batch and shares one sync of the disk,
 * which takes 20 times as long as a change. GroupCommit are written one after the other. When `write` rejects, so do all in its batch, but for those
 * that have their result or an error of their own.
 */
export function createGroupCommit<Item extends BatchItem>(write: (batch: Item[]) => Promise<void>): GroupCommit<Item> {
  const waiting: Item[] = [];
  let flushing: Promise<void> | undefined;
  let isClosed = false;

  const flush = async () => {
    while (waiting.length > 0) {
      // The callbacks of pending I/O run first: what they add joins this batch.
      await setImmediate();
      const batch = waiting.splice(0);
      await write(batch).catch((error) => {
        for (const item of batch) item.reject(error);
      });
    }
    flushing = undefined;
  };
  return {
    add(item) {
      if (isClosed) return item.reject(new Error("the store is closed"));
      waiting.push(item);
      flushing ??= flush();
    },
    async close() {
      isClosed = true;
      await flushing;
    },
  };
}
