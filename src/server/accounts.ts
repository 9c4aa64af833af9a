import { hash, randomBytes } from "node:crypto";
import { readJsonBody } from "./http/json-body.ts";
import { refuse } from "./http/refusal.ts";
import { jsonReply } from "./http/reply.ts";
import type { Store } from "./store/store.ts";

/** Whose the service is: the key in the announcement is this account's. */
export const ownAccount = "local";

/** What an account has when nothing else is said. */
const usualCredits = 1_000;

/** An account as it is shown once: the key is kept nowhere, its hash is. */
export type NewAccount = { account: string; api_key: string; credits: number };

/** What is wrong with the name of a further account, in words; `undefined` when it will do. */
export function faultOfAccount(name: unknown): string | undefined {
  if (typeof name !== "string" || !/^[\w.-]{1,64}$/.test(name))
    return "an account's name is 1 to 64 of A-Z a-z 0-9 _ . -";
  return name === ownAccount ? `the account ${ownAccount} has its key already` : undefined;
}

/** A key for the local service, not to be guessed. */
export function createKey(): string {
  return `vgs_${randomBytes(24).toString("hex")}`;
}

/** Keys are compared by their hashes, so that the time it takes tells nothing about the key. */
export function hashKey(key: string): string {
  return hash("sha256", key);
}

/** Makes a further account with these credits, or gives one that exists a further key. */
export async function addAccount(store: Store, name: string, credits: number | undefined): Promise<NewAccount> {
  const api_key = createKey();
  const isKnown = await store.balance(name).then(
    () => true,
    () => false,
  );
  await store.addAccount({ name, keyHash: hashKey(api_key) });
  if (credits !== undefined || !isKnown) await setBalance(store, name, credits ?? usualCredits);
  return { account: name, api_key, credits: await store.balance(name) };
}

/** Makes sure of the account that the service is its owner's by: with `credits` it has just as many, else at least the usual number. */
export async function prepareOwnAccount(store: Store, apiKey: string, credits: number | undefined): Promise<void> {
  await store.addAccount({ name: ownAccount, keyHash: hashKey(apiKey) });
  const wanted = credits ?? Math.max(usualCredits, await store.balance(ownAccount));
  await setBalance(store, ownAccount, wanted);
}

async function setBalance(store: Store, name: string, wanted: number): Promise<void> {
  const missing = wanted - (await store.balance(name));
  if (missing !== 0) await store.credit(name, missing, "set by the service's owner");
}

/** POST /accounts, with the owner's key alone: `{"name","credits"}` makes a further account, and the reply shows its key, once. */
export function createAccountRoute(store: Store): (request: Request, account: string) => Promise<Response> {
  return async (request, account) => {
    if (account !== ownAccount) throw refuse(403, "forbidden", "only the service's owner makes accounts");
    const { name, credits } = Object((await readJsonBody(request)).json) as Record<string, unknown>;
    const fault = faultOfAccount(name) ?? faultOfCredits(credits);
    if (fault !== undefined) throw refuse(400, "invalid_account", fault);
    return jsonReply(await addAccount(store, name as string, credits as number | undefined));
  };
}

function faultOfCredits(credits: unknown): string | undefined {
  const isFine = credits === undefined || (Number.isSafeInteger(credits) && Number(credits) >= 0);
  return isFine ? undefined : "credits must be a whole number";
}
