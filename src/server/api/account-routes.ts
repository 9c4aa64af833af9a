import * as z from "zod";
import type { Clock } from "../../io.ts";
import { localAccount } from "../announcement.ts";
import { secretOf } from "../callbacks/signature.ts";
import { parse } from "../http/input.ts";
import { type ApiContext, readJson, refuse } from "../http/message.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { ServiceParts } from "../service-parts.ts";
import { keyPrefixLength, type NewAccount } from "../store/accounts.ts";
import type { Store } from "../store/store.ts";
import { createKey, defaultCredits, hashKey } from "./accounts.ts";
import { endUnmade } from "./cancel.ts";
import { readIdempotencyKey, refuseKey, setReplayed } from "./idempotency.ts";
import type { OwnerPaths, OwnerRoute } from "./openapi/operation.ts";

/** Accepts the name of an account, or a key. */
const nameOr = (fault: string) => z.string(fault).regex(/^[\w.-]{1,64}$/, fault);

const notAccount = "must be the name of an account";
const account = nameOr(notAccount);

/** What refusals call the fields, and the fields' error codes. */
const names = { name: "an account name" };
const codes = { name: "account", credits: "account", new: "account", max_running: "limit", max_per_hour: "limit" };

async function readFields<Schema extends z.ZodObject>(
  c: ApiContext,
  schema: Schema,
  fieldNames = names,
): Promise<z.infer<Schema>> {
  return parse(schema, Object((await readJson(c)).json), { names: fieldNames, codes });
}

const ownKey = "the local account's key cannot be changed here: use vidgen serve --rotate";

const onlyAccount = z.object({ account });

const notCredits = "must be a whole number";
const newAccount = z.object({
  name: nameOr("has 1 to 64 characters of A-Z a-z 0-9 _ . -"),
  credits: z.int(notCredits).min(0, notCredits).optional(),
  /** Whether an account that already exists is refused, and not changed. */
  new: z.boolean().optional(),
});

const notAmount = "must be a whole number, negative to take credits away";
const newCredits = z.object({
  account,
  amount: z.int(notAmount).refine((amount) => amount !== 0, notAmount),
});

const maxLimit = 1_000_000;
const notLimit = `must be a whole number from 1 to ${maxLimit}, or null`;
const newLimit = z.int(notLimit).min(1, notLimit).max(maxLimit, notLimit).nullable().exactOptional();
const newLimits = z.object({ account, max_running: newLimit, max_per_hour: newLimit });

const keyNamePattern = String.raw`(?!vgs_|[0-9a-f]+$)[\w.-]{1,64}`;
const keyName = z
  .string()
  .regex(
    new RegExp(`^${keyNamePattern}$`),
    "has 1 to 64 characters of A-Z a-z 0-9 _ . -, and is not like a hash or a key",
  );
const newKey = z.object({ account, name: keyName });

const maxLinkSeconds = 30 * 86_400;
const notSeconds = `must be a whole number from 60 to ${maxLinkSeconds}`;
const newLink = z.object({
  account,
  seconds: z.int(notSeconds).min(60, notSeconds).max(maxLinkSeconds, notSeconds).optional(),
});
const noPage = "this service has no page: start it with --page";
const notServed = "there is no page while `vidgen serve` is not running";

const notKey = `must be the name of a key, or the first ${keyPrefixLength} characters of its hash`;
const revoking = z.object({
  /** A key, or the name of an account to revoke all of its keys, or only `key`. */
  revoke: nameOr("must be a key or an account"),
  key: z
    .string(notKey)
    .regex(new RegExp(`^([0-9a-f]{${keyPrefixLength}}|${keyNamePattern})$`), notKey)
    .optional(),
});

export type AccountOptions = Pick<ServiceParts, "webhookSecret" | "baseUrl" | "mediaUrl" | "isCommand" | "onEnd"> & {
  store: Pick<
    Store,
    | "account"
    | "keyOwner"
    | "accounts"
    | "addAccount"
    | "addCredits"
    | "setLimits"
    | "setDisabled"
    | "keys"
    | "newestKey"
    | "removeKeys"
    | "deleteAccount"
    | "list"
    | "generation"
    | "cancel"
  >;
  videos: Pick<MediaStore, "remove">;
  clock: Pick<Clock, "date">;
  /** Called with a line for each change of an account, its credits, keys and limits, with who made it. */
  onNote?: ServiceParts["onNote"];
  /** Makes a link to the page for the account whose key has this hash; without it, there is no page. */
  linkFor?: ((keyHash: string, ms?: number) => Promise<string>) | undefined;
};

