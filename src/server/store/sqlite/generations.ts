import { hash } from "node:crypto";
import { cutImages, joinImages, needsOf, submissionOf } from "../needs.ts";
import type {
  Cancellation,
  GenerationEnd,
  GenerationQuery,
  GenerationSummary,
  GenerationTotals,
  Idempotency,
  StartOutcome,
  StoredCheckpoint,
  StoredGeneration,
  StoredResult,
} from "../store.ts";
import type { Database, Row, Value } from "./database.ts";
import type { Ledger } from "./ledger.ts";
import { containing, where } from "./where.ts";

const columns = "id, account, status, created_at, completed_at, asked, checkpoint, result";

/** How much of a prompt a list has. */
const shownCharacters = 300;

/** The tables of generations and idempotency keys. Synchronous: the caller runs changes in a transaction. */
export function createGenerations(database: Database, ledger: Ledger) {
  const keys = createIdempotencyKeys(database);
  const find = (id: string) => {
    const row = database.get(`SELECT ${columns} FROM generations WHERE id = ?`, id);
    return row && readRow(row);
  };
  const get = (id: string) => {
    const generation = find(id);
    if (!generation) throw new Error(`no generation ${id}`);
    return generation;
  };
  const add = (generation: StoredGeneration) => {
    const { id, account, status, created_at, completed_at, request, callback_url, error, media, checkpoint } =
      generation;
    const needs = needsOf(generation);
    const cut = cutImages(request);
    database.run(
      `INSERT INTO generations (${columns}, images, is_real, is_fetched, engine, is_submitting)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, account, status, created_at, completed_at],
      ...[
        JSON.stringify({ request: cut.request, callback_url }),
        JSON.stringify(checkpoint),
        JSON.stringify({ error, media }),
      ],
      ...[needs.images, Number(needs.isReal), Number(needs.isFetched), needs.engine, Number(needs.isSubmitting)],
    );
    const insert =
      "INSERT INTO images (generation, place, source) SELECT number, ?, CAST(? AS TEXT) FROM generations WHERE id = ?";
    for (const { place, source } of cut.images) database.run(insert, place, Buffer.from(JSON.stringify(source)), id);
  };

  return {
    /** Debits the account, and adds the generation and its idempotency key. */
    start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): StartOutcome {
      const { id, account } = generation;
      const known = idempotency && keys.find(account, idempotency);
      if (known?.isOtherBody) return { kind: "key reused" };
      if (known) {
        const { remaining_credits } = known;
        return { kind: "started", generation: get(known.generation), remaining_credits, replayed: true };
      }
      const remaining_credits = ledger.balance(account) - cost;
      if (remaining_credits < 0) return { kind: "no credits" };
      add(generation);
      ledger.debit(account, cost, id);
      if (idempotency) keys.add(account, idempotency, { generation: id, remaining_credits });
      return { kind: "started", generation, remaining_credits, replayed: false };
    },
    find,
    images(id: string): string[] {
      const rows = database.all(
        "SELECT place, source FROM images WHERE generation = (SELECT number FROM generations WHERE id = ?)",
        id,
      );
      return joinImages(get(id).request.images, rows as { place: Value; source: Value }[]);
    },
    list({ before, limit, status, model, text, ids }: GenerationQuery): GenerationSummary[] {
      const { condition, values } = where([
        ["number < (SELECT number FROM generations WHERE id = ?)", before],
        ["status = ?", status],
        ["model = ?", model],
        ["asked ->> '$.request.prompt' || char(10) || id LIKE ? ESCAPE '!'", text && containing(text)],
        ["id IN (SELECT value FROM json_each(?))", ids && JSON.stringify(ids)],
      ]);
      const rows = database.all(
        `SELECT id, account, status, created_at, completed_at, model, result,
           substr(asked ->> '$.request.prompt', 1, ${shownCharacters}) AS prompt
         FROM generations ${condition} ORDER BY number DESC LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(({ result, ...row }) => ({ ...row, ...JSON.parse(String(result)) }) as GenerationSummary);
    },
    totals(): GenerationTotals {
      const rows = database.all("SELECT status, count(*) AS count FROM generations GROUP BY status");
      const models = database.all("SELECT DISTINCT model FROM generations ORDER BY model");
      const counts = Object.fromEntries(rows.map(({ status, count }) => [status, count]));
      return { counts, models: models.map(({ model }) => String(model)) };
    },
    keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null): void {
      const { engine, isSubmitting } = submissionOf(checkpoint);
      const changes = database.run(
        "UPDATE generations SET checkpoint = ?, engine = ?, is_submitting = ? WHERE id = ? AND status = 'processing'",
        ...[JSON.stringify(checkpoint), engine, Number(isSubmitting), id],
      );
      if (changes === 0) throw new Error(`no generation ${id} that has not ended`);
    },
    /** Returns false, and changes nothing, when the generation had ended before, or cannot be cancelled so. Throws when there is no such generation. */
    end(id: string, end: GenerationEnd, cancelled?: Pick<Cancellation, "engine">): boolean {
      const { status, completed_at, error, error_code, media, cost, isRefunded } = end;
      const update =
        "UPDATE generations SET status = ?, completed_at = ?, result = ? WHERE id = ? AND status = 'processing'";
      const changes = database.run(
        cancelled ? `${update} AND NOT is_submitting AND engine IS ?` : update,
        ...[status, completed_at, JSON.stringify({ error, error_code, media, cost }), id],
        ...(cancelled ? [cancelled.engine] : []),
      );
      // Throws for an unknown id.
      if (changes === 0) get(id);
      if (changes > 0 && isRefunded) ledger.refund(id);
      return changes > 0;
    },
  };
}

/** This program wrote the rows, so that their JSON is not checked again. Earlier versions had previews alone, and no extras. */
function readRow({ asked, checkpoint, result, ...row }: Row): StoredGeneration {
  const generation = row as Pick<StoredGeneration, "id" | "account" | "status" | "created_at" | "completed_at">;
  const { request, callback_url }: Pick<StoredGeneration, "request" | "callback_url"> = JSON.parse(String(asked));
  const ended: StoredResult = JSON.parse(String(result));
  return {
    ...generation,
    callback_url,
    cost: null,
    ...ended,
    checkpoint: JSON.parse(String(checkpoint)),
    request: {
      ...request,
      extras: request.extras ?? {},
      hasDirectives: request.hasDirectives ?? true,
      isReal: request.isReal ?? false,
    },
  };
}

/** What a start under a key left behind: the generation's id, and the credits that its reply named. */
type KeyUse = { generation: string; remaining_credits: number };

function createIdempotencyKeys(database: Database) {
  return {
    find(account: string, { key, body }: Idempotency): (KeyUse & { isOtherBody: boolean }) | undefined {
      const row = database.get(
        `SELECT generations.id AS generation, remaining_credits, body_hash
         FROM idempotency_keys JOIN generations ON generations.number = idempotency_keys.generation
         WHERE idempotency_keys.account = ? AND key = ?`,
        ...[account, key],
      ) as (KeyUse & { body_hash: string }) | undefined;
      return row && { ...row, isOtherBody: row.body_hash !== hash("sha256", body) };
    },
    /** Only the hash of a body is stored, since a body may have 28 MB. */
    add(account: string, { key, body }: Idempotency, { generation, remaining_credits }: KeyUse): void {
      database.run(
        `INSERT INTO idempotency_keys (account, key, generation, remaining_credits, body_hash)
         SELECT ?, ?, number, ?, ? FROM generations WHERE id = ?`,
        ...[account, key, remaining_credits, hash("sha256", body), generation],
      );
    },
  };
}
