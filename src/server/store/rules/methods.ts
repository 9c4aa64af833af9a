import { createKeyUses } from "../key-uses.ts";
import type { Store } from "../store.ts";
import { findBalance, findEnabledOwner, findOwner, isDisabled } from "./account.ts";
import { setLimits } from "./account-limits.ts";
import { recordAttempt } from "./callback.ts";
import { addCredits } from "./credits.ts";
import { cancel, finish } from "./finish.ts";
import { forget } from "./forget.ts";
import {
  findFetchedImages,
  findGeneration,
  findImages,
  findSecrets,
  keepCheckpoint,
  keepImageFetch,
  remove,
  star,
} from "./generation.ts";
import {
  addAccount,
  deleteAccount,
  endSessions,
  endToken,
  findNewestKey,
  hasTokenEnded,
  keepKeyUse,
  listKeys,
  removeKeys,
  setDisabled,
} from "./keys.ts";
import { resend, resendGivenUp } from "./resend.ts";
import type { Context, Rule } from "./rule.ts";
import { findStart } from "./start.ts";

export type Runner = {
  /** Runs a rule that only reads. */
  read<Result>(rule: Rule<Result>): Promise<Result>;
  /**
   * Runs a rule in a transaction, and notifies all processes of its changes. Resolves once they are durable; when the rule throws, nothing was
   * changed.
   */
  change<Result>(rule: Rule<Result>): Promise<Result>;
};

/** The methods of a store that are one rule each. */
export function createMethods({ read, change }: Runner, context: Context) {
  const { process, now } = context;
  return {
    account: (keyHash) => read(findEnabledOwner(keyHash)),
    keys: (account) => read(listKeys(account)),
    newestKey: (account) => read(findNewestKey(account)),
    recordKeyUse: createKeyUses((keyHash, use) => change(keepKeyUse(keyHash, use))),
    isDisabled: (account) => read(isDisabled(account)),
    keyOwner: (keyHash) => read(findOwner(keyHash)),
    balance: (account) => read(findBalance(account)),
    hasTokenEnded: (token, account) => read(hasTokenEnded(token, account)),
    findStart: (account, idempotency) => read(findStart(account, idempotency)),
    generation: (id) => read(findGeneration(id)),
    images: (id) => read(findImages(id)),
    secrets: (id) => read(findSecrets(id)),
    fetchedImages: () => read(findFetchedImages()),
    addAccount: (account) => change(addAccount(account, now())),
    deleteAccount: (account, at) => change(deleteAccount(account, at)),
    setDisabled: (account, at) => change(setDisabled(account, at)),
    removeKeys: (keys) => change(removeKeys(keys)),
    endToken: (token, at) => change(endToken(token, at)),
    endSessions: (account, until) => change(endSessions(account, until)),
    addCredits: (added) => change(addCredits(added, now())),
    setLimits: (account, limits) => change(setLimits(account, limits)),
    keepImageFetch: (id, imageFetch) => change(keepImageFetch(id, imageFetch, process)),
    keepCheckpoint: (id, checkpoint) => change(keepCheckpoint(id, checkpoint, process)),
    finish: (id, end, delivery) => change(finish(id, { end, delivery }, context)),
    cancel: (id, cancellation) => change(cancel(id, cancellation, context)),
    remove: (id, at) => change(remove(id, at)),
    star: (id, isStarred) => change(star(id, isStarred)),
    forget: (query) => change(forget(query)),
    recordAttempt: (id, attempt, next_at) => change(recordAttempt(id, attempt, next_at, context)),
    resend: (generation, at) => change(resend(generation, at, context)),
    resendGivenUp: (filter, at) => change(resendGivenUp(filter, at, context)),
  } satisfies Partial<Store>;
}
