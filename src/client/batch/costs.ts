import { VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import type { Service } from "../generation/service.ts";
import { blocksRestart } from "../ledger/attempt.ts";
import { type Entry, isPaidBy } from "../ledger/history.ts";
import { isComparable, kindOfRequest, readBalance, readPrices, readUsdPrices } from "../ledger/price.ts";

/** What the starts of a command may spend: of one generation, of a run of several, of all runs of a batch, or of an agent's session. */
export type Budget = {
  /** The maximum number of credits. */
  maxCredits?: number | undefined;
  /** The minimum number of credits to leave on the account. */
  keepCredits?: number | undefined;
  /** The maximum cost in USD. */
  maxCost?: number | undefined;
};

/** What is known of a kind of request (see `price.ts`), and of its starts in a batch. */
type KindCosts = {
  /** In credits: the newest price that the service stated. */
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
  /** The highest price in USD, which is stated when a generation ends. */
  maxUsd?: number;
  /** How many are still running. */
  running: number;
};

/** What a reply says about the cost. Without a stated cost there is only the drop of the balance, which includes the spending of other users. */
type StatedCost = Pick<Entry, "credits" | "balance_fell" | "remaining_credits">;

export type Costs = ReturnType<typeof createCosts>;

/**
 * The costs of the starts of a command: credits are stated when a generation starts, USD when it ends.
 * If the service never states credits, each drop of the balance between two replies counts as spent. `earlier` has the entries of earlier runs,
 * oldest first; `entries` has the journal's entries of the service, newest first. Balances of other accounts are ignored. `listed` has the
 * prices in credits by model that the service lists.
 */
export function createCosts(
  earlier: readonly Entry[],
  entries: readonly Entry[],
  service: Pick<Service, "account" | "engine" | "isFree" | "io">,
  listedPrices: ReadonlyMap<string, number> = new Map(),
) {
  const { account, isFree } = service;
  const now = service.io.date();
  const kinds = new Map<string, KindCosts>();
  const kindNamed = (name: string): KindCosts => {
    const kind = kinds.get(name) ?? {
      unstatedStarts: 0,
      dropSum: 0,
      startsWithoutDrop: 0,
      isCostUnknown: false,
      running: 0,
    };
    kinds.set(name, kind);
    return kind;
  };
  const kindOf = (request: StartRequest) => kindNamed(kindOfRequest(request));
  for (const [name, { credits }] of readPrices(entries, account)) kindNamed(name).price = credits;
  for (const [name, cost] of readUsdPrices(entries, service)) kindNamed(name).maxUsd = cost;
  const priceOf = (request: StartRequest) =>
    isFree(request.model) ? 0 : (kindOf(request).price ?? listedPrices.get(request.model));
  let [statedCredits, chargedStarts, acceptedStarts] = [0, 0, 0];
  /** `undefined` once a completed generation had no stated price. */
  let spentUsd: number | undefined = 0;
  /** The last balance that a reply stated. */
  let previousBalance: number | undefined;

  /** Counts a start that was, or may have been, charged. */
  function charge(
    request: StartRequest,
    { credits, balance_fell: drop, remaining_credits: remaining }: StatedCost,
  ): KindCosts {
    const kind = kindOf(request);
    const dropSince = previousBalance === undefined || remaining === undefined ? 0 : previousBalance - remaining;
    previousBalance = remaining ?? previousBalance;
    chargedStarts++;
    kind.running++;
    if (credits !== undefined) {
      statedCredits += credits;
      kind.price = credits;
      return kind;
    }
    kind.unstatedStarts++;
    if (drop !== undefined && drop > 0) {
      kind.dropSum += drop;
      kind.maxDrop = Math.max(kind.maxDrop ?? 0, drop);
      return kind;
    }
    kind.startsWithoutDrop++;
    if (drop === undefined && dropSince > 0)
      kind.minDropBetweenRuns = Math.min(kind.minDropBetweenRuns ?? dropSince, dropSince);
    return kind;
  }

  /** Counts an ended generation, with its cost in USD if that is known. */
  function end(request: StartRequest, cost: number | undefined) {
    const kind = kindOf(request);
    kind.running--;
    if (cost === undefined) return;
    kind.maxUsd = Math.max(kind.maxUsd ?? 0, cost);
    spentUsd = spentUsd === undefined ? undefined : spentUsd + cost;
  }

  /** Counts a completed generation. */
  function completed(request: StartRequest, cost: number | undefined) {
    end(request, cost);
    if (cost === undefined) spentUsd = undefined;
  }

  const paidEntries = earlier.filter(({ id, state }) => id !== undefined || blocksRestart(state));
  for (const entry of paidEntries) {
    const { request, state, id, credits, balance_fell } = entry;
    const kind = charge(request, isPaidBy(account, entry) ? entry : { ...entry, remaining_credits: undefined });
    if (id !== undefined) acceptedStarts++;
    if (credits === undefined && hasNotFallen(balance_fell)) kind.isCostUnknown = true;
    if (state === "ready" || state === "delivered") completed(request, costOf(entry));
    if (state === "failed") end(request, entry.cost);
  }
  // In a later run, a start of unknown cost counts as the largest drop of its kind, if there is one.
  for (const kind of kinds.values()) kind.isCostUnknown &&= expectedMaxOf(kind) === undefined;
  // The newest balance: another machine may have written a newer one to the results file than this journal has.
  const [balance] = [readBalance(entries, account), readBalance(paidEntries.toReversed(), account)]
    .filter((each) => each !== undefined)
    .sort((one, other) => other.at.localeCompare(one.at));
  /** The last known balance, and the balance that the next start's reply can be compared with. */
  let lastBalance = balance?.credits;
  let comparableBalance = balance && isComparable(balance, now) ? lastBalance : undefined;
  /** The kinds of the starts since then that may have been charged. */
  let kindsSinceBalance = paidEntries
    .filter(({ at, remaining_credits }) => remaining_credits === undefined && at >= (balance?.at ?? ""))
    .map(({ request }) => kindOf(request));

  return {
    /** Counts an accepted start. */
    started(request: StartRequest, reply: Omit<AcceptedStart, "generation">): void {
      const { credits_charged: credits, balance_fell, remaining_credits } = reply;
      const kind = charge(request, { credits, balance_fell, remaining_credits });
      acceptedStarts++;
      if (credits === undefined && (remaining_credits === undefined || hasNotFallen(balance_fell)))
        kind.isCostUnknown = true;
      if (remaining_credits === undefined) return void kindsSinceBalance.push(kind);
      lastBalance = comparableBalance = remaining_credits;
      kindsSinceBalance = [];
    },
    /** Counts a start that may have been charged. */
    unknown(request: StartRequest): void {
      kindsSinceBalance.push(charge(request, {}));
    },
    completed,
    /** Counts a failed generation. Without a stated cost it cost nothing, and it does not change the price. */
    failed: end,
    /** The balance before the next start, if it can be compared with the balance after it: for `send`. */
    balance: () => comparableBalance,
    /** The maximum that all runs of the batch may have spent, in credits. */
    spent: () => [...kinds.values()].reduce((sum, kind) => sum + spentOn(kind), statedCredits),
    /** Whether `spent` is exact. */
    isExact: () => [...kinds.values()].every(({ unstatedStarts }) => unstatedStarts === 0),
    /** Whether a request is for a free preview, which no budget stops. */
    isFree: ({ model }: StartRequest) => isFree(model),
    /** The stated price of this kind of request, in credits. */
    price: priceOf,
    /** The expected maximum cost of the next start in credits: the stated price, else the largest drop of the balance. */
    expectedMax: (request: StartRequest) => priceOf(request) ?? expectedMaxOf(kindOf(request)),
    /** Whether starts were accepted and none had a stated cost, so that waiting for a price is useless. */
    statesNoCredits: () => acceptedStarts > 0 && [...kinds.values()].every(({ price }) => price === undefined),
    /** The last known balance, less what may have been charged since. */
    remainingCredits: () =>
      lastBalance && kindsSinceBalance.reduce((sum, kind) => sum - (expectedMaxOf(kind) ?? 0), lastBalance),
    /** Whether the cost of a start is unknown, so that no budget can be kept. `keepCredits` also needs a balance. */
    isCostUnknown({ keepCredits }: Budget): boolean {
      const unpriced = [...kinds.values()].filter(({ price }) => price === undefined);
      if (unpriced.some((kind) => kind.isCostUnknown)) return true;
      if (lastBalance !== undefined || chargedStarts === 0) return false;
      return keepCredits !== undefined || unpriced.some(({ unstatedStarts }) => unstatedStarts > 0);
    },
    /** The maximum cost of all runs in USD, including running generations; `undefined` once a cost is unknown. */
    usd: () =>
      spentUsd === undefined
        ? undefined
        : [...kinds.values()].reduce((sum, { running, maxUsd = 0 }) => sum + running * maxUsd, spentUsd),
    /** The highest known price of this kind of request in USD. */
    priceUsd: (request: StartRequest) => (isFree(request.model) ? 0 : kindOf(request).maxUsd),
  };
}

/** The cost of the starts without a stated cost: by the price that other starts stated, else by the drops of the balance. */
function spentOn(kind: KindCosts): number {
  const { price, unstatedStarts, dropSum, startsWithoutDrop } = kind;
  return price === undefined ? dropSum + startsWithoutDrop * (expectedMaxOf(kind) ?? 0) : unstatedStarts * price;
}

/** Whether the balance certainly did not fall at a start. If no balance from before the start is known, it may have fallen. */
function hasNotFallen(balanceFell: number | undefined): boolean {
  return balanceFell !== undefined && balanceFell <= 0;
}

/** The expected maximum cost of a start. */
function expectedMaxOf({ price, maxDrop, minDropBetweenRuns }: KindCosts): number | undefined {
  return price ?? maxDrop ?? minDropBetweenRuns;
}

/** The cost of a completed generation in USD. A preview is free. */
export function costOf({ cost, is_preview }: Entry): number | undefined {
  return cost ?? (is_preview === true ? 0 : undefined);
}

/**
 * Whether a start must wait until nothing else runs, because its price, or that of a running generation, is unknown and the budget could be
 * exceeded. If the service never states credits, there is nothing to wait for.
 */
export function mustRunAlone(
  request: StartRequest,
  running: readonly StartRequest[],
  { maxCredits, keepCredits, maxCost }: Budget,
  costs: Costs,
): boolean {
  const requests = [request, ...running];
  const needsCredits = (maxCredits !== undefined || keepCredits !== undefined) && !costs.statesNoCredits();
  if (needsCredits && requests.some((each) => costs.price(each) === undefined)) return true;
  return maxCost !== undefined && requests.some((each) => costs.priceUsd(each) === undefined);
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
    const cost = next === 0 ? "" : `, and the next generation costs up to ${next}`;
    const upTo = costs.isExact() ? "" : "Up to ";
    return new VidgenError(
      "credits",
      `${upTo}${spent} of at most ${maxCredits} credits are spent${cost}: nothing more is started.`,
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
      `${left} credits are left, and --keep-credits is ${keepCredits}: nothing more is started.`,
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
      { hint: "Run the command without --max-cost, or with --max-credits instead." },
    );
  const next = costs.priceUsd(request) ?? 0;
  if (usd < maxCost && usd + next <= maxCost) return undefined;
  const cost = next === 0 ? "" : `, and the next one costs up to $${next}`;
  const spent = Number(usd.toFixed(4));
  return new VidgenError(
    "credits",
    `Up to $${spent} of at most $${maxCost} are spent${cost}: nothing more is started.`,
  );
}
