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
