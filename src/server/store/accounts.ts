import type { Limits } from "./limits.ts";
import type { PageOf } from "./paging.ts";

/**
 * An account that gets a key. `creditsOf` returns its new credits from its balance, which is `undefined` for a new account, and from the name of an
 * account that differs from that of a new one only in its case; the difference becomes a row of the ledger. Without `creditsOf`, a new account has
 * no credits. If `creditsOf` throws, as it must for a deleted account, nothing is changed. With `replacesKeys`, the earlier keys of the account are
 * removed.
 */
export type NewAccount = {
  name: string;
  keyHash: string;
  creditsOf?(balance: number | undefined, isDeleted: boolean, similarName: string | undefined): number;
  replacesKeys?: boolean;
  /** The name of the key. */
  keyName?: string | undefined;
};

/** `removed` is the number of keys that were removed. */
export type AddedKey = { credits: number; removed: number };

/** Since when an account is disabled (ISO 8601), `null` if it is not; and whether that was changed. */
export type Disabling = { disabled_at: string | null; isChanged: boolean };

/** The service's owner names a key by the beginning of its hash, which has this many characters. */
export const keyPrefixLength = 8;

/** A key of an account as the owner sees it: the beginning of its hash, its name, when it was made, and its last use (ISO 8601). */
export type KeyRecord = { key: string; name: string | null; created_at: string; used_at: string | null };

/** The keys to remove: all keys of an account, or the one with this name or beginning of its hash, or one key by its whole hash. */
export type Revoked = { account: string; key?: string | undefined } | { keyHash: string };

/** An account in the list of the owner; `keys` is the number of its keys, and `disabled_at` since when it is disabled. */
export type AccountRecord = Limits & { account: string; credits: number; keys: number; disabled_at: string | null };

/** A change of credits; a change with the same `key`, the value of its Idempotency-Key header, is made once. */
export type CreditChange = { account: string; amount: number; key: string };

/** `credits` is the balance now. The balance was changed only if `kind` is "added" and `replayed` is false. */
export type CreditOutcome =
  | { kind: "added"; credits: number; replayed: boolean }
  | { kind: "out of range"; credits: number }
  | { kind: "key reused" }
  | { kind: "no account" };

/** A change of an account's credits. */
export type LedgerEntry = {
  number: number;
  account: string;
  amount: number;
  reason: string;
  /** When the credits changed (ISO 8601). */
  at: string;
  /** The generation that was paid for; `prompt` is cut, and `cost` what its engine has charged, in USD, if it reports that. */
  generation: string | null;
  prompt: string | null;
  cost: number | null;
};

/** The credits that were paid for a generation, and those that were returned, by its rows of the ledger. */
export function sumPayments(entries: readonly Pick<LedgerEntry, "amount">[]): { paid: number; returned: number } {
  const sumOf = (sign: 1 | -1) => entries.reduce((sum, { amount }) => sum + Math.max(0, sign * amount), 0);
  return { paid: sumOf(-1), returned: sumOf(1) };
}

export type LedgerQuery = PageOf<number> & { generation?: string | undefined; account?: string | undefined };

/** The accounts with their keys, limits and credits. See `Store` for when methods resolve and reject. */
export type Accounts = {
  /** The account that a key belongs to, found by the key's hash; `undefined` while the account is disabled. */
  account(keyHash: string): Promise<string | undefined>;
  /** The account that a key belongs to, whether or not it is disabled. */
  keyOwner(keyHash: string): Promise<string | undefined>;
  /**
   * Creates the account or adds this key to an existing one, and gives it the credits that `creditsOf` returns: all or nothing, whatever is started
   * meanwhile. Rejects when the key belongs to another account.
   */
  addAccount(account: NewAccount): Promise<AddedKey>;
  /** The keys of an account, the oldest first; `undefined` when there is no such account. */
  keys(account: string): Promise<KeyRecord[] | undefined>;
  /** The hash of the account's newest key; `undefined` if it has none. */
  newestKey(account: string): Promise<string | undefined>;
  /** Records that a key is used now, at most once a minute. Does not wait for the write. */
  recordKeyUse(keyHash: string, date: Date): void;
  /** Removes an account's keys, or one of them. Resolves with their number. */
  removeKeys(keys: Revoked): Promise<number>;
  /**
   * Deletes an account: its keys are removed, it starts nothing from now on, and its name is not given again. Its generations and its ledger stay.
   * Resolves with how many keys it had, 0 if it was deleted before; with `undefined` when there is no such account.
   */
  deleteAccount(account: string, at: string): Promise<number | undefined>;
  /**
   * Disables an account from `at` on (ISO 8601), so that its keys, links and sessions are refused and it starts nothing; `null` enables it. What it
   * has started continues. Resolves with `undefined` when there is no such account.
   */
  setDisabled(account: string, at: string | null): Promise<Disabling | undefined>;
  isDisabled(account: string): Promise<boolean>;
  /** Every account that was not deleted, in alphabetical order. */
  accounts(): Promise<AccountRecord[]>;
  /** Changes the given limits. Resolves with all limits; with `undefined` if the account does not exist. */
  setLimits(account: string, limits: Partial<Limits>): Promise<Limits | undefined>;
  /**
   * Ends a token of the page before it expires at `until` (ISO 8601), such as a link that was used or a session that was signed out. Resolves with
   * `false` if the token had already ended; of two simultaneous calls for one token, only one resolves with `true`. Deletes the records of tokens
   * that have expired by `now`.
   */
  endToken(token: { hash: string; until: string }, now: string): Promise<boolean>;
  /** Ends the sessions of an account that expire by `until` (ISO 8601): all that have begun, if those that begin later expire later. */
  endSessions(account: string, until: string): Promise<void>;
  /** Whether a token has ended before it expires; one of a session of `account` also by `endSessions`. */
  hasTokenEnded(token: { hash: string; until: string }, account?: string): Promise<boolean>;
  /** The account's credits: the sum of its rows in the ledger. Rejects when there is no such account. */
  balance(account: string): Promise<number>;
  /** Adds credits to an account, or takes some away. */
  addCredits(change: CreditChange): Promise<CreditOutcome>;
  ledger(query: LedgerQuery): Promise<LedgerEntry[]>;
};
