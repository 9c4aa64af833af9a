/** Runs work when its weight is free in a shared capacity. */
export type Capacity = <Result>(weight: number, work: () => Promise<Result>) => Promise<Result>;

/**
 * Creates a capacity that is shared by all work passed to it. Each piece of work takes its weight until it has ended, and waits in order while too
 * little capacity is free. Work that is heavier than the whole capacity waits until all of it is free.
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
