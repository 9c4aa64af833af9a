import { hash } from "node:crypto";
import type { Images } from "../../engines/engine.ts";
import {
  cutImages,
  joinImages,
  marksOf,
  needsOf,
  readCompleted,
  shownCharacters,
  stateOf,
  submissionOf,
} from "../needs.ts";
import { isShortSearch, maxScanned, searchText, searchWords } from "../search.ts";
import type {
  Cancellation,
  Completed,
  CompletedBefore,
  EndedBefore,
  GenerationEnd,
  GenerationFilter,
  GenerationQuery,
  GenerationSummary,
  GenerationTotals,
  Idempotency,
  LabelQuery,
  LabelTotals,
  OwnQuery,
  StartOutcome,
  StoredCheckpoint,
  StoredGeneration,
  StoredResult,
} from "../store.ts";
import { countRows, countSums, labelTotals, maxFound, readCounts, readLabels, summedBy } from "../sums.ts";
import type { Database, Row, Value } from "./database.ts";
import type { Ledger } from "./ledger.ts";
import { where } from "./where.ts";

const columns = "id, account, status, created_at, completed_at, asked, checkpoint, result";

/** The tables of generations and idempotency keys. Synchronous: the caller runs changes in a transaction. */
export function createGenerations(database: Database, ledger: Ledger) {
  const keys = createIdempotencyKeys(database);
  const find = (id: string) => {
    const row = database.get(`SELECT ${columns}, removed_at, starred FROM generations WHERE id = ?`, id);
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
    generations({ account, order = "desc", after, limit }: OwnQuery): StoredGeneration[] {
      const behind = order === "asc" ? newerThan(after) : olderThan(after);
      const { condition, values } = where([["account = ?", account], behind]);
      const rows = database.all(
        `SELECT ${columns} FROM generations ${condition} AND removed_at IS NULL ORDER BY number ${order === "asc" ? "ASC" : "DESC"} LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(readRow);
    },
    list({ before, after, from, limit, ...filter }: GenerationQuery): GenerationSummary[] {
      const { tables, order } = searched(filter);
      const { condition, values } = where([
        ...matching(filter),
        [`${order} < ${numberOf}`, before],
        [`${order} > ${numberOf}`, after],
        [`${order} <= ${numberOf}`, from],
      ]);
      const rows = database.all(
        `SELECT id, account, status, state, created_at, completed_at, removed_at, starred, model, label,
           result, substr(asked ->> '$.request.prompt', 1, ${shownCharacters}) AS prompt,
           asked ->> '$.request.aspectRatio' AS aspectRatio, asked ->> '$.request.duration' AS duration,
           checkpoint ->> '$.at' AS begun_at,
           (SELECT coalesce(-sum(amount), 0) FROM ledger WHERE generation = shown.number) AS credits,
           (SELECT count(*) FROM (SELECT 1 FROM generations AS other INDEXED BY queued WHERE shown.state = 'queued'
             AND other.state = 'queued' AND other.model = shown.model AND other.number < shown.number LIMIT ${maxCounted})) AS ahead
         FROM ${tables} ${condition} ORDER BY ${order} ${after === undefined ? "DESC" : "ASC"} LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(
        ({ result, removed_at, starred, ...row }) =>
          ({
            ...row,
            cost: null,
            ...JSON.parse(String(result)),
            ...marksOf({ removed_at, starred }),
          }) as GenerationSummary,
      );
    },
    totals({ state, from, ...filter }: GenerationFilter & { from?: string | undefined }): GenerationTotals {
      const { account, model, label } = filter;
      const sumsOf = (by: "model" | "label", key?: string) => {
        const { condition, values } = where([
          ["by = ?", by],
          ["account = ?", account],
          ["key = ?", key],
        ]);
        return database.all(countSums("sums", condition), ...values);
      };
      const models = sumsOf("model");
      const count = (): Row[] => {
        const by = summedBy(filter);
        if (by === "model") return models.filter(({ key }) => model === undefined || key === model);
        if (by === "label") return sumsOf("label", label);
        const { condition, values } = where(matching(filter));
        return database.all(
          `SELECT ${countRows} FROM (SELECT state FROM ${tables} ${condition} ORDER BY ${order} DESC LIMIT ${maxFound})`,
          ...values,
        );
      };
      const { tables, order } = searched(filter);
      const newer = where([...matching({ ...filter, state }), [`${order} > ${numberOf}`, from]]);
      const [row] =
        from === undefined
          ? []
          : database.all(
              `SELECT count(*) AS count FROM (SELECT 1 FROM ${tables} ${newer.condition} LIMIT ${maxCounted})`,
              ...newer.values,
            );
      return {
        counts: readCounts(count()),
        newer: Number(row?.count ?? 0),
        models: models.map(({ key }) => String(key)),
      };
    },
    labels({ account, label, limit }: LabelQuery): LabelTotals[] {
      const { condition, values } = where([
        ["by = ?", "label"],
        ["account = ?", account],
        ["key = ?", label],
      ]);
      return readLabels(database.all(labelTotals("sums", condition, limit), ...values));
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
    completedBefore({ before, limit, after }: CompletedBefore): Completed[] {
      const rows = database.all(
        `SELECT id, completed_at, result FROM generations
         WHERE status = 'completed' AND removed_at IS NULL AND completed_at < ? AND (completed_at, id) > (?, ?)
         ORDER BY completed_at, id LIMIT ?`,
        ...[before, after?.completed_at ?? "", after?.id ?? "", limit],
      );
      return rows.map(readCompleted);
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
      const { status, completed_at, error, error_code, media, cost, isRefunded } = end;
      const update =
        "UPDATE generations SET status = ?, state = ?, completed_at = ?, result = ? WHERE id = ? AND status = 'processing'";
      const changes = database.run(
        cancelled ? `${update} AND NOT is_submitting AND engine IS ?` : update,
        ...[status, status, completed_at, JSON.stringify({ error, error_code, media, cost }), id],
        ...(cancelled ? [cancelled.engine] : []),
      );
      // Throws for an unknown id.
      if (changes === 0) get(id);
      if (changes > 0 && error !== null)
        database.run(`UPDATE search SET text = text || ? WHERE generation = ${numberOf}`, searchText("", error), id);
      if (changes > 0 && isRefunded) ledger.refund(id);
      return changes > 0 ? accountOf(id) : undefined;
    },
  };
}

/** How far the generations before another one, or after it, are counted. */
const maxCounted = 1_000;

type Condition = [sql: string, value: string | readonly string[] | true | undefined];

const matching = (filter: GenerationFilter): Condition[] => [
  ["state = ?", filter.state],
  ["model = ?", filter.model],
  ["account = ?", filter.account],
  ["starred", filter.isStarred],
  ["label = ?", filter.label],
  [
    `${searched(filter).order} > (SELECT max(number) FROM generations) - ${maxScanned}`,
    isShortSearch(filter.text) || undefined,
  ],
  ...searchWords(filter.text).map((word): Condition => ["instr(text, ?)", word]),
];

/** The tables that have what is looked for, and the order in which the first rows are found without reading all: the texts of everybody, or the generations of one. */
function searched({ text, account, label, isStarred }: GenerationFilter): { tables: string; order: string } {
  if (searchWords(text).length === 0) return { tables: "generations AS shown", order: "number" };
  if (account === undefined && label === undefined && !isStarred)
    return { tables: "search CROSS JOIN generations AS shown ON number = generation", order: "generation" };
  return { tables: "generations AS shown CROSS JOIN search ON generation = number", order: "number" };
}

const numberOf = "(SELECT number FROM generations WHERE id = ?)";
const olderThan = (id: string | undefined): Condition => [`number < ${numberOf}`, id];
const newerThan = (id: string | undefined): Condition => [`number > ${numberOf}`, id];

/** This program wrote the rows, so that their JSON is not checked again. Earlier versions had previews alone, and no extras. */
function readRow({ asked, checkpoint, result, removed_at, starred, ...row }: Row): StoredGeneration {
  const generation = row as Pick<StoredGeneration, "id" | "account" | "status" | "created_at" | "completed_at">;
  const { request, callback_url }: Pick<StoredGeneration, "request" | "callback_url"> = JSON.parse(String(asked));
  const ended: StoredResult = JSON.parse(String(result));
  return {
    ...generation,
    callback_url,
    cost: null,
    ...ended,
    ...marksOf({ removed_at, starred }),
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
