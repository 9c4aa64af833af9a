/** Runs work once its weight of a shared capacity is free. */
export type Capacity = <Result>(weight: number, work: () => Promise<Result>) => Promise<Result>;

/**
 * Creates a capacity that all work passed to it shares: each takes its weight until it has ended, and waits in order while too little is
 * free. Work that weighs more than all of it waits for all of it.
 */
export function createCapacity(total: number): Capacity {
  const waiting: { weight: number; start(): void }[] = [];
  let free = total;
  const startWaiting = () => {
    for (let next = waiting[0]; next && next.weight <= free; next = waiting[0]) {
      waiting.shift();
      free -= next.weight;
      next.start();
    }
  };
  return async (wanted, work) => {
    const weight = Math.min(wanted, total);
    await new Promise<void>((start) => {
      waiting.push({ weight, start });
      startWaiting();
    });
    try {
      return await work();
    } finally {
      free += weight;
      startWaiting();
    }
  };
}

/** What is known of the keys that were set last. */
export type Recent<Value> = Pick<Map<string, Value>, "get" | "has" | "delete"> & {
  set(key: string, value: Value): void;
};

/** Creates a map that forgets the oldest of its keys once it has more than `max`. */
export function createRecent<Value>(max: number): Recent<Value> {
  const entries = new Map<string, Value>();
  return {
    get: (key) => entries.get(key),
    has: (key) => entries.has(key),
    delete: (key) => entries.delete(key),
    set(key, value) {
      entries.delete(key);
      entries.set(key, value);
      const [oldest] = entries.keys();
      if (oldest !== undefined && entries.size > max) entries.delete(oldest);
    },
  };
}

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
