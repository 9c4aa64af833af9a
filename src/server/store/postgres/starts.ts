import { hash } from "node:crypto";
import { isUnavailable } from "../../observe/trouble.ts";
import { type Batches, createBatches } from "../batches.ts";
import type { Idempotency, StartOutcome, StoredGeneration } from "../generations.ts";
import { findLimit, type Use } from "../limits.ts";
import { cutImages, needsOf } from "../needs.ts";
import { columns, readGeneration } from "../reads/generations.ts";
import { searchText } from "../search.ts";
import type { Store } from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Value } from "./database.ts";
import { findUse, lockAccounts } from "./ledger.ts";

type Start = {
  generation: StoredGeneration;
  cost: number;
  idempotency: Idempotency | undefined;
  resolve(outcome: StartOutcome): void;
  reject(error: unknown): void;
};

/**
 * Starts of generations, in batches. A batch passes over the accounts that another process has locked; their starts wait in batches of their own,
 * so that nobody else waits with them, and no two processes wait for each other. Nor does anybody wait for another account's images.
 */
export function createStarts({ query, transaction }: Database) {
  /** Resolves with the starts that were passed over. */
  const write = async (batch: Start[], { isWaiting }: { isWaiting: boolean }): Promise<Start[]> => {
    try {
      const outcomes = await transaction((sql) => startAll(sql, batch, { isWaiting }));
      for (const { start, outcome } of outcomes) if (outcome) start.resolve(outcome);
      return outcomes.flatMap(({ start, outcome }) => (outcome ? [] : [start]));
    } catch (error) {
      // Nobody knows whether a batch was committed that the database has not refused: it must not be written again.
      if (isUnavailable(error) || batch.length === 1) throw error;
      const passedOver: Start[] = [];
      for (const start of batch) {
        const left = await write([start], { isWaiting }).catch(start.reject);
        if (left) passedOver.push(...left);
      }
      return passedOver;
    }
  };
  const batches = createBatches<Start>(async (batch) => {
    for (const start of await write(batch, { isWaiting: false })) batchesOf(start.generation.account).add(start);
  });
  const ownBatches = new Map<string, Batches<Start>>();
  const batchesOf = (account: string) => {
    const own =
      ownBatches.get(account) ?? createBatches<Start>(async (batch) => void (await write(batch, { isWaiting: true })));
    ownBatches.set(account, own);
    return own;
  };
  return {
    start: (generation, cost, idempotency) =>
      new Promise((resolve, reject) => {
        const isLarge = cutImages(generation.request).images.length > 0;
        const lane = isLarge ? batchesOf(generation.account) : batches;
        lane.add({ generation, cost, idempotency, resolve, reject });
      }),
    async findStart(account, idempotency) {
      const [use] = (await findKeys(query, [{ account, idempotency }])).values();
      return use && outcomeOf(use, hashesOf(idempotency)[1]);
    },
    /** Resolves when the starts under way are durable; later ones are rejected. */
    async close() {
      await batches.close();
      await Promise.all(Array.from(ownBatches.values(), (own) => own.close()));
    },
  } satisfies Pick<Store, "start" | "findStart" | "close">;
}

/** What a key has started, and the hash of the body that came with it. */
type KeyUse = { bodyHash: string; outcome: StartOutcome & { kind: "started" } };

function outcomeOf({ bodyHash, outcome }: KeyUse, repeatedHash: string | null): StartOutcome {
  return bodyHash === repeatedHash ? outcome : { kind: "key reused" };
}

type Outcome = { start: Start; outcome: StartOutcome | undefined };

/**
 * Starts generations, one after the other. One with a key that another process uses at the same time waits for the lock of the account, and then
 * finds the key. Those of an account that is locked have no outcome, unless this waits for it.
 */
async function startAll(sql: Query, batch: Start[], { isWaiting }: { isWaiting: boolean }): Promise<Outcome[]> {
  const names = [...new Set(batch.map(({ generation }) => generation.account))];
  const accounts = await lockAccounts(sql, names, { isWaiting });
  const inUse = await findUses(sql, accounts, batch);
  const asked = batch.map(({ generation: { account }, idempotency }) => ({ account, idempotency }));
  const uses = await findKeys(sql, asked);
  const added: Row[] = [];
  const outcomes = batch.map((start): Outcome => {
    const { generation, cost, idempotency } = start;
    const { account } = generation;
    const known = accounts.get(account);
    if (!known && isWaiting) throw new Error(`no account ${account}`);
    if (!known) return { start, outcome: undefined };
    if (known.isDeleted) return { start, outcome: { kind: "no account" } };
    const [keyHash, bodyHash] = hashesOf(idempotency);
    const use = uses.get(`${account} ${keyHash}`);
    if (use) return { start, outcome: outcomeOf(use, bodyHash) };
    const inUseHere = inUse.get(account);
    const limited = inUseHere && findLimit(known, inUseHere, generation.created_at);
    if (limited) return { start, outcome: limited };
    const remaining_credits = known.balance - cost;
    if (remaining_credits < 0) return { start, outcome: { kind: "no credits" } };
    known.balance = remaining_credits;
    if (inUseHere) {
      inUseHere.running++;
      inUseHere.starts++;
    }
    added.push(toRow(start, remaining_credits));
    const outcome = { kind: "started", generation, remaining_credits, replayed: false } as const;
    // A repeated key is told what a look at the generation has.
    const shown = { ...generation, request: cutImages(generation.request).request };
    if (bodyHash)
      uses.set(`${account} ${keyHash}`, { bodyHash, outcome: { ...outcome, generation: shown, replayed: true } });
    return { start, outcome };
  });
  if (added.length > 0) await add(sql, added);
  return outcomes;
}

