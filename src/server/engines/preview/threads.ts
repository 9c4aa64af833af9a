import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { listImages } from "../../store/generations.ts";
import type { RenderTask } from "../engine.ts";

/** How many idle threads are kept, each with some 60 MB. Even under load, there are rarely more than two. */
const maxIdle = 2;

/**
 * Returns a function that runs a task in a worker thread. The thread is kept for the next task, because a new one compiles its WebAssembly, which
 * takes longer than rendering a short clip. Rejects with the thread's error, or once the signal aborts; the thread has ended by then. An idle thread
 * does not keep the process alive.
 */
export function createThreads(url: URL): (task: RenderTask, signal: AbortSignal) => Promise<void> {
  const idle = new Set<Worker>();
  const openKeptThread = () => {
    const worker = openThread(url);
    worker.once("exit", () => idle.delete(worker));
    return worker;
  };
  return async (task, signal) => {
    signal.throwIfAborted();
    const [worker = openKeptThread()] = idle;
    idle.delete(worker);
    worker.ref();
    try {
      worker.postMessage(task);
      await untilDone(worker, signal);
    } catch (error) {
      await worker.terminate();
      throw error;
    }
    // WebAssembly never releases memory, and images need the most.
    if (listImages(task).length > 0 || idle.size === maxIdle) return void (await worker.terminate());
    worker.unref();
    idle.add(worker);
  };
}

function openThread(url: URL): Worker {
  // The libraries may print, so separate streams keep the thread's output off the terminal.
  const worker = new Worker(url, { stdout: true, stderr: true });
  for (const stream of [worker.stdout, worker.stderr]) stream.resume();
  // Without a listener, an error of a thread that is being terminated would end the service.
  worker.on("error", () => {});
  return worker;
}

/** Resolves when the thread says that its task is done; rejects with its error, when it ends, or when the signal aborts. */
async function untilDone(worker: Worker, signal: AbortSignal): Promise<void> {
  const taskEnd = new AbortController();
  const until = { signal: AbortSignal.any([signal, taskEnd.signal]) };
  try {
    const ended = once(worker, "exit", until).then(([code]) => {
      throw new Error(`The preview's worker thread ended with code ${code}.`);
    });
    await Promise.race([once(worker, "message", until), ended]);
  } finally {
    taskEnd.abort();
  }
}
