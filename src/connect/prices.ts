import { createApi } from "../client/http/api.ts";
import { askOnce } from "../client/http/ask.ts";
import type { StatedPrice } from "../client/ledger/price.ts";
import { readRecent } from "../client/ledger/search.ts";
import type { Io } from "../io.ts";
import { isRecord } from "../protocol/json.ts";
import { localBaseUrl } from "./local.ts";
import { findJournal, resolveService } from "./services.ts";

/** What a video of a model costs: in credits, or in US dollars what its provider has charged. */
export type ModelPrice = Pick<StatedPrice, "base_url" | "credits" | "cost">;

/**
 * The prices of models as far as they are known: what the service of the settings states, where it is a `vidgen serve`, else what services have
 * stated for the newest video of each on this machine, that service first. Never rejects.
 */
export async function findModelPrices(io: Io): Promise<Map<string, ModelPrice>> {
  const service = await resolveService(undefined, io).catch(() => undefined);
  const stated = service ? await askPrices(service, io).catch(() => []) : [];
  const journal = findJournal({ ...io, onNote: () => {} });
  const entries = await readRecent(journal);
  const own = entries.filter(({ base_url }) => base_url === service?.baseUrl);
  const prices = new Map(stated);
  for (const entry of [...own, ...entries])
    if (isStated(entry) && !prices.has(entry.request.model)) prices.set(entry.request.model, entry);
  return prices;
}

/** Whether a service has stated what a video cost. The local service's credits cost nothing; what a provider behind it has charged does. */
export function isStated({ base_url, credits, cost }: ModelPrice): boolean {
  return cost !== undefined || (credits !== undefined && base_url !== localBaseUrl);
}

/** The list of models must not wait for a service that does not answer. */
const limitMs = 2_000;

/** What `vidgen serve` says that its models cost; nothing of any other service. Rejects with the signal's reason alone. */
async function askPrices(
  { baseUrl, apiKey }: { baseUrl: string; apiKey: string },
  io: Io,
): Promise<[string, ModelPrice][]> {
  const { models } = createApi({ baseUrl, apiKey, fetch: io.fetch });
  const { reply } = await askOnce(models, { baseUrl, signal: io.signal, limitMs }, io);
  const data = isRecord(reply?.json) && Array.isArray(reply.json.data) ? reply.json.data : [];
  return data.flatMap((model): [string, ModelPrice][] => {
    const isPriced = isRecord(model) && model.owned_by === "vidgen" && typeof model.credits === "number";
    return isPriced ? [[String(model.id), { base_url: baseUrl, credits: Number(model.credits) }]] : [];
  });
}
