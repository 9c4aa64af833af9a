import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock } from "../io.ts";
import { newDelivery } from "./callbacks/delivery.ts";
import { readDirectives } from "./directives.ts";
import type { Engine } from "./engines/engine.ts";
import { type Get, readImage } from "./images/images.ts";
import { type Pace, paceMs } from "./pace.ts";
import type { Media, Store, StoredGeneration } from "./store/store.ts";

export type Queue = {
  /** Puts a generation that the store holds at the end, unless it is under way already. */
  add(generation: { id: string }): void;
  /** Stops what is being rendered; that, and what waits, is gone on with by whoever owns the store next. */
  close(): Promise<void>;
};

export type QueueOptions = {
  store: Pick<Store, "generation" | "finish">;
  engine: Engine;
  /** Fetches what an `imageUrl` names. */
  get: Get;
  /** Where the videos are kept. */
  folder: string;
  /** How many are rendered at once. */
  atOnce: number;
  pace: Pace;
  clock: Pick<Clock, "date" | "sleep">;
  mediaUrl(): string;
  /** Told of each generation that has ended. */
  onEnd(generation: StoredGeneration): void;
};

/** Renders generations, the oldest first (interface section 3: processing to completed or failed). */
export function createQueue(options: QueueOptions): Queue {
  const stop = new AbortController();
  // Node takes more than ten for a leak; here each that waits for its time listens.
  setMaxListeners(0, stop.signal);
  const waiting: string[] = [];
  const known = new Set<string>();
  const underWay = new Set<Promise<void>>();
  let rendering = 0;
  const next = () => {
    while (rendering < options.atOnce && !stop.signal.aborted) {
      const id = waiting.shift();
      if (id === undefined) return;
      rendering++;
      // A defect in the store loses the end of this one, not those that wait.
      const work = run(id, stop.signal, { ...options, onRendered })
        .catch(() => {})
        .finally(() => underWay.delete(work) && known.delete(id));
      underWay.add(work);
    }
  };
  const onRendered = () => {
    rendering--;
    next();
  };
  return {
    add({ id }) {
      if (known.has(id)) return;
      known.add(id);
      waiting.push(id);
      next();
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      await Promise.all(underWay);
    },
  };
}

async function run(id: string, signal: AbortSignal, options: QueueOptions & { onRendered(): void }): Promise<void> {
  const { store, clock, pace, mediaUrl, onRendered, onEnd } = options;
  const generation = await store.generation(id).catch(() => undefined);
  const result = generation && (await render(generation, signal, options));
  onRendered();
  if (!result || signal.aborted) return;
  const elapsedMs = clock.date().getTime() - new Date(generation.created_at).getTime();
  const missingMs = paceMs(generation, pace) - elapsedMs;
  if (missingMs > 0) await clock.sleep(missingMs, signal);
  const date = clock.date();
  const end = { ...result, completed_at: date.toISOString() };
  onEnd(await store.finish(id, end, newDelivery({ ...generation, ...end }, mediaUrl(), date)));
}

async function render({ id, request }: StoredGeneration, signal: AbortSignal, options: QueueOptions) {
  try {
    const { fail } = readDirectives(request.prompt);
    if (fail !== undefined) throw new Error(fail);
    const images = await Promise.all(request.images.map((source) => readImage(source, options.get, signal)));
    const [file, thumbnail] = [join(options.folder, `${id}.mp4`), join(options.folder, `${id}.png`)];
    await options.engine.render({ request, images, file, thumbnail }, signal);
    return { status: "completed", error: null, media: { ...(await describe(file)), thumbnail } } as const;
  } catch (error) {
    return { status: "failed", error: reasonOf(error), media: null } as const;
  }
}

/** Never empty: clients read it (interface 2.1). */
function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : thrown;
  return typeof reason === "string" && reason !== "" ? reason : "the model run did not succeed";
}

/** Before the store says that there is a video, it is on the disk. */
async function describe(file: string): Promise<Omit<Media, "thumbnail">> {
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
