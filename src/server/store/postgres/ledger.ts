import { hash } from "node:crypto";
import type { Clock } from "../../../io.ts";
import type { Accounts } from "../accounts.ts";
import type { Limits } from "../limits.ts";
import { hourBefore, readLimits, type Use } from "../limits.ts";
import { addedReason, refundOf } from "../needs.ts";
import { notify } from "./changes.ts";
import type { Database, Query } from "./database.ts";

/** So long a key is accepted without another look: one that another process has revoked is refused after it. */
export const keyMs = 5_000;

/** Now, as `toISOString` writes it. */
export const isoNow = `to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** Accounts, the hashes of their keys, and their credits. */
export function createLedger(
  { query, transaction }: Pick<Database, "query" | "transaction">,
  clock: Pick<Clock, "now">,
) {
  /** The accounts of keys by the keys' hashes, and until when they hold. */
  const known = new Map<string, { account: string; end: number }>();
  /** Counts the removals of keys: what was read before one may be of a key that is removed. */
  let removals = 0;
  const accountOf = async (keyHash: string, sql: Query = query) => {
    const [row] = await sql<{ account: string }>("SELECT account FROM vidgen.keys WHERE hash = $1", keyHash);
    return row?.account;
  };
  const forgetKeys = () => {
    removals++;
    known.clear();
  };
  return {
    async account(keyHash) {
      const found = known.get(keyHash);
      if (found && clock.now() < found.end) return found.account;
      const [end, before] = [clock.now() + keyMs, removals];
      const account = await accountOf(keyHash);
      if (account === undefined) known.delete(keyHash);
      else if (removals === before) known.set(keyHash, { account, end });
      return account;
    },
    addAccount: ({ name, keyHash, creditsOf = (had = 0) => had, isOnlyKey = false }) => {
      const add = transaction(async (sql) => {
        const insert = "INSERT INTO vidgen.accounts (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING name";
        const isNew = (await sql(insert, name)).length > 0;
        // Before the key, which locks the account for its reference: two that add one would wait for each other.
        const had = await lockBalance(sql, name);
        await sql("INSERT INTO vidgen.keys (hash, account) VALUES ($1, $2) ON CONFLICT DO NOTHING", keyHash, name);
        const account = await accountOf(keyHash, sql);
        if (account !== name) throw new Error(`this key belongs to the account ${account}`);
        const [deleted] = await sql("SELECT FROM vidgen.accounts WHERE name = $1 AND deleted_at IS NOT NULL", name);
        const credits = creditsOf(isNew ? undefined : had, deleted !== undefined);
        if (deleted) throw new Error(`the account ${name} was deleted`);
        if (credits !== had) {
          await sql("UPDATE vidgen.accounts SET balance = $2 WHERE name = $1", name, credits);
          const entry = `INSERT INTO vidgen.ledger (account, amount, reason, at) VALUES ($1, $2, $3, ${isoNow})`;
          await sql(entry, name, credits - had, "set by the service's owner");
          await notify(sql, { kind: "credits", account: name });
        }
        const remove = "DELETE FROM vidgen.keys WHERE account = $1 AND hash <> $2 RETURNING hash";
        const removed = isOnlyKey ? await sql(remove, name, keyHash) : [];
        return { credits, removed: removed.length };
      });
      return isOnlyKey ? add.finally(forgetKeys) : add;
    },
    deleteAccount: (account, at) =>
      transaction(async (sql) => {
        if (!(await lockAccounts(sql, [account], { isWaiting: true })).has(account)) return undefined;
        await sql("UPDATE vidgen.accounts SET deleted_at = $2 WHERE name = $1 AND deleted_at IS NULL", account, at);
        const removed = await sql("DELETE FROM vidgen.keys WHERE account = $1 RETURNING hash", account);
        await notify(sql, { kind: "credits", account });
        return removed.length;
      }).finally(forgetKeys),
    async removeKeys(keys) {
      const [column, value] = "keyHash" in keys ? ["hash", keys.keyHash] : ["account", keys.account];
      const remove = `DELETE FROM vidgen.keys WHERE ${column} = $1 RETURNING hash`;
      return (await query(remove, value).finally(forgetKeys)).length;
    },
    async endToken({ hash, until }, now) {
      await query("DELETE FROM vidgen.ended_tokens WHERE until <= $1", now);
      const insert =
        "INSERT INTO vidgen.ended_tokens (hash, until) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING hash";
      return (await query(insert, hash, until)).length > 0;
    },
    async hasTokenEnded(hash) {
      return (await query("SELECT FROM vidgen.ended_tokens WHERE hash = $1", hash)).length > 0;
    },
    async balance(account) {
      const [row] = await query("SELECT balance FROM vidgen.accounts WHERE name = $1", account);
      return readBalance(account, row);
    },
    addCredits: ({ account, amount, key }) =>
      transaction(async (sql) => {
        const locked = (await lockAccounts(sql, [account], { isWaiting: true })).get(account);
        if (!locked || locked.isDeleted) return { kind: "no account" };
        const had = locked.balance;
        const find = "SELECT amount FROM vidgen.ledger WHERE account = $1 AND key_hash = $2";
        const [known] = await sql(find, account, hash("sha256", key));
        if (known && Number(known.amount) !== amount) return { kind: "key reused" };
        if (known) return { kind: "added", credits: had, replayed: true };
        const credits = had + amount;
        if (credits < 0 || !Number.isSafeInteger(credits)) return { kind: "out of range", credits: had };
        await sql("UPDATE vidgen.accounts SET balance = $2 WHERE name = $1", account, credits);
        const insert = `INSERT INTO vidgen.ledger (account, amount, reason, key_hash, at)
          VALUES ($1, $2, $3, $4, ${isoNow})`;
        await sql(insert, account, amount, addedReason, hash("sha256", key));
        await notify(sql, { kind: "credits", account });
        return { kind: "added", credits, replayed: false };
      }),
    setLimits: (account, limits) =>
      transaction(async (sql) => {
        const had = (await lockAccounts(sql, [account], { isWaiting: true })).get(account);
        if (!had || had.isDeleted) return undefined;
        const { max_running, max_per_hour } = { ...had, ...limits };
        const update = "UPDATE vidgen.accounts SET max_running = $2, max_per_hour = $3 WHERE name = $1";
        await sql(update, account, max_running, max_per_hour);
        return { max_running, max_per_hour };
      }),
  } satisfies Partial<Accounts>;
}

/** Returns an account's credits, which nobody else changes until the transaction ends. Rejects when there is no such account. */
export async function lockBalance(query: Query, account: string): Promise<number> {
  const [row] = await query("SELECT balance FROM vidgen.accounts WHERE name = $1 FOR UPDATE", account);
  return readBalance(account, row);
}

type Locked = Limits & { balance: number; isDeleted: boolean };

/**
 * Returns the credits and limits of accounts, which nobody else changes until the transaction ends. An account that is locked is missing, as is one that does
 * not exist, unless this waits for the locks.
 */
export async function lockAccounts(
  query: Query,
  accounts: readonly string[],
  { isWaiting }: { isWaiting: boolean },
): Promise<Map<string, Locked>> {
  const rows = await query(
    `SELECT name, balance, max_running, max_per_hour, deleted_at IS NOT NULL AS is_deleted
     FROM vidgen.accounts WHERE name = ANY($1) FOR UPDATE ${isWaiting ? "" : "SKIP LOCKED"}`,
    accounts,
  );
  return new Map(
    rows.map(({ name, balance, is_deleted, ...limits }) => [
      String(name),
      { balance: Number(balance), isDeleted: is_deleted === true, ...readLimits(limits) },
    ]),
  );
}

/** Returns what counts for the limits of an account for a start at this time (ISO 8601). As many rows are read as a limit allows. */
export async function findUse(query: Query, account: string, limits: Limits, at: string): Promise<Use> {
  const [use] = await query(
    `SELECT
       (SELECT count(*) FROM (SELECT FROM vidgen.generations WHERE account = $1 AND status = 'processing' LIMIT $2) AS r) AS running,
       (SELECT count(*) FROM (SELECT FROM vidgen.generations WHERE account = $1 AND created_at > $3 LIMIT $4) AS s) AS starts,
       (SELECT min(created_at) FROM vidgen.generations WHERE account = $1 AND created_at > $3) AS oldest_at`,
    ...[account, limits.max_running ?? 0, hourBefore(at), limits.max_per_hour ?? 0],
  );
  const oldest_at = typeof use?.oldest_at === "string" ? use.oldest_at : null;
  return { running: Number(use?.running), starts: Number(use?.starts), oldest_at };
}

/** Gives back what was paid for a generation, by its number. The database refuses to do so twice. */
export async function refund(query: Query, generation: number): Promise<void> {
  const [paid] = await query(
    "SELECT account, -sum(amount) AS amount FROM vidgen.ledger WHERE generation = $1 GROUP BY account",
    generation,
  );
  const account = String(paid?.account);
  const amount = refundOf(Number(paid?.amount), await lockBalance(query, account));
  if (amount === 0) return;
  await query("UPDATE vidgen.accounts SET balance = balance + $2 WHERE name = $1", account, amount);
  await query(
    "INSERT INTO vidgen.ledger (account, amount, reason, generation) VALUES ($1, $2, 'refund', $3)",
    ...[account, amount, generation],
  );
}

function readBalance(account: string, row: { balance?: unknown } | undefined): number {
  if (!row) throw new Error(`no account ${account}`);
  return Number(row.balance);
}
