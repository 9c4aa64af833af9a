import { type AccountUsage, hourBefore, type Limits } from "../limits.ts";
import { type AccountRow, lockAccount } from "./account.ts";
import { type Rule, sql } from "./rule.ts";

/** Changes the given limits. Returns all limits; `undefined` if the account does not exist. */
export function* setLimits(name: string, limits: Partial<Limits>): Rule<Limits | undefined> {
  const account = yield* lockAccount(name);
  if (!account || account.isDeleted) return undefined;
  const { max_running, max_per_hour } = { ...account, ...limits };
  const update = "UPDATE accounts SET max_running = ?, max_per_hour = ? WHERE name = ?";
  yield* sql(update, max_running, max_per_hour, name);
  return { max_running, max_per_hour };
}

/**
 * Returns what counts towards the limits of an account for a start at this time (ISO 8601); `undefined` without limits. No more rows are read than a
 * limit allows. Generations submitted to an engine of `missing` do not count as running.
 */
export function* findUse(
  { name, max_running, max_per_hour }: AccountRow,
  { at, missing = [] }: { at: string; missing?: readonly string[] | undefined },
): Rule<AccountUsage | undefined> {
  if (max_running === null && max_per_hour === null) return undefined;
  const since = hourBefore(at);
  const isRunning = missing.length === 0 ? "" : `AND (engine IS NULL OR engine NOT IN (${missing.map(() => "?")}))`;
  const [use] = yield* sql(
    `SELECT
       (SELECT count(*) FROM (SELECT 1 FROM generations WHERE account = ? AND status = 'processing' ${isRunning} LIMIT ?) AS r) AS running,
       (SELECT count(*) FROM (SELECT 1 FROM generations WHERE account = ? AND created_at > ? LIMIT ?) AS s) AS starts,
       (SELECT min(created_at) FROM generations WHERE account = ? AND created_at > ?) AS oldest_at`,
    ...[name, ...missing, max_running ?? 0, name, since, max_per_hour ?? 0, name, since],
  );
  const oldest_at = typeof use?.oldest_at === "string" ? use.oldest_at : null;
  return { running: Number(use?.running), starts: Number(use?.starts), oldest_at };
}
