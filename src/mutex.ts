import { unlessAborted } from "./abort.ts";

export type Mutex = <Result>(work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

/** Returns a function that runs calls one at a time, in order. Rejects with the signal's reason if it aborts before its turn. */
export function createMutex(): Mutex {
  let last: Promise<unknown> = Promise.resolve();
  return (work, signal) => {
    const turn = signal ? unlessAborted(last, signal) : last;
    const result = turn.then(work);
    // Also waits for `last`, because an aborted call must not let the next one start early.
    last = Promise.allSettled([last, result]).then(() => {});
    return result;
  };
}
