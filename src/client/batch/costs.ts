import { VidgenError } from "../../errors.ts";
import { isPriceable, roundUsd } from "../../protocol/price.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { countCredits, formatNumber, formatUsd } from "../../protocol/text.ts";
import {
  countsCredits,
  createEstimates,
  type Estimate,
  isOldPrice,
  isPayer,
  knownAmount,
  type Price,
  type PricedService,
  type PriceList,
} from "../generation/cost.ts";
import { type Entry, isPaidBy } from "../ledger/history.ts";
import { isComparable, kindOfRequest, readBalance, startOf, weightOf } from "../ledger/price.ts";

/**
 * What the starts of a command may spend: of one generation, of a run of several, of all runs of a batch, or
 * of an agent's session.
 */
export type Budget = {
  /** The maximum number of credits. */
  maxCredits?: number | undefined;
  /** The minimum number of credits to leave on the account. */
  keepCredits?: number | undefined;
  /** The maximum cost in USD. */
  maxCost?: number | undefined;
};

/** Whether a budget has a limit of what is spent. */
export function isLimited({ maxCredits, maxCost }: Budget): boolean {
  return maxCredits !== undefined || maxCost !== undefined;
}

/** What is known of a kind of request (see `price.ts`), and of its starts in a batch. */
type KindCosts = {
  /** What a start costs by lists and earlier commands; of different prices in USD, the highest. */
  estimate: Estimate;
  /** In credits: the newest price that the service stated for a start of the batch. */
  price?: number;
  /** The largest drop of the balance at a start, which is the expected maximum cost of the next start. */
  maxDrop?: number;
  /** The smallest drop since an earlier run; used only if no other price is known, since other users may have spent too. */
  minDropBetweenRuns?: number;
  /** How many starts have no stated cost. */
  unstatedStarts: number;
  /** Of these: the sum of the balance drops, and how many starts had no drop. */
  dropSum: number;
  startsWithoutDrop: number;
  /** Whether the cost of a start is unknown: its reply had no balance, or the balance did not drop. */
  isCostUnknown: boolean;
  /** The highest cost of a start of the batch in USD, which is stated when a generation ends. */
  maxUsd?: number;
  /** How many are still running. */
  running: number;
};

/**
 * What a reply says about the cost. Without a stated cost there is only the drop of the balance, which
 * includes the spending of other users.
 */
type StatedCost = Partial<Pick<Entry, "credits" | "balance_fell" | "remaining_credits">>;

export type Costs = ReturnType<typeof createCosts>;

/** The part of an attempt's entry that its cost depends on. */
export type CostEntry = Pick<
  Entry,
  "attempt" | "key" | "resend_of" | "base_url" | "account" | "request" | "at" | "state" | "is_preview"
> &
  Partial<Pick<Entry, "id" | "cost" | "engine" | "served_by">> &
  StatedCost;

/** What is kept of each start. It has no request, so that the memory of a long batch stays flat. */
type CountedStart = Pick<CostEntry, "attempt" | "state"> & {
  kind: KindCosts;
  /** By `weightOf`. */
  weight: number;
  credits: number | undefined;
  drop: number;
  usd: number | undefined;
};

/**
 * The costs of the starts of a command: credits are stated when a generation starts, USD when it ends.
 * Attempts that share a key count once. If the service never states credits, each drop of the balance between
 * two replies counts as spent. `earlier` has the entries of earlier runs, oldest first; `entries` has the
 * journal's entries of the service, newest first. Prices and balances of other accounts are ignored.
 */
