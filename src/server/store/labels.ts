import type { LabelTotals, State } from "./store.ts";

const states: readonly State[] = ["queued", "running", "completed", "failed"];

/** The columns of a query, the same for both databases, with how many rows are in each state. */
export const countStates = states
  .map((state) => `sum(CASE WHEN state = '${state}' THEN 1 ELSE 0 END) AS ${state}`)
  .join(", ");

/** Reads the rows of such queries. PostgreSQL gives large numbers as texts. */
export function readLabels(rows: readonly Record<string, unknown>[]): LabelTotals[] {
  return rows.map(({ label, size, usd, credits, started_at, ended_at, ...counts }) => ({
    label: String(label),
    size: size === null ? null : Number(size),
    counts: Object.fromEntries(states.map((state) => [state, Number(counts[state])])) as LabelTotals["counts"],
    credits: Number(credits),
    usd: usd === null ? null : Number(usd),
    started_at: String(started_at),
    ended_at: ended_at === null ? null : String(ended_at),
  }));
}
