import type { StartRequest } from "../../protocol/schema.ts";
import type { Entry } from "../ledger/history.ts";
import { type Charge, chargedOf, kindOfRequest, readPrices, readUsdPrices } from "../ledger/price.ts";
import { findEntry, listRecent, type Service } from "./service.ts";

/** The expected total cost of starts. `amount` is the sum of the known prices; `unpriced` has the models of the other starts, if there are any. */
export type ExpectedCost =
  | { kind: "free" }
  | { kind: "unknown" }
  | { kind: "credits" | "usd"; amount: number; unpriced?: readonly string[] };

/**
 * The expected total cost of requests: free if the local service says so for its previews, otherwise by the prices of earlier requests in the journal.
 * Sends nothing, and never rejects.
 */
export async function expectCost(service: Service, requests: readonly StartRequest[]): Promise<ExpectedCost> {
  const costlyRequests = requests.filter(({ model }) => !service.isFree(model));
  if (costlyRequests.length === 0) return { kind: "free" };
  const isPriced = (entries: readonly Entry[]) => {
    const [prices, usdPrices] = [readPrices(entries, service.account), readUsdPrices(entries, service)];
    return costlyRequests.every((each) =>
      (countsCredits(service, each.model) ? prices : usdPrices).has(kindOfRequest(each)),
    );
  };
  const entries = await listRecent(service, isPriced);
  const prices = readPrices(entries, service.account);
  const credits = sumOf(costlyRequests, "credits", (request) =>
    countsCredits(service, request.model) ? prices.get(kindOfRequest(request))?.credits : undefined,
  );
  if (credits.kind !== "unknown") return credits;
  const usdPrices = readUsdPrices(entries, service);
  return sumOf(costlyRequests, "usd", (request) => usdPrices.get(kindOfRequest(request)));
}

function sumOf(
  requests: readonly StartRequest[],
  kind: "credits" | "usd",
  priceOf: (request: StartRequest) => number | undefined,
): ExpectedCost {
  const priced = requests.map((request) => ({ model: request.model, price: priceOf(request) }));
  const prices = priced.flatMap(({ price }) => price ?? []);
  if (prices.length === 0) return { kind: "unknown" };
  const amount = prices.reduce((sum, price) => sum + price, 0);
  const unpriced = new Set(priced.flatMap(({ model, price }) => (price === undefined ? model : [])));
  return unpriced.size === 0 ? { kind, amount } : { kind, amount, unpriced: [...unpriced] };
}

/** Whether a start costs credits. At the local service only previews do, unless they are free: other engines charge US dollars, or nothing. */
export function countsCredits({ isLocal, isFree, isPreview }: Service, model: string): boolean {
  return !isLocal || (isPreview(model) === true && !isFree(model));
}

/** Whether a generation was charged, by the journal; `cost` is the cost in US dollars that the service states now. Never rejects. */
export async function findCharged(service: Service, id: string, cost?: number): Promise<{ charged?: Charge }> {
  const entry = await findEntry(service, id);
  const charged = chargedOf({ ...entry, cost: cost ?? entry?.cost }, service);
  return charged === undefined ? {} : { charged };
}
