import type { CreditChange, CreditOutcome } from "../accounts.ts";
import { hashesOfKey } from "../idempotency.ts";
import { type AccountRow, lockAccount } from "./account.ts";
import { publish, type Rule, sql } from "./rule.ts";

/** A row of the ledger; `generation` is the number of the generation that was paid for, and `keyHash` the hash of an Idempotency-Key. */
export type LedgerRow = {
  account: string;
  amount: number;
  reason: string;
  at: string;
  generation?: number;
  keyHash?: string;
};

/** The ledger's reason for credits that the service's owner has added or taken away. */
export const addedReason = "added by the service's owner";

/**
 * Changes the credits of an account, and adds a row to the ledger. The database refuses a balance that is out of range, and a second row with the
 * same generation and reason.
 */
export function* changeCredits({ account, amount, reason, at, generation, keyHash }: LedgerRow): Rule<void> {
  yield* sql("UPDATE accounts SET balance = balance + ? WHERE name = ?", amount, account);
  yield* sql(
    "INSERT INTO ledger (account, amount, reason, at, generation, key_hash) VALUES (?, ?, ?, ?, ?, ?)",
    ...[account, amount, reason, at, generation ?? null, keyHash ?? null],
  );
  yield* publish({ kind: "credits", account });
}

/**
 * Returns the credits that were paid for a generation (by its number), up to the maximum balance of its account, which must be locked. The database
 * refuses a second refund.
 */
export function* refund({ name, credits }: AccountRow, generation: number, at: string): Rule<void> {
  const [paid] = yield* sql("SELECT -sum(amount) AS amount FROM ledger WHERE generation = ?", generation);
  const amount = Math.min(Number(paid?.amount), Number.MAX_SAFE_INTEGER - credits);
  if (amount > 0) yield* changeCredits({ account: name, amount, reason: "refund", at, generation });
}

/** Adds credits to an account, or takes some away, once for each Idempotency-Key. */
export function* addCredits({ account: name, amount, key }: CreditChange, at: string): Rule<CreditOutcome> {
  const account = yield* lockAccount(name);
  if (!account || account.isDeleted) return { kind: "no account" };
  const { stored: keyHash, known: hashes } = hashesOfKey(key);
  const rows = yield* sql(
    "SELECT amount, key_hash FROM ledger WHERE account = ? AND key_hash IN (?, ?, ?)",
    ...[name, ...hashes],
  );
  const known = hashes.map((hash) => rows.find(({ key_hash }) => key_hash === hash)).find((each) => each);
  if (known && Number(known.amount) !== amount) return { kind: "key reused" };
  if (known) return { kind: "added", credits: account.credits, replayed: true };
  const credits = account.credits + amount;
  if (credits < 0 || !Number.isSafeInteger(credits)) return { kind: "out of range", credits: account.credits };
  yield* changeCredits({ account: name, amount, reason: addedReason, at, keyHash });
  return { kind: "added", credits, replayed: false };
}
