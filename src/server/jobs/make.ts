import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock } from "../../io.ts";
import { isUnavailable, type OnTrouble } from "../api/message.ts";
import { type Capacity, createCapacity } from "../capacity.ts";
import type { Checkpoint, Engine, RenderOptions, RenderTask } from "../engines/engine.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Get } from "../outbound/outbound.ts";
import type { Media, Store, StoredGeneration } from "../store/store.ts";
import { readDirectives } from "./directives.ts";
import { isData, saveImages } from "./images.ts";

export type MakeOptions = {
  store: Pick<Store, "generation" | "keepCheckpoint">;
  /** Fetches the images of a request. */
  get: Get;
  videos: MediaStore;
  clock: Pick<Clock, "date" | "sleep">;
  signal: AbortSignal;
  onTrouble: OnTrouble;
};

/** An engine with its room for jobs. */
export type Place = {
  engine: Engine;
  jobs: number;
  rendering: Capacity;
  /** For jobs whose images are fetched: those that fetch, whose images wait on the disk, or that are rendered. */
  ahead: Capacity;
  fetching: Capacity;
  loading: Capacity;
};

/** So many jobs of an engine may have their images fetched while others are rendered. */
const maxAhead = 4;

/** So many jobs of an engine may have their request and images in memory at the same time, however many it makes at once. */
const maxLoading = 4;

export function createPlace(engine: Engine): Place {
  const { concurrency } = engine;
  return {
    ...{ engine, jobs: 0, rendering: createCapacity(concurrency), ahead: createCapacity(concurrency + maxAhead) },
    // Apart, so that a slow server of images delays no job that has its images in its request.
    ...{ fetching: createCapacity(maxLoading), loading: createCapacity(maxLoading) },
  };
}

/** Where a generation is made, and whether its images are fetched first; without a place, why, and in how many milliseconds it fails. */
export type Assignment = { place: Place; isFetched: boolean } | { place: undefined; reason: string; failsInMs: number };

/** Time for the owner to see that an engine is missing, and to start the service with it. */
const maxWaitMs = 30 * 60_000;

/** Assigns a generation to the engine that has its job, else to the least busy of those that serve its model. */
export function assign({ request, checkpoint }: StoredGeneration, places: readonly Place[]): Assignment {
  if (checkpoint?.state === "submitting") {
    const reason = unclearReason(checkpoint.engine);
    return { place: undefined, reason, failsInMs: 0 };
  }
  if (checkpoint?.state === "submitted") {
    const place = places.find(({ engine }) => engine.name === checkpoint.engine);
    if (place) return { place, isFetched: false };
    const reason = `the local service no longer uses ${checkpoint.engine}, which makes this video`;
    return { place, reason, failsInMs: maxWaitMs };
  }
  const able = places.filter(({ engine: { models, maxImages, isSimulation } }) => {
    if (request.isReal && isSimulation) return false;
    return models.includes(request.model) && request.images.length <= maxImages;
  });
  const [place] = able.sort((a, b) => a.jobs / a.engine.concurrency - b.jobs / b.engine.concurrency);
  if (place) return { place, isFetched: request.images.some((source) => !isData(source)) };
  return { place, reason: `no engine of the local service serves ${request.model}`, failsInMs: maxWaitMs };
}

function unclearReason(engine: string): string {
  return `the local service ended while it submitted this video to ${engine}, which may be making it; it was not submitted again`;
}

/** Makes a generation's video at its place, and resolves when it is kept. Rejects, and leaves no file, when it cannot be made. */
export async function makeVideo(
  id: string,
  assignment: Assignment,
  options: MakeOptions & Pick<RenderOptions, "progress">,
): Promise<Media> {
  const { imageFolder, file, thumbnail } = pathsOf(id, options.videos);
  // An earlier process may have left them, too.
  const remove = (what: string, path: string) =>
    rm(path, { recursive: true, force: true }).catch((error) =>
      options.onTrouble(`${what} of the generation ${id} could not be removed`, error),
    );
  try {
    if (!assignment.place) throw await failLater(id, assignment, options);
    return await makeAt(assignment.place, id, { ...options, isFetched: assignment.isFetched });
  } catch (error) {
    // A process that has taken over the folder may be writing them.
    if (!options.signal.aborted) await Promise.all([file, thumbnail].map((path) => remove("A file", path)));
    throw error;
  } finally {
    await remove("The images", imageFolder);
  }
}

