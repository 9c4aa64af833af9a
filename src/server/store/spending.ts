import type { Spending, SpendingKey } from "./store.ts";

/** Returns a query, the same for both databases, of what was spent by each key; of the rows of `spent`. */
export function spentByEach(limit: number): string {
  return [
    spentBy("day", { order: "key", limit }),
    spentBy("model", { order: "credits", limit }),
    spentBy("label", { order: "credits", limit }),
  ].join(" UNION ALL ");
}

function spentBy(by: SpendingKey, { order, limit }: { order: "key" | "credits"; limit: number }): string {
  return `SELECT * FROM (
      SELECT '${by}' AS by, ${by} AS key, sum(generations) AS generations, sum(usd) AS usd, sum(credits) AS credits
      FROM spent WHERE ${by} IS NOT NULL GROUP BY ${by} ORDER BY ${order} DESC, key LIMIT ${limit}
    ) AS by_${by}`;
}

/** Reads the rows of such queries. PostgreSQL gives large numbers as texts. */
export function readSpending(rows: readonly Record<string, unknown>[]): Spending {
  const spending: Spending = { day: [], model: [], label: [] };
  for (const { by, key, generations, usd, credits } of rows)
    spending[by as SpendingKey].push({
      key: String(key),
      generations: Number(generations),
      credits: Number(credits),
      usd: usd === null ? null : Number(usd),
    });
  return spending;
}
