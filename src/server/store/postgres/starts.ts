import { isUnavailable } from "../../observe/problem.ts";
import { cutRequest } from "../cut-request.ts";
import type { StartOutcome } from "../generations.ts";
import { createGroupCommit, type GroupCommit } from "../group-commit.ts";
import { hashesOfKey, hashOfBody } from "../idempotency.ts";
import type { AccountUsage } from "../limits.ts";
import { toNewRow } from "../new-row.ts";
import { type AccountRow, accountColumns, readAccount } from "../rules/account.ts";
import { findUse } from "../rules/account-limits.ts";
import {
  decideStart,
  isBilled,
  type KeyUse,
  keyUseColumns,
  readKeyUse,
  rowsAfter,
  type Start,
} from "../rules/start.ts";
import type { Store } from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, PgValue, Query } from "./database.ts";
import { runRule } from "./run.ts";

type PendingStart = Start & { resolve(outcome: StartOutcome): void; reject(error: unknown): void };

/**
 * Starts generations in batches. A batch skips accounts that another process has locked; their starts wait in a separate batch for each account, so
 * that no other start waits with them, and no two processes wait for each other. Starts with large images are in these batches too.
 */
export function createStarts({ transaction }: Pick<Database, "transaction">) {
  /** Resolves with the skipped starts. */
  const write = async (batch: PendingStart[], { isWaiting }: { isWaiting: boolean }): Promise<PendingStart[]> => {
    try {
      const outcomes = await transaction((sql) => startAll(sql, batch, { isWaiting }));
      for (const { start, outcome } of outcomes) if (outcome) start.resolve(outcome);
      return outcomes.flatMap(({ start, outcome }) => (outcome ? [] : [start]));
    } catch (error) {
      // A batch that the database has not refused may have been committed, so it must not be written again.
      if (isUnavailable(error) || batch.length === 1) throw error;
      const passedOver: PendingStart[] = [];
      for (const start of batch) {
        const left = await write([start], { isWaiting }).catch(start.reject);
        if (left) passedOver.push(...left);
      }
      return passedOver;
    }
  };
  const batches = createGroupCommit<PendingStart>(async (batch) => {
    for (const start of await write(batch, { isWaiting: false })) batchesOf(start.generation.account).add(start);
  });
  const ownBatches = new Map<string, GroupCommit<PendingStart>>();
  const batchesOf = (account: string) => {
    const own =
      ownBatches.get(account) ??
      createGroupCommit<PendingStart>(async (batch) => void (await write(batch, { isWaiting: true })));
    ownBatches.set(account, own);
    return own;
  };
  return {
    start: (generation, cost, idempotency, missing) =>
      new Promise((resolve, reject) => {
        const isLarge = cutRequest(generation.request).images.length > 0;
        const lane = isLarge ? batchesOf(generation.account) : batches;
        lane.add({ generation, cost, idempotency, missing, resolve, reject });
      }),
    /** Resolves when the starts under way are durable; later ones are rejected. */
    async close() {
      await batches.close();
      await Promise.all(Array.from(ownBatches.values(), (own) => own.close()));
    },
  } satisfies Pick<Store, "start" | "close">;
}

type StartResult = { start: PendingStart; outcome: StartOutcome | undefined };

/**
 * Starts generations one after the other. If another process uses the same key at the same time, the start waits for the lock of the account, and
 * then finds the key. Starts of a locked account have no outcome unless `isWaiting`.
 */
async function startAll(
  sql: Query,
  batch: PendingStart[],
  { isWaiting }: { isWaiting: boolean },
): Promise<StartResult[]> {
  const accounts = await lockAccounts(sql, batch, { isWaiting });
  const uses = await findUses(sql, accounts, batch);
  const keyUses = await findKeyUses(sql, batch);
  const added: NewRow[] = [];
  const outcomes = batch.map((start): StartResult => {
    const name = start.generation.account;
    const account = accounts.get(name);
    if (!account && isWaiting) throw new Error(`no account ${name}`);
    if (!account) return { start, outcome: undefined };
    const hashes = start.idempotency && hashesOfKey(start.idempotency.key);
    const keyUse = hashes?.known.map((hash) => keyUses.get(`${name} ${hash}`)).find((each) => each);
    const rows = { account, use: uses.get(name), keyUse };
    const outcome = decideStart(start, rows);
    if (outcome.kind !== "started" || outcome.replayed) return { start, outcome };
    const after = rowsAfter(start, { rows, outcome });
    accounts.set(name, after.account);
    if (after.use) uses.set(name, after.use);
    if (hashes && after.keyUse) keyUses.set(`${name} ${hashes.stored}`, after.keyUse);
    added.push(toRow(start, outcome.remaining_credits));
    return { start, outcome };
  });
  if (added.length > 0) await addRows(sql, added);
  return outcomes;
}

