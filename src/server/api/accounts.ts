import { hash, randomBytes } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import type { Io } from "../../io.ts";
import { localAccount } from "../announcement.ts";
import { type ApiEnv, refuse } from "../http/message.ts";
import type { Store } from "../store/store.ts";

/** The credits of a new account. */
export const defaultCredits = 1_000;

const keyPrefix = "vgs_";

/** Returns a new random key for the local service. */
export function createKey(): string {
  return `${keyPrefix}${randomBytes(24).toString("hex")}`;
}

/**
 * Finds the account of a key, unless it is disabled. A cut or mistyped key of `createKey` is refused without asking the database. Keys of another
 * form are looked up, because the owner may have written one into `service.json`.
 */
export async function findAccount(store: Pick<Store, "account">, key: string): Promise<string | undefined> {
  return isMalformed(key) ? undefined : store.account(hashKey(key));
}

function isMalformed(key: string): boolean {
  return key.startsWith(keyPrefix) && !/^vgs_[0-9a-f]{48}$/.test(key);
}

/** Finds the account of a key that `findAccount` refused because the account is disabled. */
export async function findDisabled(store: Pick<Store, "keyOwner">, key: string): Promise<string | undefined> {
  return isMalformed(key) ? undefined : store.keyOwner(hashKey(key));
}

/** Keys are compared by their hashes, so that the time of the comparison reveals nothing about the key. */
export function hashKey(key: string): string {
  return hash("sha256", key);
}

/**
 * Creates the local account with its key, and sets its balance to `credits` or, if `credits` is `undefined`, to at least the default. The account's
 * earlier keys are removed.
 */
export async function prepareLocalAccount(store: Store, apiKey: string, credits: number | undefined): Promise<void> {
  const creditsOf = (balance = 0) => credits ?? Math.max(defaultCredits, balance);
  await store.addAccount({ name: localAccount, keyHash: hashKey(apiKey), creditsOf, replacesKeys: true });
}

/** Refuses a key that belongs to no account, or was revoked. */
export function refuseUnknownKey() {
  return refuse(401, "unauthorized", "unknown API key", { "WWW-Authenticate": "Bearer" });
}

export function refuseDisabled(account: string) {
  return refuse(
    403,
    "account_disabled",
    `the account ${account} is disabled and nothing was charged; the owner of this service can enable it`,
  );
}

/** Refuses a key for which `findAccount` found no account. */
export async function refuseKey(store: Pick<Store, "keyOwner">, key: string) {
  const disabled = await findDisabled(store, key);
  return disabled === undefined ? refuseUnknownKey() : refuseDisabled(disabled);
}

/** Refuses all requests but those of the service's owner. */
export const requireOwner: MiddlewareHandler<ApiEnv> = async (c, next) => {
  if (c.var.account !== localAccount)
    throw refuse(403, "forbidden", `only the local account's key can use ${c.req.path}`);
  await next();
};

/**
 * Creates another key for the owner of the service that uses this PostgreSQL database, whether or not the service is running. Rejects with `usage`
 * when no service of this version has used the database.
 */
export async function makeOwnerKey(database: string, io: Io): Promise<string> {
  const { visitPostgres } = await import("../store/postgres/postgres.ts");
  const { addAccount, close } = await visitPostgres(database, io);
  const key = createKey();
  const creditsOf = (balance = defaultCredits) => balance;
  await addAccount({ name: localAccount, keyHash: hashKey(key), creditsOf }).finally(close);
  return key;
}
