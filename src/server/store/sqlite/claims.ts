import type { Among, Claim, Waiting, Wanted } from "../store.ts";
import type { Database, Row, Value } from "./database.ts";
import { where } from "./where.ts";

type Condition = [sql: string, value: Value | undefined];

/** What is to be made. The process that has the file makes all of it, so nothing is written when it claims something. */
export function createClaims(database: Database) {
  return {
    find(wanted: Wanted, { limit, ...among }: Among & { limit: number }): Claim[] {
      const { condition, values } = where([...conditionsOf(wanted), ...conditionsAmong(among)]);
      const rows = database.all(
        `SELECT number, id, model, images, is_real, engine, is_fetched, is_submitting
         FROM generations ${condition} AND status = 'processing' ORDER BY number LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(readClaim);
    },
    waiting(among: Among): Waiting[] {
      const { condition, values } = where(conditionsAmong(among));
      const rows = database.all(
        `SELECT model, images, is_real, engine, count(*) AS count FROM generations
         ${condition} AND status = 'processing' AND NOT is_submitting GROUP BY model, images, is_real, engine`,
        ...values,
      );
      return rows.map((row) => ({ ...readNeeds(row), count: Number(row.count), held: 0 }));
    },
  };
}

function conditionsOf(wanted: Wanted): Condition[] {
  if (wanted.kind === "begun")
    return [["(is_submitting OR engine IN (SELECT value FROM json_each(?)))", JSON.stringify(wanted.engines)]];
  if (wanted.kind === "new")
    return [
      ["model IN (SELECT value FROM json_each(?))", JSON.stringify(wanted.models)],
      ["engine IS NULL AND NOT is_submitting AND images <= ?", wanted.maxImages],
      ["is_real <= ?", Number(!wanted.isSimulation)],
      ["is_fetched = ?", Number(wanted.isFetched)],
      ["number < ?", wanted.before],
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

function readNeeds({ model, images, is_real, engine }: Row): Pick<Waiting, "model" | "images" | "isReal" | "engine"> {
  return {
    model: String(model),
    images: Number(images),
    isReal: is_real === 1,
    engine: engine === null ? null : String(engine),
  };
}

function readClaim({ number, id, is_fetched, is_submitting, ...needs }: Row): Claim {
  return {
    ...readNeeds(needs),
    number: Number(number),
    id: String(id),
    isFetched: is_fetched === 1,
    isSubmitting: is_submitting === 1,
    // No other process has the file.
    lost: new AbortController().signal,
  };
}
