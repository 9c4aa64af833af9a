import { once } from "node:events";
import { rename, rm } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../../io.ts";
import type { Engine, RenderTask } from "../engine.ts";

/**
 * Returns the engine of the local service. It renders a moving background, or the request's images, under a caption, each clip in a worker
 * thread of its own, so that the service keeps answering. A clip and its thumbnail appear under their names when both are complete; a render
 * that fails or is aborted leaves no file.
 */
export function createPreviewEngine(
  clock: Pick<Clock, "sleep">,
  workerUrl = new URL("./worker.js", import.meta.url),
): Engine {
  const run = createWorkers(workerUrl, clock);
  return {
    async render(task, signal) {
      const { file, thumbnail } = task;
      const partial = { file: `${file}.part`, thumbnail: `${thumbnail}.part` };
      try {
        await run({ ...task, ...partial }, signal);
        await rename(partial.thumbnail, thumbnail);
        await rename(partial.file, file);
      } catch (error) {
        await Promise.all([partial.file, partial.thumbnail, thumbnail].map((path) => rm(path, { force: true })));
        throw signal.aborted ? signal.reason : error;
      }
    },
  };
}

/** Longer than the pause between two clips of a queue. */
const maxIdleMs = 1_000;

/**
 * Returns a function that has a task done in a worker thread, which does nothing else meanwhile. It rejects with the thread's error, or once
 * the signal aborts; the thread has ended by then. A thread that is done is kept for the next task, because a new one takes half a second to
 * load and warm up its libraries, as long as a short clip takes to render. A thread that stays idle ends, because it holds 50 to 100 MB.
 */
function createWorkers(url: URL, clock: Pick<Clock, "sleep">) {
  const idle = new Map<Worker, AbortController>();

  const startWorker = (): Worker => {
    // The libraries may print; streams of its own keep the thread's output off the terminal.
    const worker = new Worker(url, { stdout: true, stderr: true });
    worker.once("exit", () => idle.delete(worker));
    // Without this listener an error that comes while the thread is being stopped would end the service.
    return worker.on("error", () => {});
  };
  const takeWorker = (): Worker => {
    const [kept] = idle;
    if (!kept) return startWorker();
    const [worker, rest] = kept;
    rest.abort();
    idle.delete(worker);
    return worker;
  };
  const keepWorker = (worker: Worker) => {
    const rest = new AbortController();
    const end = () => {
      idle.delete(worker);
      worker.terminate();
    };
    idle.set(worker, rest);
    clock.sleep(maxIdleMs, rest.signal).then(end, () => {});
  };
  return async (task: RenderTask, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    const worker = takeWorker();
    try {
      worker.postMessage(task);
      await waitUntilDone(worker, signal);
      keepWorker(worker);
    } catch (error) {
      await worker.terminate();
      throw error;
    }
  };
}

async function waitUntilDone(worker: Worker, signal: AbortSignal): Promise<void> {
  const settled = new AbortController();
  const options = { signal: AbortSignal.any([signal, settled.signal]) };
  const exit = once(worker, "exit", options).then(([code]) => {
    throw new Error(`The preview's worker thread ended with code ${code}.`);
  });
  try {
    await Promise.race([once(worker, "message", options), exit]);
  } finally {
    settled.abort();
  }
}
