import { type BatchCounts, type GenerationEvent, isGeneral } from "./events.ts";

/**
 * Counts how the generations of a command have ended, by their events. A batch begins with what it has planned of its rows: of the others the events
 * tell how many there are.
 */
export function createCounts(planned?: BatchCounts): { counts: BatchCounts; take(event: GenerationEvent): void } {
  const isPlanned = planned !== undefined;
  const none = { total: 0, done: 0, running: 0, failed: 0, refused: 0, unsent: 0, unknown: 0, lost: 0 };
  const counts = { ...none, to_start: 0, remaining_credits: null, cost: null, ...planned };
  /** Those that have an id and have not ended: rows by their names. */
  const started = new Set<string>();

  function begin({ row, id, resumed, remaining_credits }: GenerationEvent & { event: "started" }) {
    counts.remaining_credits = remaining_credits ?? counts.remaining_credits;
    const isNew = !started.has(row ?? id);
    started.add(row ?? id);
    // The plan has counted a row that an earlier run started.
    if (!isNew || (isPlanned && resumed)) return;
    counts.running++;
    if (isPlanned) counts.to_start--;
    else counts.total++;
  }

  function end({ row, id, status, error, cost }: GenerationEvent & { event: "ended" }) {
    if (cost !== undefined) counts.cost = (counts.cost ?? 0) + cost;
    // The next run of a batch starts it, as the plan of that run says.
    if (isPlanned && status === "refused" && id === null && isGeneral(error?.code)) return;
    if (started.delete(row ?? id ?? "")) counts.running--;
    else if (isPlanned) counts.to_start--;
    else counts.total++;
    // A completed generation whose video is not saved is still to be collected.
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