export function createCosts(
  earlier: readonly CostEntry[],
  entries: readonly Entry[],
  service: PricedService,
  listed: PriceList,
) {
  const { account, isFree, io } = service;
  const estimate = createEstimates(service, listed, [...entries, ...earlier]);
  const hasStatedCredits = entries.some((entry) => entry.credits !== undefined && isPaidBy(account, entry));
  const kinds = new Map<string, KindCosts>();
  const kindOf = (request: StartRequest): KindCosts => {
    const name = kindOfRequest(request);
    const estimated = estimate(request);
    const known = kinds.get(name);
    if (known === undefined) {
      const starts = { unstatedStarts: 0, dropSum: 0, startsWithoutDrop: 0, isCostUnknown: false, running: 0 };
      kinds.set(name, { estimate: estimated, ...starts });
    } else if ((estimated.usd?.amount ?? 0) > (known.estimate.usd?.amount ?? 0)) known.estimate = estimated;
    return kinds.get(name) as KindCosts;
  };
  const estimateOf = (request: StartRequest): Estimate => {
    const { credits, usd } = estimate(request);
    const { price, maxUsd } = kindOf(request);
    return isFree(request.model)
      ? { credits, usd }
      : { credits: replaceBy(price, credits), usd: replaceBy(maxUsd, usd) };
  };
  /** The starts that were, or may have been, charged, by `startOf`. */
  const counted = new Map<string, CountedStart>();
  let [statedCredits, acceptedStarts, spentUsd, completedWithoutUsd] = [0, 0, 0, 0];
  /** The last balance that a reply stated. */
  let previousBalance: number | undefined;

  /** Adds a start to the sums, or takes it out of them again. */
  function add({ kind, state, weight, credits, drop, usd }: CountedStart, sign: 1 | -1) {
    if (weight === 2) acceptedStarts += sign;
    if (credits !== undefined) statedCredits += sign * credits;
    else {
      kind.unstatedStarts += sign;
      if (drop > 0) kind.dropSum += sign * drop;
      else kind.startsWithoutDrop += sign;
    }
    if (!hasEnded({ state })) kind.running += sign;
    else if (usd !== undefined) spentUsd += sign * usd;
    else if (state !== "failed") completedWithoutUsd += sign;
  }

  /**
   * Takes what a start shows about the price of its kind. A price that this command has not seen itself
   * counts only if it is not old.
   */
  function learn({ request, credits, balance_fell: drop, remaining_credits, ...entry }: CostEntry) {
    const kind = kindOf(request);
    const showsPrice = isPriceable(request) && isPayer(service, entry) && (hasReadEarlier || !isOldPrice(entry.at, io));
    const remaining = isPaidBy(account, entry) ? remaining_credits : undefined;
    const dropSince = previousBalance === undefined || remaining === undefined ? 0 : previousBalance - remaining;
    previousBalance = remaining ?? previousBalance;
    const usd = hasEnded(entry) ? costOf(entry) : undefined;
    if (usd !== undefined && showsPrice) kind.maxUsd = Math.max(kind.maxUsd ?? 0, usd);
    if (credits !== undefined) {
      if (showsPrice && countsCredits(service, request.model)) kind.price = credits;
    } else if (drop !== undefined && drop > 0) kind.maxDrop = Math.max(kind.maxDrop ?? 0, drop);
    else if (drop === undefined && dropSince > 0)
      kind.minDropBetweenRuns = Math.min(kind.minDropBetweenRuns ?? dropSince, dropSince);
  }

  /** Replaces what was counted for the start's key by its current cost. A start that was certainly not charged costs nothing. */
  function count(entry: CostEntry): void {
    const name = startOf(entry);
    const before = counted.get(name);
    const weight = weightOf(entry);
    if (before && before.attempt !== entry.attempt && weight < before.weight) return;
    if (before) add(before, -1);
    counted.delete(name);
    if (weight === 0) return;
    const { attempt, state, request, credits, balance_fell: drop = 0 } = entry;
    const start = { attempt, state, kind: kindOf(request), weight, credits, drop, usd: costOf(entry) };
    counted.set(name, start);
    add(start, 1);
    learn(entry);
  }

  let hasReadEarlier = false;
  const paidEntries = earlier.filter((entry) => weightOf(entry) > 0);
  for (const entry of paidEntries) {
    count(entry);
    if (entry.credits === undefined && hasNotFallen(entry.balance_fell)) kindOf(entry.request).isCostUnknown = true;
  }
  hasReadEarlier = true;
  // In a later run, a start of unknown cost counts as the largest drop of its kind, if there is one.
  for (const kind of kinds.values()) kind.isCostUnknown &&= expectedMaxOf(kind) === undefined;
  // The newest balance: another machine may have written a newer one to the results file than this journal has.
  const [balance] = [readBalance(entries, account), readBalance(paidEntries.toReversed(), account)]
    .filter((each) => each !== undefined)
    .sort((one, other) => other.at.localeCompare(one.at));
  /** The last known balance, and the balance that the next start's reply can be compared with. */
  let lastBalance = balance?.credits;
  let comparableBalance = balance && isComparable(balance, io.date()) ? lastBalance : undefined;
  /** The starts since then that may have been charged, with their kinds. */
  const startsSinceBalance = new Map(
    paidEntries
      .filter(({ at, remaining_credits }) => remaining_credits === undefined && at >= (balance?.at ?? ""))
      .map((entry) => [startOf(entry), kindOf(entry.request)]),
  );

  return {
    count,
    /** Counts a start of this process that was, or may have been, charged. */
    started(entry: CostEntry): void {
      const { request, id, credits, balance_fell, remaining_credits } = entry;
      count(entry);
      const kind = kindOf(request);
      if (remaining_credits === undefined) startsSinceBalance.set(startOf(entry), kind);
      if (id === undefined) return;
      if (credits === undefined && (remaining_credits === undefined || hasNotFallen(balance_fell)))
        kind.isCostUnknown = true;
      if (remaining_credits === undefined) return;
      lastBalance = comparableBalance = remaining_credits;
      startsSinceBalance.clear();
    },
    /** Leaves a start out, such as one whose key is sent again now. Returns a function that counts it again. */
    leaveOut(entry: CostEntry): () => void {
      const start = startOf(entry);
      const [before, kind] = [counted.get(start), startsSinceBalance.get(start)];
      if (before) add(before, -1);
      startsSinceBalance.delete(start);
      return () => {
        if (before) add(before, 1);
        if (kind) startsSinceBalance.set(start, kind);
      };
    },
    /** The balance before the next start, if it can be compared with the balance after it: for `send`. */
    balance: () => comparableBalance,
    /** The maximum that all runs of the batch may have spent, in credits. */
    spent: () => [...kinds.values()].reduce((sum, kind) => sum + spentOn(kind), statedCredits),
    /** Whether `spent` is exact. */
    isExact: () => [...kinds.values()].every(({ unstatedStarts }) => unstatedStarts === 0),
    /** Whether a request is for a free preview, which no budget stops. */
    isFree: ({ model }: StartRequest) => isFree(model),
    /** What a start would cost. */
    estimate: estimateOf,
    /**
     * The expected maximum cost of the next start in credits: the price, else the largest drop of the
     * balance, else an old price.
     */
    expectedMax(request: StartRequest) {
      const { maxDrop, minDropBetweenRuns } = kindOf(request);
      const { credits } = estimateOf(request);
      return knownAmount(credits) ?? maxDrop ?? minDropBetweenRuns ?? credits?.amount;
    },
    /** Whether starts were accepted and none had a stated cost, so that waiting for a price is useless. */
    statesNoCredits: () =>
      acceptedStarts > 0 && !hasStatedCredits && [...kinds.values()].every(({ price }) => price === undefined),
    /** The last known balance, less what may have been charged since. */
    remainingCredits: () =>
      lastBalance &&
      [...startsSinceBalance.values()].reduce((sum, kind) => sum - (expectedMaxOf(kind) ?? 0), lastBalance),
    /** Whether the cost of a start is unknown, so that no budget can be kept. `keepCredits` also needs a balance. */
    isCostUnknown({ keepCredits }: Budget): boolean {
      // A list alone does not show what a start has cost.
      const unpriced = [...kinds.values()].filter(
        ({ estimate: { credits }, price }) =>
          price === undefined && (credits === undefined || credits.basis === "list"),
      );
      if (unpriced.some((kind) => kind.isCostUnknown)) return true;
      if (lastBalance !== undefined || counted.size === 0) return false;
      return keepCredits !== undefined || unpriced.some(({ unstatedStarts }) => unstatedStarts > 0);
    },
    /** The maximum cost of all runs in USD, including running generations; `undefined` once a cost is unknown. */
    usd: () =>
      completedWithoutUsd > 0
        ? undefined
        : roundUsd([...kinds.values()].reduce((sum, kind) => sum + kind.running * runningUsdOf(kind), spentUsd)),
  };
}

