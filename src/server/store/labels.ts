import type { LabelTotals, State } from "./store.ts";

const states: readonly State[] = ["queued", "running", "completed", "failed"];

const countWhere = (condition: string, name: string) => `sum(CASE WHEN ${condition} THEN 1 ELSE 0 END) AS ${name}`;

/**
 * The columns of a query, the same for both databases, with how many rows are in each state, and how many have failed with an unclear outcome.
 * The quotes of the pattern are escaped inside an error's own text, so that no text matches it.
 */
export const countStates = [
  ...states.map((state) => countWhere(`state = '${state}'`, state)),
  countWhere(`result LIKE '%"error_code":"unclear"%'`, "unclear"),
].join(", ");

/** Reads the rows of such queries. PostgreSQL gives large numbers as texts. */
export function readLabels(rows: readonly Record<string, unknown>[]): LabelTotals[] {
  return rows.map(({ label, size, usd, credits, started_at, ended_at, unclear, ...counts }) => ({
    label: String(label),
    size: size === null ? null : Number(size),
    counts: Object.fromEntries(states.map((state) => [state, Number(counts[state])])) as LabelTotals["counts"],
    unclear: Number(unclear),
    credits: Number(credits),
    usd: usd === null ? null : Number(usd),
    started_at: String(started_at),
    ended_at: ended_at === null ? null : String(ended_at),
  }));
}
