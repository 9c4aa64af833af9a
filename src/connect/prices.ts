import { fetchPrices } from "../client/generation/cost.ts";
import { createApi } from "../client/http/api.ts";
import type { Entry } from "../client/ledger/history.ts";
import { listPrices, type StatedPrice } from "../client/ledger/price.ts";
import { readRecent } from "../client/ledger/search.ts";
import type { Io } from "../io.ts";
import { priceFieldsOf } from "../protocol/price.ts";
import { localBaseUrl } from "./local.ts";
import { findJournal, resolveService } from "./services.ts";

/** The price of a model's video: in credits, or in US dollars as its provider charged. */
export type ModelPrice = Pick<StatedPrice, "base_url" | "credits" | "cost">;

/** The prices that services stated for earlier videos of a model, newest first, from the journal's entries. */
export function listEarlierPrices(entries: readonly Entry[], model: string): StatedPrice[] {
  return listPrices(entries, model).filter(isStated);
}

/** An earlier price for `--json`, with the fields of the request that it depends on. */
export function describeEarlierPrice({ base_url, request, at, credits, cost }: StatedPrice) {
  const price = { credits: cost === undefined ? credits : undefined, cost };
  return { base_url, ...Object.fromEntries(priceFieldsOf(request)), ...price, at };
}

/**
 * The known prices of models: from the service of `baseUrl`, else the configured one, if it is a `vidgen serve`, else from the newest
 * video of each model in the journal, those of the configured service first. Never rejects.
 */
export async function findModelPrices(io: Io, baseUrl?: string): Promise<Map<string, ModelPrice>> {
  const service = await resolveService(baseUrl, io).catch(() => undefined);
  const api = service && createApi({ ...service, fetch: io.fetch });
  const listed = api ? await fetchPrices({ api, io }, io.signal).catch(() => []) : [];
  const journal = findJournal({ ...io, onNote: () => {} });
  const entries = await readRecent(journal);
  const entriesOfService = entries.filter(({ base_url }) => base_url === service?.baseUrl);
  const prices = new Map<string, ModelPrice>();
  for (const [model, { credits }] of listed)
    if (service && credits !== undefined) prices.set(model, { base_url: service.baseUrl, credits });
  for (const entry of [...entriesOfService, ...entries])
    if (isStated(entry) && !prices.has(entry.request.model)) prices.set(entry.request.model, entry);
  return prices;
}

/** Whether the price is stated. Credits of the local service do not count, since they are free. */
export function isStated({ base_url, credits, cost }: ModelPrice): boolean {
  return cost !== undefined || (credits !== undefined && base_url !== localBaseUrl);
}