/** Whether a generation is completed or failed, so that its cost in USD is final. */
function hasEnded({ state }: Pick<Entry, "state">): boolean {
  return state === "ready" || state === "delivered" || state === "failed";
}

/** The cost of the starts without a stated cost: by the price of the kind, else by the drops of the balance. */
function spentOn(kind: KindCosts): number {
  const { unstatedStarts, dropSum, startsWithoutDrop } = kind;
  const price = priceOfKind(kind) ?? kind.estimate.credits?.amount;
  return price === undefined ? dropSum + startsWithoutDrop * (expectedMaxOf(kind) ?? 0) : unstatedStarts * price;
}

function priceOfKind({ estimate, price }: KindCosts): number | undefined {
  return knownAmount(replaceBy(price, estimate.credits));
}

/** A price, or what a start of the batch has cost in its place: more than a list says, or without one. */
function replaceBy(stated: number | undefined, price: Price | undefined): Price | undefined {
  if (stated === undefined || (price?.basis === "list" && price.amount >= stated)) return price;
  return { amount: stated, basis: "earlier" };
}

/** What a running generation costs at most in USD, as far as that is known. */
function runningUsdOf({ estimate: { usd }, maxUsd }: KindCosts): number {
  return replaceBy(maxUsd, usd)?.amount ?? 0;
}

