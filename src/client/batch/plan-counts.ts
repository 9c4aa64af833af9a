import type { BatchCounts } from "../generation/events.ts";
import type { BatchPlan } from "./batch.ts";

/** The counts of a batch's rows before the run. */
export function countsOf({ rows: total, to_start, refused, failed, blocked, ...plan }: BatchPlan): BatchCounts {
  const { done, running, unknown, lost, remaining_credits } = plan;
  const endedCounts = { done, failed: failed - refused, refused, unsent: 0, unknown, lost };
  return { total, ...endedCounts, running, to_start: to_start + blocked, remaining_credits, cost: null };
}
