/** The part of a budget that one taker has. */
export type Share = {
  /** Takes more. Returns false once the taker was refused, and has nothing any more. */
  take(amount: number): boolean;
  /** It takes no more, and is not refused any more. */
  settle(): void;
  /** Gives all of it back. */
  release(): void;
};

/** Creates a budget that many take of bit by bit. When there is too little, the taker that began last is refused, so that the others can end. */
export function createBudget(total: number): () => Share {
  const open = new Set<Share>();
  let free = total;
  return () => {
    let [taken, isRefused] = [0, false];
    const share: Share = {
      take(amount) {
        if (isRefused) return false;
        taken += amount;
        free -= amount;
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
