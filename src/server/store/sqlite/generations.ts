import { hash } from "node:crypto";
import type {
  Cancellation,
  EndedBefore,
  GenerationEnd,
  Idempotency,
  Images,
  StartOutcome,
  StoredCheckpoint,
  StoredGeneration,
} from "../generations.ts";
import { cutImages, joinImages, needsOf, stateOf, submissionOf } from "../needs.ts";
import { columns, readGeneration } from "../reads/generations.ts";
import { searchText } from "../search.ts";
import type { Database, Value } from "./database.ts";
import type { Ledger } from "./ledger.ts";

/** The tables of generations and idempotency keys. Synchronous: the caller runs changes in a transaction. */
export function createGenerations(database: Database, ledger: Ledger) {
  const keys = createIdempotencyKeys(database);
  const find = (id: string) => {
    const row = database.get(`SELECT ${columns}, removed_at, starred FROM generations WHERE id = ?`, id);
    return row && readGeneration(row);
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
      `INSERT INTO generations (${columns}, images, is_real, is_fetched, engine, is_submitting, state, label)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, account, status, created_at, completed_at],
      ...[
        JSON.stringify({ request: cut.request, callback_url }),
        JSON.stringify(checkpoint),
        JSON.stringify({ error, media }),
      ],
      ...[needs.images, Number(needs.isReal), Number(needs.isFetched), needs.engine, Number(needs.isSubmitting)],
      stateOf(generation),
      request.label?.name ?? null,
    );
    database.run(
      "INSERT INTO search (generation, text) SELECT number, CAST(? AS TEXT) FROM generations WHERE id = ?",
      ...[Buffer.from(searchText(request.prompt, id, request.model, request.label?.name ?? null)), id],
    );
    const insert =
      "INSERT INTO images (generation, place, source) SELECT number, ?, CAST(? AS TEXT) FROM generations WHERE id = ?";
    for (const { place, source } of cut.images) database.run(insert, place, Buffer.from(JSON.stringify(source)), id);
  };

  const findStart = (account: string, idempotency: Idempotency): StartOutcome | undefined => {
    const known = keys.find(account, idempotency);
    if (known?.isOtherBody) return { kind: "key reused" };
    if (!known) return undefined;
    const { remaining_credits } = known;
    return { kind: "started", generation: get(known.generation), remaining_credits, replayed: true };
  };

  const accountOf = (id: string) =>
    database.get("SELECT account FROM generations WHERE id = ?", id)?.account as string | undefined;

  return {
    findStart,
    accountOf,
    /** Debits the account, and adds the generation and its idempotency key. */
    start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): StartOutcome {
      const { id, account } = generation;
      if (ledger.isDeleted(account)) return { kind: "no account" };
      const known = idempotency && findStart(account, idempotency);
      if (known) return known;
      const limited = ledger.findLimit(account, generation.created_at);
      if (limited) return limited;
      const remaining_credits = ledger.balance(account) - cost;
      if (remaining_credits < 0) return { kind: "no credits" };
      add(generation);
      ledger.debit(account, cost, id);
      if (idempotency) keys.add(account, idempotency, { generation: id, remaining_credits });
      return { kind: "started", generation, remaining_credits, replayed: false };
    },
    find,
    images(id: string): Images<string> {
      const rows = database.all(
        "SELECT place, source FROM images WHERE generation = (SELECT number FROM generations WHERE id = ?)",
        id,
      );
      return joinImages(get(id).request, rows as { place: Value; source: Value }[]);
    },
    star(id: string, isStarred: boolean): void {
      database.run("UPDATE generations SET starred = ? WHERE id = ?", Number(isStarred), id);
    },
    keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null): void {
      const { engine, isSubmitting } = submissionOf(checkpoint);
      const changes = database.run(
        "UPDATE generations SET checkpoint = ?, engine = ?, is_submitting = ?, state = ? WHERE id = ? AND status = 'processing'",
        ...[
          JSON.stringify(checkpoint),
          engine,
          Number(isSubmitting),
          stateOf({ status: "processing", checkpoint }),
          id,
        ],
      );
      if (changes === 0) throw new Error(`no generation ${id} that has not ended`);
    },
    remove(id: string, at: string): void {
      database.run(
        "UPDATE generations SET removed_at = ? WHERE id = ? AND status <> 'processing' AND removed_at IS NULL",
        ...[at, id],
      );
    },
    forget({ before, limit }: EndedBefore): number {
      const rows = database.all(
        `SELECT number FROM generations WHERE status <> 'processing' AND completed_at < ?
           AND (status = 'failed' OR removed_at IS NOT NULL)
           AND NOT EXISTS (SELECT 1 FROM deliveries WHERE generation = generations.number AND next_at IS NOT NULL)
         ORDER BY completed_at LIMIT ?`,
        ...[before, limit],
      );
      const numbers = JSON.stringify(rows.map(({ number }) => number));
      const these = "(SELECT value FROM json_each(?))";
      const ofThese = `generation IN ${these}`;
      database.run(`UPDATE ledger SET generation = NULL WHERE ${ofThese}`, numbers);
      database.run(`DELETE FROM idempotency_keys WHERE ${ofThese}`, numbers);
      const deliveries = `SELECT number FROM deliveries WHERE ${ofThese}`;
      database.run(`DELETE FROM delivery_attempts WHERE delivery IN (${deliveries})`, numbers);
      database.run(`DELETE FROM deliveries WHERE ${ofThese}`, numbers);
      for (const table of ["images", "search"]) database.run(`DELETE FROM ${table} WHERE ${ofThese}`, numbers);
      return database.run(`DELETE FROM generations WHERE number IN ${these}`, numbers);
    },
    /**
     * Returns the generation's account; `undefined`, and changes nothing, when the generation had ended before, or cannot be cancelled so. Throws
     * when there is no such generation.
     */
    end(id: string, end: GenerationEnd, cancelled?: Pick<Cancellation, "engine">): string | undefined {
      const { status, completed_at, error, error_code, engine_code, media, cost, isRefunded } = end;
      const update =
        "UPDATE generations SET status = ?, state = ?, completed_at = ?, result = ? WHERE id = ? AND status = 'processing'";
      const changes = database.run(
        cancelled ? `${update} AND NOT is_submitting AND engine IS ?` : update,
        ...[status, status, completed_at, JSON.stringify({ error, error_code, engine_code, media, cost }), id],
        ...(cancelled ? [cancelled.engine] : []),
      );
      // Throws for an unknown id.
      if (changes === 0) get(id);
      if (changes > 0 && error !== null)
        database.run(
          `UPDATE search SET text = text || ? WHERE generation = (SELECT number FROM generations WHERE id = ?)`,
          searchText("", error),
          id,
        );
      if (changes > 0 && isRefunded) ledger.refund(id);
      return changes > 0 ? accountOf(id) : undefined;
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
