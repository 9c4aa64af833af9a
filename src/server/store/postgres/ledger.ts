import type { Clock } from "../../../io.ts";
import { refundOf } from "../needs.ts";
import type { LedgerEntry, LedgerQuery, Store } from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query } from "./database.ts";
import { where } from "./where.ts";

/** So long a key is accepted without another look: one that another process has revoked is refused after it. */
const keyMs = 5_000;

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
    addAccount: ({ name, keyHash, creditsOf = (had = 0) => had }) =>
      transaction(async (sql) => {
        const insert = "INSERT INTO vidgen.accounts (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING name";
        const isNew = (await sql(insert, name)).length > 0;
        await sql("INSERT INTO vidgen.keys (hash, account) VALUES ($1, $2) ON CONFLICT DO NOTHING", keyHash, name);
        const account = await accountOf(keyHash, sql);
        if (account !== name) throw new Error(`this key belongs to the account ${account}`);
        const had = await lockBalance(sql, name);
        const credits = creditsOf(isNew ? undefined : had);
        if (credits === had) return credits;
        await sql("UPDATE vidgen.accounts SET balance = $2 WHERE name = $1", name, credits);
        const entry = "INSERT INTO vidgen.ledger (account, amount, reason) VALUES ($1, $2, $3)";
        await sql(entry, name, credits - had, "set by the service's owner");
        await notify(sql, { kind: "credits" });
        return credits;
      }),
    async removeKeys(keys) {
      try {
        const removed =
          "keyHash" in keys
            ? await query("DELETE FROM vidgen.keys WHERE hash = $1 RETURNING hash", keys.keyHash)
            : await query(
                "DELETE FROM vidgen.keys WHERE account = $1 AND hash <> $2 RETURNING hash",
                ...[keys.account, keys.except ?? ""],
              );
        return removed.length;
      } finally {
        removals++;
        known.clear();
      }
    },
    async balance(account) {
      const [row] = await query("SELECT balance FROM vidgen.accounts WHERE name = $1", account);
      return readBalance(account, row);
    },
    async ledger({ before, limit, generation }: LedgerQuery) {
      const { condition, values } = where([
        ["ledger.number < ?", before],
        ["generations.id = ?", generation],
      ]);
      const rows = await query(
        `SELECT ledger.number, ledger.account, amount, reason, generations.id AS generation, created_at
         FROM vidgen.ledger LEFT JOIN vidgen.generations ON generations.number = ledger.generation
         ${condition} ORDER BY ledger.number DESC LIMIT ${limit}`,
        ...values,
      );
      return rows.map((row) => ({ ...row, number: Number(row.number), amount: Number(row.amount) }) as LedgerEntry);
    },
    async balances() {
      const rows = await query('SELECT name, balance FROM vidgen.accounts ORDER BY name COLLATE "C"');
      return rows.map(({ name, balance }) => ({ account: String(name), credits: Number(balance) }));
    },
  } satisfies Partial<Store>;
}

/** Returns an account's credits, which nobody else changes until the transaction ends. Rejects when there is no such account. */
export async function lockBalance(query: Query, account: string): Promise<number> {
  const [row] = await query("SELECT balance FROM vidgen.accounts WHERE name = $1 FOR UPDATE", account);
  return readBalance(account, row);
}

/**
 * Returns the credits of accounts, which nobody else changes until the transaction ends. An account that is locked is missing, as is one that does
 * not exist, unless this waits for the locks.
 */
export async function lockBalances(
  query: Query,
  accounts: readonly string[],
  { isWaiting }: { isWaiting: boolean },
): Promise<Map<string, number>> {
  const rows = await query(
    `SELECT name, balance FROM vidgen.accounts WHERE name = ANY($1) FOR UPDATE ${isWaiting ? "" : "SKIP LOCKED"}`,
    accounts,
  );
  return new Map(rows.map(({ name, balance }) => [String(name), Number(balance)]));
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
