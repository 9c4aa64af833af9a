/** Something that happens at a time, unless it is cancelled before. */
export type Step = { at: number; order: number; run(): void };

export type Schedule = {
  /** Milliseconds since the story began, by the one true clock that nobody in it sees. */
  now(): number;
  /** Of the steps at one time, the one with the least `order` comes first. */
  add(step: Step): Step;
  cancel(step: Step): void;
  /** How many steps were taken. */
  taken(): number;
  /**
   * Takes one step after the other until none is left, `isOver` says so, or as many as `maxSteps` were taken. After each one all promises that
   * can go on have done so before the next is chosen.
   */
  run(isOver: () => boolean, maxSteps: number): Promise<void>;
};

/**
 * The one place that decides what happens next: the least time, then the least order. A binary heap, since a story has thousands of steps. While
 * `isBusy` says so, something goes on that takes no time, and the next step waits.
 *
 * Not the scheduler of fast-check, which is quick enough (11 microseconds a step): its tasks have no time, so that any of them may come next, the
 * end of a wait of a minute before that of a read. Half of the rules are about how long something took.
 */
export function createSchedule({ isBusy = () => false }: { isBusy?(): boolean } = {}): Schedule {
  const heap: Step[] = [];
  const cancelled = new Set<Step>();
  let now = 0;
  let taken = 0;

  const isBefore = (a: Step, b: Step) => a.at < b.at || (a.at === b.at && a.order < b.order);
  const at = (index: number) => heap[index] as Step;
  const swap = (a: number, b: number) => {
    const kept = at(a);
    heap[a] = at(b);
    heap[b] = kept;
  };
  const rise = (from: number) => {
    for (let index = from; index > 0; ) {
      const parent = (index - 1) >> 1;
      if (!isBefore(at(index), at(parent))) return;
      swap(index, parent);
      index = parent;
    }
  };
  const sink = () => {
    for (let index = 0; ; ) {
      const [left, right] = [2 * index + 1, 2 * index + 2];
      let least = index;
      if (left < heap.length && isBefore(at(left), at(least))) least = left;
      if (right < heap.length && isBefore(at(right), at(least))) least = right;
      if (least === index) return;
      swap(index, least);
      index = least;
    }
  };
  const next = (): Step | undefined => {
    for (;;) {
      const first = heap[0];
      const last = heap.pop();
      if (first === undefined || last === undefined) return undefined;
      if (first !== last) {
        heap[0] = last;
        sink();
      }
      if (!cancelled.delete(first)) return first;
    }
  };

  return {
    now: () => now,
    taken: () => taken,
    add(step) {
      heap.push(step);
      rise(heap.length - 1);
      return step;
    },
    cancel: (step) => void cancelled.add(step),
    run: (isOver, maxSteps) =>
      new Promise((resolve, reject) => {
        const takeOne = () => {
          const step = isOver() || taken >= maxSteps ? undefined : next();
          if (step === undefined) return resolve();
          taken++;
          now = Math.max(now, step.at);
          try {
            step.run();
          } catch (error) {
            return reject(error);
          }
          goOn();
        };
        // Node runs everything that waits for nothing else before the next immediate.
        const goOn = () => void setImmediate(() => (isBusy() ? goOn() : takeOne()));
        setImmediate(takeOne);
      }),
  };
}
