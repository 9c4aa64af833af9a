import type { StartRequest } from "../../protocol/schema.ts";
import type { Entry } from "../ledger/history.ts";
import { type Charge, chargedOf, kindOfRequest, readPrices } from "../ledger/price.ts";
import { findEntry, listRecent, type Service } from "./service.ts";

/** What starts are expected to cost in all. "unknown" where nobody has stated a price for each of them. */
export type ExpectedCost = { kind: "free" } | { kind: "unknown" } | { kind: "credits" | "usd"; amount: number };

/**
 * What requests are expected to cost in all, by the word of the local service for its previews, else by what such requests have cost before,
 * as far as this machine knows. Sends nothing, and never rejects.
 */
export async function expectCost(service: Service, requests: readonly StartRequest[]): Promise<ExpectedCost> {
  if (requests.every(({ model }) => service.isFree(model))) return { kind: "free" };
  const entries = await listRecent(service);
  const prices = readPrices(entries, service.account);
  const credits = sumOf(requests, (request) =>
    countsCredits(service, request.model) ? prices.get(kindOfRequest(request))?.credits : undefined,
  );
  if (credits !== undefined) return { kind: "credits", amount: credits };
  const bills = readBills(entries, service);
  const usd = sumOf(requests, (request) => bills.get(kindOfRequest(request)));
  return usd === undefined ? { kind: "unknown" } : { kind: "usd", amount: usd };
}

function sumOf(
  requests: readonly StartRequest[],
  priceOf: (request: StartRequest) => number | undefined,
): number | undefined {
  const prices = requests.map(priceOf);
  return prices.reduce((sum, each) => (sum === undefined || each === undefined ? undefined : sum + each), 0);
}

/** What the newest video of each kind has cost in US dollars, made by the same engine. */
function readBills(entries: readonly Entry[], { engine = [] }: Pick<Service, "engine">): Map<string, number> {
  const bills = new Map<string, number>();
  for (const { request, cost, engine: maker = [] } of entries) {
    const kind = kindOfRequest(request);
    if (cost !== undefined && maker.join(" ") === engine.join(" ") && !bills.has(kind)) bills.set(kind, cost);
  }
  return bills;
}

/** Whether the credits of a start are what it costs: at the local service those of a preview alone, where that is not free. */
export function countsCredits({ isLocal, isFree, isPreview }: Service, model: string): boolean {
  return !isLocal || (isPreview(model) === true && !isFree(model));
}

/** Whether a generation was charged, as far as the journal knows; `cost` is what the service states in US dollars now. Never rejects. */
export async function findCharged(service: Service, id: string, cost?: number): Promise<{ charged?: Charge }> {
  const entry = await findEntry(service, id);
  const charged = chargedOf({ ...entry, cost: cost ?? entry?.cost }, service);
  return charged === undefined ? {} : { charged };
}
