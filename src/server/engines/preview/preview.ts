import { rename, rm } from "node:fs/promises";
import type { Clock } from "../../../io.ts";
import type { Engine } from "../engine.ts";
import { createWorkers } from "./workers.ts";

/**
 * Returns the engine of the local service: it renders a moving background, or the request's images, with a caption, each clip in a
 * worker thread of its own, so that the service goes on answering. A clip and its thumbnail appear under their names when both are whole;
 * one that fails or is aborted leaves nothing.
 */
export function createPreviewEngine(
  clock: Pick<Clock, "sleep">,
  workerUrl = new URL("./worker.js", import.meta.url),
): Engine {
  const workers = createWorkers(workerUrl, clock);
  return {
    async render(task, signal) {
      const { file, thumbnail } = task;
      const parts = { file: `${file}.part`, thumbnail: `${thumbnail}.part` };
      try {
        await workers.run({ ...task, ...parts }, signal);
        await rename(parts.thumbnail, thumbnail);
        await rename(parts.file, file);
      } catch (error) {
        await Promise.all([parts.file, parts.thumbnail, thumbnail].map((left) => rm(left, { force: true })));
        throw signal.aborted ? signal.reason : error;
      }
    },
  };
}
