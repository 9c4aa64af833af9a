import type { Lease } from "../../../lease.ts";
import type { Claim, ClaimFilter, NamedNeeds, SubmittedWork, Waiting, Wanted, WantedNew } from "../claims.ts";
import { readClaim, readNamed, readNeeds, readSubmittedWork, toNamed, toNames } from "../needs.ts";
import { type Condition, where } from "../reads/reader.ts";
import type { Database, SqliteRow } from "./database.ts";

/**
 * The claims on generations. Only one process uses the file, so claims are not written to the file: the process itself knows which slots are taken,
 * and the turns are in a temporary table.
 */
export function createClaims(database: Database, { assertFresh: confirm }: Pick<Lease, "assertFresh">) {
  database.exec(`PRAGMA temp_store = MEMORY;
    CREATE TEMP TABLE turns (
      account TEXT NOT NULL,
      is_fetched INTEGER NOT NULL,
      at INTEGER NOT NULL,
      PRIMARY KEY (account, is_fetched)
    ) STRICT, WITHOUT ROWID`);
  const toClaim = (row: SqliteRow): Claim => ({
    ...readClaim(row),
    // Never aborts, because another process can take over the file only while this one is suspended, and then the whole service stops.
    lost: new AbortController().signal,
    confirm,
  });
  return {
    find(wanted: Wanted, { limit, ...filter }: ClaimFilter & { limit: number }): Claim[] {
      if ("models" in wanted) {
        const found = findNew(database, wanted, { ...filter, limit });
        for (const row of found) database.run(takeTurn, row.account ?? null, wanted.kind === "fetch");
        return found.map(toClaim);
      }
      const { condition, values } = where([...conditionsOf(wanted), ...filterConditions(filter)]);
      const rows = database.all(
        `SELECT number, id, account, model, names, images, is_real, engine, is_submitting
         FROM generations INDEXED BY ${wanted.kind === "begun" ? "begun" : "unfinished"}
         ${condition} AND status = 'processing' ORDER BY number LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(toClaim);
    },
    begun(): SubmittedWork[] {
      // With max(), SQLite takes the other columns from the row with the maximum.
      const rows = database.all(
        `SELECT engine, count(*) AS count, max(number), checkpoint FROM generations INDEXED BY begun
         WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting) AND engine IS NOT NULL GROUP BY engine`,
      );
      return rows.map((row) => ({ ...readSubmittedWork(row), held: 0 }));
    },
    named(): NamedNeeds[] {
      const select = `SELECT DISTINCT model, names FROM generations INDEXED BY named WHERE names IS NOT NULL AND ${isQueued}`;
      return database.all(select).map(readNamed);
    },
    waiting(filter: ClaimFilter): Waiting[] {
      // The index contains all columns of this query.
      const { condition, values } = where(filterConditions(filter));
      const rows = database.all(
        `SELECT model, names, images, is_real, engine, count(*) AS count, min(created_at) AS oldest_at
         FROM generations INDEXED BY unfinished
         ${condition} AND status = 'processing' AND NOT is_submitting GROUP BY model, names, images, is_real, engine`,
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

const takeTurn = `INSERT INTO turns (account, is_fetched, at) VALUES (?, ?, (SELECT coalesce(max(at), 0) + 1 FROM turns))
  ON CONFLICT DO UPDATE SET at = excluded.at`;

/** With the index `waiting`, the query reads only generations that may be claimed, however many wait. */
function findNew(
  database: Database,
  wanted: WantedNew,
  { limit, ...filter }: ClaimFilter & { limit: number },
): SqliteRow[] {
  const { condition, values } = where([
    ["images <= ?", wanted.maxImages],
    ["is_real <= ?", Number(!wanted.isSimulation)],
    ["account NOT IN (SELECT value FROM json_each(?))", wanted.exceptAccounts && JSON.stringify(wanted.exceptAccounts)],
    [
      "(image_fetch_at IS NULL OR image_fetch_at <= ? OR image_fetch_at > ?)",
      wanted.times?.at,
      wanted.times?.until ?? null,
    ],
    [
      "(names IS NULL OR model || names IN (SELECT value FROM json_each(?)))",
      wanted.named && JSON.stringify(toNamed(wanted.named)),
    ],
    ...filterConditions(filter),
  ]);
  const isFetched = Number(wanted.kind === "fetch");
  const models = JSON.stringify(wanted.models);
  const next = `SELECT min(account) FROM generations WHERE ${isQueued} AND is_fetched = ?`;
  return database.all(
    `WITH RECURSIVE
       queues (model, account) AS (
         SELECT value, (${next} AND model = value) FROM json_each(?)
         UNION ALL
         SELECT model, (${next} AND generations.model = queues.model AND account > queues.account)
         FROM queues WHERE account IS NOT NULL
       ),
       heads (number, account) AS (
         SELECT number, queues.account
         FROM queues CROSS JOIN generations ON number IN (
           SELECT number FROM generations ${condition} AND is_fetched = ? AND ${isQueued}
             AND model = queues.model AND account = queues.account ORDER BY number LIMIT ?)
       ),
       places AS (
         SELECT number, row_number() OVER (PARTITION BY account ORDER BY number) AS nth, coalesce(at, 0) AS turn
         FROM heads LEFT JOIN (SELECT account, at FROM turns WHERE is_fetched = ?) USING (account)
       )
     SELECT number, id, account, model, names, images, is_real, engine, is_submitting
     FROM places CROSS JOIN generations USING (number) ORDER BY nth, turn, number LIMIT ?`,
    ...[isFetched, models, isFetched],
    ...[...values, isFetched, limit],
    ...[isFetched, limit],
  );
}

function conditionsOf(wanted: Exclude<Wanted, WantedNew>): Condition[] {
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
    ["names IS ?", toNames(wanted.names)],
    ["engine IS ?", wanted.engine],
    ["NOT is_submitting AND created_at < ?", wanted.startedBefore],
  ];
}

function filterConditions({ except, ids }: ClaimFilter): Condition[] {
  return [
    ["id NOT IN (SELECT value FROM json_each(?))", JSON.stringify(except)],
    ["id IN (SELECT value FROM json_each(?))", ids && JSON.stringify(ids)],
  ];
}
