import { hash } from "node:crypto";
import { endChanges } from "../change.ts";
import { cutImages, joinImages, needsOf, submissionOf } from "../needs.ts";
import type {
  GenerationQuery,
  GenerationSummary,
  Idempotency,
  StartOutcome,
  Store,
  StoredCheckpoint,
  StoredGeneration,
} from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Row } from "./database.ts";
import type { Deliveries } from "./deliveries.ts";
import { lockBalance, refund } from "./ledger.ts";
import { where } from "./where.ts";

export const columns = "id, account, status, created_at, completed_at, asked, checkpoint, result";

/** How much of a prompt a list has. */
const shownCharacters = 300;

/** Whether this process, $1, may write to a generation: nobody has taken it, or this process did so last. */
const isHeldHere = "(holder IS NULL OR holder = $1)";

export type Parts = { addDelivery: Deliveries["add"]; process: string };

/** Generations and idempotency keys. */
export function createGenerations({ query, transaction }: Database, { addDelivery, process }: Parts) {
  const find = async (id: string, sql: Query = query) => {
    const [row] = await sql(`SELECT ${columns} FROM vidgen.generations WHERE id = $1`, id);
    return row && readRow(row);
  };
  const replay = async (sql: Query, account: string, idempotency: Idempotency): Promise<StartOutcome | undefined> => {
    const [row] = await sql(
      `SELECT ${columns.replace("account", "generations.account")}, remaining_credits, body_hash
       FROM vidgen.idempotency_keys JOIN vidgen.generations ON generations.number = idempotency_keys.generation
       WHERE idempotency_keys.account = $1 AND key_hash = $2`,
      ...[account, hash("sha256", idempotency.key)],
    );
    if (!row) return undefined;
    const { remaining_credits, body_hash, ...generation } = row;
    if (body_hash !== hash("sha256", idempotency.body)) return { kind: "key reused" };
    const outcome = { generation: readRow(generation), remaining_credits: Number(remaining_credits) };
    return { kind: "started", ...outcome, replayed: true };
  };

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
    /** A start with a key that another process executes at the same time waits for the lock of the account, and then finds the key. */
    start: (generation, cost, idempotency) =>
      transaction<StartOutcome>(async (sql) => {
        const { id, account } = generation;
        const balance = await lockBalance(sql, account);
        const replayed = idempotency && (await replay(sql, account, idempotency));
        if (replayed) return replayed;
        const remaining_credits = balance - cost;
        if (remaining_credits < 0) return { kind: "no credits" };
        await add(sql, generation, { cost, idempotency, remaining_credits });
        await notify(sql, { kind: "generation", id }, { kind: "credits" });
        return { kind: "started", generation, remaining_credits, replayed: false };
      }),
    keepCheckpoint: (id, checkpoint) =>
      transaction(async (sql) => {
        const { engine, isSubmitting } = submissionOf(checkpoint);
        const [row] = await sql(
          `UPDATE vidgen.generations SET checkpoint = $3, engine = $4, is_submitting = $5
           WHERE id = $2 AND ${isHeldHere} RETURNING id`,
          ...[process, id, JSON.stringify(checkpoint), engine, isSubmitting],
        );
        if (!row) throw new Error(`no generation ${id} that this process makes`);
        await notify(sql, { kind: "generation", id });
      }),
    finish: (id, { status, completed_at, error, media, isRefunded }, delivery) =>
      transaction(async (sql) => {
        const [row] = await sql(
          `UPDATE vidgen.generations SET status = $3, completed_at = $4, result = $5
           WHERE id = $2 AND status = 'processing' AND ${isHeldHere} RETURNING number`,
          ...[process, id, status, completed_at, JSON.stringify({ error, media })],
        );
        if (!row && !(await find(id, sql))) throw new Error(`no generation ${id}`);
        if (!row) return false;
        if (isRefunded) await refund(sql, Number(row.number));
        if (delivery) await addDelivery(sql, delivery);
        await notify(sql, ...endChanges(id, { isRefunded }, delivery));
        return true;
      }),
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

type Payment = { cost: number; idempotency: Idempotency | undefined; remaining_credits: number };

/** Adds a generation, what it costs, and its idempotency key. Only hashes are stored of the key, since an index has little room, and the body. */
async function add(
  query: Query,
  generation: StoredGeneration,
  { cost, idempotency, remaining_credits }: Payment,
): Promise<void> {
  const { id, account, status, created_at, completed_at, request, callback_url, checkpoint, error, media } = generation;
  const needs = needsOf(generation);
  const cut = cutImages(request);
  await query(
    `WITH
       added AS (
         INSERT INTO vidgen.generations (
           ${columns}, model, prompt, images, is_real, is_fetched, engine, is_submitting
         ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $15, $16, $17, $18, $19) RETURNING number
       ),
       paid AS (UPDATE vidgen.accounts SET balance = $11 WHERE name = $2),
       entry AS (
         INSERT INTO vidgen.ledger (account, amount, reason, generation) SELECT $2, $12, 'start', number FROM added
       )
     INSERT INTO vidgen.idempotency_keys (account, key_hash, body_hash, generation, remaining_credits)
     SELECT $2, $13::text, $14, number, $11 FROM added WHERE $13::text IS NOT NULL`,
    ...[id, account, status, created_at, completed_at, JSON.stringify({ request: cut.request, callback_url })],
    ...[JSON.stringify(checkpoint), JSON.stringify({ error, media }), request.model, request.prompt],
    ...[remaining_credits, -cost],
    ...(idempotency ? [idempotency.key, idempotency.body].map((text) => hash("sha256", text)) : [null, null]),
    ...[needs.images, needs.isReal, needs.isFetched, needs.engine, needs.isSubmitting],
  );
  const insert = `INSERT INTO vidgen.images (generation, place, source)
    SELECT number, $2, $3 FROM vidgen.generations WHERE id = $1`;
  for (const { place, source } of cut.images) await query(insert, id, place, JSON.stringify(source));
}

/** This program wrote the rows, so that their JSON is not checked again. */
export function readRow({ asked, checkpoint, result, ...row }: Row): StoredGeneration {
  const generation = row as Pick<StoredGeneration, "id" | "account" | "status" | "created_at" | "completed_at">;
  const { request, callback_url }: Pick<StoredGeneration, "request" | "callback_url"> = JSON.parse(String(asked));
  const { error, media }: Pick<StoredGeneration, "error" | "media"> = JSON.parse(String(result));
  const kept: StoredCheckpoint | null = JSON.parse(String(checkpoint));
  return { ...generation, request, callback_url, error, media, checkpoint: kept };
}
