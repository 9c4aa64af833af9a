import type { Lease } from "../../../lease.ts";
import type { Among, Claim, Waiting, Wanted } from "../claims.ts";
import { readClaim, readNeeds } from "../needs.ts";
import { type Condition, where } from "../reads/reader.ts";
import type { Database, Row } from "./database.ts";

type New = Extract<Wanted, { kind: "new" }>;

/** What is to be made. The process that has the file makes all of it, so nothing is written when it claims something. */
export function createClaims(database: Database, { assertFresh: confirm }: Pick<Lease, "assertFresh">) {
  const toClaim = (row: Row): Claim => ({
    ...readClaim(row),
    // No other process has the file, unless this one was suspended: then the whole service stops.
    lost: new AbortController().signal,
    confirm,
  });
  return {
    find(wanted: Wanted, { limit, ...among }: Among & { limit: number }): Claim[] {
      if (wanted.kind === "new") return findNew(database, wanted, { ...among, limit }).map(toClaim);
      const { condition, values } = where([...conditionsOf(wanted), ...conditionsAmong(among)]);
      const rows = database.all(
        `SELECT number, id, account, model, images, is_real, engine, is_fetched, is_submitting
         FROM generations INDEXED BY ${wanted.kind === "begun" ? "begun" : "unfinished"}
         ${condition} AND status = 'processing' ORDER BY number LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(toClaim);
    },
    waiting(among: Among): Waiting[] {
      // The index has all that is asked for.
      const { condition, values } = where(conditionsAmong(among));
      const rows = database.all(
        `SELECT model, images, is_real, engine, count(*) AS count, min(created_at) AS oldest_at
         FROM generations INDEXED BY unfinished
         ${condition} AND status = 'processing' AND NOT is_submitting GROUP BY model, images, is_real, engine`,
        ...values,
      );
      return rows.map((row) => ({
        ...readNeeds(row),
        count: Number(row.count),
        held: 0,
        oldest_at: String(row.oldest_at),
      }));
    },
  };
}

const isQueued = "status = 'processing' AND engine IS NULL AND NOT is_submitting";

/** By the index `waiting`, of each account only what may be claimed is read, however many generations wait. */
function findNew(database: Database, wanted: New, { limit, ...among }: Among & { limit: number }): Row[] {
  const { condition, values } = where([
    ["is_fetched = ?", Number(wanted.isFetched)],
    ["images <= ?", wanted.maxImages],
    ["is_real <= ?", Number(!wanted.isSimulation)],
    ["account NOT IN (SELECT value FROM json_each(?))", wanted.exceptAccounts && JSON.stringify(wanted.exceptAccounts)],
    ...conditionsAmong(among),
  ]);
  const isFetched = Number(wanted.isFetched);
  const next = `SELECT min(account) FROM generations WHERE ${isQueued} AND is_fetched = ?`;
  const before = wanted.before && [wanted.before.turn, wanted.before.number];
  return database.all(
    `WITH RECURSIVE
       queues (model, account) AS (
         SELECT value, (${next} AND model = value) FROM json_each(?)
         UNION ALL
         SELECT model, (${next} AND generations.model = queues.model AND account > queues.account)
         FROM queues WHERE account IS NOT NULL
       ),
       heads AS (
         SELECT number, queues.account, queues.model,
           row_number() OVER (PARTITION BY queues.account ORDER BY number) AS nth,
           coalesce((SELECT key FROM json_each(?) WHERE value = queues.account), -1) AS turn
         FROM queues CROSS JOIN generations ON number IN (
           SELECT number FROM generations ${condition} AND ${isQueued}
             AND model = queues.model AND account = queues.account ORDER BY number LIMIT ?)
       )
     SELECT number, id, heads.account, heads.model, images, is_real, engine, is_fetched, is_submitting
     FROM heads CROSS JOIN generations USING (number)
     ${before ? "WHERE nth = 1 AND (turn, number) < (?, ?)" : ""} ORDER BY nth, turn, number LIMIT ?`,
    ...[isFetched, JSON.stringify(wanted.models), isFetched, JSON.stringify(wanted.turns)],
    ...[...values, limit, ...(before ?? []), limit],
  );
}

function conditionsOf(wanted: Exclude<Wanted, New>): Condition[] {
  if (wanted.kind === "begun")
    return [
      [
        "(engine IS NOT NULL OR is_submitting) AND (is_submitting OR engine IN (SELECT value FROM json_each(?)))",
        JSON.stringify(wanted.engines),
      ],
    ];
  return [
    ["model = ?", wanted.model],
    ["images = ?", wanted.images],
    ["is_real = ?", Number(wanted.isReal)],
    ["engine IS ?", wanted.engine],
    ["NOT is_submitting AND created_at < ?", wanted.startedBefore],
  ];
}

function conditionsAmong({ except, ids }: Among): Condition[] {
  return [
    ["id NOT IN (SELECT value FROM json_each(?))", JSON.stringify(except)],
    ["id IN (SELECT value FROM json_each(?))", ids && JSON.stringify(ids)],
  ];
}
