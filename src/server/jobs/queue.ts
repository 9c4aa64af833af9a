import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { models } from "../../client/models.ts";
import type { Clock } from "../../io.ts";
import type { OnTrouble } from "../api/message.ts";
import { newDelivery } from "../callbacks/delivery.ts";
import { type Capacity, createCapacity } from "../capacity.ts";
import type { Engine, RenderTask } from "../engines/engine.ts";
import type { Get } from "../outbound/outbound.ts";
import type { Delivery, Media, Store, StoredGeneration } from "../store/store.ts";
import { syncFile, syncFolder } from "../store/sync.ts";
import { readDirectives } from "./directives.ts";
import { isData, readImage } from "./images.ts";

export type Queue = {
  /** Adds a generation that is in the store at the end, unless it is in the queue already. */
  add(generation: Pick<StoredGeneration, "id" | "request">): void;
  /** Stops the jobs that run. They, and those that wait, stay unfinished in the store: the next process resumes them. */
  close(): Promise<void>;
};

/** How long a job takes: as long as rendering takes, or as long as the interface says (section 8). */
export type Pace = "fast" | "realistic";

export type QueueOptions = {
  store: Pick<Store, "generation" | "beginTry" | "undoTry" | "finish">;
  engine: Engine;
  /** Fetches the images of a request. */
  get: Get;
  /** The folder of the videos. */
  folder: string;
  /** How many jobs render at the same time. */
  concurrency: number;
  pace: Pace;
  clock: Pick<Clock, "date" | "sleep">;
  mediaUrl(): string;
  /** Called for each generation that has ended, with the delivery of its callback if it has one. */
  onEnd(id: string, delivery: Delivery | undefined): void;
  onTrouble: OnTrouble;
};

/** How often a rendering may end its process, as one that takes all memory does, before the generation fails. */
const maxTries = 3;

/** So many jobs may fetch images while others render: a fetch needs no processor, but its images are kept in memory. */
const maxFetching = 4;

/** Renders generations, oldest first (interface section 3: processing to completed or failed). A job is the rendering of one generation. */
export function createQueue(options: QueueOptions): Queue {
  const stop = new AbortController();
  // Every job listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const jobs = new Map<string, Promise<void>>();
  const jobOptions = {
    ...{ ...options, signal: stop.signal },
    ...{ rendering: createCapacity(options.concurrency), fetching: createCapacity(options.concurrency + maxFetching) },
  };
  return {
    add({ id, request }) {
      if (jobs.has(id) || stop.signal.aborted) return;
      const isFetched = request.images.some((source) => !isData(source));
      const job = runJob(id, isFetched, jobOptions)
        .catch((error) => {
          // A job that is stopped stays unfinished in the store.
          if (!stop.signal.aborted) options.onTrouble(`The generation ${id} could not be finished`, error);
        })
        .finally(() => jobs.delete(id));
      jobs.set(id, job);
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      await Promise.all(jobs.values());
    },
  };
}

type JobOptions = QueueOptions & { signal: AbortSignal; rendering: Capacity; fetching: Capacity };

async function runJob(id: string, isFetched: boolean, options: JobOptions): Promise<void> {
  const { store, clock, pace, mediaUrl, onEnd, signal } = options;
  const result = await makeVideo(id, isFetched, options).then(
    (media) => ({ status: "completed", error: null, media }) as const,
    (error) => ({ status: "failed", error: reasonOf(error), media: null }) as const,
  );
  const generation = await findGeneration(id, options);
  const elapsedMs = clock.date().getTime() - Date.parse(generation.created_at);
  const remainingMs = minDurationMs(generation, pace) - elapsedMs;
  if (remainingMs > 0) await clock.sleep(remainingMs, signal);
  const date = clock.date();
  const end = { ...result, completed_at: date.toISOString() };
  const delivery = newDelivery({ ...generation, ...end }, mediaUrl(), date);
  if (await insist(() => store.finish(id, end, delivery), options)) onEnd(id, delivery);
}

/** Makes a generation's video. Images are fetched before there is room to render, so that a slow server of images delays no other job. */
function makeVideo(id: string, isFetched: boolean, options: JobOptions): Promise<Media> {
  const { rendering, fetching, get, signal } = options;
  const prepare = async () => {
    const { request } = await findGeneration(id, options);
    const { fail } = readDirectives(request.prompt);
    if (fail !== undefined) throw new Error(fail);
    return { request, images: await Promise.all(request.images.map((source) => readImage(source, get, signal))) };
  };
  if (!isFetched) return rendering(1, async () => render(id, await prepare(), options));
  return fetching(1, async () => {
    const task = await prepare();
    return rendering(1, () => render(id, task, options));
  });
}

async function render(
  id: string,
  task: Pick<RenderTask, "request" | "images">,
  { store, engine, folder, signal, ...options }: JobOptions,
): Promise<Media> {
  const [file, thumbnail] = [`${id}.mp4`, `${id}.png`];
  const tries = await insist(() => store.beginTry(id), { ...options, signal });
  if (tries > maxTries) {
    // The last process may have left files that are not whole.
    for (const name of [file, thumbnail]) await rm(join(folder, name), { force: true });
    throw new Error(`the local service ended ${maxTries} times while it rendered this video`);
  }
  try {
    await engine.render({ ...task, file: join(folder, file), thumbnail: join(folder, thumbnail) }, signal);
    await syncFile(join(folder, thumbnail));
    const video = await syncAndHash(join(folder, file));
    await syncFolder(folder);
    return { ...video, file, thumbnail };
  } finally {
    // The process was asked to end: that is no fault of this video.
    if (signal.aborted) await store.undoTry(id);
  }
}

async function findGeneration(id: string, options: JobOptions): Promise<StoredGeneration> {
  const generation = await insist(() => options.store.generation(id), options);
  if (!generation) throw new Error(`the store has no generation ${id}`);
  return generation;
}

const maxRetryMs = 60_000;

/** Retries what the store rejects, as it does while the disk is full: else the video would be rendered again at the next poll. */
async function insist<Result>(
  work: () => Promise<Result>,
  { clock, signal, onTrouble }: Pick<JobOptions, "clock" | "signal" | "onTrouble">,
): Promise<Result> {
  for (let retryMs = 1_000; ; retryMs = Math.min(2 * retryMs, maxRetryMs)) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      onTrouble(`The database cannot be used; retrying in ${retryMs / 1_000} s`, error);
      await clock.sleep(retryMs, signal);
    }
  }
}

/** Never empty, because clients read it (interface 2.1). */
function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : thrown;
  return typeof reason === "string" && reason !== "" ? reason : "the model run did not succeed";
}

/** The store says only then that there is a video. */
async function syncAndHash(file: string): Promise<Pick<Media, "size" | "etag">> {
  await syncFile(file);
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return { size: (await stat(file)).size, etag: `"${hash.digest("hex")}"` };
}

/** Returns the minimum time from creation to end of a generation: with the realistic pace 1 to 3 minutes, depending on the model. */
function minDurationMs({ id, request }: StoredGeneration, pace: Pace): number {
  const { slowMs } = readDirectives(request.prompt);
  if (pace === "fast") return slowMs;
  const position = models.findIndex((model) => model.id === request.model) / (models.length - 1);
  const jitter = Number.parseInt(id.slice(0, 4), 16) / 0xffff;
  return Math.max(slowMs, 60_000 + position * 100_000 + jitter * 20_000);
}
