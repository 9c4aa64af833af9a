import { setMaxListeners } from "node:events";
import { models } from "../../client/models.ts";
import { newDelivery } from "../callbacks/delivery.ts";
import type { Engine } from "../engines/engine.ts";
import type { Delivery, Store, StoredGeneration } from "../store/store.ts";
import { readDirectives } from "./directives.ts";
import { type Assignment, assign, createPlace, findGeneration, insist, type MakeOptions, makeVideo } from "./make.ts";

export type Queue = {
  /** Adds a generation that is in the store at the end, unless it is in the queue already. Does nothing when a shared database hands them out. */
  add(generation: StoredGeneration): void;
  /** Makes a generation, unless it is in the queue already, and resolves when it has ended, or is left to another process: at a stop, or `lost`. */
  make(generation: StoredGeneration, lost?: AbortSignal): Promise<void>;
  /** Whether it can end a generation: one of its engines can make it, or none may. */
  canMake(generation: StoredGeneration): boolean;
  /** How many more generations its engines can make now. */
  room(): number;
  /** How much of a video is made, in percent; `undefined` when its engine has not told. */
  progressOf(id: string): number | undefined;
  /** Stops the jobs that run. They, and those that wait, stay unfinished in the store: the next process resumes them. */
  close(): Promise<void>;
};

/** How long the preview takes for a generation: as long as rendering takes, or as long as the interface says (section 8). */
export type Pace = "fast" | "realistic";

export type QueueOptions = Omit<MakeOptions, "signal"> & {
  store: Pick<Store, "finish">;
  engines: readonly Engine[];
  pace: Pace;
  /** Whether other processes make generations of the same store. */
  isShared?: boolean;
  mediaUrl(): string;
  /** Called for each generation that has ended, with the delivery of its callback if it has one. */
  onEnd(id: string, delivery: Delivery | undefined): void;
  onProgress?: ((id: string, percent: number) => void) | undefined;
};

/** Makes generations, oldest first (interface section 3: processing to completed or failed). A job is the making of one generation. */
export function createQueue(options: QueueOptions): Queue {
  const stop = new AbortController();
  // Every job listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const places = options.engines.map(createPlace);
  const capacity = places.reduce((sum, { engine }) => sum + engine.concurrency, 0);
  const jobs = new Map<string, Promise<void>>();
  const percents = new Map<string, number>();
  /** What the owner was told that the engines of this process cannot make. */
  const lacks = new Set<string>();
  // Without the generation: a request may have 28 MB, and a job may take hours.
  const run = async (id: string, assignment: Assignment, signal: AbortSignal) => {
    const progress = (percent: number) => {
      percents.set(id, percent);
      options.onProgress?.(id, percent);
    };
    try {
      await runJob(id, assignment, { ...options, signal, progress });
    } catch (error) {
      // A job that is stopped stays unfinished in the store.
      if (!signal.aborted) options.onTrouble(`The generation ${id} could not be finished`, error);
    } finally {
      jobs.delete(id);
      percents.delete(id);
    }
  };
  const make: Queue["make"] = (generation, lost) => {
    const { id } = generation;
    const known = jobs.get(id);
    if (known || stop.signal.aborted) return known ?? Promise.resolve();
    const job = run(id, assign(generation, places), lost ? AbortSignal.any([stop.signal, lost]) : stop.signal);
    jobs.set(id, job);
    return job;
  };
  return {
    add: (generation) => void (options.isShared || make(generation)),
    make,
    canMake(generation) {
      const assignment = assign(generation, places);
      if (assignment.place || assignment.failsInMs === 0) return true;
      const { reason } = assignment;
      if (!lacks.has(reason))
        options.onTrouble(`The generation ${generation.id} is left to other processes`, new Error(reason));
      lacks.add(reason);
      return false;
    },
    room: () => capacity - jobs.size,
    progressOf: (id) => percents.get(id),
    async close() {
      stop.abort(new Error("the service is stopping"));
      await Promise.all(jobs.values());
    },
  };
}

type JobOptions = QueueOptions & { signal: AbortSignal; progress(percent: number): void };

async function runJob(id: string, assignment: Assignment, options: JobOptions): Promise<void> {
  const { store, clock, mediaUrl, onEnd, signal } = options;
  const result = await makeVideo(id, assignment, options).then(
    (media) => ({ status: "completed", error: null, media }) as const,
    (error) => ({ status: "failed", error: reasonOf(error), media: null }) as const,
  );
  const generation = await findGeneration(id, options);
  const pace = assignment.place?.engine.isSimulation ? options.pace : "fast";
  const elapsedMs = clock.date().getTime() - Date.parse(generation.created_at);
  const remainingMs = minDurationMs(generation, pace) - elapsedMs;
  if (remainingMs > 0) await clock.sleep(remainingMs, signal);
  const date = clock.date();
  const end = { ...result, completed_at: date.toISOString() };
  const delivery = newDelivery({ ...generation, ...end }, mediaUrl(), date);
  if (await insist(() => store.finish(id, end, delivery), options)) onEnd(id, delivery);
}

/** Never empty, because clients read it (interface 2.1). */
function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : thrown;
  return typeof reason === "string" && reason !== "" ? reason : "the model run did not succeed";
}

/** Returns the minimum time from creation to end of a generation: with the realistic pace 1 to 3 minutes, depending on the model. */
function minDurationMs({ id, request }: StoredGeneration, pace: Pace): number {
  const { slowMs } = readDirectives(request);
  if (pace === "fast") return slowMs;
  const ids = models.map((model) => model.id);
  // An owner's own name, which is not in the list, is as fast as the first.
  const position = Math.max(0, ids.indexOf(request.model)) / (ids.length - 1);
  const jitter = Number.parseInt(id.slice(0, 4), 16) / 0xffff;
  return Math.max(slowMs, 60_000 + position * 100_000 + jitter * 20_000);
}
