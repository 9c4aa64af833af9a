import type { EndedBefore } from "../generations.ts";
import { publish, type Rule, sql } from "./rule.ts";

/**
 * Deletes generations that ended long ago and have no video, with all rows that depend on them. Skips rows that another process is deleting. Without
 * MATERIALIZED, PostgreSQL may run the subquery once for each row, and so delete more than the limit.
 */
export function* forget({ before, limit }: EndedBefore): Rule<number> {
  const forgotten = yield* sql(
    `WITH ended AS MATERIALIZED (
       SELECT number FROM generations
       WHERE status <> 'processing' AND completed_at < ? AND (status = 'failed' OR removed_at IS NOT NULL)
         AND NOT EXISTS (SELECT 1 FROM deliveries WHERE generation = generations.number AND next_at IS NOT NULL)
       ORDER BY completed_at LIMIT ? FOR UPDATE SKIP LOCKED
     )
     DELETE FROM generations WHERE number IN (SELECT number FROM ended) RETURNING number`,
    ...[before, limit],
  );
  if (forgotten.length > 0) yield* publish({ kind: "credits", account: null });
  return forgotten.length;
}
