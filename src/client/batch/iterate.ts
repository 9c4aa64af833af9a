import { VidgenError } from "../../errors.ts";
import { createCounts } from "../generation/counts.ts";
import { type BatchCounts, errorFieldsOf, type GenerationEvent } from "../generation/events.ts";
import type { Batch } from "./batch.ts";
import { createChannel } from "./channel.ts";
import { countsOf } from "./planned.ts";
import type { RunOptions } from "./run.ts";
import type { WorkOptions } from "./work.ts";

/** The events of a batch. The last one is the summary; before it comes the error that stopped the starts, if any. */
export type WireBatchEvent = { at: string } & (GenerationEvent | ({ event: "summary" } & BatchCounts));

type IterateOptions = RunOptions & Omit<WorkOptions, "overwrite" | "onEvent">;

/**
 * Runs a batch and yields its events. When the caller stops iterating, no more rows are started, but a sent request still gets its id.
 */
export async function* iterateBatch(
  batch: Batch,
  options: IterateOptions,
  now: () => Date,
): AsyncGenerator<WireBatchEvent> {
  const left = new AbortController();
  const { counts, take } = createCounts(countsOf(batch.plan));
  const events = createChannel<WireBatchEvent>();
  const onEvent = (event: GenerationEvent) => {
    take(event);
    events.push({ at: now().toISOString(), ...event });
  };
  const signal = AbortSignal.any([options.signal, left.signal]);
  const running = batch.run({ ...options, signal, onEvent }).finally(events.end);
  try {
    yield* events;
    const { stopped } = await running;
    if (stopped) yield { at: now().toISOString(), event: "error", error: errorFieldsOf(stopped) };
    yield { at: now().toISOString(), event: "summary", ...counts };
  } finally {
    left.abort(new VidgenError("interrupted", "The caller has stopped iterating."));
    await running.catch(() => {});
  }
}
