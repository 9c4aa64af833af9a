import type { GenerationState } from "../generations.ts";
import type { GenerationFilter, GenerationTotals, LabelTotals, Spending, SpendingKey } from "../reports.ts";
import { searchWords } from "../search.ts";

// The table `sums` has a row for each day, each model and each label of an account. Triggers, which are in the migrations, update it. A deleted
// generation no longer counts in its state, but what was spent for it still counts. Both databases share these parts of their queries.

const states: readonly GenerationState[] = ["queued", "running", "completed", "failed"];
const countStates = states.map((state) => `sum(${state}) AS ${state}`).join(", ");

/** Counts the generations of each key, in alphabetical order. */
export const countSums = (sums: string, condition: string) =>
  `SELECT key, ${countStates} FROM ${sums} ${condition} GROUP BY key HAVING sum(queued + running + completed + failed) > 0 ORDER BY key`;

export const labelTotals = (sums: string, condition: string, limit: number) =>
  `SELECT key AS label, account, max(size) AS size, ${countStates}, sum(unclear) AS unclear, sum(credits) AS credits, sum(usd) AS usd,
     min(started_at) AS started_at, max(ended_at) AS ended_at
   FROM ${sums} ${condition} GROUP BY key, account HAVING sum(queued + running + completed + failed) > 0
   ORDER BY max(newest) DESC LIMIT ${limit}`;

/** The newest days, and the models, labels and accounts that have cost most. What an account has cost is the sum of its days. */
export const spentByEach = (sums: string, condition: string, limit: number) =>
  `WITH own AS (SELECT by, account, key, generations, credits, usd, unclear FROM ${sums} ${condition})
   SELECT * FROM (
     SELECT by, key, labeller, sum(generations) AS generations, sum(credits) AS credits, sum(usd) AS usd, sum(unclear) AS unclear,
       row_number() OVER (PARTITION BY by ORDER BY CASE by WHEN 'day' THEN key END DESC, sum(credits) DESC, key, labeller) AS place
     FROM (
       SELECT by, key, CASE by WHEN 'label' THEN account END AS labeller, generations, credits, usd, unclear FROM own
       UNION ALL SELECT 'account', account, NULL, generations, credits, usd, unclear FROM own WHERE by = 'day'
     ) AS counted GROUP BY by, key, labeller
   ) AS placed WHERE place <= ${limit} ORDER BY place`;

/** Returns which sums contain the counts for a filter; `undefined` if rows must be counted. */
export function summedBy({ model, label, text, isStarred }: GenerationFilter): "model" | "label" | undefined {
  if (searchWords(text).length > 0 || isStarred || (model !== undefined && label !== undefined)) return undefined;
  return label === undefined ? "model" : "label";
}

/** The maximum number of rows to count for a search, a star, or a model and a label at once; the newest are counted. */
export const maxFound = 10_000;

export const countRows = states.map((state) => `count(*) FILTER (WHERE state = '${state}') AS ${state}`).join(", ");

// PostgreSQL returns large numbers as texts.

type Rows = readonly Record<string, unknown>[];

/** Adds up the states of rows, and leaves out states without rows. */
export function readCounts(rows: Rows): GenerationTotals["counts"] {
  const counted = states.map((state) => [state, rows.reduce((sum, row) => sum + Number(row[state]), 0)] as const);
  return Object.fromEntries(counted.filter(([, count]) => count > 0));
}

export function readLabels(rows: Rows): LabelTotals[] {
  return rows.map(({ label, account, size, usd, credits, started_at, ended_at, unclear, ...counts }) => ({
    label: String(label),
    account: String(account),
    size: size === null ? null : Number(size),
    counts: Object.fromEntries(states.map((state) => [state, Number(counts[state])])) as LabelTotals["counts"],
    unclear: Number(unclear),
    credits: Number(credits),
    usd: usd === null ? null : Number(usd),
    started_at: String(started_at),
    ended_at: ended_at === null ? null : String(ended_at),
  }));
}

export function readSpending(rows: Rows): Spending {
  const spending: Spending = { day: [], model: [], label: [], account: [] };
  for (const { by, key, labeller, generations, usd, credits, unclear } of rows)
    spending[by as SpendingKey].push({
      key: String(key),
      account: labeller === null ? undefined : String(labeller),
      generations: Number(generations),
      credits: Number(credits),
      usd: usd === null ? null : Number(usd),
      unclear: Number(unclear),
    });
  return spending;
}