/**
 * Locks the accounts of a batch until the transaction ends, and returns them. Accounts that do not exist are missing and, unless `isWaiting`, locked
 * ones too.
 */
async function lockAccounts(sql: Query, batch: PendingStart[], { isWaiting }: { isWaiting: boolean }) {
  const names = [...new Set(batch.map(({ generation }) => generation.account))];
  const rows = await sql(
    `SELECT ${accountColumns} FROM vidgen.accounts WHERE name = ANY($1) FOR UPDATE ${isWaiting ? "" : "SKIP LOCKED"}`,
    names,
  );
  return new Map(rows.map((row) => [String(row.name), readAccount(row)]));
}

/** Returns the usage of the accounts that have limits. */
async function findUses(
  sql: Query,
  accounts: ReadonlyMap<string, AccountRow>,
  batch: PendingStart[],
): Promise<Map<string, AccountUsage>> {
  const uses = new Map<string, AccountUsage>();
  for (const [name, account] of accounts) {
    const start = batch.find(({ generation }) => generation.account === name);
    const { generation, missing } = start ?? {};
    const use = generation && (await runRule(sql, findUse(account, { at: generation.created_at, missing })));
    if (use) uses.set(name, use);
  }
  return uses;
}

/** Returns the stored uses of the batch's idempotency keys, by account and hash of the key. */
async function findKeyUses(sql: Query, batch: PendingStart[]): Promise<Map<string, KeyUse>> {
  const known = batch.flatMap(({ generation: { account }, idempotency }) =>
    idempotency ? hashesOfKey(idempotency.key).known.map((hash) => ({ account, hash })) : [],
  );
  if (known.length === 0) return new Map();
  const rows = await sql(
    `SELECT ${keyUseColumns} FROM unnest($1::text[], $2::text[]) AS asked (account, key_hash)
     JOIN vidgen.idempotency_keys USING (account, key_hash)
     JOIN vidgen.generations ON generations.number = idempotency_keys.generation`,
    ...[known.map(({ account }) => account), known.map(({ hash }) => hash)],
  );
  return new Map(rows.map((row) => [`${row.account} ${row.key_hash}`, readKeyUse(row)]));
}

/** The columns of a generation's row that its start fills. */
const generationTypes = {
  account: "text",
  id: "text",
  status: "text",
  created_at: "text",
  completed_at: "text",
  asked: "jsonb",
  checkpoint: "jsonb",
  result: "jsonb",
  secrets: "jsonb",
  model: "text",
  search: "text",
  images: "integer",
  is_real: "boolean",
  names: "text",
  is_fetched: "boolean",
  engine: "text",
  is_submitting: "boolean",
  label: "text",
  state: "text",
};
const types = {
  ...generationTypes,
  cost: "bigint",
  is_billed: "boolean",
  remaining_credits: "bigint",
  key_hash: "text",
  request_hash: "text",
};
type Column = keyof typeof types;
type NewRow = { values: Record<Column, PgValue>; sources: { place: number; source: string }[] };

function toRow({ generation, cost, idempotency }: PendingStart, remaining_credits: number): NewRow {
  const { columns, searched, images } = toNewRow(generation);
  const values = {
    ...columns,
    search: searched,
    cost,
    is_billed: isBilled({ generation, cost }),
    remaining_credits,
    key_hash: idempotency && hashesOfKey(idempotency.key).stored,
    request_hash: idempotency && hashOfBody(idempotency.body, true),
  };
  return { values, sources: images };
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
      INSERT INTO vidgen.ledger (account, amount, reason, at, generation)
      SELECT account, -cost, 'start', created_at, number FROM added JOIN started USING (id) WHERE is_billed ORDER BY number
    )
  INSERT INTO vidgen.idempotency_keys (account, key_hash, request_hash, is_sorted, generation, remaining_credits)
  SELECT account, key_hash, request_hash, true, number, remaining_credits FROM added JOIN started USING (id)
  WHERE key_hash IS NOT NULL`;
const insertImage = `INSERT INTO vidgen.images (generation, place, source)
  SELECT number, $2, $3 FROM vidgen.generations WHERE id = $1`;

/** Adds generations with their ledger rows and idempotency keys. */
async function addRows(sql: Query, rows: readonly NewRow[]): Promise<void> {
  await sql(insert, ...names.map((name) => rows.map(({ values }) => values[name])));
  for (const { values, sources } of rows)
    for (const { place, source } of sources) await sql(insertImage, values.id, place, source);
  const changes = rows.map(({ values }) => ({
    kind: "generation" as const,
    id: String(values.id),
    account: String(values.account),
  }));
  const accounts = new Set(changes.map(({ account }) => account));
  await notify(sql, ...changes, ...[...accounts].map((account) => ({ kind: "credits" as const, account })));
}
