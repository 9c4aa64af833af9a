import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock } from "../io.ts";
import { newDelivery } from "./delivery.ts";
import { readDirectives } from "./directives.ts";
import type { Engine } from "./engines/engine.ts";
import type { Media, Store, StoredGeneration } from "./store.ts";

export type Queue = {
  add(generation: StoredGeneration): void;
  /** Stops what is being rendered; what waits is not begun. */
  close(): Promise<void>;
};

export type QueueOptions = {
  store: Store;
  engine: Engine;
  /** Where the videos are kept. */
  folder: string;
  clock: Pick<Clock, "date">;
  mediaUrl(): string;
  /** Told of each generation that has ended. */
  onEnd(generation: StoredGeneration): void;
};

/** Renders one generation after the other (interface section 3: processing to completed or failed). */
export function createQueue(options: QueueOptions): Queue {
  const stop = new AbortController();
  let last: Promise<void> = Promise.resolve();
  return {
    add(generation) {
      // A defect in the store loses the end of this one, not those that wait.
      last = last.then(() => run(generation, stop.signal, options)).catch(() => {});
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      await last;
    },
  };
}

async function run(generation: StoredGeneration, signal: AbortSignal, options: QueueOptions): Promise<void> {
  if (signal.aborted) return;
  const { store, clock, mediaUrl, onEnd } = options;
  const result = await render(generation, signal, options);
  if (signal.aborted) return;
  const date = clock.date();
  const end = { ...result, completed_at: date.toISOString() };
  onEnd(await store.finish(generation.id, end, newDelivery({ ...generation, ...end }, mediaUrl(), date)));
}

async function render({ id, request }: StoredGeneration, signal: AbortSignal, options: QueueOptions) {
  try {
    const { fail } = readDirectives(request.prompt);
    if (fail !== undefined) throw new Error(fail);
    const file = join(options.folder, `${id}.mp4`);
    await options.engine.render(request, file, signal);
    return { status: "completed", error: null, media: await describe(file) } as const;
  } catch (error) {
    return { status: "failed", error: reasonOf(error), media: null } as const;
  }
}

/** Never empty: clients read it (interface 2.1). */
function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : thrown;
  return typeof reason === "string" && reason !== "" ? reason : "the model run did not succeed";
}

async function describe(file: string): Promise<Media> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return { file, size: (await stat(file)).size, etag: `"${hash.digest("hex")}"`, thumbnail: null };
}
