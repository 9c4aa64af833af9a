import { setImmediate } from "node:timers/promises";

/** An item to write; `reject` reports an error to its caller. */
export type BatchItem = { reject(error: unknown): void };

export type GroupCommit<Item> = {
  add(item: Item): void;
  /** Resolves when all waiting items are written; later ones are rejected. */
  close(): Promise<void>;
};

/**
 * Group commit: items added at about the same time, or while an earlier batch is written, form one batch and share one sync of the disk, which takes
 * 20 times as long as a change. Batches are written one after the other. When `write` rejects, all items of its batch are rejected, except those that
 * already have a result or an error of their own.
 */
export function createGroupCommit<Item extends BatchItem>(write: (batch: Item[]) => Promise<void>): GroupCommit<Item> {
  const waiting: Item[] = [];
  let flushing: Promise<void> | undefined;
  let isClosed = false;

  const flush = async () => {
    while (waiting.length > 0) {
      // Pending I/O callbacks run first, so that the items they add join this batch.
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
