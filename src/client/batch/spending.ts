import { VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import { countsCredits } from "../generation/cost.ts";
import type { Service } from "../generation/service.ts";
import { askOnce } from "../http/ask.ts";
import { addLine, type Entry, foldEntry, groupLines } from "../ledger/history.ts";
import { kindOfRequest, priceFieldsOf, readListedPrices, readPrices, readUsdPrices } from "../ledger/price.ts";
import { isSameService } from "../ledger/same-service.ts";
import { createTail, readRecent, scanEntries, wordOf } from "../ledger/search.ts";
import { type Budget, type Costs, checkBudget, createCosts, isLimited, mustRunAlone } from "./costs.ts";

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
  // The journal is read once, and then only what is new.
  const readNewLines = createTail(service.journal);
  const allEntries = groupLines(await readNewLines()).map(foldEntry);
  const entries = allEntries.filter(({ base_url }) => isSameService(base_url, service.name));
  const ownEntries = entries.filter(isOwn);
  const costs = createCosts(ownEntries.toReversed(), entries, service, await fetchPrices(service, budget, signal));
  const running = new Map(ownEntries.filter(isRunning).map((entry) => [entry.id ?? "", entry]));
  const readEnds = async () => {
    for (const line of (await readNewLines()).reverse()) {
      const entry = "id" in line ? running.get(line.id ?? "") : undefined;
      if (entry === undefined) continue;
      addLine(entry, line);
      if (isRunning(entry)) continue;
      running.delete(entry.id ?? "");
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
      const runningRequests = [...running.values()].map((entry) => entry.request);
      return runningRequests.length > 0 && mustRunAlone(request, runningRequests, budget, costs);
    },
    check: (request) => checkBudget(request, budget, costs),
    started(key, request, { generation: { id }, credits_charged: credits, ...stated }) {
      const entry = {
        ...entryOf(key, request),
        ...stated,
        state: "running",
        status: "processing",
        id,
        credits,
      } as const;
      running.set(id, { ...entry });
      costs.started(entry);
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
  const entries = await findPriced(request, budget, service);
  const costs = createCosts([], entries, service, await fetchPrices(service, budget, signal));
  return findUnpriced(request, budget, { service, costs }) ?? checkBudget(request, budget, costs);
}

/** The newest entries of this kind of request that state its price in the units of the budget. */
async function findPriced(
  request: StartRequest,
  { maxCredits, maxCost }: Budget,
  service: Service,
): Promise<readonly Entry[]> {
  const kind = kindOfRequest(request);
  const isOfKind = ({ base_url, credits, cost, ...entry }: Entry) =>
    isSameService(base_url, service.name) &&
    (credits !== undefined || cost !== undefined) &&
    kindOfRequest(entry.request) === kind;
  const isEnough = (entries: readonly Entry[]) =>
    (maxCredits === undefined || readPrices(entries, service.account).has(kind)) &&
    (maxCost === undefined || readUsdPrices(entries, service).has(kind));
  // The newest part of the journal usually contains a price, and reading it is faster than a search.
  const recent = (await readRecent(service.journal, (entries) => isEnough(entries.filter(isOfKind)))).filter(isOfKind);
  if (isEnough(recent)) return recent;
  // The lines with the model, and those with a price.
  const creditWords = maxCredits === undefined ? [] : ['"credits"'];
  const costWords = maxCost === undefined ? [] : ['"accepted"', '"cost"'];
  const priced: Entry[] = [];
  for await (const part of scanEntries(service.journal, [wordOf(request.model), ...creditWords, ...costWords])) {
    priced.push(...part.filter(isOfKind));
    if (isEnough(priced)) break;
  }
  return priced;
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
