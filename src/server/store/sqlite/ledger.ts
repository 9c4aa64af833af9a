import { refundOf } from "../needs.ts";
import type { LedgerEntry, LedgerQuery, NewAccount, Revoked } from "../store.ts";
import type { Database } from "./database.ts";
import { where } from "./where.ts";

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
  return {
    accountOf,
    balance,
    addAccount({ name, keyHash, creditsOf = (had = 0) => had }: NewAccount): number {
      const isNew = database.run("INSERT INTO accounts (name) VALUES (?) ON CONFLICT DO NOTHING", name) > 0;
      database.run("INSERT INTO keys (hash, account) VALUES (?, ?) ON CONFLICT DO NOTHING", keyHash, name);
      const account = accountOf(keyHash);
      if (account !== name) throw new Error(`this key belongs to the account ${account}`);
      const had = balance(name);
      const credits = creditsOf(isNew ? undefined : had);
      // The database itself refuses an amount or a balance that is out of range.
      const insert = "INSERT INTO ledger (account, amount, reason) VALUES (?, ?, 'set by the service''s owner')";
      if (credits !== had) database.run(insert, name, credits - had);
      return credits;
    },
    removeKeys(keys: Revoked): number {
      if ("keyHash" in keys) return database.run("DELETE FROM keys WHERE hash = ?", keys.keyHash);
      return database.run("DELETE FROM keys WHERE account = ? AND hash <> ?", keys.account, keys.except ?? "");
    },
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
    list({ before, limit, generation }: LedgerQuery): LedgerEntry[] {
      const { condition, values } = where([
        ["ledger.number < ?", before],
        ["ledger.generation = (SELECT number FROM generations WHERE id = ?)", generation],
      ]);
      return database.all(
        `SELECT ledger.number, ledger.account, amount, reason, generations.id AS generation, created_at
         FROM ledger LEFT JOIN generations ON generations.number = ledger.generation
         ${condition} ORDER BY ledger.number DESC LIMIT ?`,
        ...[...values, limit],
      ) as LedgerEntry[];
    },
    balances(): { account: string; credits: number }[] {
      const rows = database.all("SELECT name, balance FROM accounts ORDER BY name");
      return rows.map(({ name, balance }) => ({ account: String(name), credits: Number(balance) }));
    },
  };
}
