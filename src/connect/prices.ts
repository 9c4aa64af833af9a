import { fetchPrices } from "../client/generation/cost.ts";
import { createApi } from "../client/http/api.ts";
import type { Entry } from "../client/ledger/history.ts";
import { kindOfRequest, statedPrice } from "../client/ledger/price.ts";
import { readRecent } from "../client/ledger/search.ts";
import type { Io } from "../io.ts";
import { priceFieldsOf } from "../protocol/price.ts";
import { findJournal, resolveService } from "./services.ts";

/** A service's stated price of a kind of request: in credits, or in US dollars as its provider charged. */
export type StatedPrice = Pick<Entry, "base_url" | "request" | "at" | "credits" | "cost">;
export type ModelPrice = Pick<StatedPrice, "base_url" | "credits" | "cost">;

/** The stated prices of a model, by service and kind of request, from the journal's entries of all services, newest first. */
export function listEarlierPrices(entries: readonly Entry[], model: string): StatedPrice[] {
  const stated = new Map<string, StatedPrice>();
  for (const entry of entries) {
    const { base_url, request, at, credits, cost } = entry;
    const key = `${base_url} ${kindOfRequest(request)}`;
    if (request.model === model && showsPrice(entry) && !stated.has(key))
      stated.set(key, { base_url, request, at, credits, cost });
  }
  return [...stated.values()];
}

/** An earlier price for `--json`, with the fields of the request that it depends on. */
export function describeEarlierPrice({ base_url, request, at, credits, cost }: StatedPrice) {
  const price = { credits: cost === undefined ? credits : undefined, cost };
  return { base_url, ...Object.fromEntries(priceFieldsOf(request)), ...price, at };
}

/**
 * The known prices of models: from the configured service, if it is a `vidgen serve`, else from the newest
 * video of each model in the journal, those of this service first. Never rejects.
 */
export async function findModelPrices(io: Io): Promise<Map<string, ModelPrice>> {
  const service = await resolveService(undefined, io).catch(() => undefined);
  const api = service && createApi({ ...service, fetch: io.fetch });
  const listed = api ? await fetchPrices({ api, io }, io.signal).catch(() => []) : [];
  const journal = findJournal({ ...io, onNote: () => {} });
  const entries = await readRecent(journal);
  const entriesOfService = entries.filter(({ base_url }) => base_url === service?.baseUrl);
  const prices = new Map<string, ModelPrice>();
  for (const [model, { credits }] of listed)
    if (service && credits !== undefined) prices.set(model, { base_url: service.baseUrl, credits });
  for (const entry of [...entriesOfService, ...entries])
    if (showsPrice(entry) && !prices.has(entry.request.model)) prices.set(entry.request.model, entry);
  return prices;
}

/** Whether an entry shows the price of its model. A preview does not. */
function showsPrice(entry: Entry): boolean {
  const { credits, usd } = statedPrice(entry);
  return !entry.is_preview && (credits ?? usd) !== undefined;
}
