import { hash, randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import type { MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { acquireFolder, localAccount, readAnnouncement } from "../announcement.ts";
import { secretOf } from "../callbacks/signature.ts";
import { openStore } from "../store/sqlite/sqlite-store.ts";
import type { NewAccount, Store } from "../store/store.ts";
import { type ApiContext, type ApiEnv, readJson, refuse } from "./message.ts";

/** What a new account has. */
export const usualCredits = 1_000;

/**
 * An account with its key, which is shown only once: the store keeps its hash. Its callbacks are signed with a secret of its own, which is not
 * known before the service has run.
 */
export type AccountKey = { account: string; api_key: string; webhook_secret: string | null; credits: number };

/** What the name of an account is like, and a key too, on every route that takes one. */
export const accountName = /^[\w.-]{1,64}$/;

export function isAccountName(name: unknown): name is string {
  return typeof name === "string" && accountName.test(name);
}

/**
 * Returns what is wrong with the name of an account that is to get a key, in words; `undefined` when it is valid. In a folder, the local
 * account's key is stored; that of a shared database is shown only once, so its owner may need another.
 */
export function findNameFault(name: unknown, { isShared = false } = {}): string | undefined {
  if (!isAccountName(name)) return "an account name has 1 to 64 characters of A-Z a-z 0-9 _ . -";
  return name === localAccount && !isShared ? `the account ${localAccount} already has a key` : undefined;
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
    return c.json(await removeKeys(store, revoke));
  };
}

async function removeKeys(store: Store, revoke: string): Promise<{ revoked: number }> {
  const one = await store.removeKeys({ keyHash: hashKey(revoke) });
  return { revoked: one > 0 ? one : await store.removeKeys({ account: revoke }) };
}

/** Removes a key, or all of an account, from the service of a folder: through the process that runs it, else directly in its store. */
export async function revokeKeys(folder: string, revoke: string, io: Io): Promise<{ revoked: number }> {
  const acquired = await acquireFolder(folder, io);
  if (acquired.kind === "held") return askRunning<{ revoked: number }>(folder, "/accounts/revoke", { revoke }, io);
  try {
    const store = await openStore(join(folder, "service.db"));
    return await removeKeys(store, revoke).finally(store.close);
  } finally {
    await acquired.lease.release();
  }
}

/** As `revokeKeys`, in the service of a PostgreSQL database. */
export async function revokeSharedKeys(database: string, revoke: string, io: Io): Promise<{ revoked: number }> {
  const { openPostgres } = await import("../store/postgres/postgres.ts");
  const { store } = await openPostgres(database, { process: randomUUID(), clock: io, onTrouble: () => {} });
  return removeKeys(store, revoke).finally(store.close);
}

/**
 * Makes a further account, or a further key for one that exists, in the service of a folder: through the process that runs the service, else
 * directly in its store. Rejects with an error made for people.
 */
export async function makeKey(
  folder: string,
  account: { name: string; credits: number | undefined },
  io: Io,
): Promise<AccountKey> {
  const acquired = await acquireFolder(folder, io);
  if (acquired.kind === "held") return askRunning<AccountKey>(folder, "/accounts", account, io);
  try {
    const store = await openStore(join(folder, "service.db"));
    const webhookSecret = (await readAnnouncement(folder))?.webhook_secret;
    return await addAccount({ store, webhookSecret }, account).catch(explainRefusal).finally(store.close);
  } finally {
    await acquired.lease.release();
  }
}

/** As `makeKey`, in the service of a PostgreSQL database, whether or not a process runs it. */
export async function makeSharedKey(
  database: string,
  account: { name: string; credits: number | undefined },
  io: Io,
): Promise<AccountKey> {
  const { openPostgres } = await import("../store/postgres/postgres.ts");
  const opened = await openPostgres(database, { process: randomUUID(), clock: io, onTrouble: () => {} });
  const { store } = opened;
  const add = async () => addAccount({ store, webhookSecret: (await opened.secrets()).webhookSecret }, account);
  return add().catch(explainRefusal).finally(store.close);
}

/** What the API refuses, as the error of a command. */
function explainRefusal(error: unknown): never {
  throw error instanceof HTTPException ? existsError(error.message) : error;
}

function existsError(message: string) {
  return usage(
    `Refused: ${message}.`,
    "`vidgen accounts credits <account> <amount>` adds credits; --key-for without --credits adds a key.",
  );
}

async function askRunning<Reply>(folder: string, path: string, body: object, { fetch }: Io): Promise<Reply> {
  const { base_url, api_key } = (await readAnnouncement(folder)) ?? {};
  if (base_url === undefined) throw new Error("the running service does not respond yet; try again");
  const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
  const reply = await fetch(`${base_url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await reply.text();
  if (reply.status === 409) throw existsError(JSON.parse(text).error.message);
  if (reply.status >= 300) throw new Error(`the running service refused: HTTP ${reply.status}`);
  return JSON.parse(text) as Reply;
}

type AccountMaker = { store: Pick<Store, "addAccount">; webhookSecret: string | undefined };

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
  const webhook_secret = webhookSecret === undefined ? null : secretOf(webhookSecret, account.name);
  const made: AccountKey = { account: account.name, api_key, webhook_secret, credits };
  return { made, removed };
}

function findCreditsFault(credits: unknown): string | undefined {
  const isFine = credits === undefined || (Number.isSafeInteger(credits) && Number(credits) >= 0);
  return isFine ? undefined : "credits must be a whole number";
}
