import { VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import { countsCredits } from "../generation/cost.ts";
import { listEntries, type Service } from "../generation/service.ts";
import { askOnce } from "../http/ask.ts";
import type { Entry } from "../ledger/history.ts";
import { priceFieldsOf, readListedPrices } from "../ledger/price.ts";
import { type Budget, type Costs, checkBudget, createCosts, mustRunAlone } from "./costs.ts";

/** The budget of starts that are followed elsewhere: a run of several generations, or the session of an agent. */
export type Spending = {
  /** Reads from the journal which generations have ended, and returns whether a start must wait until nothing else of the budget runs. */
  mustWait(request: StartRequest): Promise<boolean>;
  /** The error if a start would exceed the budget. */
  check(request: StartRequest): VidgenError | undefined;
  /** Counts an accepted start; `key` is its Idempotency-Key, under which an earlier attempt may be counted already. */
  started(key: string, request: StartRequest, accepted: AcceptedStart): void;
  /** Counts a start that may have been charged. */
  unknown(key: string, request: StartRequest): void;
};

/** Opens a budget; `undefined` without a limit. `isOwn` says which earlier attempts have spent a part of it. */
export async function openSpending(
  service: Service,
  budget: Budget,
  { isOwn = () => false, signal }: { isOwn?: (entry: Entry) => boolean; signal: AbortSignal },
): Promise<Spending | undefined> {
  if (!isLimited(budget)) return undefined;
  const entries = await listEntries(service);
  const ownEntries = entries.filter(isOwn);
  const costs = createCosts(ownEntries.toReversed(), entries, service, await fetchPrices(service, budget, signal));
  const running = new Map(ownEntries.filter(isRunning).map(({ id = "", request }) => [id, request]));
  const readEnds = async () => {
    for (const entry of running.size === 0 ? [] : await listEntries(service)) {
      const { id = "" } = entry;
      if (!running.has(id) || isRunning(entry)) continue;
      running.delete(id);
      costs.count(entry);
    }
  };
  const entryOf = (key: string, request: StartRequest) => {
    const { name: base_url, account, io } = service;
    const is_preview = service.isPreview(request.model);
    return { attempt: key, base_url, account, request, at: io.date().toISOString(), is_preview };
  };
  return {
    async mustWait(request) {
      await readEnds();
      const runningRequests = [...running.values()];
      return runningRequests.length > 0 && mustRunAlone(request, runningRequests, budget, costs);
    },
    check: (request) => checkBudget(request, budget, costs),
    started(key, request, { generation: { id }, credits_charged: credits, ...stated }) {
      running.set(id, request);
      costs.started({ ...entryOf(key, request), ...stated, state: "running", id, credits });
    },
    unknown: (key, request) => costs.started({ ...entryOf(key, request), state: "unknown" }),
  };
}

/**
 * The error if the start of a single generation would exceed the budget, or if its price is unknown, since no earlier start can show it.
 * With `signal`, the service is asked for its prices first.
 */
export async function checkSingle(
  request: StartRequest,
  budget: Budget,
  service: Service,
  signal?: AbortSignal,
): Promise<VidgenError | undefined> {
  if (!isLimited(budget)) return undefined;
  const costs = createCosts([], await listEntries(service), service, await fetchPrices(service, budget, signal));
  return findUnpriced(request, budget, { service, costs }) ?? checkBudget(request, budget, costs);
}

function findUnpriced(
  request: StartRequest,
  { maxCredits, maxCost }: Budget,
  { service, costs }: { service: Service; costs: Costs },
): VidgenError | undefined {
  if (costs.isFree(request)) return undefined;
  const { model } = request;
  const fields = priceFieldsOf(request).map(([name, value]) => `${name} ${value}`);
  const kind = [model, ...fields].join(", ");
  const unpricedError = (unit: string, flag: string, hint: string) =>
    new VidgenError(
      "credits",
      `The price of ${kind} in ${unit} is unknown, so vidgen cannot keep to ${flag}. Nothing was sent.`,
      {
        hint,
      },
    );
  const learnHint =
    "Start one generation without the limit, or several with the limit (-n 2): then the first runs alone, and shows the price.";
  if (maxCredits !== undefined && !countsCredits(service, model))
    return unpricedError(
      "credits",
      `--max-credits ${maxCredits}`,
      "Engines charge US dollars, or nothing. Use --max-cost.",
    );
  if (maxCredits !== undefined && costs.price(request) === undefined)
    return unpricedError(
      "credits",
      `--max-credits ${maxCredits}`,
      `The price becomes known when the service states it at a start of the same model, length, resolution and sound. ${learnHint}`,
    );
  if (maxCost === undefined || costs.priceUsd(request) !== undefined) return undefined;
  return unpricedError(
    "US dollars",
    `--max-cost ${maxCost}`,
    `The price becomes known when a video of the same model, length, resolution and sound has ended, if its provider states the cost. ${learnHint}`,
  );
}

function isLimited({ maxCredits, maxCost }: Budget): boolean {
  return maxCredits !== undefined || maxCost !== undefined;
}

function isRunning({ id, state }: Entry): boolean {
  return id !== undefined && (state === "running" || state === "unknown" || state === "lost");
}

/** A short limit, so that an unresponsive service does not delay a start. */
const pricesLimitMs = 2_000;

/** The prices in credits that a `vidgen serve` lists by model; empty for other services. Rejects only with the signal's reason. */
async function fetchPrices(
  { api, io, isLocal }: Service,
  { maxCredits }: Budget,
  signal: AbortSignal | undefined,
): Promise<Map<string, number>> {
  if (maxCredits === undefined || isLocal || signal === undefined) return new Map();
  const { reply } = await askOnce(api.models, { baseUrl: api.baseUrl, signal, limitMs: pricesLimitMs }, io);
  return readListedPrices(reply?.json);
}
