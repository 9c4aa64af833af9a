import * as z from "zod/mini";
import type { Api } from "../client/http/api.ts";
import { askPatiently } from "../client/http/ask.ts";
import { type Reply, refusal } from "../client/http/reply.ts";
import type { RetryIo } from "../client/http/retry.ts";
import { doctorHint, VidgenError } from "../errors.ts";

const nonNegative = z.int().check(z.nonnegative());
const limits = { max_running: z.nullable(nonNegative), max_per_hour: z.nullable(nonNegative) };
const disabling = { disabled_at: z.nullable(z.string()) };
const account = z.looseObject({
  account: z.string(),
  credits: nonNegative,
  keys: nonNegative,
  ...disabling,
  ...limits,
});
const accountKey = z.looseObject({
  key: z.string(),
  name: z.nullable(z.string()),
  created_at: z.string(),
  used_at: z.nullable(z.string()),
});
const address = z.optional(z.string());
const newKey = z.looseObject({
  account: z.string(),
  api_key: z.string(),
  webhook_secret: z.string(),
  credits: nonNegative,
  base_url: address,
  media_url: address,
  page_url: address,
});

/** The schemas of the service's replies, by command. */
export const accountReplies = {
  list: z.looseObject({ accounts: z.array(account) }),
  create: newKey,
  credits: z.looseObject({ account: z.string(), amount: z.int(), credits: nonNegative, replayed: z.boolean() }),
  limit: z.looseObject({ account: z.string(), ...limits }),
  rotate: z.extend(newKey, { revoked: nonNegative }),
  keys: z.looseObject({ account: z.string(), keys: z.array(accountKey) }),
  key: newKey,
  link: z.looseObject({ account: z.string(), page_url: z.string() }),
  revoke: z.looseObject({ revoked: nonNegative }),
  disable: z.looseObject({ account: z.string(), ...disabling }),
  enable: z.looseObject({ account: z.string(), ...disabling }),
  delete: z.looseObject({ account: z.string(), revoked: nonNegative, not_submitted: nonNegative }),
};

/** An account in the list; `null` means no limit. */
export type ListedAccount = z.infer<typeof account>;
/** A key: the first characters of its hash, its name, when it was created, and when it was last used (ISO 8601). */
export type AccountKey = z.infer<typeof accountKey>;
/**
 * An account with its new key, which is shown only once, and the URLs of the service and its page, unless the
 * service ends with this command.
 */
export type NewKey = z.infer<typeof newKey>;
/** Since when an account is disabled (ISO 8601); `null` if it is enabled. */
export type Disabling = { account: string; disabled_at: string | null };
/** The maximum numbers of unfinished generations and of starts per hour; `null` means no limit. */
export type AccountLimits = { max_running?: number | null; max_per_hour?: number | null };

/**
 * The account management of a `vidgen serve`, which is not part of the interface. All calls reject with
 * `auth` without the owner's key, `rejected` if the service refuses, and `network` without an answer.
 */
export type Accounts = {
  list(): Promise<ListedAccount[]>;
  /** Creates an account. Sent only once, since only this reply has the key. */
  create(name: string, credits: number | undefined): Promise<NewKey>;
  /** Adds credits, once per `key`. */
  addCredits(name: string, amount: number, key: string): Promise<{ credits: number; replayed: boolean }>;
  setLimits(name: string, limits: AccountLimits): Promise<Required<AccountLimits>>;
  /** Replaces all keys of an account with a new one. */
  rotate(name: string): Promise<NewKey & { revoked: number }>;
  /** Disables an account until `enable`, so that its keys are refused. What it has started continues. */
  disable(name: string): Promise<Disabling>;
  enable(name: string): Promise<Disabling>;
  /**
   * Deletes an account permanently. Its keys become invalid, and its waiting generations are not submitted.
   * Its videos and its ledger stay.
   */
  delete(name: string): Promise<{ account: string; revoked: number; not_submitted: number }>;
  /** Makes another key for an account. Sent only once, since only this reply has the key. */
  addKey(account: string, name: string): Promise<NewKey>;
  /** A link that signs the account in to the page, once, within `seconds` or ten minutes. */
  link(name: string, seconds: number | undefined): Promise<{ account: string; page_url: string }>;
  /** The keys of an account, the oldest first. */
  keys(name: string): Promise<AccountKey[]>;
  /** Revokes a key, or all keys of an account, or one of them by its name or the first characters of its hash. */
  revoke(keyOrName: string, keyHash?: string): Promise<{ revoked: number }>;
};