/** The routes by which the owner of the service manages its accounts. */
export function createAccountRoutes(options: AccountOptions): OwnerPaths {
  const { store, webhookSecret, linkFor } = options;
  /** Reports a change, with the beginning of the hash of the owner's key that was used. */
  const note = (c: ApiContext, what: string) => {
    const key = /^Bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "")?.[1] ?? "";
    options.onNote?.(`Accounts: ${what}; by ${c.var.account} with the key ${hashKey(key).slice(0, keyPrefixLength)}.`);
  };
  /** Gives an account a new key, which only the reply contains; the store keeps its hash. */
  const addKey = async (account: Omit<NewAccount, "keyHash">) => {
    const api_key = createKey();
    const keyHash = hashKey(api_key);
    const { credits, removed } = await store.addAccount({ ...account, keyHash });
    const webhook_secret = secretOf(webhookSecret, account.name);
    const made = { account: account.name, api_key, webhook_secret, credits };
    if (options.isCommand) return { made, removed };
    const urls = { base_url: options.baseUrl(), media_url: options.mediaUrl(), page_url: await linkFor?.(keyHash) };
    return { made: { ...made, ...urls }, removed };
  };
  const setDisabled = async (c: ApiContext, account: string, at: string | null) => {
    const disabling = await store.setDisabled(account, at);
    if (!disabling) throw refuseNoAccount(account);
    if (disabling.isChanged) note(c, `the account ${account} was ${at === null ? "enabled" : "disabled"}`);
    return { account, disabled_at: disabling.disabled_at };
  };
  return {
    "/accounts": {
      ...get(async (c) => c.json({ accounts: await store.accounts() })),
      ...post(async (c) => {
        const { name, credits, new: isNew } = await readFields(c, newAccount);
        if (name === localAccount)
          throw refuse(400, "invalid_account", `the account ${localAccount} already has a key`);
        const creditsOf: NewAccount["creditsOf"] = (balance, isDeleted, similarName) => {
          if (isDeleted)
            throw refuse(409, "account_deleted", `an account ${name} was deleted, and its name is not given again`);
          if (similarName !== undefined)
            throw refuse(409, "account_exists", `the account ${similarName} has almost this name; nothing was changed`);
          // Credits of an existing account are never replaced, because they may have been paid for.
          if (balance !== undefined && (isNew || credits !== undefined))
            throw refuse(
              409,
              "account_exists",
              `the account ${name} exists, with ${balance} credits; nothing was changed`,
            );
          return balance ?? credits ?? defaultCredits;
        };
        const { made } = await addKey({ name, creditsOf });
        note(c, `a key was created for ${name}, with ${made.credits} credits`);
        return c.json(made);
      }),
    },
    "/accounts/credits": post(async (c) => {
      const { account, amount } = await readFields(c, newCredits);
      const key = readIdempotencyKey(c);
      if (key === undefined)
        throw refuseKey(
          400,
          "idempotency_key_required",
          "credits are added with an Idempotency-Key, so that a repeated call adds once",
        );
      const outcome = await store.addCredits({ account, amount, key });
      if (outcome.kind === "no account") throw refuseNoAccount(account);
      if (outcome.kind === "key reused")
        throw refuseKey(422, "idempotency_key_reused", "this Idempotency-Key was already used with another amount");
      if (outcome.kind === "out of range")
        throw refuse(409, "credits_out_of_range", `${account} has ${outcome.credits} credits; nothing was changed`);
      const { credits, replayed } = outcome;
      if (replayed) setReplayed(c);
      else note(c, `${amount} credits were added to ${account}, with ${credits} now`);
      return c.json({ account, amount, credits, replayed });
    }),
    "/accounts/limits": post(async (c) => {
      const { account, ...limits } = await readFields(c, newLimits);
      const changed = await store.setLimits(account, limits);
      if (!changed) throw refuseNoAccount(account);
      const { max_running, max_per_hour } = changed;
      note(c, `the limits of ${account} are max_running ${max_running} and max_per_hour ${max_per_hour}`);
      return c.json({ account, ...changed });
    }),
    "/accounts/rotate": post(async (c) => {
      const { account } = await readFields(c, onlyAccount);
      if (account === localAccount) throw refuse(409, "own_key", ownKey);
      const creditsOf = keepCredits(account);
      const { made, removed } = await addKey({ name: account, creditsOf, replacesKeys: true });
      note(c, `a new key of ${account} replaced ${removed}`);
      return c.json({ ...made, revoked: removed });
    }),
    "/accounts/delete": post(async (c) => {
      const { account } = await readFields(c, onlyAccount);
      if (account === localAccount) throw refuse(409, "own_account", "the owner's account cannot be deleted");
      const removed = await store.deleteAccount(account, options.clock.date().toISOString());
      if (removed === undefined) throw refuseNoAccount(account);
      note(c, `the account ${account} was deleted, with ${removed} of its keys`);
      return c.json({ account, revoked: removed, not_submitted: await endWaiting(account, options) });
    }),
    "/accounts/disable": post(async (c) => {
      const { account } = await readFields(c, onlyAccount);
      if (account === localAccount) throw refuse(409, "own_account", "the owner's account cannot be disabled");
      const at = options.clock.date().toISOString();
      return c.json(await setDisabled(c, account, at));
    }),
    "/accounts/enable": post(async (c) => {
      const { account } = await readFields(c, onlyAccount);
      return c.json(await setDisabled(c, account, null));
    }),
    "/accounts/keys": get(async (c) => {
      const { account: name } = parse(onlyAccount, { account: c.req.query("account") }, { names, codes });
      const keys = await store.keys(name);
      if (!keys) throw refuseNoAccount(name);
      return c.json({ account: name, keys });
    }),
    "/accounts/key": post(async (c) => {
      const { account, name } = await readFields(c, newKey, { name: "a key name" });
      if (account === localAccount) throw refuse(409, "own_account", "the owner's account gets no other keys here");
      const keys = await store.keys(account);
      if (!keys) throw refuseNoAccount(account);
      if (keys.some((key) => key.name === name))
        throw refuse(409, "key_exists", `the account ${account} has a key ${name}; nothing was changed`);
      const creditsOf = keepCredits(account);
      const { made } = await addKey({ name: account, keyName: name, creditsOf });
      note(c, `a key ${name} was created for ${account}`);
      return c.json(made);
    }),
    "/accounts/link": post(async (c) => {
      const { account, seconds } = await readFields(c, newLink);
      if (!(await store.keys(account))) throw refuseNoAccount(account);
      if (!linkFor) throw refuse(409, "no_page", options.isCommand ? notServed : noPage);
      const keyHash = await store.newestKey(account);
      if (keyHash === undefined) throw refuse(409, "no_key", `the account ${account} has no key: rotate gives it one`);
      const page_url = await linkFor(keyHash, seconds && seconds * 1_000);
      note(c, `a link to the page was made for ${account}`);
      return c.json({ account, page_url });
    }),
    "/accounts/revoke": post(async (c) => {
      const { revoke, key } = await readFields(c, revoking);
      const owner = await store.keyOwner(hashKey(revoke));
      if (revoke === localAccount || owner === localAccount) throw refuse(409, "own_key", ownKey);
      if (key !== undefined) {
        const ended = await store.removeKeys({ account: revoke, key });
        if (ended > 0) note(c, `the key ${key} of ${revoke} was revoked`);
        return c.json({ revoked: ended });
      }
      // `revoke` is a key or the name of an account.
      const isKey = (await store.removeKeys({ keyHash: hashKey(revoke) })) > 0;
      const removed = isKey ? 1 : await store.removeKeys({ account: revoke });
      // Does not log `revoke`, which may be a key.
      if (removed > 0)
        note(c, `${removed} of the keys of ${isKey ? owner : revoke} ${removed === 1 ? "was" : "were"} revoked`);
      return c.json({ revoked: removed });
    }),
  };
}

const get = (handle: OwnerRoute["handle"]) => ({ GET: { handle } });
const post = (handle: OwnerRoute["handle"]) => ({ POST: { handle } });

/** The `creditsOf` of an account that must exist. */
function keepCredits(account: string) {
  return (balance: number | undefined, isDeleted: boolean) => {
    if (balance === undefined || isDeleted) throw refuseNoAccount(account);
    return balance;
  };
}

/** Ends the waiting generations of an account as not submitted. Resolves with their number; a generation that begins meanwhile continues. */
async function endWaiting(account: string, options: AccountOptions): Promise<number> {
  const error = "its account was deleted before it was submitted";
  const end = { error, error_code: "not_submitted", isRefunded: true, engine: null } as const;
  let [ended, before]: [number, string | undefined] = [0, undefined];
  for (;;) {
    const waiting = await options.store.list({ account, state: "queued", before, limit: 100 });
    for (const { id } of waiting) {
      const generation = await options.store.generation(id);
      if (generation?.checkpoint === null && (await endUnmade(generation, end, options))) ended++;
    }
    const last = waiting.at(-1);
    if (!last) return ended;
    before = last.id;
  }
}

function refuseNoAccount(account: string) {
  return refuse(404, "no_account", `there is no account ${account}`);
}
