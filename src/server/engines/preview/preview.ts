import { once } from "node:events";
import { rm } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../../io.ts";
import type { Engine, RenderTask } from "../engine.ts";

/**
 * Returns the engine of the local service. It renders a moving background, or the request's images, under a caption, each clip in a worker
 * thread of its own, so that the service keeps answering. A render that fails or is aborted leaves no file.
 */
export function createPreviewEngine(
  clock: Pick<Clock, "sleep">,
  workerUrl = new URL("./worker.js", import.meta.url),
): Engine {
  const run = createWorkers(workerUrl, clock);
  return {
    async render(task, signal) {
      try {
        await run(task, signal);
      } catch (error) {
        await Promise.all([task.file, task.thumbnail].map((path) => rm(path, { force: true })));
        throw signal.aborted ? signal.reason : error;
      }
    },
  };
}

/** Longer than the pause between two clips of a queue. */
const maxIdleMs = 1_000;

/**
 * Returns a function that runs a task in a worker thread of its own. It rejects with the thread's error, or once the signal aborts; the
 * thread has ended by then. A thread that has finished its task is reused for the next one, because a new one takes half a second to load and
 * warm up its libraries, as long as a short clip takes to render. An idle thread is ended, because it holds 50 to 100 MB.
 */
function createWorkers(url: URL, clock: Pick<Clock, "sleep">) {
  const idle = new Map<Worker, AbortController>();

  const startWorker = (): Worker => {
    // The libraries may print; streams of its own keep the thread's output off the terminal.
    const worker = new Worker(url, { stdout: true, stderr: true });
    // An exit counts as an error, so that waiting for the thread's message ends with it.
    worker.once("exit", (code) => {
      idle.delete(worker);
      worker.emit("error", new Error(`The preview's worker thread ended with code ${code}.`));
    });
    // Without a listener, an error of a thread that is idle or being stopped would end the service.
    return worker.on("error", () => {});
  };
  const takeWorker = (): Worker => {
    const [kept] = idle;
    if (!kept) return startWorker();
    const [worker, idleTimer] = kept;
    idleTimer.abort();
    idle.delete(worker);
    return worker;
  };
  const keepWorker = (worker: Worker) => {
    const idleTimer = new AbortController();
    const end = () => {
      idle.delete(worker);
      worker.terminate();
    };
    idle.set(worker, idleTimer);
    clock.sleep(maxIdleMs, idleTimer.signal).then(end, () => {});
  };
  return async (task: RenderTask, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    const worker = takeWorker();
    try {
      worker.postMessage(task);
      await once(worker, "message", { signal });
      keepWorker(worker);
    } catch (error) {
      await worker.terminate();
      throw error;
    }
  };
}
