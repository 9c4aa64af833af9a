import { hash } from "node:crypto";
import type { AddedKey, CreditChange, CreditOutcome, NewAccount, Revoked } from "../accounts.ts";
import type { Limited, Limits } from "../limits.ts";
import { findLimit, hourBefore, type Use } from "../limits.ts";
import { addedReason, refundOf } from "../needs.ts";
import type { Database } from "./database.ts";

const isoNow = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

export type Ledger = ReturnType<typeof createLedger>;

/** Accounts, the hashes of their keys, and their credits. Synchronous: the caller runs changes in a transaction. */
export function createLedger(database: Database) {
  const accountOf = (keyHash: string) =>
    database.get("SELECT account FROM keys WHERE hash = ?", keyHash)?.account as string | undefined;
  /** Throws when there is no such account. */
  const balance = (account: string) => {
    const row = database.get("SELECT balance FROM accounts WHERE name = ?", account);
    if (!row) throw new Error(`no account ${account}`);
    return Number(row.balance);
  };
  const limitsOf = (account: string) =>
    database.get("SELECT max_running, max_per_hour FROM accounts WHERE name = ? AND deleted_at IS NULL", account) as
      | Limits
      | undefined;
  const isDeleted = (account: string) =>
    database.get("SELECT 1 FROM accounts WHERE name = ? AND deleted_at IS NOT NULL", account) !== undefined;
  return {
    accountOf,
    balance,
    isDeleted,
    addAccount({ name, keyHash, creditsOf = (had = 0) => had, isOnlyKey = false }: NewAccount): AddedKey {
      const isNew = database.run("INSERT INTO accounts (name) VALUES (?) ON CONFLICT DO NOTHING", name) > 0;
      database.run("INSERT INTO keys (hash, account) VALUES (?, ?) ON CONFLICT DO NOTHING", keyHash, name);
      const account = accountOf(keyHash);
      if (account !== name) throw new Error(`this key belongs to the account ${account}`);
      const had = balance(name);
      const credits = creditsOf(isNew ? undefined : had, isDeleted(name));
      if (isDeleted(name)) throw new Error(`the account ${name} was deleted`);
      // The database itself refuses an amount or a balance that is out of range.
      const insert = `INSERT INTO ledger (account, amount, reason, at)
        VALUES (?, ?, 'set by the service''s owner', ${isoNow})`;
      if (credits !== had) database.run(insert, name, credits - had);
      const remove = "DELETE FROM keys WHERE account = ? AND hash <> ?";
      return { credits, removed: isOnlyKey ? database.run(remove, name, keyHash) : 0 };
    },
    deleteAccount(account: string, at: string): number | undefined {
      if (database.get("SELECT 1 FROM accounts WHERE name = ?", account) === undefined) return undefined;
      database.run("UPDATE accounts SET deleted_at = ? WHERE name = ? AND deleted_at IS NULL", at, account);
      return database.run("DELETE FROM keys WHERE account = ?", account);
    },
    removeKeys(keys: Revoked): number {
      if ("keyHash" in keys) return database.run("DELETE FROM keys WHERE hash = ?", keys.keyHash);
      return database.run("DELETE FROM keys WHERE account = ?", keys.account);
    },
    endToken({ hash, until }: { hash: string; until: string }, now: string): boolean {
      database.run("DELETE FROM ended_tokens WHERE until <= ?", now);
      return (
        database.run("INSERT INTO ended_tokens (hash, until) VALUES (?, ?) ON CONFLICT DO NOTHING", hash, until) > 0
      );
    },
    hasTokenEnded: (hash: string) => database.get("SELECT 1 FROM ended_tokens WHERE hash = ?", hash) !== undefined,
    /** Pays for a generation, by its id. The database refuses to do so twice. */
    debit(account: string, cost: number, generation: string): void {
      const changes = database.run(
        "INSERT INTO ledger (account, amount, reason, generation) SELECT ?, ?, 'start', number FROM generations WHERE id = ?",
        ...[account, -cost, generation],
      );
      if (changes === 0) throw new Error(`no generation ${generation}`);
    },
    /** Gives back what was paid for a generation. The database refuses to do so twice. */
    refund(generation: string): void {
      const paid = database.get(
        `SELECT ledger.account, generations.number, -sum(amount) AS amount
         FROM ledger JOIN generations ON generations.number = ledger.generation WHERE id = ?`,
        generation,
      );
      const account = String(paid?.account);
      const amount = refundOf(Number(paid?.amount), balance(account));
      const insert = "INSERT INTO ledger (account, amount, reason, generation) VALUES (?, ?, 'refund', ?)";
      if (amount > 0) database.run(insert, account, amount, paid?.number ?? null);
    },
    addCredits({ account, amount, key }: CreditChange): CreditOutcome {
      const row = database.get("SELECT balance FROM accounts WHERE name = ? AND deleted_at IS NULL", account);
      if (!row) return { kind: "no account" };
      const had = Number(row.balance);
      const find = "SELECT amount FROM ledger WHERE account = ? AND key_hash = ?";
      const known = database.get(find, account, hash("sha256", key));
      if (known && known.amount !== amount) return { kind: "key reused" };
      if (known) return { kind: "added", credits: had, replayed: true };
      const credits = had + amount;
      if (credits < 0 || !Number.isSafeInteger(credits)) return { kind: "out of range", credits: had };
      const insert = `INSERT INTO ledger (account, amount, reason, key_hash, at) VALUES (?, ?, ?, ?, ${isoNow})`;
      database.run(insert, account, amount, addedReason, hash("sha256", key));
      return { kind: "added", credits, replayed: false };
    },
    setLimits(account: string, limits: Partial<Limits>): Limits | undefined {
      const had = limitsOf(account);
      if (!had) return undefined;
      const { max_running, max_per_hour } = { ...had, ...limits };
      const update = "UPDATE accounts SET max_running = ?, max_per_hour = ? WHERE name = ?";
      database.run(update, max_running, max_per_hour, account);
      return { max_running, max_per_hour };
    },
    /** What refuses a start of the account that is made at this time (ISO 8601). As many rows are read as a limit allows. */
    findLimit(account: string, at: string): Limited | undefined {
      const limits = limitsOf(account);
      if (!limits) return undefined;
      const { max_running, max_per_hour } = limits;
      if (max_running === null && max_per_hour === null) return undefined;
      const use = database.get(
        `SELECT
           (SELECT count(*) FROM (SELECT 1 FROM generations WHERE account = ?1 AND status = 'processing' LIMIT ?2)) AS running,
           (SELECT count(*) FROM (SELECT 1 FROM generations WHERE account = ?1 AND created_at > ?3 LIMIT ?4)) AS starts,
           (SELECT min(created_at) FROM generations WHERE account = ?1 AND created_at > ?3) AS oldest_at`,
        ...[account, max_running ?? 0, hourBefore(at), max_per_hour ?? 0],
      );
      return findLimit(limits, use as Use, at);
    },
  };
}
