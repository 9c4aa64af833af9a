import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { models as knownModels } from "../../../protocol/models.ts";
import { createCapacity } from "../../capacity.ts";
import { maxMegapixels } from "../../media/picture.ts";
import { type Checkpoint, listImages } from "../../store/generations.ts";
import type { Engine } from "../engine.ts";
import { describeShapeFault } from "../frame-size.ts";
import { createThreads } from "./threads.ts";

const allModels = knownModels.map(({ id }) => id);

/** The number of processes that a rendering may crash, for example by using all memory, before the generation fails. */
const maxTries = 3;

export type PreviewOptions = { models?: Engine["models"]; concurrency?: number | undefined; workerUrl?: URL };

/**
 * Returns the embedded engine. It renders a moving background, or the request's images, under its references and a caption. Each clip is rendered
 * in a worker thread, so that the service keeps responding. Concurrent renders together decode at most as many megapixels as one image may have,
 * which takes some 400 MB. A render that fails or is aborted leaves no file.
 */
export function createPreviewEngine(options: PreviewOptions = {}): Engine {
  const { models = allModels, workerUrl = new URL("./worker.cjs", import.meta.url) } = options;
  const { concurrency = availableParallelism() } = options;
  const decoding = createCapacity(maxMegapixels);
  const run = createThreads(workerUrl);
  return {
    name: "preview",
    isSimulation: true,
    models,
    maxImages: 4,
    takesLastImage: true,
    maxReferences: 12,
    concurrency,
    timeoutMs: Number.POSITIVE_INFINITY,
    findFault: async (request) => describeShapeFault(request, { isPreview: true }),
    check: async () => "preview",
    async render(task, { resume, checkpoint, signal }) {
      const tries = triesOf(resume);
      try {
        if (tries === maxTries)
          throw new Error(`the local service ended ${maxTries} times while it rendered this video`);
        await checkpoint({ state: "rendering", tries: tries + 1 });
        // A thread decodes its images one after the other, and keeps the memory for the largest one until it ends.
        const megapixels = Math.max(0, ...listImages(task).map((image) => image.megapixels));
        await decoding(megapixels, () => run(task, signal));
        return { kind: "made", hasThumbnail: true };
      } catch (error) {
        // Failing to remove a file must not hide why the render ended; the next render replaces the file.
        await Promise.allSettled([task.file, task.thumbnail].map((path) => rm(path, { force: true })));
        if (!signal.aborted) throw error;
        // The process is stopping, which is not a fault of this video.
        await checkpoint({ state: "rendering", tries });
        throw signal.reason;
      }
    },
  };
}

function triesOf(checkpoint: Checkpoint | undefined): number {
  return checkpoint?.state === "rendering" ? checkpoint.tries : 0;
}
