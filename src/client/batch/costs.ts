import { VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import { stopsOthers } from "../ledger/attempt.ts";
import { type Entry, isPaidBy } from "../ledger/history.ts";
import { isComparable, kindOfRequest, readBalance, readPrices } from "../ledger/price.ts";

export type Budget = {
  /** The most credits that may be spent, over all runs of a batch. */
  maxCredits?: number | undefined;
  /** The fewest that are left on the account. */
  keepCredits?: number | undefined;
  /** The most that all runs of a batch may cost in USD. */
  maxCost?: number | undefined;
};

/** What is known of a kind of request (see `price.ts`), and of its starts in a batch. */
type Kind = {
  /** In credits, as the service has stated it last. */
  price?: number;
  /** The largest fall of the balance at such a start: the next one is expected to cost no more. */
  maxFall?: number;
  /** Where no other is known: the smallest fall since an earlier run, for others have probably spent too. */
  minFallBetweenRuns?: number;
  /** The starts of which the service has not stated what they cost. */
  unstated: number;
  /** By how much the balance fell at these, in sum, and how many had no fall. */
  fell: number;
  unseen: number;
  /** Whether nobody knows what one of them has cost: no balance was told, or it did not fall. */
  isOpen: boolean;
  /** The highest price in USD, which is stated at the end. */
  maxUsd?: number;
  /** How many have not ended, as far as is known. */
  running: number;
};

/** What the service tells of a cost. Where it states none, the balance may have fallen since the start before: others may have spent too, or bought. */
type Told = Pick<Entry, "credits" | "balance_fell" | "remaining_credits">;

export type Costs = ReturnType<typeof createCosts>;

/**
 * What the generations of a batch cost, over all its runs: in credits as the service states it at a start, in USD as it states it at the end.
 * Where it never states credits, each fall of the balance from one start's reply to the next counts as spent. Begins with what earlier runs have
 * cost, the oldest first, and with the journal's entries of the service, newest first. The balance of another account tells nothing.
 */
export function createCosts(
  earlier: readonly Entry[],
  entries: readonly Entry[],
  { account, now }: { account: string; now: Date },
) {
  const kinds = new Map<string, Kind>();
  const kindNamed = (name: string): Kind => {
    const kind = kinds.get(name) ?? { unstated: 0, fell: 0, unseen: 0, isOpen: false, running: 0 };
    kinds.set(name, kind);
    return kind;
  };
  const kindOf = (request: StartRequest) => kindNamed(kindOfRequest(request));
  for (const [name, { credits }] of readPrices(entries, account)) kindNamed(name).price = credits;
  let [stated, charged, accepted] = [0, 0, 0];
  /** `undefined` once a completed generation had no stated price. */
  let usd: number | undefined = 0;
  /** What was left after the start before of the batch that told. */
  let previous: number | undefined;

  /** Counts a start that was charged, or may have been. */
  function charge(request: StartRequest, { credits, balance_fell: fall, remaining_credits: told }: Told): Kind {
    const kind = kindOf(request);
    const since = previous === undefined || told === undefined ? 0 : previous - told;
    previous = told ?? previous;
    charged++;
    kind.running++;
    if (credits !== undefined) {
      stated += credits;
      kind.price = credits;
      return kind;
    }
    kind.unstated++;
    if (fall !== undefined && fall > 0) {
      kind.fell += fall;
      kind.maxFall = Math.max(kind.maxFall ?? 0, fall);
      return kind;
    }
    kind.unseen++;
    if (fall === undefined && since > 0) kind.minFallBetweenRuns = Math.min(kind.minFallBetweenRuns ?? since, since);
    return kind;
  }

  /** Counts the end of a generation, with what it cost in USD where that is known. */
  function end(request: StartRequest, cost: number | undefined) {
    const kind = kindOf(request);
    kind.running--;
    if (cost === undefined) return;
    kind.maxUsd = Math.max(kind.maxUsd ?? 0, cost);
    usd = usd === undefined ? undefined : usd + cost;
  }

  /** Takes a completed generation. */
  function completed(request: StartRequest, cost: number | undefined) {
    end(request, cost);
    if (cost === undefined) usd = undefined;
  }

  const paid = earlier.filter(({ id, state }) => id !== undefined || stopsOthers(state));
  for (const entry of paid) {
    const { request, state, id, credits, balance_fell = 1 } = entry;
    const kind = charge(request, isPaidBy(account, entry) ? entry : { ...entry, remaining_credits: undefined });
    if (id !== undefined) accepted++;
    if (credits === undefined && balance_fell <= 0) kind.isOpen = true;
    if (state === "ready" || state === "delivered") completed(request, costOf(entry));
    if (state === "failed") end(request, entry.cost);
  }
  // A later run counts such a start as the largest fall of its kind.
  for (const kind of kinds.values()) kind.isOpen &&= boundOf(kind) === undefined;
  const [balance] = [readBalance(entries, account), readBalance(paid.toReversed(), account)]
    .filter((each) => each !== undefined)
    .sort((one, other) => other.at.localeCompare(one.at));
  /** What is left on the account, as far as the service has told; and what the balance after the next start can be compared with. */
  let left = balance?.credits;
  let before = balance && isComparable(balance, now) ? left : undefined;
  /** The kinds of the starts that may have been charged since then. */
  let since = paid
    .filter(({ at, remaining_credits }) => remaining_credits === undefined && at >= (balance?.at ?? ""))
    .map(({ request }) => kindOf(request));

  return {
    /** Takes an accepted start. */
    started(request: StartRequest, told: Omit<AcceptedStart, "generation">): void {
      const { credits_charged: credits, balance_fell, remaining_credits } = told;
      const kind = charge(request, { credits, balance_fell, remaining_credits });
      accepted++;
      if (credits === undefined && (remaining_credits === undefined || (balance_fell ?? 1) <= 0)) kind.isOpen = true;
      if (remaining_credits === undefined) return void since.push(kind);
      left = before = remaining_credits;
      since = [];
    },
    /** Takes a start that may have been charged. */
    unknown(request: StartRequest): void {
      since.push(charge(request, {}));
    },
    completed,
    /** Takes a generation that failed; it has cost none where the service states no cost, and tells no price. */
    failed: end,
    /** What the account had after the start before, where that can be compared with what it has after the next one: for `send`. */
    balance: () => before,
    /** The most that the batch can have spent over all of its runs, in credits. */
    spent: () => [...kinds.values()].reduce((sum, kind) => sum + spentOn(kind), stated),
    /** Whether that is what it has spent. */
    isExact: () => [...kinds.values()].every(({ unstated }) => unstated === 0),
    /** What the service has stated that a request of this kind costs, in credits. */
    price: (request: StartRequest) => kindOf(request).price,
    /** The price, else the largest fall of the balance at such a start: the most that the next one is expected to cost, in credits. */
    bound: (request: StartRequest) => boundOf(kindOf(request)),
    /** Whether starts were accepted, and none of them had its cost stated in credits: then waiting for a price is of no use. */
    isSilent: () => accepted > 0 && [...kinds.values()].every(({ price }) => price === undefined),
    /** The credits that were left after the last start that told, less what may have been charged since. */
    remaining: () => left && since.reduce((sum, kind) => sum - (boundOf(kind) ?? 0), left),
    /** Whether a start has cost nobody knows how much. Then no budget can be kept; a reserve cannot without a balance either. */
    isOpen({ keepCredits }: Budget): boolean {
      const unpriced = [...kinds.values()].filter(({ price }) => price === undefined);
      if (unpriced.some(({ isOpen }) => isOpen)) return true;
      if (left !== undefined || charged === 0) return false;
      return keepCredits !== undefined || unpriced.some(({ unstated }) => unstated > 0);
    },
    /** The most that the batch can have cost in USD over all its runs, with what runs; `undefined` once that cannot be told. */
    usd: () =>
      usd === undefined
        ? undefined
        : [...kinds.values()].reduce((sum, { running, maxUsd = 0 }) => sum + running * maxUsd, usd),
    /** The highest price of such a request in USD that the batch has seen. */
    priceUsd: (request: StartRequest) => kindOf(request).maxUsd,
  };
}

/** What the starts of a kind have cost of which nothing was stated: the price that was stated of others, else the falls of the balance. */
function spentOn(kind: Kind): number {
  const { price, unstated, fell, unseen } = kind;
  return price === undefined ? fell + unseen * (boundOf(kind) ?? 0) : unstated * price;
}

/** The most that a start of a kind is expected to cost. */
function boundOf({ price, maxFall, minFallBetweenRuns }: Kind): number | undefined {
  return price ?? maxFall ?? minFallBetweenRuns;
}

/** What a completed generation has cost in USD: a preview nothing. */
export function costOf({ cost, is_preview }: Entry): number | undefined {
  return cost ?? (is_preview === true ? 0 : undefined);
}

/**
 * Whether a row has to wait until nothing else runs: what it costs, or what one that runs costs, is not known, and no budget could be kept
 * beside it. Where the service never states credits, there is nothing to wait for.
 */
export function mustRunAlone(
  request: StartRequest,
  running: readonly StartRequest[],
  { maxCredits, keepCredits, maxCost }: Budget,
  costs: Costs,
): boolean {
  const requests = [request, ...running];
  const needsCredits = (maxCredits !== undefined || keepCredits !== undefined) && !costs.isSilent();
  if (needsCredits && requests.some((each) => costs.price(each) === undefined)) return true;
  return maxCost !== undefined && requests.some((each) => costs.priceUsd(each) === undefined);
}

/** The error that a start would go beyond the budget; a request of a new kind is started to see what it costs. */
export function checkBudget(request: StartRequest, budget: Budget, costs: Costs): VidgenError | undefined {
  const { maxCredits, keepCredits, maxCost } = budget;
  const overrun = maxCost === undefined ? undefined : checkCost(request, maxCost, costs);
  if (overrun) return overrun;
  if (maxCredits === undefined && keepCredits === undefined) return undefined;
  const next = costs.bound(request) ?? 0;
  const spent = costs.spent();
  if (maxCredits !== undefined && (spent >= maxCredits || spent + next > maxCredits)) {
    const cost = next === 0 ? "" : `, and the next generation costs up to ${next}`;
    const upTo = costs.isExact() ? "" : "Up to ";
    return new VidgenError(
      "credits",
      `${upTo}${spent} of at most ${maxCredits} credits are spent${cost}: nothing more is started.`,
    );
  }
  if (costs.isOpen(budget))
    return new VidgenError(
      "credits",
      "The service did not state what a start cost, and its balance is missing or did not fall. The budget cannot be kept: nothing more is started.",
      { hint: "Check your account, then run it without a budget." },
    );
  const left = costs.remaining();
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
      { hint: "Run the batch without --max-cost, or limit it with --max-credits." },
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
