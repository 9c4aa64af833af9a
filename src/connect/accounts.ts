import * as z from "zod/mini";
import type { Api } from "../client/http/api.ts";
import { askPatiently } from "../client/http/ask.ts";
import { type Reply, refusal } from "../client/http/reply.ts";
import type { RetryIo } from "../client/http/retry.ts";
import { doctorHint, VidgenError } from "../errors.ts";

const whole = z.int().check(z.nonnegative());
const limits = { max_running: z.nullable(whole), max_per_hour: z.nullable(whole) };
const account = z.looseObject({ account: z.string(), credits: whole, keys: whole, ...limits });
const address = z.optional(z.string());
const madeKey = z.looseObject({
  account: z.string(),
  api_key: z.string(),
  webhook_secret: z.string(),
  credits: whole,
  base_url: address,
  media_url: address,
  page_url: address,
});

/** The replies of the service, by the command that prints them. */
export const accountReplies = {
  list: z.looseObject({ accounts: z.array(account) }),
  create: madeKey,
  credits: z.looseObject({ account: z.string(), amount: z.int(), credits: whole, replayed: z.boolean() }),
  limit: z.looseObject({ account: z.string(), ...limits }),
  rotate: z.extend(madeKey, { revoked: whole }),
  revoke: z.looseObject({ revoked: whole }),
  delete: z.looseObject({ account: z.string(), revoked: whole, not_submitted: whole }),
};

/** An account in its owner's list; a limit that is `null` is none. */
export type Account = z.infer<typeof account>;
/**
 * An account with a key that is shown only once; where its user logs in and gets videos, unless the service ends with this command, and the link that
 * signs in to the page, where there is one.
 */
export type MadeKey = z.infer<typeof madeKey>;
/** How many may be unfinished at once and started in an hour; `null` for any number. */
export type AccountLimits = { max_running?: number | null; max_per_hour?: number | null };

/**
 * What the owner of a `vidgen serve` may do with its accounts; the interface has none. Each rejects with `auth` for the key of another account,
 * `rejected` when the service refuses it, and `network` when no answer came.
 */
export type Accounts = {
  list(): Promise<Account[]>;
  /** Makes an account; is sent once, since its key is in this reply alone. */
  create(name: string, credits: number | undefined): Promise<MadeKey>;
  /** Adds credits, once for a `key`. */
  addCredits(name: string, amount: number, key: string): Promise<{ credits: number; replayed: boolean }>;
  setLimits(name: string, limits: AccountLimits): Promise<Required<AccountLimits>>;
  /** Gives it a new key in place of all that it had. */
  rotate(name: string): Promise<MadeKey & { revoked: number }>;
  /** Deletes an account for good: its keys end, and what waits is not submitted. Its videos and what it paid stay. */
  delete(name: string): Promise<{ account: string; revoked: number; not_submitted: number }>;
  /** Ends a key, or all of an account. */
  revoke(keyOrName: string): Promise<{ revoked: number }>;
};

type Asking<Result> = {
  body?: object;
  schema: z.ZodMiniType<Result>;
  /** The Idempotency-Key. */
  key?: string;
  patienceMs?: number;
  /** What may have happened all the same, and what to type then. */
  doubt?: { message: string; hint: string };
};

/** Returns the accounts of the service at `api`. */
export function createAccounts(api: Api, options: { signal: AbortSignal }, clock: RetryIo): Accounts {
  const ask = async <Result>(path: string, { body, schema, key, patienceMs, doubt }: Asking<Result>) => {
    const send = (signal: AbortSignal) => api.accounts(path, { body, key, signal });
    const asked = await askPatiently(send, { ...options, baseUrl: api.baseUrl, patienceMs }, clock);
    if (asked.kind === "trouble") throw noAnswer(asked.reason, asked.reply, doubt);
    const { reply } = asked;
    if (reply.status >= 300) throw refused(reply);
    const read = schema.safeParse(reply.json);
    if (!read.success) throw notServed(reply);
    return read.data;
  };
  return {
    list: async () => (await ask("", { schema: accountReplies.list })).accounts,
    create: (name, credits) =>
      ask("", {
        body: { name, credits, new: true },
        schema: accountReplies.create,
        patienceMs: 0,
        doubt: {
          message: "The account may have been created anyway",
          hint: `\`vidgen accounts list\` shows it; \`vidgen accounts rotate ${name}\` gives it a new key.`,
        },
      }),
    addCredits: (name, amount, key) =>
      ask("/credits", {
        body: { account: name, amount },
        schema: accountReplies.credits,
        key,
        doubt: {
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
        doubt: {
          message: "The keys of the account may have been replaced anyway",
          hint: `\`vidgen accounts rotate ${name}\` replaces them again and prints the new key.`,
        },
      }),
    delete: (account) =>
      ask("/delete", {
        body: { account },
        schema: accountReplies.delete,
        doubt: {
          message: "The account may have been deleted anyway",
          hint: `\`vidgen accounts delete ${account}\` is safe to run again.`,
        },
      }),
    revoke: (revoke) => ask("/revoke", { body: { revoke }, schema: accountReplies.revoke }),
  };
}

function noAnswer(failure: string, reply: Reply | undefined, doubt: Asking<unknown>["doubt"]): VidgenError {
  const message = `No usable response from the service: ${failure}.${doubt ? ` ${doubt.message}.` : ""}`;
  return new VidgenError("network", message, { httpStatus: reply?.status, hint: doubt?.hint ?? doctorHint });
}

function refused(reply: Reply): VidgenError {
  const error = refusal(reply);
  if (error.code === "auth")
    return error.with({
      hint: "Only the owner of the service can manage accounts: use the key of the account `local`.",
    });
  return reply.json === undefined || reply.status === 405 ? notServed(reply) : error;
}

/** Another service may answer anything here. */
function notServed({ status }: Reply): VidgenError {
  return new VidgenError("rejected", "This service has no accounts to manage: only `vidgen serve` has them.", {
    httpStatus: status,
    hint: "`vidgen accounts --local` is for the service on this machine.",
  });
}