function pathsOf(id: string, { scratch }: MediaStore) {
  const start = join(scratch, id);
  return { file: `${start}.mp4`, thumbnail: `${start}.png`, imageFolder: `${start}.images` };
}

/** Resolves with the error when the generation has waited long enough for a process with its engine. */
async function failLater(
  id: string,
  { reason, failsInMs }: Assignment & { place: undefined },
  { clock, signal, onTrouble }: MakeOptions,
): Promise<Error> {
  const error = new Error(reason);
  if (failsInMs > 0) onTrouble(`The generation ${id} waits for an engine`, error);
  await clock.sleep(failsInMs, signal);
  return error;
}

async function makeAt(
  place: Place,
  id: string,
  { isFetched, ...options }: MakeOptions & Pick<RenderOptions, "progress"> & { isFetched: boolean },
): Promise<Media> {
  const { engine, rendering, ahead, fetching, loading } = place;
  const prepare = () => prepareTask(id, engine, options);
  place.jobs++;
  try {
    if (!isFetched) return await rendering(1, async () => render(await loading(1, prepare), engine, options));
    // Images are fetched before there is room to render, so that a slow server of images delays no other job.
    return await ahead(1, async () => {
      const task = await fetching(1, prepare);
      return rendering(1, () => render(task, engine, options));
    });
  } finally {
    place.jobs--;
  }
}

type Task = RenderTask & Pick<RenderOptions, "resume"> & { id: string };

/** Images are kept in files: those of a request may have 28 MB in memory, and a job may take hours. */
async function prepareTask(id: string, engine: Engine, options: MakeOptions): Promise<Task> {
  const { request, checkpoint } = await findGeneration(id, options);
  const { images, isReal: _, hasDirectives: __, ...rest } = request;
  const { fail } = readDirectives(request);
  if (fail !== undefined) throw new Error(fail);
  if (checkpoint?.state === "submitting") throw new Error(unclearReason(checkpoint.engine));
  const resume = checkpoint?.engine === engine.name ? checkpoint : undefined;
  const { imageFolder, ...files } = pathsOf(id, options.videos);
  return {
    ...{ id, request: rest, resume },
    images: resume?.state === "submitted" ? [] : await saveImages(images, imageFolder, options),
    ...files,
  };
}

async function render(
  { id, resume, ...task }: Task,
  engine: Engine,
  { store, videos, progress, ...options }: MakeOptions & Pick<RenderOptions, "progress">,
): Promise<Media> {
  const { clock, signal } = options;
  const checkpoint = async (state: Checkpoint | null) => {
    const kept = state && { ...state, engine: engine.name, at: clock.date().toISOString() };
    const keep = () => store.keepCheckpoint(id, kept);
    // A job that is being stopped has one try.
    await (signal.aborted ? keep() : insist(keep, options));
  };
  const { hasThumbnail } = await engine.render(task, { resume, checkpoint, progress, signal });
  const { file } = task;
  const video = { ...(await describeVideo(file)), file, thumbnail: hasThumbnail ? task.thumbnail : null };
  return insist(() => videos.keep(video, signal), { ...options, what: "The video cannot be kept" });
}

async function describeVideo(file: string): Promise<Pick<Media, "size" | "etag">> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return { size: (await stat(file)).size, etag: `"${hash.digest("hex")}"` };
}

export async function findGeneration(id: string, options: MakeOptions): Promise<StoredGeneration> {
  const generation = await insist(() => options.store.generation(id), options);
  if (!generation) throw new Error(`the store has no generation ${id}`);
  return generation;
}

const maxRetryMs = 60_000;

/**
 * Retries what the database or the media store rejects, as they do while a disk is full or another machine is away: else the video would be
 * made again at the next poll.
 */
export async function insist<Result>(
  work: () => Promise<Result>,
  { clock, signal, onTrouble, what }: Pick<MakeOptions, "clock" | "signal" | "onTrouble"> & { what?: string },
): Promise<Result> {
  for (let retryMs = 1_000; ; retryMs = Math.min(2 * retryMs, maxRetryMs)) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      // A database on another machine tells of its outage itself, once for all generations.
      if (what !== undefined || !isUnavailable(error))
        onTrouble(`${what ?? "The database cannot be used"}; retrying in ${retryMs / 1_000} s`, error);
      await clock.sleep(retryMs, signal);
    }
  }
}