/** Returns what counts for the limits of those accounts that have some. */
async function findUses(sql: Query, accounts: Awaited<ReturnType<typeof lockAccounts>>, batch: Start[]) {
  const inUse = new Map<string, Use>();
  for (const [account, limits] of accounts) {
    if (limits.max_running === null && limits.max_per_hour === null) continue;
    const at = batch.find(({ generation }) => generation.account === account)?.generation.created_at;
    if (at !== undefined) inUse.set(account, await findUse(sql, account, limits, at));
  }
  return inUse;
}

/** Only hashes are stored of a key, since an index has little room, and of a body. */
function hashesOf(idempotency: Idempotency | undefined): [key: string, body: string] | [null, null] {
  return idempotency ? [hash("sha256", idempotency.key), hash("sha256", idempotency.body)] : [null, null];
}

/** Returns those keys that started a generation before, by account and hash. */
async function findKeys(
  sql: Query,
  asked: Pick<Start & StoredGeneration, "account" | "idempotency">[],
): Promise<Map<string, KeyUse>> {
  const keyed = asked.filter(({ idempotency }) => idempotency);
  if (keyed.length === 0) return new Map();
  const rows = await sql(
    `SELECT ${columns.replace("account", "generations.account")}, remaining_credits, key_hash, body_hash
     FROM unnest($1::text[], $2::text[]) AS asked (account, key_hash)
     JOIN vidgen.idempotency_keys USING (account, key_hash)
     JOIN vidgen.generations ON generations.number = idempotency_keys.generation`,
    ...[keyed.map(({ account }) => account), keyed.map(({ idempotency }) => hashesOf(idempotency)[0])],
  );
  return new Map(
    rows.map(({ remaining_credits, key_hash, body_hash, ...row }) => {
      const generation = readGeneration(row);
      const outcome = { kind: "started", generation, remaining_credits: Number(remaining_credits), replayed: true };
      return [`${generation.account} ${key_hash}`, { bodyHash: String(body_hash), outcome } as KeyUse];
    }),
  );
}

/** What the row of a generation has from its start. */
const generationTypes = {
  account: "text",
  id: "text",
  status: "text",
  created_at: "text",
  completed_at: "text",
  asked: "text",
  checkpoint: "text",
  result: "text",
  model: "text",
  prompt: "text",
  search: "text",
  images: "integer",
  is_real: "boolean",
  is_fetched: "boolean",
  engine: "text",
  is_submitting: "boolean",
  label: "text",
  label_size: "bigint",
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
  const { account, id, status, created_at, completed_at, request, callback_url, checkpoint, error, media } = generation;
  const { images, isReal, isFetched, engine, isSubmitting } = needsOf(generation);
  const cut = cutImages(request);
  const { label } = request;
  const [key_hash, body_hash] = hashesOf(idempotency);
  const values = {
    account,
    id,
    status,
    created_at,
    completed_at,
    asked: JSON.stringify({ request: cut.request, callback_url }),
    checkpoint: JSON.stringify(checkpoint),
    result: JSON.stringify({ error, media }),
    model: request.model,
    prompt: request.prompt,
    search: searchText(request.prompt, id, request.model, label?.name ?? null),
    images,
    is_real: isReal,
    is_fetched: isFetched,
    engine,
    is_submitting: isSubmitting,
    label: label?.name ?? null,
    label_size: label?.size ?? null,
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
      SELECT * FROM unnest(${names.map((name, index) => `$${index + 1}::${types[name]}[]`).join(", ")})
        AS started (${names.join(", ")})
    ),
    added AS (
      INSERT INTO vidgen.generations (${generationNames}) SELECT ${generationNames} FROM started RETURNING number, id
    ),
    paid AS (
      UPDATE vidgen.accounts SET balance = balance - costs.total
      FROM (SELECT account, sum(cost) AS total FROM started GROUP BY account) AS costs WHERE name = account
    ),
    entries AS (
      INSERT INTO vidgen.ledger (account, amount, reason, generation)
      SELECT account, -cost, 'start', number FROM added JOIN started USING (id) ORDER BY number
    )
  INSERT INTO vidgen.idempotency_keys (account, key_hash, body_hash, generation, remaining_credits)
  SELECT account, key_hash, body_hash, number, remaining_credits FROM added JOIN started USING (id)
  WHERE key_hash IS NOT NULL`;
const insertImage = `INSERT INTO vidgen.images (generation, place, source)
  SELECT number, $2, $3 FROM vidgen.generations WHERE id = $1`;

/** Adds generations, what they cost, and their idempotency keys. */
async function add(sql: Query, rows: readonly Row[]): Promise<void> {
  await sql(insert, ...names.map((name) => rows.map(({ values }) => values[name])));
  for (const { values, sources } of rows)
    for (const { place, source } of sources) await sql(insertImage, values.id, place, JSON.stringify(source));
  const changes = rows.map(({ values }) => ({
    kind: "generation" as const,
    id: String(values.id),
    account: String(values.account),
  }));
  const accounts = new Set(changes.map(({ account }) => account));
  await notify(sql, ...changes, ...[...accounts].map((account) => ({ kind: "credits" as const, account })));
}
