import {
  type AddedKey,
  type Disabling,
  type KeyRecord,
  keyPrefixLength,
  type NewAccount,
  type Revoked,
} from "../accounts.ts";
import { findAccount, findOwner, lockAccount } from "./account.ts";
import { changeCredits } from "./credits.ts";
import { publish, type Rule, sql } from "./rule.ts";

/** The ledger's reason for the credits of a new account, and for credits that were set. */
export const setReason = "set by the service's owner";

/** Adds an account with a key, or a key to an account. See `Accounts`. */
export function* addAccount(added: NewAccount, at: string): Rule<AddedKey> {
  const { name, keyHash, creditsOf = (balance = 0) => balance, replacesKeys = false, keyName = null } = added;
  const [created] = yield* sql("INSERT INTO accounts (name) VALUES (?) ON CONFLICT DO NOTHING RETURNING name", name);
  const account = yield* lockAccount(name);
  const insertKey = "INSERT INTO keys (hash, account, created_at, key_name) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING";
  yield* sql(insertKey, keyHash, name, at, keyName);
  const owner = yield* findOwner(keyHash);
  if (!account || owner !== name) throw new Error(`this key belongs to the account ${owner}`);
  const [similar] = created
    ? yield* sql("SELECT name FROM accounts WHERE lower(name) = ? AND name <> ?", name.toLowerCase(), name)
    : [];
  const credits = creditsOf(created ? undefined : account.credits, account.isDeleted, similar && String(similar.name));
  if (account.isDeleted) throw new Error(`the account ${name} was deleted`);
  const amount = credits - account.credits;
  if (amount !== 0) yield* changeCredits({ account: name, amount, reason: setReason, at });
  const others = "DELETE FROM keys WHERE account = ? AND hash <> ? RETURNING hash";
  const removed = replacesKeys ? yield* sql(others, name, keyHash) : [];
  return { credits, removed: removed.length };
}

export function* findNewestKey(account: string): Rule<string | undefined> {
  const [key] = yield* sql("SELECT hash FROM keys WHERE account = ? ORDER BY created_at DESC, hash LIMIT 1", account);
  return key && String(key.hash);
}

/** Returns the number of removed keys. */
export function* removeKeys(keys: Revoked): Rule<number> {
  if ("keyHash" in keys) return (yield* sql("DELETE FROM keys WHERE hash = ? RETURNING hash", keys.keyHash)).length;
  const { account, key } = keys;
  if (key === undefined) return (yield* sql("DELETE FROM keys WHERE account = ? RETURNING hash", account)).length;
  const remove = `DELETE FROM keys WHERE account = ? AND (substr(hash, 1, ${keyPrefixLength}) = ? OR key_name = ?) RETURNING hash`;
  return (yield* sql(remove, account, key, key)).length;
}

/** Returns an account's keys, the oldest first; `undefined` when there is no such account. */
export function* listKeys(name: string): Rule<KeyRecord[] | undefined> {
  const account = yield* findAccount(name);
  if (!account || account.isDeleted) return undefined;
  const rows = yield* sql(
    `SELECT substr(hash, 1, ${keyPrefixLength}) AS key, key_name, created_at, used_at FROM keys WHERE account = ? ORDER BY created_at, hash`,
    name,
  );
  return rows.map(({ key, key_name, created_at, used_at }) => ({
    key: String(key),
    name: key_name === null ? null : String(key_name),
    created_at: String(created_at),
    used_at: used_at === null ? null : String(used_at),
  }));
}

/** Records that a key was used at `at`, unless a use after `since` is recorded. */
export function* keepKeyUse(keyHash: string, { at, since }: { at: string; since: string }): Rule<void> {
  yield* sql("UPDATE keys SET used_at = ? WHERE hash = ? AND (used_at IS NULL OR used_at <= ?)", at, keyHash, since);
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

/** Ends a token of the page, and deletes the records of expired tokens. Returns `false` if the token had already ended. */
export function* endToken({ hash, until }: { hash: string; until: string }, now: string): Rule<boolean> {
  yield* sql("DELETE FROM ended_tokens WHERE until <= ?", now);
  const insert = "INSERT INTO ended_tokens (hash, until) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING hash";
  return (yield* sql(insert, hash, until)).length > 0;
}

/** Ends the sessions of an account that expire by `until`. See `Accounts`. */
export function* endSessions(account: string, until: string): Rule<void> {
  const insert =
    "INSERT INTO ended_tokens (hash, until) VALUES (?, ?) ON CONFLICT (hash) DO UPDATE SET until = excluded.until";
  yield* sql(insert, sessionsOf(account), until);
}

export function* hasTokenEnded({ hash, until }: { hash: string; until: string }, account = ""): Rule<boolean> {
  const select = "SELECT hash FROM ended_tokens WHERE hash = ? OR (hash = ? AND until >= ?)";
  return (yield* sql(select, hash, sessionsOf(account), until)).length > 0;
}

/** In place of a token's hash, for all sessions of an account. */
const sessionsOf = (account: string) => `sessions of ${account}`;
