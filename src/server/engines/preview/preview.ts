import { once } from "node:events";
import { rename, rm } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import type { Engine, RenderTask } from "../engine.ts";

/**
 * Returns the engine of the local service: it renders a moving background, or the request's images, with a caption, each clip in a
 * worker thread of its own, so that the service goes on answering. A clip and its thumbnail appear under their names when both are whole;
 * one that fails or is aborted leaves nothing.
 */
export function createPreviewEngine(workerUrl = new URL("./worker.js", import.meta.url)): Engine {
  return {
    async render(task, signal) {
      const { file, thumbnail } = task;
      const parts = { file: `${file}.part`, thumbnail: `${thumbnail}.part` };
      try {
        await runWorker(workerUrl, { ...task, ...parts }, signal);
        await rename(parts.thumbnail, thumbnail);
        await rename(parts.file, file);
      } catch (error) {
        await Promise.all([parts.file, parts.thumbnail, thumbnail].map((left) => rm(left, { force: true })));
        throw signal.aborted ? signal.reason : error;
      }
    },
  };
}

/** Waits for the worker to end by itself; rejects with its error, or as soon as the signal aborts, and then stops it. */
async function runWorker(url: URL, task: RenderTask, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // The libraries print to the streams of their thread; taking these keeps that off the terminal.
  const worker = new Worker(url, { workerData: task, stdout: true, stderr: true });
  // An error that comes while the worker is being stopped has nobody else to go to, and would end the service.
  worker.on("error", () => {});
  try {
    const [code] = await once(worker, "exit", { signal });
    if (code !== 0) throw new Error(`The preview's worker thread ended with code ${code}.`);
  } finally {
    await worker.terminate();
  }
}
