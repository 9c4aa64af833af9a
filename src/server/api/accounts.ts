import { hash, randomBytes, randomUUID } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import type { Io } from "../../io.ts";
import { localAccount } from "../announcement.ts";
import { secretOf } from "../callbacks/signature.ts";
import type { NewAccount, Store } from "../store/store.ts";
import { type ApiContext, type ApiEnv, readJson, refuse } from "./message.ts";

/** What a new account has. */
export const usualCredits = 1_000;

/** An account with its key, which is shown only once: the store keeps its hash. Its callbacks are signed with a secret of its own. */
type AccountKey = { account: string; api_key: string; webhook_secret: string; credits: number };

/** What the name of an account is like, and a key too, on every route that takes one. */
export const accountName = /^[\w.-]{1,64}$/;

export function isAccountName(name: unknown): name is string {
  return typeof name === "string" && accountName.test(name);
}

/** Returns what is wrong with the name of an account that is to get a key, in words; `undefined` when it is valid. */
function findNameFault(name: unknown): string | undefined {
  if (!isAccountName(name)) return "an account name has 1 to 64 characters of A-Z a-z 0-9 _ . -";
  return name === localAccount ? `the account ${localAccount} already has a key` : undefined;
}

/** Returns a new random key for the local service. */
export function createKey(): string {
  return `vgs_${randomBytes(24).toString("hex")}`;
}

/** Keys are compared by their hashes, so that the time of the comparison reveals nothing about the key. */
export function hashKey(key: string): string {
  return hash("sha256", key);
}

/**
 * Creates the local account with its key, and sets its balance: to `credits`, or to at least the default without them. A key that it had before
 * works no more.
 */
export async function prepareLocalAccount(store: Store, apiKey: string, credits: number | undefined): Promise<void> {
  const creditsOf = (had = 0) => credits ?? Math.max(usualCredits, had);
  await store.addAccount({ name: localAccount, keyHash: hashKey(apiKey), creditsOf, isOnlyKey: true });
}

/** Lets nobody but the owner of the service go on. */
export const requireOwner: MiddlewareHandler<ApiEnv> = async (c, next) => {
  if (c.var.account !== localAccount)
    throw refuse(403, "forbidden", `only the local account's key can use ${c.req.path}`);
  await next();
};

export type AccountOptions = { store: Store; webhookSecret: string };

/**
 * GET /accounts lists the accounts. POST /accounts: `{"name","credits"}` makes a further account, whose key is in the reply. One that exists gets a
 * further key, unless `"new":true` or `credits` say that it is not to: then it is refused.
 */
export function createAccountRoute({ store, webhookSecret }: AccountOptions): (c: ApiContext) => Promise<Response> {
  return async (c) => {
    if (c.req.method === "GET") return c.json({ accounts: await store.accounts() });
    const { name, credits, new: isNew } = Object((await readJson(c)).json) as Record<string, unknown>;
    const fault = findNameFault(name) ?? findCreditsFault(credits);
    if (fault !== undefined) throw refuse(400, "invalid_account", fault);
    return c.json(
      await addAccount(
        { store, webhookSecret },
        { name: String(name), credits: credits as number | undefined, isNew: isNew === true },
      ),
    );
  };
}

/** POST /accounts/revoke: `{"revoke"}` is a key, or the name of an account all of whose keys are removed. Replies with how many. */
export function createRevokeRoute(store: Store): (c: ApiContext) => Promise<Response> {
  return async (c) => {
    const { revoke } = Object((await readJson(c)).json) as Record<string, unknown>;
    if (!isAccountName(revoke)) throw refuse(400, "invalid_revoke", "revoke must be a key or an account");
    const own = revoke === localAccount || (await store.account(hashKey(revoke))) === localAccount;
    if (own) throw refuse(409, "own_key", "the local account's key cannot be changed here: use vidgen serve --rotate");
    const one = await store.removeKeys({ keyHash: hashKey(revoke) });
    return c.json({ revoked: one > 0 ? one : await store.removeKeys({ account: revoke }) });
  };
}

/** Gives the owner of the service of a PostgreSQL database a further key, whether or not a process runs it. */
export async function makeOwnerKey(database: string, io: Io): Promise<string> {
  const { openPostgres } = await import("../store/postgres/postgres.ts");
  const { store } = await openPostgres(database, { process: randomUUID(), clock: io, onTrouble: () => {} });
  const key = createKey();
  const creditsOf = (had = usualCredits) => had;
  await store.addAccount({ name: localAccount, keyHash: hashKey(key), creditsOf }).finally(store.close);
  return key;
}

type AccountMaker = { store: Pick<Store, "addAccount">; webhookSecret: string };

/**
 * Makes an account with its key, or gives one that exists a further key. Rejects with a refusal, and changes nothing, when one exists that
 * `isNew` or is to have these credits: what it has may be paid for.
 */
async function addAccount(
  maker: AccountMaker,
  { name, credits, isNew = false }: { name: string; credits?: number | undefined; isNew?: boolean },
): Promise<AccountKey> {
  const creditsOf = (had: number | undefined) => {
    if (had !== undefined && (isNew || credits !== undefined))
      throw refuse(409, "account_exists", `the account ${name} exists, with ${had} credits; nothing was changed`);
    return had ?? credits ?? usualCredits;
  };
  const { made } = await addKey(maker, { name, creditsOf });
  return made;
}

/** Gives an account a new key; see `NewAccount`. */
export async function addKey({ store, webhookSecret }: AccountMaker, account: Omit<NewAccount, "keyHash">) {
  const api_key = createKey();
  const { credits, removed } = await store.addAccount({ ...account, keyHash: hashKey(api_key) });
  const webhook_secret = secretOf(webhookSecret, account.name);
  const made: AccountKey = { account: account.name, api_key, webhook_secret, credits };
  return { made, removed };
}

function findCreditsFault(credits: unknown): string | undefined {
  const isFine = credits === undefined || (Number.isSafeInteger(credits) && Number(credits) >= 0);
  return isFine ? undefined : "credits must be a whole number";
}