/** Whether the balance certainly did not fall at a start. If no balance from before the start is known, it may have fallen. */
function hasNotFallen(balanceFell: number | undefined): boolean {
  return balanceFell !== undefined && balanceFell <= 0;
}

/** The expected maximum cost of a start. */
function expectedMaxOf(kind: KindCosts): number | undefined {
  return priceOfKind(kind) ?? kind.maxDrop ?? kind.minDropBetweenRuns ?? kind.estimate.credits?.amount;
}

/** The cost of a completed generation in USD. A preview is free; a provider that states 0 has not stated a cost. */
function costOf({ cost, is_preview }: Pick<CostEntry, "cost" | "is_preview">): number | undefined {
  return cost || (is_preview === true ? 0 : undefined);
}

/**
 * Whether a start must wait until nothing else runs, because its price, or that of a running generation, is
 * unknown and the budget could be exceeded. If the service never states credits, there is nothing to wait
 * for.
 */
export function mustRunAlone(
  request: StartRequest,
  running: readonly StartRequest[],
  { maxCredits, keepCredits, maxCost }: Budget,
  costs: Costs,
): boolean {
  const requests = [request, ...running];
  const needsCredits = (maxCredits !== undefined || keepCredits !== undefined) && !costs.statesNoCredits();
  if (needsCredits && requests.some((each) => knownAmount(costs.estimate(each).credits) === undefined)) return true;
  return maxCost !== undefined && requests.some((each) => knownAmount(costs.estimate(each).usd) === undefined);
}

/** The error if a start would exceed the budget. A request without a known price is started: its reply states the price. */
export function checkBudget(request: StartRequest, budget: Budget, costs: Costs): VidgenError | undefined {
  if (costs.isFree(request)) return undefined;
  const { maxCredits, keepCredits, maxCost } = budget;
  const overrun = maxCost === undefined ? undefined : checkCost(request, maxCost, costs);
  if (overrun) return overrun;
  if (maxCredits === undefined && keepCredits === undefined) return undefined;
  const next = costs.expectedMax(request) ?? 0;
  const spent = costs.spent();
  if (maxCredits !== undefined && (spent >= maxCredits || spent + next > maxCredits)) {
    const cost = next === 0 ? "" : `, and the next generation costs up to ${formatNumber(next)}`;
    const upTo = costs.isExact() ? "" : "Up to ";
    return new VidgenError(
      "credits",
      `${upTo}${formatNumber(spent)} of at most ${countCredits(maxCredits)} are spent${cost}: nothing more is started.`,
    );
  }
  if (costs.isCostUnknown(budget))
    return new VidgenError(
      "credits",
      "The service did not state what a start cost, and its balance is missing or did not fall. The budget cannot be kept: nothing more is started.",
      { hint: "Check your account, then run the command without a budget." },
    );
  const left = costs.remainingCredits();
  if (keepCredits !== undefined && left !== undefined && left - Math.max(next, 1) < keepCredits)
    return new VidgenError(
      "credits",
      `${countCredits(left)} ${left === 1 ? "is" : "are"} left, and --keep-credits is ${keepCredits}: nothing more is started.`,
      {
        hint: "The service states the balance only at a start. If you bought credits since the last start, run the batch once without --keep-credits.",
      },
    );
  return undefined;
}

function checkCost(request: StartRequest, maxCost: number, costs: Costs): VidgenError | undefined {
  const usd = costs.usd();
  if (usd === undefined)
    return new VidgenError(
      "credits",
      "The service did not state what a video cost in USD. --max-cost cannot be kept: nothing more is started.",
      { hint: "Run the command without --max-cost, or with --max-credits where the service counts credits." },
    );
  const { amount: next, source } = costs.estimate(request).usd ?? { amount: 0 };
  if (usd < maxCost && roundUsd(usd + next) <= maxCost) return undefined;
  const price = source === undefined ? `up to ${formatUsd(next)}` : `about ${formatUsd(next)} by ${source}'s list`;
  const cost = next === 0 ? "" : `, and the next one costs ${price}`;
  return new VidgenError(
    "credits",
    `Up to ${formatUsd(usd)} of at most ${formatUsd(maxCost)} are spent${cost}: nothing more is started.`,
  );
}
