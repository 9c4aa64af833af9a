import { unlessAborted } from "./abort.ts";

export type Mutex = <Result>(work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

/** Runs what it is given one after the other, in the order of the calls. Rejects with the signal's reason when that aborts before its turn. */
export function createMutex(): Mutex {
  let last: Promise<unknown> = Promise.resolve();
  return (work, signal) => {
    const turn = signal ? unlessAborted(last, signal) : last;
    const result = turn.then(work);
    // What gives up before its turn does not let the next one overtake those before it.
    last = Promise.allSettled([last, result]).then(() => {});
    return result;
  };
}
