import { endChanges } from "../change.ts";
import { joinImages, marksOf, readCompleted, shownCharacters, submissionOf } from "../needs.ts";
import { isShortSearch, maxScanned, searchText, searchWords } from "../search.ts";
import type {
  Cancellation,
  CompletedBefore,
  EndedBefore,
  GenerationFilter,
  GenerationSummary,
  Store,
  StoredCheckpoint,
  StoredGeneration,
  StoredResult,
} from "../store.ts";
import { countRows, countSums, labelTotals, maxFound, readCounts, readLabels, summedBy } from "../sums.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Row } from "./database.ts";
import type { Deliveries } from "./deliveries.ts";
import { refund } from "./ledger.ts";
import { where } from "./where.ts";

export const columns = "id, account, status, created_at, completed_at, asked, checkpoint, result";

/** Whether this process, $1, may write to a generation: nobody has taken it, or this process did so last. */
const isHeldHere = "(holder IS NULL OR holder = $1)";

/**
 * Locks the account of generation $2 before the generation, as a start does. While this waits for the account, nothing else waits for the generation: its
 * holder renews all that it makes in one statement, and would lose all of it.
 */
const lockOwner = `WITH owner AS MATERIALIZED (
  SELECT name FROM vidgen.accounts WHERE name = (SELECT account FROM vidgen.generations WHERE id = $2) FOR NO KEY UPDATE)`;

export type Parts = { addDelivery: Deliveries["add"]; process: string };

