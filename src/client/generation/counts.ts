import { type BatchCounts, type GenerationEvent, isGeneralRefusal } from "./events.ts";

/**
 * Counts the generations of a command by their events. A batch starts with its planned counts; for other
 * commands the events also determine the total.
 */
export function createCounts(planned?: BatchCounts): { counts: BatchCounts; take(event: GenerationEvent): void } {
  const isPlanned = planned !== undefined;
  const zeros = { total: 0, done: 0, running: 0, failed: 0, refused: 0, unsent: 0, unknown: 0, lost: 0 };
  const counts = { ...zeros, to_start: 0, remaining_credits: null, cost: null, ...planned };
  /** The keys of rows, or ids, that have started and not ended. */
  const started = new Set<string>();

  function begin({ row, id, resumed, remaining_credits }: GenerationEvent & { event: "started" }) {
    counts.remaining_credits = remaining_credits ?? counts.remaining_credits;
    const isNew = !started.has(row ?? id);
    started.add(row ?? id);
    // The plan already counts a row that an earlier run started.
    if (!isNew || (isPlanned && resumed)) return;
    counts.running++;
    if (isPlanned) counts.to_start--;
    else counts.total++;
  }

  function end({ row, id, status, error, cost }: GenerationEvent & { event: "ended" }) {
    if (cost !== undefined) counts.cost = (counts.cost ?? 0) + cost;
    // The row stays in `to_start`, because the next run of the batch starts it.
    if (isPlanned && status === "refused" && id === null && isGeneralRefusal(error?.code)) return;
    if (started.delete(row ?? id ?? "")) counts.running--;
    else if (isPlanned) counts.to_start--;
    else counts.total++;
    // A completed generation counts as running until its video is saved.
    if (status === "completed") counts[error === null ? "done" : "running"]++;
    else counts[status === "processing" ? "running" : status]++;
  }

  return {
    counts,
    take(event) {
      if (event.event === "started") begin(event);
      if (event.event === "ended") end(event);
    },
  };
}
