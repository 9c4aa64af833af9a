import { localAccount } from "../announcement.ts";
import type { Limits, Store } from "../store/store.ts";
import { type AccountOptions, addKey, isAccountName } from "./accounts.ts";
import { type ApiContext, readIdempotencyKey, readJson, refuse } from "./message.ts";

type Route = (c: ApiContext) => Promise<Response>;

const maxLimit = 1_000_000;

/**
 * POST /accounts/credits: `{"account","amount"}` adds credits to those of an account, or takes some away. The header Idempotency-Key is
 * required: a request that is sent again with it changes nothing, and is answered with the balance and `"replayed":true`.
 */
export function createCreditsRoute(store: Pick<Store, "addCredits">): Route {
  return async (c) => {
    const { account, amount } = await readFields(c);
    const key = readIdempotencyKey(c);
    if (key === undefined)
      throw refuse(
        400,
        "idempotency_key_required",
        "credits are added with an Idempotency-Key, so that a repeated call adds once",
      );
    if (!Number.isSafeInteger(amount) || amount === 0)
      throw refuse(400, "invalid_amount", "amount must be a whole number, negative to take credits away");
    const change = { account, amount: Number(amount), key };
    const outcome = await store.addCredits(change);
    if (outcome.kind === "no account") throw noAccount(account);
    if (outcome.kind === "key reused")
      throw refuse(409, "idempotency_key_reused", "this Idempotency-Key was already used with another amount");
    if (outcome.kind === "out of range")
      throw refuse(409, "credits_out_of_range", `${account} has ${outcome.credits} credits; nothing was changed`);
    const { credits, replayed } = outcome;
    return c.json({ account, amount: change.amount, credits, replayed });
  };
}

/** POST /accounts/limits: `{"account","max_running","max_per_hour"}`. `null` takes a limit away, and one that is not given stays. */
export function createLimitsRoute(store: Pick<Store, "setLimits">): Route {
  return async (c) => {
    const { account, max_running, max_per_hour } = await readFields(c);
    const limits: Partial<Limits> = {};
    for (const [name, value] of Object.entries({ max_running, max_per_hour })) {
      if (value === undefined) continue;
      const isFine = value === null || (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= maxLimit);
      if (!isFine) throw refuse(400, "invalid_limit", `${name} must be a whole number from 1 to ${maxLimit}, or null`);
      limits[name as keyof Limits] = value as number | null;
    }
    const changed = await store.setLimits(account, limits);
    if (!changed) throw noAccount(account);
    return c.json({ account, ...changed });
  };
}

/** POST /accounts/rotate: `{"account"}` gets a new key, which is in the reply, and those that it had are refused from now on. */
export function createRotateRoute(options: AccountOptions): Route {
  return async (c) => {
    const { account: name } = await readFields(c);
    if (name === localAccount)
      throw refuse(409, "own_key", "the local account's key cannot be changed here: use vidgen serve --rotate");
    const creditsOf = (had: number | undefined) => {
      if (had === undefined) throw noAccount(name);
      return had;
    };
    const { made, removed } = await addKey(options, { name, creditsOf, isOnlyKey: true });
    return c.json({ ...made, revoked: removed });
  };
}

async function readFields(c: ApiContext): Promise<Record<string, unknown> & { account: string }> {
  const { account, ...fields } = Object((await readJson(c)).json) as Record<string, unknown>;
  if (!isAccountName(account)) throw refuse(400, "invalid_account", "account must be the name of an account");
  return { ...fields, account };
}

function noAccount(account: string) {
  return refuse(404, "no_account", `there is no account ${account}`);
}