/** Generations from their start on. */
export function createGenerations({ query, transaction }: Database, { addDelivery, process }: Parts) {
  const find = async (id: string, sql: Query = query) => {
    const [row] = await sql(`SELECT ${columns}, removed_at, starred FROM vidgen.generations WHERE id = $1`, id);
    return row && readRow(row);
  };

  const finish = (id: string, { end, delivery }: Omit<Cancellation, "engine">, cancelled?: Cancellation) =>
    transaction(async (sql) => {
      const { status, completed_at, error, error_code, media, cost, isRefunded } = end;
      const isCancelled = cancelled !== undefined;
      const [row] = await sql(
        `${lockOwner}
         UPDATE vidgen.generations SET status = $3, completed_at = $4, result = $5, search = search || $8
         FROM owner WHERE account = owner.name AND id = $2 AND status = 'processing' AND CASE WHEN $6::boolean
           THEN NOT is_submitting AND engine IS NOT DISTINCT FROM $7::text ELSE ${isHeldHere} END
         RETURNING number, account`,
        ...[process, id, status, completed_at, JSON.stringify({ error, error_code, media, cost })],
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
    async completedBefore({ before, limit, after }: CompletedBefore) {
      const rows = await query(
        `SELECT id, completed_at, result FROM vidgen.generations
         WHERE status = 'completed' AND removed_at IS NULL AND completed_at < $1 AND (completed_at, id) > ($2, $3)
         ORDER BY completed_at, id LIMIT ${limit}`,
        ...[before, after?.completed_at ?? "", after?.id ?? ""],
      );
      return rows.map(readCompleted);
    },
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
    async generations({ account, order = "desc", after, limit }) {
      const behind = order === "asc" ? newerThan(after) : olderThan(after);
      const { condition, values } = where([["account = ?", account], behind]);
      const rows = await query(
        `SELECT ${columns} FROM vidgen.generations ${condition} AND removed_at IS NULL
         ORDER BY number ${order === "asc" ? "ASC" : "DESC"} LIMIT ${limit}`,
        ...values,
      );
      return rows.map(readRow);
    },
    async list({ before, after, from, limit, ...filter }) {
      const { condition, values } = where([...matching(filter), olderThan(before), newerThan(after), notAfter(from)]);
      const rows = await query(
        `SELECT id, account, status, state, created_at, completed_at, removed_at, starred, model, label, asked,
           checkpoint, result, left(prompt, ${shownCharacters}) AS prompt,
           (SELECT coalesce(-sum(amount), 0) FROM vidgen.ledger WHERE generation = shown.number) AS credits,
           (SELECT count(*) FROM (SELECT FROM vidgen.generations AS other WHERE shown.state = 'queued'
             AND other.state = 'queued' AND other.model = shown.model AND other.number < shown.number LIMIT ${maxCounted}) AS others) AS ahead
         FROM vidgen.generations AS shown ${condition} ORDER BY number ${after === undefined ? "DESC" : "ASC"} LIMIT ${limit}`,
        ...values,
      );
      return rows.map(readSummary);
    },
    async labels({ account, label, limit }) {
      const { condition, values } = where([
        ["by = ?", "label"],
        ["account = ?", account],
        ["key = ?", label],
      ]);
      return readLabels(await query(labelTotals("vidgen.sums", condition, limit), ...values));
    },
    async totals({ state, from, ...filter }) {
      const { account, model, label } = filter;
      const sumsOf = (by: "model" | "label", key?: string) => {
        const { condition, values } = where([
          ["by = ?", by],
          ["account = ?", account],
          ["key = ?", key],
        ]);
        return query(countSums("vidgen.sums", condition), ...values);
      };
      const models = await sumsOf("model");
      const count = async (): Promise<Row[]> => {
        const by = summedBy(filter);
        if (by === "model") return models.filter(({ key }) => model === undefined || key === model);
        if (by === "label") return sumsOf("label", label);
        const { condition, values } = where(matching(filter));
        return query(
          `SELECT ${countRows} FROM (
             SELECT state FROM vidgen.generations ${condition} ORDER BY number DESC LIMIT ${maxFound}) AS found`,
          ...values,
        );
      };
      const newer = where([...matching({ ...filter, state }), newerThan(from)]);
      const [row] =
        from === undefined
          ? []
          : await query(
              `SELECT count(*) AS count FROM (SELECT FROM vidgen.generations ${newer.condition} LIMIT ${maxCounted}) AS newer`,
              ...newer.values,
            );
      return {
        counts: readCounts(await count()),
        newer: Number(row?.count ?? 0),
        models: models.map(({ key }) => String(key)),
      };
    },
  } satisfies Partial<Store>;
}

/** How far the generations before another one, or after it, are counted. */
const maxCounted = 1_000;

type Condition = [sql: string, value: string | true | undefined];

const matching = ({ state, model, text, account, isStarred, label }: GenerationFilter): Condition[] => [
  ["state = ?", state],
  ["model = ?", model],
  ["account = ?", account],
  ["starred", isStarred],
  ["label = ?", label],
  [`number > (SELECT max(number) FROM vidgen.generations) - ${maxScanned}`, isShortSearch(text) || undefined],
  ...searchWords(text).map((word): Condition => ["search LIKE ?", `%${word.replace(/[\\%_]/g, "\\$&")}%`]),
];
const numberOf = "(SELECT number FROM vidgen.generations WHERE id = ?)";
const olderThan = (id: string | undefined): Condition => [`number < ${numberOf}`, id];
const notAfter = (id: string | undefined): Condition => [`number <= ${numberOf}`, id];
const newerThan = (id: string | undefined): Condition => [`number > ${numberOf}`, id];

function readSummary({
  asked,
  checkpoint,
  result,
  removed_at,
  starred,
  credits,
  ahead,
  ...row
}: Row): GenerationSummary {
  const { aspectRatio, duration }: StoredGeneration["request"] = JSON.parse(String(asked)).request;
  const begun: StoredCheckpoint | null = JSON.parse(String(checkpoint));
  return {
    ...(row as Pick<
      GenerationSummary,
      "id" | "account" | "status" | "state" | "created_at" | "completed_at" | "model" | "prompt" | "label"
    >),
    cost: null,
    ...(JSON.parse(String(result)) as StoredResult),
    ...marksOf({ removed_at, starred }),
    aspectRatio,
    duration,
    begun_at: begun?.at ?? null,
    credits: Number(credits),
    ahead: Number(ahead),
  };
}

/** This program wrote the rows, so that their JSON is not checked again. */
export function readRow({ asked, checkpoint, result, removed_at, starred, ...row }: Row): StoredGeneration {
  const generation = row as Pick<StoredGeneration, "id" | "account" | "status" | "created_at" | "completed_at">;
  const { request, callback_url }: Pick<StoredGeneration, "request" | "callback_url"> = JSON.parse(String(asked));
  const ended: StoredResult = JSON.parse(String(result));
  const kept: StoredCheckpoint | null = JSON.parse(String(checkpoint));
  return {
    ...generation,
    request,
    callback_url,
    cost: null,
    ...ended,
    ...marksOf({ removed_at, starred }),
    checkpoint: kept,
  };
}