type AccountRequest<Result> = {
  body?: object;
  schema: z.ZodMiniType<Result>;
  /** The Idempotency-Key. */
  key?: string;
  patienceMs?: number;
  /** Without an answer: what may have happened, and what to type then. */
  possibleEffect?: { message: string; hint: string };
};

/** Returns the accounts of the service at `api`. */
export function createAccounts(api: Api, options: { signal: AbortSignal }, clock: RetryIo): Accounts {
  const ask = async <Result>(
    path: string,
    { body, schema, key, patienceMs, possibleEffect }: AccountRequest<Result>,
  ) => {
    const send = (signal: AbortSignal) => api.accounts(path, { body, key, signal });
    const outcome = await askPatiently(send, { ...options, baseUrl: api.baseUrl, patienceMs }, clock);
    if (outcome.kind === "no answer") throw noAnswerError(outcome.reason, outcome.reply, possibleEffect);
    const { reply } = outcome;
    if (reply.status >= 300) throw refusedError(reply);
    const read = schema.safeParse(reply.json);
    if (!read.success) throw noAccountsError(reply);
    return read.data;
  };
  return {
    list: async () => (await ask("", { schema: accountReplies.list })).accounts,
    create: (name, credits) =>
      ask("", {
        body: { name, credits, new: true },
        schema: accountReplies.create,
        patienceMs: 0,
        possibleEffect: {
          message: "The account may have been created anyway",
          hint: `\`vidgen accounts list\` shows it; \`vidgen accounts rotate ${name}\` gives it a new key.`,
        },
      }),
    addCredits: (name, amount, key) =>
      ask("/credits", {
        body: { account: name, amount },
        schema: accountReplies.credits,
        key,
        possibleEffect: {
          message: "The credits may have been changed anyway",
          hint: `\`vidgen accounts credits ${name} ${amount} --idempotency-key ${key}\` is safe to run: it changes them only once.`,
        },
      }),
    setLimits: (name, limits) =>
      ask("/limits", {
        body: { account: name, ...limits },
        schema: accountReplies.limit,
      }),
    rotate: (name) =>
      ask("/rotate", {
        body: { account: name },
        schema: accountReplies.rotate,
        possibleEffect: {
          message: "The keys of the account may have been replaced anyway",
          hint: `\`vidgen accounts rotate ${name}\` replaces them again and prints the new key.`,
        },
      }),
    disable: (account) => ask("/disable", { body: { account }, schema: accountReplies.disable }),
    enable: (account) => ask("/enable", { body: { account }, schema: accountReplies.enable }),
    delete: (account) =>
      ask("/delete", {
        body: { account },
        schema: accountReplies.delete,
        possibleEffect: {
          message: "The account may have been deleted anyway",
          hint: `\`vidgen accounts delete ${account}\` is safe to run again.`,
        },
      }),
    addKey: (account, name) =>
      ask("/key", {
        body: { account, name },
        schema: accountReplies.key,
        patienceMs: 0,
        possibleEffect: {
          message: "The key may have been made anyway",
          hint: `\`vidgen accounts revoke ${account} --key ${name}\` ends it; then run this again.`,
        },
      }),
    link: (account, seconds) => ask("/link", { body: { account, seconds }, schema: accountReplies.link }),
    keys: async (account) =>
      (await ask(`/keys?account=${encodeURIComponent(account)}`, { schema: accountReplies.keys })).keys,
    revoke: (keyOrName, keyHash) =>
      ask("/revoke", { body: { revoke: keyOrName, key: keyHash }, schema: accountReplies.revoke }),
  };
}

function noAnswerError(
  reason: string,
  reply: Reply | undefined,
  possibleEffect: AccountRequest<unknown>["possibleEffect"],
): VidgenError {
  const message = `No usable response from the service: ${reason}.${possibleEffect ? ` ${possibleEffect.message}.` : ""}`;
  return new VidgenError("network", message, { httpStatus: reply?.status, hint: possibleEffect?.hint ?? doctorHint });
}

function refusedError(reply: Reply): VidgenError {
  const error = refusal(reply);
  if (error.code === "auth")
    return error.with({
      hint: "Only the owner of the service can manage accounts: use the key of the account `local`.",
    });
  return reply.json === undefined || reply.status === 405 ? noAccountsError(reply) : error;
}

/** The error for a reply that is not from a `vidgen serve`. */
function noAccountsError({ status }: Reply): VidgenError {
  return new VidgenError("rejected", "This service has no accounts to manage: only a `vidgen serve` has accounts.", {
    httpStatus: status,
    hint: "`vidgen accounts --local` is for the service on this machine.",
  });
}
