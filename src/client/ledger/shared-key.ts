import { type Entry, isPaidBy, keyOf } from "./history.ts";
import { isSameService } from "./same-service.ts";

/**
 * When a key was first sent (ISO 8601, UTC), from all known attempts with it. `undefined` if it was not sent,
 * or if its age is unknown: an older version has sent it again, and the attempt that sent it first was
 * removed from the journal.
 */
export function firstSendOf(entries: readonly Entry[]): string | undefined {
  const names = new Set(entries.map(({ attempt }) => attempt));
  const isOfUnknownAge = ({ resend_of, first_sent_at }: Entry) =>
    resend_of !== undefined && first_sent_at === undefined && !names.has(resend_of);
  if (entries.some(isOfUnknownAge)) return undefined;
  const times = entries.flatMap(({ state, at, first_sent_at }) => (state === "unsent" ? [] : (first_sent_at ?? at)));
  // A time that cannot be read is the earliest: then the service is never said to keep the key.
  const order = (time: string) => Date.parse(time) || Number.NEGATIVE_INFINITY;
  return times.sort((one, other) => order(one) - order(other))[0];
}

/**
 * When a key was first sent, if this account may send it again. `undefined` also if an attempt that may have
 * been charged was sent with another API key: for another account the same key is another start, which would
 * be charged.
 */
export function firstSendBy(account: string, entries: readonly Entry[]): string | undefined {
  const mayBeCharged = entries.filter(({ state }) => state !== "unsent" && state !== "refused");
  return mayBeCharged.every((each) => isPaidBy(account, each)) ? firstSendOf(entries) : undefined;
}

/** Whether two attempts have the same Idempotency-Key at the same service. */
export function sharesKey(one: Entry, other: Entry): boolean {
  return isSameService(one.base_url, other.base_url) && keyOf(one) === keyOf(other);
}
