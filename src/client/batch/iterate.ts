import { VidgenError } from "../../errors.ts";
import { createCounts } from "../generation/counts.ts";
import { type BatchCounts, errorFieldsOf, type GenerationEvent } from "../generation/events.ts";
import type { Batch } from "./batch.ts";
import { createChannel } from "./channel.ts";
import { countsOf } from "./plan-counts.ts";
import type { RunOptions } from "./run.ts";
import type { WorkOptions } from "./work.ts";

/**
 * The events of a batch. The last event is the summary. If an error stopped further starts, that error is the
 * event before it.
 */
export type WireBatchEvent = { at: string } & (GenerationEvent | ({ event: "summary" } & BatchCounts));

type IterateOptions = RunOptions & Omit<WorkOptions, "overwrite" | "onEvent">;

/**
 * Runs a batch and yields its events. When the caller stops iterating, no more rows are started, but a sent
 * request still gets its id.
 */
export async function* iterateBatch(
  batch: Batch,
  options: IterateOptions,
  now: () => Date,
): AsyncGenerator<WireBatchEvent> {
  const iterationEnd = new AbortController();
  const { counts, take: countEvent } = createCounts(countsOf(batch.plan));
  const events = createChannel<WireBatchEvent>();
  const onEvent = (event: GenerationEvent) => {
    countEvent(event);
    events.push({ at: now().toISOString(), ...event });
  };
  const signal = AbortSignal.any([options.signal, iterationEnd.signal]);
  const batchRun = batch.run({ ...options, signal, onEvent }).finally(events.end);
  try {
    yield* events;
    const { stopError } = await batchRun;
    if (stopError) yield { at: now().toISOString(), event: "error", error: errorFieldsOf(stopError) };
    yield { at: now().toISOString(), event: "summary", ...counts };
  } finally {
    iterationEnd.abort(new VidgenError("interrupted", "The caller has stopped iterating."));
    await batchRun.catch(() => {});
  }
}
