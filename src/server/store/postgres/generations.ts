import { endChanges } from "../change.ts";
import { joinImages, submissionOf } from "../needs.ts";
import type {
  Cancellation,
  GenerationQuery,
  GenerationSummary,
  Store,
  StoredCheckpoint,
  StoredGeneration,
  StoredResult,
} from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Row } from "./database.ts";
import type { Deliveries } from "./deliveries.ts";
import { refund } from "./ledger.ts";
import { where } from "./where.ts";

export const columns = "id, account, status, created_at, completed_at, asked, checkpoint, result";

/** How much of a prompt a list has. */
const shownCharacters = 300;

/** Whether this process, $1, may write to a generation: nobody has taken it, or this process did so last. */
const isHeldHere = "(holder IS NULL OR holder = $1)";

export type Parts = { addDelivery: Deliveries["add"]; process: string };

/** Generations from their start on. */
export function createGenerations({ query, transaction }: Database, { addDelivery, process }: Parts) {
  const find = async (id: string, sql: Query = query) => {
    const [row] = await sql(`SELECT ${columns} FROM vidgen.generations WHERE id = $1`, id);
    return row && readRow(row);
  };

  const finish = (id: string, { end, delivery }: Omit<Cancellation, "engine">, cancelled?: Cancellation) =>
    transaction(async (sql) => {
      const { status, completed_at, error, error_code, media, cost, isRefunded } = end;
      const isCancelled = cancelled !== undefined;
      const [row] = await sql(
        `UPDATE vidgen.generations SET status = $3, completed_at = $4, result = $5
         WHERE id = $2 AND status = 'processing' AND CASE WHEN $6::boolean
           THEN NOT is_submitting AND engine IS NOT DISTINCT FROM $7::text ELSE ${isHeldHere} END
         RETURNING number`,
        ...[process, id, status, completed_at, JSON.stringify({ error, error_code, media, cost })],
        ...[isCancelled, cancelled?.engine ?? null],
      );
      if (!row && !(await find(id, sql))) throw new Error(`no generation ${id}`);
      if (!row) return false;
      if (isRefunded) await refund(sql, Number(row.number));
      if (delivery) await addDelivery(sql, delivery);
      await notify(sql, ...endChanges(id, { isRefunded, isCancelled }, delivery));
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
      return joinImages(generation.request.images, rows);
    },
    keepCheckpoint: (id, checkpoint) =>
      transaction(async (sql) => {
        const { engine, isSubmitting } = submissionOf(checkpoint);
        const [row] = await sql(
          `UPDATE vidgen.generations SET checkpoint = $3, engine = $4, is_submitting = $5
           WHERE id = $2 AND status = 'processing' AND ${isHeldHere} RETURNING id`,
          ...[process, id, JSON.stringify(checkpoint), engine, isSubmitting],
        );
        if (!row) throw new Error(`no generation ${id} that this process makes`);
        await notify(sql, { kind: "generation", id });
      }),
    finish: (id, end, delivery) => finish(id, { end, delivery }),
    cancel: (id, cancellation) => finish(id, cancellation, cancellation),
    async list({ before, limit, status, model, text, ids }: GenerationQuery) {
      const { condition, values } = where([
        ["number < (SELECT number FROM vidgen.generations WHERE id = ?)", before],
        ["status = ?", status],
        ["model = ?", model],
        ["prompt || chr(10) || id ILIKE ? ESCAPE '!'", text && `%${text.replace(/[!%_]/g, "!$&")}%`],
        ["id = ANY(?)", ids],
      ]);
      const rows = await query(
        `SELECT id, account, status, created_at, completed_at, model, result, left(prompt, ${shownCharacters}) AS prompt
         FROM vidgen.generations ${condition} ORDER BY number DESC LIMIT ${limit}`,
        ...values,
      );
      return rows.map(({ result, ...row }) => ({ ...row, ...JSON.parse(String(result)) }) as GenerationSummary);
    },
    async totals() {
      const rows = await query("SELECT status, count(*) AS count FROM vidgen.generations GROUP BY status");
      const models = await query("SELECT DISTINCT model FROM vidgen.generations ORDER BY model");
      const counts = Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]));
      return { counts, models: models.map(({ model }) => String(model)) };
    },
  } satisfies Partial<Store>;
}

/** This program wrote the rows, so that their JSON is not checked again. */
export function readRow({ asked, checkpoint, result, ...row }: Row): StoredGeneration {
  const generation = row as Pick<StoredGeneration, "id" | "account" | "status" | "created_at" | "completed_at">;
  const { request, callback_url }: Pick<StoredGeneration, "request" | "callback_url"> = JSON.parse(String(asked));
  const ended: StoredResult = JSON.parse(String(result));
  const kept: StoredCheckpoint | null = JSON.parse(String(checkpoint));
  return { ...generation, request, callback_url, cost: null, ...ended, checkpoint: kept };
}
