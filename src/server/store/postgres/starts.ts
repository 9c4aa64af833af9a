import { hash } from "node:crypto";
import { isUnavailable } from "../../trouble.ts";
import { type Batches, createBatches } from "../batches.ts";
import { cutImages, needsOf } from "../needs.ts";
import type { Idempotency, StartOutcome, Store, StoredGeneration } from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Value } from "./database.ts";
import { columns, readRow } from "./generations.ts";
import { lockBalance } from "./ledger.ts";

type Start = {
  generation: StoredGeneration;
  cost: number;
  idempotency: Idempotency | undefined;
  resolve(outcome: StartOutcome): void;
  reject(error: unknown): void;
};

/** Starts of generations, each account's in batches. */
export function createStarts({ transaction }: Database) {
  /** Accounts do not share a batch: another process may hold the lock of one. */
  const accounts = new Map<string, Batches<Start>>();

  /** Rejects when nobody knows whether the batch was committed, or when nothing of it was. */
  const write = async (batch: Start[]): Promise<void> => {
    try {
      const outcomes = await transaction((sql) => startAll(sql, batch));
      for (const { start, outcome } of outcomes) start.resolve(outcome);
    } catch (error) {
      if (isUnavailable(error) || batch.length === 1) throw error;
      // The database has refused the whole batch because of one start.
      for (const start of batch) await write([start]).catch(start.reject);
    }
  };
  const batchesOf = (account: string) => {
    const batches = accounts.get(account) ?? createBatches(write);
    accounts.set(account, batches);
    return batches;
  };
  return {
    start: (generation, cost, idempotency) =>
      new Promise((resolve, reject) => {
        batchesOf(generation.account).add({ generation, cost, idempotency, resolve, reject });
      }),
    /** Resolves when the starts under way are durable; later ones are rejected. */
    async close() {
      await Promise.all(Array.from(accounts.values(), (batches) => batches.close()));
    },
  } satisfies Pick<Store, "start" | "close">;
}

/** What a key has started, and the hash of the body that came with it. */
type KeyUse = { bodyHash: string; outcome: StartOutcome & { kind: "started" } };

/**
 * Starts generations of one account, one after the other. One with a key that another process uses at the same time waits for the lock of the
 * account, and then finds the key.
 */
async function startAll(sql: Query, batch: Start[]): Promise<{ start: Start; outcome: StartOutcome }[]> {
  const account = String(batch[0]?.generation.account);
  let balance = await lockBalance(sql, account);
  const uses = await findKeys(sql, account, batch);
  const added: Row[] = [];
  const outcomes = batch.map((start): { start: Start; outcome: StartOutcome } => {
    const { generation, cost, idempotency } = start;
    const [keyHash, bodyHash] = hashesOf(idempotency);
    const use = uses.get(keyHash ?? "");
    if (use) return { start, outcome: use.bodyHash === bodyHash ? use.outcome : { kind: "key reused" } };
    if (balance < cost) return { start, outcome: { kind: "no credits" } };
    balance -= cost;
    added.push(toRow(start, balance));
    const outcome = { kind: "started", generation, remaining_credits: balance, replayed: false } as const;
    const shown = { ...generation, request: cutImages(generation.request).request };
    if (keyHash && bodyHash)
      uses.set(keyHash, { bodyHash, outcome: { ...outcome, generation: shown, replayed: true } });
    return { start, outcome };
  });
  if (added.length > 0) await add(sql, account, { rows: added, balance });
  return outcomes;
}

/** Only hashes are stored of a key, since an index has little room, and of a body. */
function hashesOf(idempotency: Idempotency | undefined): [key: string, body: string] | [null, null] {
  return idempotency ? [hash("sha256", idempotency.key), hash("sha256", idempotency.body)] : [null, null];
}

