import { endChanges } from "../change.ts";
import type { Cancellation, EndedBefore, Generations } from "../generations.ts";
import { joinImages, submissionOf } from "../needs.ts";
import { columns, readGeneration } from "../reads/generations.ts";
import { searchText } from "../search.ts";
import { notify } from "./changes.ts";
import type { Database, Query } from "./database.ts";
import type { createDeliveries } from "./deliveries.ts";
import { refund } from "./ledger.ts";

/** Whether this process, $1, may write to a generation: nobody has taken it, or this process did so last. */
const isHeldHere = "(holder IS NULL OR holder = $1)";

/**
 * Locks the account of generation $2 before the generation, as a start does. While this waits for the account, nothing else waits for the generation: its
 * holder renews all that it makes in one statement, and would lose all of it.
 */
const lockOwner = `WITH owner AS MATERIALIZED (
  SELECT name FROM vidgen.accounts WHERE name = (SELECT account FROM vidgen.generations WHERE id = $2) FOR NO KEY UPDATE)`;

export type Parts = { addDelivery: ReturnType<typeof createDeliveries>["add"]; process: string };

/** Generations from their start on. */
export function createGenerations({ query, transaction }: Database, { addDelivery, process }: Parts) {
  const find = async (id: string, sql: Query = query) => {
    const [row] = await sql(`SELECT ${columns}, removed_at, starred FROM vidgen.generations WHERE id = $1`, id);
    return row && readGeneration(row);
  };

  const finish = (id: string, { end, delivery }: Omit<Cancellation, "engine">, cancelled?: Cancellation) =>
    transaction(async (sql) => {
      const { status, completed_at, error, error_code, engine_code, media, cost, isRefunded } = end;
      const isCancelled = cancelled !== undefined;
      const [row] = await sql(
        `${lockOwner}
         UPDATE vidgen.generations SET status = $3, completed_at = $4, result = $5, search = search || $8
         FROM owner WHERE account = owner.name AND id = $2 AND status = 'processing' AND CASE WHEN $6::boolean
           THEN NOT is_submitting AND engine IS NOT DISTINCT FROM $7::text ELSE ${isHeldHere} END
         RETURNING number, account`,
        ...[process, id, status, completed_at, JSON.stringify({ error, error_code, engine_code, media, cost })],
        ...[isCancelled, cancelled?.engine ?? null, searchText("", error)],
      );
      if (!row && !(await find(id, sql))) throw new Error(`no generation ${id}`);
      if (!row) return false;
      if (isRefunded) await refund(sql, Number(row.number));
      if (delivery) await addDelivery(sql, delivery);
      await notify(sql, ...endChanges({ id, account: String(row.account) }, { isRefunded, isCancelled }, delivery));
      return true;
    });

  return {
    generation: (id) => find(id),
    async images(id) {
      const generation = await find(id);
      if (!generation) throw new Error(`no generation ${id}`);
      const rows = await query<{ place: number; source: string }>(
        "SELECT place, source FROM vidgen.images WHERE generation = (SELECT number FROM vidgen.generations WHERE id = $1)",
        id,
      );
      return joinImages(generation.request, rows);
    },
    keepCheckpoint: (id, checkpoint) =>
      transaction(async (sql) => {
        const { engine, isSubmitting } = submissionOf(checkpoint);
        const [row] = await sql(
          `${lockOwner}
           UPDATE vidgen.generations SET checkpoint = $3, engine = $4, is_submitting = $5
           FROM owner WHERE account = owner.name AND id = $2 AND status = 'processing' AND ${isHeldHere} RETURNING account`,
          ...[process, id, JSON.stringify(checkpoint), engine, isSubmitting],
        );
        if (!row) throw new Error(`no generation ${id} that this process makes`);
        await notify(sql, { kind: "generation", id, account: String(row.account) });
      }),
    finish: (id, end, delivery) => finish(id, { end, delivery }),
    cancel: (id, cancellation) => finish(id, cancellation, cancellation),
    remove: (id, at) =>
      transaction(async (sql) => {
        const [row] = await sql(
          `UPDATE vidgen.generations SET removed_at = $2
           WHERE id = $1 AND status <> 'processing' AND removed_at IS NULL RETURNING account`,
          ...[id, at],
        );
        if (row) await notify(sql, { kind: "generation", id, account: String(row.account) });
      }),
    star: (id, isStarred) =>
      transaction(async (sql) => {
        const update = "UPDATE vidgen.generations SET starred = $2 WHERE id = $1 RETURNING account";
        const [row] = await sql(update, id, isStarred);
        if (row) await notify(sql, { kind: "generation", id, account: String(row.account) });
      }),
    forget: ({ before, limit }: EndedBefore) =>
      transaction(async (sql) => {
        // What another process forgets meanwhile is its own.
        const rows = await sql(
          `SELECT number FROM vidgen.generations WHERE status <> 'processing' AND completed_at < $1
             AND (status = 'failed' OR removed_at IS NOT NULL)
             AND NOT EXISTS (SELECT 1 FROM vidgen.deliveries
               WHERE generation = generations.number AND next_at IS NOT NULL)
           ORDER BY completed_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`,
          before,
        );
        const numbers = rows.map(({ number }) => number);
        if (numbers.length === 0) return 0;
        const ofThese = "generation = ANY($1)";
        await sql(`UPDATE vidgen.ledger SET generation = NULL WHERE ${ofThese}`, numbers);
        await sql(`DELETE FROM vidgen.idempotency_keys WHERE ${ofThese}`, numbers);
        const deliveries = `SELECT number FROM vidgen.deliveries WHERE ${ofThese}`;
        await sql(`DELETE FROM vidgen.delivery_attempts WHERE delivery IN (${deliveries})`, numbers);
        await sql(`DELETE FROM vidgen.deliveries WHERE ${ofThese}`, numbers);
        await sql(`DELETE FROM vidgen.images WHERE ${ofThese}`, numbers);
        await sql("DELETE FROM vidgen.generations WHERE number = ANY($1)", numbers);
        await notify(sql, { kind: "credits", account: null });
        return numbers.length;
      }),
  } satisfies Partial<Generations>;
}
