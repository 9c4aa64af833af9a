/** What one request body has of the memory for large bodies. */
export type MemoryShare = {
  /** Reserves more bytes. Returns false once this share was refused; it holds nothing then. */
  take(bytes: number): boolean;
  /** The body has arrived: it needs no more, and is not refused any more. */
  settle(): void;
  /** Frees all of it. */
  release(): void;
};

/**
 * Limits the memory of request bodies that arrive at once to `maxBytes`, and returns what opens a share for one body. When the memory runs out,
 * the body that began last is refused, so that the others can finish.
 */
export function createBodyMemory(maxBytes: number): () => MemoryShare {
  const open = new Set<MemoryShare>();
  let free = maxBytes;
  return () => {
    let [taken, isRefused] = [0, false];
    const share: MemoryShare = {
      take(bytes) {
        if (isRefused) return false;
        taken += bytes;
        free -= bytes;
        for (let last = [...open].at(-1); free < 0 && last; last = [...open].at(-1)) last.release();
        return !isRefused;
      },
      settle: () => void open.delete(share),
      release() {
        isRefused = true;
        free += taken;
        taken = 0;
        open.delete(share);
      },
    };
    open.add(share);
    return share;
  };
}
