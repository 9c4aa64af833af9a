import { VidgenError } from "../../errors.ts";
import { isPriceable, priceFieldsOf } from "../../protocol/price.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import { countsCredits, createEstimates, fetchPrices, type PriceList } from "../generation/cost.ts";
import type { Service } from "../generation/service.ts";
import { addLine, type Entry, foldEntry, groupLines } from "../ledger/history.ts";
import { kindOfRequest } from "../ledger/price.ts";
import { isSameService } from "../ledger/same-service.ts";
import { createTail, readRecent, scanEntries, wordOf } from "../ledger/search.ts";
import { type Budget, type Costs, checkBudget, createCosts, isLimited, mustRunAlone } from "./costs.ts";

/** The budget of starts that are followed elsewhere: a run of several generations, or the session of an agent. */
export type Spending = {
  /**
   * Reads from the journal which generations have ended, and returns whether a start must wait until nothing
   * else of the budget runs.
   */
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
  const listed = new Map(await fetchPrices(service, signal));
  let listedAt = service.io.now();
  /** An agent's session may last for days. A list that cannot be read again stays. */
  const refreshPrices = async () => {
    if (service.io.now() - listedAt < listedForMs) return;
    listedAt = service.io.now();
    for (const [model, price] of await fetchPrices(service, signal)) listed.set(model, price);
  };
  const costs = createCosts(ownEntries.toReversed(), entries, service, listed);
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
    const { name: base_url, account, engine, servedBy: served_by, io } = service;
    const is_preview = service.isPreview(request.model);
    return { attempt: key, base_url, account, engine, served_by, request, at: io.date().toISOString(), is_preview };
  };
  return {
    async mustWait(request) {
      await refreshPrices();
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

/** For how long the prices that a service lists are used. */
const listedForMs = 10 * 60_000;

/**
 * The error if the start of a single generation would exceed the budget, or if its price is unknown, since no
 * earlier start can show it. Asks the service for its prices first.
 */
export async function checkSingle(
  request: StartRequest,
  budget: Budget,
  service: Service,
  signal: AbortSignal,
): Promise<VidgenError | undefined> {
  if (!isLimited(budget)) return undefined;
  const listed = await fetchPrices(service, signal);
  const costs = createCosts([], await findPriced(request, budget, { service, listed }), service, listed);
  return findUnpriced(request, budget, { service, listed, costs }) ?? checkBudget(request, budget, costs);
}

/** The newest entries of this kind of request that state its price in the units of the budget, unless a list states it. */
async function findPriced(
  request: StartRequest,
  { maxCredits, maxCost }: Budget,
  { service, listed }: { service: Service; listed: PriceList },
): Promise<readonly Entry[]> {
  const kind = kindOfRequest(request);
  const isOfKind = ({ base_url, credits, cost, ...entry }: Entry) =>
    isSameService(base_url, service.name) &&
    (credits !== undefined || cost !== undefined) &&
    kindOfRequest(entry.request) === kind;
  const isEnough = (entries: readonly Entry[]) => {
    const { credits, usd } = createEstimates(service, listed, entries)(request);
    return (maxCredits === undefined || credits !== undefined) && (maxCost === undefined || usd !== undefined);
  };
  if (isEnough([]) || !isPriceable(request)) return [];
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
  { service, listed, costs }: { service: Service; listed: PriceList; costs: Costs },
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
  const learnHint = isPriceable(request)
    ? "Start one generation without the limit, or several with the limit (-n 2): then the first runs alone, and shows the price."
    : "It has a field that may change the price, or a video as a reference: start it without the limit.";
  if (maxCredits !== undefined && !countsCredits(service, model))
    return unpricedError(
      "credits",
      `--max-credits ${maxCredits}`,
      `An engine counts no credits. ${ownServerHint} For a provider, use --max-cost, in US dollars.`,
    );
  const { credits, usd } = costs.estimate(request);
  if (maxCredits !== undefined && credits === undefined)
    return unpricedError(
      "credits",
      `--max-credits ${maxCredits}`,
      `The price becomes known when the service states it at a start of the same model, length, resolution and sound. ${learnHint}`,
    );
  if (maxCost === undefined || usd !== undefined) return undefined;
  const isBySecond = (listed.get(model)?.usd.length ?? 0) > 0 && request.duration === undefined;
  return unpricedError(
    "US dollars",
    `--max-cost ${maxCost}`,
    `${countsCredits(service, model) ? "" : `${ownServerHint} `}${isBySecond ? "The provider's list has prices by second: add --duration. " : ""}The price becomes known when a video of the same model, length, resolution and sound has ended, if its provider states the cost. ${learnHint}`,
  );
}

const ownServerHint = "A server of your own charges nothing that vidgen could count: leave the limit out.";

function isRunning({ id, state }: Entry): boolean {
  return id !== undefined && (state === "running" || state === "unknown" || state === "lost");
}
