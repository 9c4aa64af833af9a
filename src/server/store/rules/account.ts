import { type Limits, readLimits } from "../limits.ts";
import type { Row } from "../reads/reader.ts";
import { type Rule, sql } from "./rule.ts";

/** An account as a rule reads it. */
export type AccountRow = Limits & { name: string; credits: number; disabled_at: string | null; isDeleted: boolean };

/** What `readAccount` needs. */
export const accountColumns = "name, balance, max_running, max_per_hour, disabled_at, deleted_at";

export function readAccount({ name, balance, disabled_at, deleted_at, ...limits }: Row): AccountRow {
  return {
    name: String(name),
    credits: Number(balance),
    disabled_at: disabled_at === null ? null : String(disabled_at),
    isDeleted: deleted_at !== null,
    ...readLimits(limits),
  };
}

/** Locks an account until the transaction ends, and returns it; `undefined` if it does not exist. */
export function* lockAccount(name: string): Rule<AccountRow | undefined> {
  const [row] = yield* sql(`SELECT ${accountColumns} FROM accounts WHERE name = ? FOR NO KEY UPDATE`, name);
  return row && readAccount(row);
}

export function* findAccount(name: string): Rule<AccountRow | undefined> {
  const [row] = yield* sql(`SELECT ${accountColumns} FROM accounts WHERE name = ?`, name);
  return row && readAccount(row);
}

export function* isDisabled(name: string): Rule<boolean> {
  return ((yield* findAccount(name))?.disabled_at ?? null) !== null;
}

/** Returns the account of a key, unless it is disabled. */
export function* findEnabledOwner(keyHash: string): Rule<string | undefined> {
  const [row] = yield* sql(
    "SELECT account FROM keys JOIN accounts ON name = account WHERE hash = ? AND disabled_at IS NULL",
    keyHash,
  );
  return row && String(row.account);
}

/** Returns the account of a key. */
export function* findOwner(keyHash: string): Rule<string | undefined> {
  const [row] = yield* sql("SELECT account FROM keys WHERE hash = ?", keyHash);
  return row && String(row.account);
}

/** Throws when there is no such account. */
export function* findBalance(account: string): Rule<number> {
  const [row] = yield* sql("SELECT balance FROM accounts WHERE name = ?", account);
  if (!row) throw new Error(`no account ${account}`);
  return Number(row.balance);
}
