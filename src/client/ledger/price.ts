import type { VidgenError } from "../../errors.ts";
import { isPriceable, priceFieldsOf } from "../../protocol/price.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { blocksRestart } from "./attempt.ts";
import { type Entry, isPaidBy, keyOf } from "./history.ts";
import { isLocal } from "./same-service.ts";

type KeyedEntry = Pick<Entry, "attempt" | "key" | "resend_of" | "base_url">;

/** Names what is charged at most once: a key at a service. */
export function startOf(entry: KeyedEntry): string {
  return `${entry.base_url} ${keyOf(entry)}`;
}

/**
 * Which of the attempts with one key counts: 2 for one with a generation, 1 for one that may have been
 * charged, 0 for any other.
 */
export function weightOf({ id, state }: Pick<Entry, "id" | "state">): number {
  if (id !== undefined) return 2;
  return blocksRestart(state) ? 1 : 0;
}

/**
 * Attempts with the same key at one service are charged at most once. Returns one attempt for each key, in
 * the given order: the attempt that has a generation, or else one that may have been charged, or else the
 * first.
 */
export function distinctStarts<Each extends KeyedEntry & Pick<Entry, "id" | "state">>(
  entries: readonly Each[],
): Each[] {
  const starts = new Map<string, Each>();
  for (const entry of entries) {
    const known = starts.get(startOf(entry));
    if (known === undefined || weightOf(entry) > weightOf(known)) starts.set(startOf(entry), entry);
  }
  return [...starts.values()];
}

/**
 * The kind of request that a price applies to: the model, the length, the resolution and the sound. An absent
 * value means the service's default, which counts as another kind; so does a field that may change the price
 * in another way.
 */
export function kindOfRequest(request: StartRequest): string {
  return JSON.stringify([request.model, ...priceFieldsOf(request), ...(isPriceable(request) ? [] : ["other"])]);
}

type PricedStart = Pick<Entry, "base_url" | "credits" | "cost" | "is_preview">;

/**
 * Whether the credits of a start are its price. At the local service only those of a preview are: other
 * engines charge US dollars, or nothing.
 */
export function isPaidInCredits(start: Pick<Entry, "base_url" | "is_preview">): boolean {
  return !isLocal(start) || start.is_preview === true;
}

/** What a start has cost, as far as that is stated: in credits at its start, in US dollars at its end, or both. */
export function statedPrice(start: PricedStart) {
  return { credits: isPaidInCredits(start) ? start.credits : undefined, usd: start.cost };
}

export type Charge = "yes" | "no";

/** Whether a generation was charged, if its price is stated. */
export function chargedOf(start: PricedStart): Charge | undefined {
  const { credits, usd } = statedPrice(start);
  if (credits === undefined && usd === undefined) return undefined;
  return (credits ?? 0) > 0 || (usd ?? 0) > 0 ? "yes" : "no";
}

/** The credits of a start as they are shown: a real video at the local service costs none. */
export function shownCredits(start: PricedStart): number | undefined {
  return start.credits === undefined ? undefined : (statedPrice(start).credits ?? 0);
}

/**
 * Adds to an error about a generation its attempt, and whether the attempt was charged. An accepted start was
 * charged unless it costs nothing; at an engine of the local service, only a stated price shows that.
 */
export function withCharge(error: VidgenError, entry: Entry | undefined): VidgenError {
  if (entry === undefined) return error;
  // If a generation ended because the provider's account has no credits, this start may still have been charged.
  const isChargeUnknown = error.ended !== undefined && error.code === "credits";
  const isAccepted = entry.id !== undefined && entry.state !== "refused" && entry.state !== "unknown";
  const chargeIfAccepted = chargedOf(entry) ?? (isLocal(entry) ? undefined : "yes");
  return error.with({ attempt: entry.attempt, charged: isAccepted && !isChargeUnknown ? chargeIfAccepted : undefined });
}

/** The credits of an account in the newest reply that stated them. */
export type Balance = { credits: number; at: string };

export function readBalance(
  entries: readonly Pick<Entry, "account" | "at" | "remaining_credits">[],
  account: string,
): Balance | undefined {
  const newest = entries.find((entry) => entry.remaining_credits !== undefined && isPaidBy(account, entry));
  return newest && { credits: newest.remaining_credits ?? 0, at: newest.at };
}

/** After this time the balance has probably changed for other reasons, so that a drop is meaningless. */
const maxBalanceAgeMs = 3600_000;

/** Whether a balance is new enough to be compared with the next one. */
export function isComparable({ at }: Balance, now: Date): boolean {
  return now.getTime() - Date.parse(at) < maxBalanceAgeMs;
}
