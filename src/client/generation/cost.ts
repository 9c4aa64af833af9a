import type { Clock } from "../../io.ts";
import { isPriceable, type ListedPrice, readListedPrices, readUsdPrice, roundUsd } from "../../protocol/price.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { askOnce } from "../http/ask.ts";
import { type Entry, isPaidBy } from "../ledger/history.ts";
import { type Charge, chargedOf, isPaidInCredits, kindOfRequest } from "../ledger/price.ts";
import { isSameService } from "../ledger/same-service.ts";
import { findEntry, listRecent, type Service } from "./service.ts";

/**
 * What a start would cost in credits, in US dollars, or both, as far as somebody has stated it: in the list
 * of the service, or of a provider (`source`), or at an earlier start. An old price was stated more than a
 * day ago: it shows which starts are too expensive, and for the others it counts as unknown.
 */
export type Estimate = { credits?: Price | undefined; usd?: Price | undefined };
export type Price = { amount: number; basis: "list" | "earlier" | "old"; source?: string | undefined };

/** The amount of a price, unless it is old. */
export function knownAmount(price: Price | undefined): number | undefined {
  return price?.basis === "old" ? undefined : price?.amount;
}

/** The prices that a service lists now, by model. */
export type PriceList = ReadonlyMap<string, ListedPrice>;

/** The part of an entry that shows a price. */
export type PricedEntry = Pick<Entry, "request" | "at" | "account"> &
  Partial<Pick<Entry, "credits" | "cost" | "engine" | "served_by">>;

/** The account that pays, and its engines at a local service. */
type Payer = Pick<Service, "account" | "engine" | "servedBy">;

/** Whether this account has paid for a start, with the same engines. */
export function isPayer(
  { account, engine, servedBy }: Payer,
  entry: Pick<PricedEntry, "account" | "engine" | "served_by">,
): boolean {
  const nameOf = (engines: readonly string[] = []) => engines.join(" ");
  return isPaidBy(account, entry) && nameOf(entry.engine ?? entry.served_by) === nameOf(engine ?? servedBy);
}

export type PricedService = Payer & Pick<Service, "name" | "isFree" | "isPreview"> & { io: Pick<Clock, "date"> };

/** For how long a price is known that an earlier command has seen. */
const knownForMs = 24 * 3600_000;

/** Whether a price is too old to be known; `at` is ISO 8601. A time in the future shows that a clock was wrong. */
export function isOldPrice(at: string, { date }: Pick<Clock, "date">): boolean {
  return !(Math.abs(date().getTime() - Date.parse(at)) < knownForMs);
}

/**
 * Returns the function that says what a start would cost, to everything that shows a price or keeps to a
 * limit: nothing for a free preview, or else what the service or its engines list, or else what the newest
 * start of the same kind has cost. `entries` has earlier attempts at the service.
 */
export function createEstimates(
  service: PricedService,
  listed: PriceList,
  entries: Iterable<PricedEntry>,
): (request: StartRequest) => Estimate {
  /** The newest price of each kind. */
  const earlier = {
    credits: new Map<string, Price & { at: string }>(),
    usd: new Map<string, Price & { at: string }>(),
  };
  for (const entry of entries) {
    const { request, at, credits, cost } = entry;
    if ((credits === undefined && cost === undefined) || !isPayer(service, entry) || !isPriceable(request)) continue;
    const kind = kindOfRequest(request);
    const basis = isOldPrice(at, service.io) ? "old" : "earlier";
    const add = (prices: typeof earlier.usd, amount: number) => {
      if (at > (prices.get(kind)?.at ?? "")) prices.set(kind, { amount, at, basis });
    };
    if (credits !== undefined) add(earlier.credits, credits);
    // A provider that states 0 has not stated a price.
    if (cost !== undefined && cost > 0) add(earlier.usd, cost);
  }
  return (request) => {
    const { model } = request;
    if (service.isFree(model)) return { credits: free, usd: free };
    const { credits, usd: lists = [] } = listed.get(model) ?? {};
    const kind = kindOfRequest(request);
    const usd = service.isPreview(model) ? { amount: 0 } : readUsdPrice(lists, request);
    const inCredits = credits === undefined ? earlier.credits.get(kind) : ({ amount: credits, basis: "list" } as const);
    return {
      credits: countsCredits(service, model) ? inCredits : undefined,
      usd: usd ? { ...usd, basis: "list" } : earlier.usd.get(kind),
    };
  };
}

