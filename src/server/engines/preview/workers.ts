import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../../io.ts";

export type Workers = {
  /**
   * Has a task done in a thread that does nothing else meanwhile. Rejects with the thread's error, or as soon as the signal aborts; the
   * thread has ended by then.
   */
  run(task: object, signal: AbortSignal): Promise<void>;
};

/** Longer than from the end of one clip of a queue to the beginning of the next. */
const restMs = 1_000;

/** Of JavaScript alone, which has little to keep here: left to itself, a heap grows before it is tidied. */
const resourceLimits = { maxYoungGenerationSizeMb: 4 };

/**
 * Threads that are sent a task and send something back when it is done. One that is done is kept for the task that comes next: to load its
 * libraries takes several times as long as a short clip. When none has worked for a second, none is kept.
 */
export function createWorkers(url: URL, clock: Pick<Clock, "sleep">): Workers {
  const idle = new Set<Worker>();
  let working = 0;
  let rest = new AbortController();

  const takeIdle = (): Worker | undefined => {
    const [worker] = idle;
    if (worker) idle.delete(worker);
    return worker;
  };
  const start = (): Worker => {
    // The libraries print to the streams of their thread; taking these keeps that off the terminal.
    const worker = new Worker(url, { stdout: true, stderr: true, resourceLimits });
    worker.stdout.resume();
    worker.stderr.resume();
    worker.once("exit", () => idle.delete(worker));
    // An error that comes while the worker is being stopped has nobody else to go to, and would end the service.
    return worker.on("error", () => {});
  };
  const endIdle = () => {
    for (const worker of idle) worker.terminate();
    idle.clear();
  };
  const endWhenRested = () => {
    rest = new AbortController();
    clock.sleep(restMs, rest.signal).then(endIdle, () => {});
  };
  return {
    async run(task, signal) {
      signal.throwIfAborted();
      const worker = takeIdle() ?? start();
      rest.abort();
      working++;
      try {
        await untilDone(worker, task, signal);
        idle.add(worker);
      } catch (error) {
        await worker.terminate();
        throw error;
      } finally {
        working--;
        if (working === 0) endWhenRested();
      }
    },
  };
}

async function untilDone(worker: Worker, task: object, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const options = { signal: AbortSignal.any([signal, done.signal]) };
  const exit = once(worker, "exit", options).then(([code]) => {
    throw new Error(`The preview's worker thread ended with code ${code}.`);
  });
  try {
    worker.postMessage(task);
    await Promise.race([once(worker, "message", options), exit]);
  } finally {
    done.abort();
  }
}
