import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { models } from "../../client/models.ts";
import type { Clock } from "../../io.ts";
import { newDelivery } from "../callbacks/delivery.ts";
import type { Engine } from "../engines/engine.ts";
import type { Get } from "../outbound/outbound.ts";
import type { Delivery, Media, Store, StoredGeneration } from "../store/store.ts";
import { readDirectives } from "./directives.ts";
import { readImage } from "./images.ts";

export type Queue = {
  /** Adds a generation that is in the store at the end, unless it is in the queue already. */
  add(generation: { id: string }): void;
  /** Stops the jobs that run. They, and those that wait, stay unfinished in the store: the next process resumes them. */
  close(): Promise<void>;
};

/** How long a job takes: as long as rendering takes, or as long as the interface says (section 8). */
export type Pace = "fast" | "realistic";

export type QueueOptions = {
  store: Pick<Store, "generation" | "finish">;
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
};

/** Renders generations, oldest first (interface section 3: processing to completed or failed). A job is the rendering of one generation. */
export function createQueue(options: QueueOptions): Queue {
  const stop = new AbortController();
  // Every job listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const waiting: string[] = [];
  const known = new Set<string>();
  const running = new Set<Promise<void>>();
  let freeSlots = options.concurrency;

  const startJobs = () => {
    while (freeSlots > 0 && !stop.signal.aborted) {
      const id = waiting.shift();
      if (id === undefined) return;
      freeSlots--;
      // A job whose end the store rejects stays unfinished there; the other jobs continue.
      const job = runJob(id, stop.signal, { ...options, onRendered })
        .catch(() => {})
        .finally(() => running.delete(job) && known.delete(id));
      running.add(job);
    }
  };
  const onRendered = () => {
    freeSlots++;
    startJobs();
  };
  return {
    add({ id }) {
      if (known.has(id)) return;
      known.add(id);
      waiting.push(id);
      startJobs();
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      await Promise.all(running);
    },
  };
}

type JobOptions = QueueOptions & {
  /** Frees the slot: the job may still wait until its generation has taken its minimum time. */
  onRendered(): void;
};

async function runJob(id: string, signal: AbortSignal, options: JobOptions): Promise<void> {
  const { store, clock, pace, mediaUrl, onRendered, onEnd } = options;
  const generation = await store.generation(id).catch(() => undefined);
  const result = generation && (await render(generation, signal, options));
  onRendered();
  if (!result || signal.aborted) return;
  const elapsedMs = clock.date().getTime() - Date.parse(generation.created_at);
  const remainingMs = minDurationMs(generation, pace) - elapsedMs;
  if (remainingMs > 0) await clock.sleep(remainingMs, signal);
  const date = clock.date();
  const end = { ...result, completed_at: date.toISOString() };
  const delivery = newDelivery({ ...generation, ...end }, mediaUrl(), date);
  if (await store.finish(id, end, delivery)) onEnd(id, delivery);
}

async function render({ id, request }: StoredGeneration, signal: AbortSignal, options: QueueOptions) {
  try {
    const { fail } = readDirectives(request.prompt);
    if (fail !== undefined) throw new Error(fail);
    const images = await Promise.all(request.images.map((source) => readImage(source, options.get, signal)));
    const [file, thumbnail] = [join(options.folder, `${id}.mp4`), join(options.folder, `${id}.png`)];
    await options.engine.render({ request, images, file, thumbnail }, signal);
    return { status: "completed", error: null, media: { ...(await syncAndHash(file)), thumbnail } } as const;
  } catch (error) {
    return { status: "failed", error: reasonOf(error), media: null } as const;
  }
}

/** Never empty, because clients read it (interface 2.1). */
function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : thrown;
  return typeof reason === "string" && reason !== "" ? reason : "the model run did not succeed";
}

/** Syncs the video before the store says that there is one. */
async function syncAndHash(file: string): Promise<Omit<Media, "thumbnail">> {
  const handle = await open(file, "r+");
  try {
    const hash = createHash("sha256");
    await pipeline(createReadStream(file), hash);
    await handle.sync();
    return { file, size: (await handle.stat()).size, etag: `"${hash.digest("hex")}"` };
  } finally {
    await handle.close();
  }
}

/** Returns the minimum time from creation to end of a generation: with the realistic pace 1 to 3 minutes, depending on the model. */
function minDurationMs({ id, request }: StoredGeneration, pace: Pace): number {
  const { slowMs } = readDirectives(request.prompt);
  if (pace === "fast") return slowMs;
  const position = models.findIndex((model) => model.id === request.model) / (models.length - 1);
  const jitter = Number.parseInt(id.slice(0, 4), 16) / 0xffff;
  return Math.max(slowMs, 60_000 + position * 100_000 + jitter * 20_000);
}
