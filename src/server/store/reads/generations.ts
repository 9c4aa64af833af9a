import {
  beginningOf,
  type Completed,
  type Generations,
  type ImageFetch,
  type StoredCheckpoint,
  type StoredGeneration,
  type StoredResult,
} from "../generations.ts";
import type { GenerationFilter, GenerationSummary, ListStart, Reports } from "../reports.ts";
import { maxScanned, searchWords } from "../search.ts";
import { readJson } from "../values.ts";
import { type Condition, type Listed, type Reader, type Row, shownPrompt, where } from "./reader.ts";
import { countRows, countSums, labelTotals, maxFound, readCounts, readLabels, summedBy } from "./sums.ts";

/** What `readGeneration` needs. */
export const columns =
  "id, account, status, created_at, completed_at, removed_at, starred, asked, checkpoint, result, image_fetch";

/** The maximum count of generations before or after another one. */
const maxCounted = 1_000;

type Queues = ReadonlyMap<string, readonly number[]>;

/** Reads generations and their sums. */
export function createGenerationReads({ query, ...dialect }: Reader) {
  const numberOf = "(SELECT number FROM generations WHERE id = ?)";
  const all: Listed = { tables: "generations AS shown", order: "number" };
  const listed = (filter: GenerationFilter) =>
    (searchWords(filter.text).length > 0 && dialect.searched?.(filter)) || all;
  const matching = (filter: GenerationFilter): Condition[] => [
    ["state = ?", filter.state],
    ["model = ?", filter.model],
    ["account = ?", filter.account],
    ["starred", filter.isStarred],
    ["label = ?", filter.label],
    ...searchWords(filter.text).map(dialect.contains),
  ];
  const sumsOf = (by: "model" | "label", { account, label }: GenerationFilter) =>
    where([
      ["by = ?", by],
      ["account = ?", account],
      ["key = ?", by === "label" ? label : undefined],
    ]);

  /** The last generation whose text a search reads, if it does not read the texts of all. */
  const findLast = async ({ text, account, before, from, after }: GenerationFilter & ListStart) => {
    if (!dialect.isScan(text)) return undefined;
    const { condition, values } = where([
      ["account = ?", account],
      [`number < ${numberOf}`, before],
      [`number <= ${numberOf}`, from],
      [`number > ${numberOf}`, after],
    ]);
    const [last, next] = await query(
      `SELECT id, number FROM generations ${condition}
       ORDER BY number ${after === undefined ? "DESC" : "ASC"} LIMIT 2 OFFSET ${maxScanned - 1}`,
      ...values,
    );
    return next && (last as { id: string; number: string | number });
  };
  /** The numbers of the next queued generations of each model, read once for a list, however many of its rows are queued. */
  const readQueues = async (models: ReadonlySet<string>): Promise<Queues> => {
    const queues = new Map<string, number[]>();
    for (const model of models) {
      const rows = await query(
        `SELECT number FROM generations WHERE state = 'queued' AND model = ? ORDER BY number LIMIT ${maxCounted}`,
        model,
      );
      queues.set(
        model,
        rows.map(({ number }) => Number(number)),
      );
    }
    return queues;
  };

  return {
    async generations({ account, order = "desc", after, limit }) {
      const [sign, direction] = order === "asc" ? [">", "ASC"] : ["<", "DESC"];
      const { condition, values } = where([
        ["account = ?", account],
        [`number ${sign} ${numberOf}`, after],
      ]);
      const rows = await query(
        `SELECT ${columns} FROM generations ${condition} AND removed_at IS NULL
         ORDER BY number ${direction} LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(readGeneration);
    },
    async completedBefore({ before, limit, after }) {
      const rows = await query(
        `SELECT id, completed_at, result FROM generations
         WHERE status = 'completed' AND removed_at IS NULL AND completed_at < ? AND (completed_at, id) > (?, ?)
         ORDER BY completed_at, id LIMIT ?`,
        ...[before, after?.completed_at ?? "", after?.id ?? "", limit],
      );
      return rows.map(readCompleted);
    },
    async list({ before, after, from, ids, limit, ...filter }) {
      const { tables, order } = listed(filter);
      const last = await findLast({ ...filter, before, from, after });
      const { condition, values } = where([
        ...matching(filter),
        [`${order} ${after === undefined ? ">=" : "<="} ?`, last?.number],
        [`${order} < ${numberOf}`, before],
        [`${order} > ${numberOf}`, after],
        [`${order} <= ${numberOf}`, from],
        [dialect.isOneOf("id"), ids && JSON.stringify(ids)],
      ]);
      const rows = await query(
        `SELECT number, id, account, status, state, created_at, completed_at, removed_at, starred, model, label, asked,
           checkpoint, result, ${shownPrompt} AS prompt,
           (SELECT coalesce(-sum(amount), 0) FROM ledger WHERE generation = shown.number) AS credits
         FROM ${tables} ${condition} ORDER BY ${order} ${after === undefined ? "DESC" : "ASC"} LIMIT ?`,
        ...[...values, limit],
      );
      const queued = rows.filter(({ state }) => state === "queued");
      const queues = await readQueues(new Set(queued.map(({ model }) => String(model))));
      return rows.map((row) => readSummary(row, queues));
    },
    lastSearched: async (filter) => (await findLast(filter))?.id,
    async states({ account, label, limit }) {
      const { condition, values } = where([
        ["account = ?", account],
        ["label = ?", label],
      ]);
      const states = `SELECT id, state FROM generations ${condition} ORDER BY number DESC LIMIT ?`;
      return (await query(states, ...values, limit)) as Pick<GenerationSummary, "id" | "state">[];
    },
    async labels({ account, label, limit }) {
      const { condition, values } = sumsOf("label", { account, label });
      return readLabels(await query(labelTotals("sums", condition, limit), ...values));
    },
    async kindsOf(account) {
      const [row] = await query(
        `SELECT EXISTS (SELECT 1 FROM sums WHERE by = 'label' AND account = ? AND queued + running + completed + failed > 0) AS batches,
           EXISTS (SELECT 1 FROM deliveries WHERE account = ?) AS callbacks,
           EXISTS (SELECT 1 FROM ledger WHERE account = ?) AS credits`,
        ...[account, account, account],
      );
      return { batches: Boolean(row?.batches), callbacks: Boolean(row?.callbacks), credits: Boolean(row?.credits) };
    },
    async totals({ state, from, before, ...filter }) {
      const count = ({ condition, values }: ReturnType<typeof sumsOf>) =>
        query(countSums("sums", condition), ...values);
      const models = await count(sumsOf("model", filter));
      const { tables, order } = listed(filter);
      const countMatching = async (): Promise<Row[]> => {
        const by = summedBy(filter);
        if (by === "model") return models.filter(({ key }) => filter.model === undefined || key === filter.model);
        if (by === "label") return count(sumsOf("label", filter));
        const last = await findLast({ ...filter, before });
        const { condition, values } = where([
          ...matching(filter),
          [`${order} >= ?`, last?.number],
          [`${order} < ${numberOf}`, dialect.isScan(filter.text) ? before : undefined],
        ]);
        return query(
          `SELECT ${countRows} FROM (
             SELECT state FROM ${tables} ${condition} ORDER BY ${order} DESC LIMIT ${maxFound}) AS found`,
          ...values,
        );
      };
      const countNewer = async () => {
        if (from === undefined) return 0;
        const last = await findLast({ ...filter, after: from });
        const { condition, values } = where([
          ...matching({ ...filter, state }),
          [`${order} > ${numberOf}`, from],
          [`${order} <= ?`, last?.number],
        ]);
        const [row] = await query(
          `SELECT count(*) AS count FROM (SELECT 1 FROM ${tables} ${condition} LIMIT ${maxCounted}) AS newer`,
          ...values,
        );
        return Number(row?.count);
      };
      return {
        counts: readCounts(await countMatching()),
        newer: await countNewer(),
        models: models.map(({ key }) => String(key)),
      };
    },
  } satisfies Partial<Generations & Reports>;
}

/** The JSON of a row is not validated, because this program wrote it. */
export function readGeneration({
  asked,
  checkpoint,
  result,
  image_fetch,
  removed_at,
  starred,
  ...row
}: Row): StoredGeneration {
  const generation = row as Pick<StoredGeneration, "id" | "account" | "status" | "created_at" | "completed_at">;
  return {
    ...generation,
    ...readJson<Pick<StoredGeneration, "request" | "callback_url">>(asked),
    ...readJson<StoredResult>(result),
    ...marksOf({ removed_at, starred }),
    ...(image_fetch !== null && { imageFetch: readJson<ImageFetch>(image_fetch) }),
    checkpoint: readJson<StoredCheckpoint | null>(checkpoint),
  };
}

function readSummary({ number, credits, ...row }: Row, queues: Queues): GenerationSummary {
  const { asked, checkpoint, result, removed_at, starred, ...shown } = row;
  const { aspectRatio, duration } = readJson<Pick<StoredGeneration, "request">>(asked).request;
  return {
    ...(shown as Pick<
      GenerationSummary,
      "id" | "account" | "status" | "state" | "created_at" | "completed_at" | "model" | "prompt" | "label"
    >),
    ...readJson<StoredResult>(result),
    ...marksOf({ removed_at, starred }),
    aspectRatio,
    duration,
    ...beginningOf(readJson<StoredCheckpoint | null>(checkpoint)),
    credits: Number(credits),
    ahead: row.state === "queued" ? countBefore(Number(number), queues.get(String(row.model))) : 0,
  };
}

/** Reads out of a row when its generation was removed, and whether it has a star. */
function marksOf({ removed_at, starred }: Record<string, unknown>) {
  const removal: Pick<StoredGeneration, "removed_at"> = typeof removed_at === "string" ? { removed_at } : {};
  return starred ? { ...removal, isStarred: true } : removal;
}

function readCompleted({ id, completed_at, result }: Record<string, unknown>): Completed {
  return { id: String(id), completed_at: String(completed_at), media: readJson<StoredResult>(result).media };
}

function countBefore(number: number, queue: readonly number[] = []): number {
  const place = queue.findIndex((other) => other >= number);
  return place === -1 ? queue.length : place;
}