/** Returns by their hashes those keys that started a generation before. */
async function findKeys(sql: Query, account: string, batch: Start[]): Promise<Map<string, KeyUse>> {
  const hashes = batch.flatMap(({ idempotency }) => (idempotency ? [hashesOf(idempotency)[0]] : []));
  if (hashes.length === 0) return new Map();
  const rows = await sql(
    `SELECT ${columns.replace("account", "generations.account")}, remaining_credits, key_hash, body_hash
     FROM vidgen.idempotency_keys JOIN vidgen.generations ON generations.number = idempotency_keys.generation
     WHERE idempotency_keys.account = $1 AND key_hash = ANY($2)`,
    ...[account, hashes],
  );
  return new Map(
    rows.map(({ remaining_credits, key_hash, body_hash, ...generation }) => {
      const started = { generation: readRow(generation), remaining_credits: Number(remaining_credits) };
      return [
        String(key_hash),
        { bodyHash: String(body_hash), outcome: { kind: "started", ...started, replayed: true } },
      ];
    }),
  );
}

/** What the row of a generation has from its start, besides the account. */
const generationTypes = {
  id: "text",
  status: "text",
  created_at: "text",
  completed_at: "text",
  asked: "text",
  checkpoint: "text",
  result: "text",
  model: "text",
  prompt: "text",
  images: "integer",
  is_real: "boolean",
  is_fetched: "boolean",
  engine: "text",
  is_submitting: "boolean",
};
const types = {
  ...generationTypes,
  cost: "bigint",
  remaining_credits: "bigint",
  key_hash: "text",
  body_hash: "text",
};
type Column = keyof typeof types;
type Row = { values: Record<Column, Value>; sources: { place: number; source: string }[] };

function toRow({ generation, cost, idempotency }: Start, remaining_credits: number): Row {
  const { id, status, created_at, completed_at, request, callback_url, checkpoint, error, media } = generation;
  const { images, isReal, isFetched, engine, isSubmitting } = needsOf(generation);
  const cut = cutImages(request);
  const [key_hash, body_hash] = hashesOf(idempotency);
  const values = {
    id,
    status,
    created_at,
    completed_at,
    asked: JSON.stringify({ request: cut.request, callback_url }),
    checkpoint: JSON.stringify(checkpoint),
    result: JSON.stringify({ error, media }),
    model: request.model,
    prompt: request.prompt,
    images,
    is_real: isReal,
    is_fetched: isFetched,
    engine,
    is_submitting: isSubmitting,
    cost,
    remaining_credits,
    key_hash,
    body_hash,
  };
  return { values, sources: cut.images };
}

const names = Object.keys(types) as Column[];
const generationNames = Object.keys(generationTypes).join(", ");
const insert = `
  WITH
    started AS (
      SELECT * FROM unnest(${names.map((name, index) => `$${index + 3}::${types[name]}[]`).join(", ")})
        AS started (${names.join(", ")})
    ),
    added AS (
      INSERT INTO vidgen.generations (account, ${generationNames}) SELECT $1, ${generationNames} FROM started
      RETURNING number, id
    ),
    paid AS (UPDATE vidgen.accounts SET balance = $2 WHERE name = $1),
    entries AS (
      INSERT INTO vidgen.ledger (account, amount, reason, generation)
      SELECT $1, -cost, 'start', number FROM added JOIN started USING (id) ORDER BY number
    )
  INSERT INTO vidgen.idempotency_keys (account, key_hash, body_hash, generation, remaining_credits)
  SELECT $1, key_hash, body_hash, number, remaining_credits FROM added JOIN started USING (id)
  WHERE key_hash IS NOT NULL`;
const insertImage = `INSERT INTO vidgen.images (generation, place, source)
  SELECT number, $2, $3 FROM vidgen.generations WHERE id = $1`;

/** Adds generations, what they cost, and their idempotency keys; the account has this balance then. */
async function add(
  sql: Query,
  account: string,
  { rows, balance }: { rows: readonly Row[]; balance: number },
): Promise<void> {
  await sql(insert, account, balance, ...names.map((name) => rows.map(({ values }) => values[name])));
  for (const { values, sources } of rows)
    for (const { place, source } of sources) await sql(insertImage, values.id, place, JSON.stringify(source));
  const changes = rows.map(({ values }) => ({ kind: "generation" as const, id: String(values.id) }));
  await notify(sql, ...changes, { kind: "credits" });
}
