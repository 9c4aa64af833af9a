import { once } from "node:events";
import { rm } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { createCapacity } from "../../capacity.ts";
import { maxMegapixels, megapixelsOf } from "../../jobs/images.ts";
import { readPictureHeader } from "../../jobs/picture.ts";
import type { Engine, RenderTask } from "../engine.ts";

/**
 * Returns the engine of the local service. It renders a moving background, or the request's images, under a caption, each clip in a worker
 * thread of its own, so that the service keeps answering. The renders at one time decode no more megapixels together than one image may
 * have, which takes some 400 MB. A render that fails or is aborted leaves no file.
 */
export function createPreviewEngine(workerUrl = new URL("./worker.js", import.meta.url)): Engine {
  const decoding = createCapacity(maxMegapixels);
  return {
    async render(task, signal) {
      try {
        await decoding(largestMegapixels(task.images), () => runWorker(workerUrl, task, signal));
      } catch (error) {
        await Promise.all([task.file, task.thumbnail].map((path) => rm(path, { force: true })));
        throw signal.aborted ? signal.reason : error;
      }
    },
  };
}

/** A thread decodes its images one after the other, and keeps the memory that the largest took until it ends. */
function largestMegapixels(images: Uint8Array[]): number {
  return Math.max(0, ...images.map(readPictureHeader).map((header) => (header ? megapixelsOf(header) : 0)));
}

/** Runs a task in a new worker thread. Rejects with the thread's error, or once the signal aborts; the thread has ended by then. */
async function runWorker(url: URL, task: RenderTask, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // The libraries may print; streams of its own keep the thread's output off the terminal.
  const worker = new Worker(url, { workerData: task, stdout: true, stderr: true });
  // Without a listener, an error of a thread that is being stopped would end the service.
  worker.on("error", () => {});
  try {
    const [code] = await once(worker, "exit", { signal });
    if (code !== 0) throw new Error(`The preview's worker thread ended with code ${code}.`);
  } finally {
    await worker.terminate();
  }
}
