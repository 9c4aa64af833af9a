import type { StartRequest } from "../../protocol/schema.ts";
import { type Entry, isPaidBy } from "./history.ts";

/** A field that decides about sound, such as `generate_audio`; each provider names it otherwise. */
const soundField = /audio|sound/i;

/**
 * The kind of request that a price belongs to: the model, the length, the resolution and the sound. What is left out is the service's own
 * default, and so a kind of its own.
 */
export function kindOfRequest(request: StartRequest): string {
  return JSON.stringify([request.model, ...priceFieldsOf(request)]);
}

/** The fields of a request that its price depends on, besides its model. */
export function priceFieldsOf({ duration, resolution, ...fields }: StartRequest): [name: string, value: unknown][] {
  const sound = Object.entries(fields).filter(([name]) => soundField.test(name));
  const named: [string, unknown][] = [["duration", duration], ["resolution", resolution], ...sound.sort()];
  return named.filter(([, value]) => value !== undefined);
}

/**
 * The credits that a start has cost. Those of a real video at the local service cost nothing: its provider is paid in US dollars. `isLocal`
 * says whether it was started there.
 */
export function creditsOf(
  { credits, is_preview }: Pick<Entry, "credits" | "is_preview">,
  { isLocal }: { isLocal: boolean },
): number | undefined {
  return isLocal && is_preview === false && credits !== undefined ? 0 : credits;
}

/** Whether a generation was charged. */
export type Charge = "yes" | "no";

/** Whether a generation was charged, where that was stated: in credits at its start, or in US dollars at its end. */
export function chargedOf(
  { credits, cost, is_preview }: Pick<Entry, "credits" | "cost" | "is_preview">,
  { isLocal }: { isLocal: boolean },
): Charge | undefined {
  // The local service's credits say nothing of what a provider charges.
  const stated = [isLocal && is_preview !== true ? undefined : credits, cost].filter((price) => price !== undefined);
  if (stated.length === 0) return undefined;
  return stated.some((price) => price > 0) ? "yes" : "no";
}

/** What the newest start of a kind has cost: the service itself has stated it. A fall of the balance is no price, because others spend too. */
export type Price = { request: StartRequest; at: string; credits: number };

/** The prices in credits by their kinds, from the journal's entries of a service, newest first. */
export function readPrices(entries: readonly Entry[], account: string): Map<string, Price> {
  const prices = new Map<string, Price>();
  for (const entry of entries) {
    const { request, at, credits } = entry;
    const kind = kindOfRequest(request);
    if (credits !== undefined && isPaidBy(account, entry) && !prices.has(kind))
      prices.set(kind, { request, at, credits });
  }
  return prices;
}

/** What a service has stated that a kind of request costs: in credits, or in USD what its engine's provider has charged. */
export type StatedPrice = Pick<Entry, "base_url" | "request" | "at" | "credits" | "cost">;

/** What each service has stated of a model, by its kinds of requests, from the journal's entries of all of them, newest first. */
export function listPrices(entries: readonly Entry[], model: string): StatedPrice[] {
  const stated = new Map<string, StatedPrice>();
  for (const { base_url, request, at, credits, cost } of entries) {
    const key = `${base_url} ${kindOfRequest(request)}`;
    const isStated = credits !== undefined || cost !== undefined;
    if (isStated && request.model === model && !stated.has(key))
      stated.set(key, { base_url, request, at, credits, cost });
  }
  return [...stated.values()];
}

/** The credits of an account, by the newest start whose reply stated them. */
export type Balance = { credits: number; at: string };

export function readBalance(entries: readonly Entry[], account: string): Balance | undefined {
  const told = entries.find((entry) => entry.remaining_credits !== undefined && isPaidBy(account, entry));
  return told && { credits: told.remaining_credits ?? 0, at: told.at };
}

/** After this time others have probably spent, or somebody has bought, credits: then the fall of the balance says nothing. */
const balanceLastsMs = 3600_000;

/** Whether a balance is new enough to be compared with that of the next start. */
export function isComparable({ at }: Balance, now: Date): boolean {
  return now.getTime() - Date.parse(at) < balanceLastsMs;
}