const free: Price = { amount: 0, basis: "list" };

/** A short limit, so that an unresponsive service does not delay a start. */
const listLimitMs = 2_000;

/** The prices that a `vidgen serve` lists; empty for other services. This is free. Rejects only with the signal's reason. */
export async function fetchPrices(
  { api, io }: Pick<Service, "api"> & { io: Clock },
  signal: AbortSignal,
): Promise<PriceList> {
  const { reply } = await askOnce(api.models, { baseUrl: api.baseUrl, signal, limitMs: listLimitMs }, io);
  return readListedPrices(reply?.json);
}

/**
 * Returns the estimates by what a service lists now, and by some entries of the journal. Rejects only with
 * the signal's reason.
 */
export async function openEstimates(service: Service, entries: readonly Entry[], signal: AbortSignal) {
  const ofService = entries.filter(({ base_url }) => isSameService(base_url, service.name));
  return createEstimates(service, await fetchPrices(service, signal), ofService);
}

/**
 * The expected total cost of starts. `amount` is the sum of the known prices, with the source of all of them,
 * if there is one; `unpriced` has the models of the other starts, and `unknown` their number.
 */
export type ExpectedCost =
  | { kind: "free" }
  | { kind: "unknown" }
  | {
      kind: "credits" | "usd";
      amount: number;
      source?: string | undefined;
      unpriced: readonly string[];
      unknown: number;
    };

/** The expected total cost of requests. The service is asked for its prices. Rejects only with the signal's reason. */
export async function expectCost(
  service: Service,
  requests: readonly StartRequest[],
  signal: AbortSignal,
): Promise<ExpectedCost> {
  if (requests.every(({ model }) => service.isFree(model))) return { kind: "free" };
  const listed = await fetchPrices(service, signal);
  const isEnough = (entries: readonly Entry[]) => {
    const estimate = createEstimates(service, listed, entries);
    return requests.every((request) => isEstimated(estimate(request)));
  };
  const entries = isEnough([]) ? [] : await listRecent(service, isEnough);
  return sumCosts(service, requests, createEstimates(service, listed, entries));
}

function isEstimated({ credits, usd }: Estimate): boolean {
  return knownAmount(credits ?? usd) !== undefined;
}

/** Adds up what starts would cost: in credits where the service charges credits, else in US dollars. */
export function sumCosts(
  { isFree }: Pick<Service, "isFree">,
  requests: readonly StartRequest[],
  estimate: (request: StartRequest) => Estimate,
): ExpectedCost {
  const paid = requests.filter(({ model }) => !isFree(model));
  if (paid.length === 0) return { kind: "free" };
  const estimates = paid.map((request) => ({ model: request.model, ...estimate(request) }));
  const kind = estimates.some(({ credits }) => knownAmount(credits) !== undefined) ? "credits" : "usd";
  const sources = new Set<string | undefined>();
  const unpriced = new Set<string>();
  let [amount, unknown] = [0, 0];
  for (const { model, [kind]: price } of estimates) {
    const known = knownAmount(price);
    if (known === undefined) {
      unpriced.add(model);
      unknown++;
      continue;
    }
    amount += known;
    sources.add(price?.source);
  }
  if (unknown === paid.length) return { kind: "unknown" };
  const [source] = sources.size === 1 ? sources : [];
  return { kind, amount: roundUsd(amount), source, unpriced: [...unpriced], unknown };
}

/** Whether a start would cost credits: unless its price is in US dollars, or it is free. */
export function countsCredits(
  { name, isFree, isPreview }: Pick<Service, "name" | "isFree" | "isPreview">,
  model: string,
): boolean {
  return isPaidInCredits({ base_url: name, is_preview: isPreview(model) }) && !isFree(model);
}

/**
 * Whether a generation was charged, by the journal; `cost` is the cost in US dollars that the service states
 * now. Never rejects.
 */
export async function findCharged(service: Service, id: string, cost?: number): Promise<{ charged?: Charge }> {
  const entry = await findEntry(service, id);
  const charged = chargedOf({ base_url: service.name, ...entry, cost: cost ?? entry?.cost });
  return charged === undefined ? {} : { charged };
}
