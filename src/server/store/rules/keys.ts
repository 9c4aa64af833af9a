import type { AddedKey, Disabling, NewAccount, Revoked } from "../accounts.ts";
import { findOwner, lockAccount } from "./account.ts";
import { changeCredits } from "./credits.ts";
import { publish, type Rule, sql } from "./rule.ts";

/** The reason in the ledger for the credits of a new account, or for credits that were set. */
export const setReason = "set by the service's owner";

/** Adds an account with a key, or a key to an account. See `Accounts`. */
export function* addAccount(added: NewAccount, at: string): Rule<AddedKey> {
  const { name, keyHash, creditsOf = (had = 0) => had, isOnlyKey = false } = added;
  const [created] = yield* sql("INSERT INTO accounts (name) VALUES (?) ON CONFLICT DO NOTHING RETURNING name", name);
  const account = yield* lockAccount(name);
  yield* sql("INSERT INTO keys (hash, account) VALUES (?, ?) ON CONFLICT DO NOTHING", keyHash, name);
  const owner = yield* findOwner(keyHash);
  if (!account || owner !== name) throw new Error(`this key belongs to the account ${owner}`);
  const credits = creditsOf(created ? undefined : account.credits, account.isDeleted);
  if (account.isDeleted) throw new Error(`the account ${name} was deleted`);
  const amount = credits - account.credits;
  if (amount !== 0) yield* changeCredits({ account: name, amount, reason: setReason, at });
  const others = "DELETE FROM keys WHERE account = ? AND hash <> ? RETURNING hash";
  const removed = isOnlyKey ? yield* sql(others, name, keyHash) : [];
  return { credits, removed: removed.length };
}

/** Returns how many were removed. */
export function* removeKeys(keys: Revoked): Rule<number> {
  if ("keyHash" in keys) return (yield* sql("DELETE FROM keys WHERE hash = ? RETURNING hash", keys.keyHash)).length;
  return (yield* sql("DELETE FROM keys WHERE account = ? RETURNING hash", keys.account)).length;
}

/** Returns how many keys the account had; `undefined` when there is no such account. */
export function* deleteAccount(name: string, at: string): Rule<number | undefined> {
  const account = yield* lockAccount(name);
  if (!account) return undefined;
  yield* sql("UPDATE accounts SET deleted_at = ? WHERE name = ? AND deleted_at IS NULL", at, name);
  const removed = yield* removeKeys({ account: name });
  yield* publish({ kind: "credits", account: name }, { kind: "refused", account: name });
  return removed;
}

/** Disables an account from `at` on; `null` enables it. See `Accounts`. */
export function* setDisabled(name: string, at: string | null): Rule<Disabling | undefined> {
  const account = yield* lockAccount(name);
  if (!account || account.isDeleted) return undefined;
  const { disabled_at } = account;
  if ((disabled_at === null) === (at === null)) return { disabled_at, isChanged: false };
  yield* sql("UPDATE accounts SET disabled_at = ? WHERE name = ?", at, name);
  if (at !== null) yield* publish({ kind: "refused", account: name });
  return { disabled_at: at, isChanged: true };
}

/** Ends a token of the page, and forgets those whose time is over. Returns whether it had not ended before. */
export function* endToken({ hash, until }: { hash: string; until: string }, now: string): Rule<boolean> {
  yield* sql("DELETE FROM ended_tokens WHERE until <= ?", now);
  const insert = "INSERT INTO ended_tokens (hash, until) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING hash";
  return (yield* sql(insert, hash, until)).length > 0;
}

export function* hasTokenEnded(hash: string): Rule<boolean> {
  return (yield* sql("SELECT hash FROM ended_tokens WHERE hash = ?", hash)).length > 0;
}
