import { type EventCounts, type GenerationEvent, isGeneral } from "../generation/events.ts";
import type { Plan } from "./batch.ts";

export type BatchCounts = EventCounts & {
  /** Not started in this run, or not yet. */
  to_start: number;
  remaining_credits: number | null;
  /** What this run's videos cost in USD; null where the service tells none. */
  cost: number | null;
};

/** Counts the rows of a batch: from its plan, and from each event after that. */
export function createCounts(plan: Plan): { counts: BatchCounts; take(event: GenerationEvent): void } {
  const { rows: total, done, running, failed, refused, unknown, lost, blocked, remaining_credits } = plan;
  const counts: BatchCounts = {
    total,
    done,
    running,
    failed: failed - refused,
    refused,
    unsent: 0,
    unknown,
    lost,
    to_start: plan.to_start + blocked,
    remaining_credits,
    cost: null,
  };
  /** The rows that have an id and have not ended. */
  const started = new Set<string | undefined>();
  return {
    counts,
    take(event) {
      if (event.event === "started") {
        counts.remaining_credits = event.remaining_credits ?? counts.remaining_credits;
        started.add(event.row);
        if (event.resumed) return;
        counts.to_start--;
        counts.running++;
      }
      if (event.event !== "ended") return;
      const { id, status, error, cost } = event;
      if (cost !== undefined) counts.cost = (counts.cost ?? 0) + cost;
      // The next run starts it, as the plan of that run says.
      if (status === "refused" && id === null && isGeneral(error?.code)) return;
      if (started.delete(event.row)) counts.running--;
      else counts.to_start--;
      // A completed generation whose video is not saved is still to be collected.
      if (status === "completed" && error === null) counts.done++;
      else if (status === "processing" || status === "completed") counts.running++;
      else counts[status]++;
    },
  };
}
