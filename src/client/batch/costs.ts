import { VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import { stopsOthers } from "../ledger/attempt.ts";
import { type Entry, isPaidBy } from "../ledger/history.ts";
import { findFalls, isComparable, kindOfRequest, median, readBalance, readPrices } from "../ledger/price.ts";

/** What the service says that a start cost. Where it does not, by how much the balance fell: somebody else may have spent too, or bought. */
type Cost = Pick<Entry, "credits" | "balance_fell">;

/**
 * What generations cost, by the kind of request (see `price.ts`): in credits as the service states it at a start, in USD as it states it at
 * the end. Where it never states credits, each fall of the balance counts as spent.
 */
export type Costs = {
  /** Takes an accepted start. */
  started(request: StartRequest, told: Omit<AcceptedStart, "generation">): void;
  /** What the account had after the start before, where that can be compared with what it has after the next one: for `send`. */
  balance(): number | undefined;
  /** Takes a start that may have been charged. */
  unknown(request: StartRequest): void;
  /** Takes a completed generation, with what it cost in USD where that is known. */
  completed(request: StartRequest, usd: number | undefined): void;
  /** Takes a generation that failed, with what it cost in USD where the service states that; else it cost none, and tells no price. */
  failed(request: StartRequest, usd: number | undefined): void;
  /** The most that the batch can have spent over all of its runs, in credits. */
  spent(): number;
  /** Whether that is what it has spent. */
  isExact(): boolean;
  /** What the service has stated that a request of this kind costs, in credits. */
  price(request: StartRequest): number | undefined;
  /** The price, else the largest fall of the balance at such a start: the most that the next one is expected to cost, in credits. */
  bound(request: StartRequest): number | undefined;
  /** Whether starts were accepted, and none of them had its cost stated in credits: then waiting for a price is of no use. */
  isSilent(): boolean;
  /** The credits that were left after the last start that told, less what may have been charged since. */
  remaining(): number | undefined;
  /**
   * Whether a start has cost nobody knows how much: its cost was not stated, and no balance was told, or it did not fall. Then no budget can be
   * kept; a reserve cannot without a balance either.
   */
  isOpen(budget: Budget): boolean;
  /** The most that the batch can have cost in USD over all its runs, with what runs; `undefined` once that cannot be told. */
  usd(): number | undefined;
  /** The highest price of such a request in USD that the batch has seen. */
  priceUsd(request: StartRequest): number | undefined;
};

export type Budget = {
  /** The most credits that may be spent, over all runs of a batch. */
  maxCredits?: number | undefined;
  /** The fewest that are left on the account. */
  keepCredits?: number | undefined;
  /** The most that all runs of a batch may cost in USD. */
  maxCost?: number | undefined;
};

/** Starts of one kind that were charged, or may have been, without a word of what they cost. */
type Unstated = {
  /** By how much the balance fell at these starts, in sum. */
  fell: number;
  count: number;
  /** Those at which no fall was seen. */
  unseen: number;
};

/**
 * Begins with what earlier runs of the batch have cost, and with the journal's entries of the service, newest first. The balance of another
 * account tells nothing.
 */
export function createCosts(
  earlier: readonly Entry[],
  entries: readonly Entry[],
  { account, now }: { account: string; now: Date },
): Costs {
  const prices = new Map([...readPrices(entries, account)].map(([kind, { credits }]) => [kind, credits]));
  const falls = new Map<string, number[]>();
  for (const { kind, credits } of findFalls(entries, account)) falls.set(kind, [...(falls.get(kind) ?? []), credits]);
  const usualFalls = new Map([...falls].map(([kind, known]) => [kind, median(known)]));
  const largestFalls = new Map<string, number>();
  const bound = (kind: string) => prices.get(kind) ?? largestFalls.get(kind) ?? usualFalls.get(kind);
  const bill = createBill(earlier);
  let stated = 0;
  const unstated = new Map<string, Unstated>();
  /** Those of the unstated kinds that no fall of the balance tells of either. */
  const open = new Set<string>();
  let charged = 0;
  let accepted = 0;
  const count = (kind: string, { credits, balance_fell = 0 }: Cost) => {
    charged++;
    if (credits !== undefined) {
      stated += credits;
      prices.set(kind, credits);
      return;
    }
    const all = unstated.get(kind) ?? { fell: 0, count: 0, unseen: 0 };
    unstated.set(kind, all);
    all.count++;
    if (balance_fell <= 0) return void all.unseen++;
    all.fell += balance_fell;
    largestFalls.set(kind, Math.max(largestFalls.get(kind) ?? 0, balance_fell));
  };
  const sumOf = (kind: string, { fell, count, unseen }: Unstated) => {
    const price = prices.get(kind);
    return price === undefined ? fell + unseen * (bound(kind) ?? 0) : count * price;
  };
  const paid = earlier.filter(mayBePaid);
  for (const entry of paid) {
    count(kindOfRequest(entry.request), entry);
    if (entry.id !== undefined) accepted++;
  }
  for (const { credits, balance_fell = 1, request } of paid) {
    const kind = kindOfRequest(request);
    if (credits === undefined && balance_fell <= 0 && bound(kind) === undefined) open.add(kind);
  }
  /** What is left on the account, and when the service told so. */
  let balance = readBalance(entries, account);
  for (const { remaining_credits, at, ...entry } of earlier)
    if (remaining_credits !== undefined && isPaidBy(account, entry) && at >= (balance?.at ?? ""))
      balance = { credits: remaining_credits, at };
  let remaining = balance?.credits;
  /** The kinds of the rows that may have been charged since the balance was told. */
  let since = paid
    .filter(({ at, remaining_credits }) => remaining_credits === undefined && at >= (balance?.at ?? ""))
    .map(({ request }) => kindOfRequest(request));
  let before = balance && isComparable(balance, now) ? balance.credits : undefined;
  return {
    started(request, { credits_charged: credits, balance_fell, remaining_credits: left }) {
      const kind = kindOfRequest(request);
      if (credits === undefined && (left === undefined || (balance_fell ?? 1) <= 0)) open.add(kind);
      before = left ?? before;
      remaining = left ?? remaining;
      if (left === undefined) since.push(kind);
      else since = [];
      accepted++;
      count(kind, { credits, balance_fell });
      bill.started(kind);
    },
    balance: () => before,
    unknown(request) {
      const kind = kindOfRequest(request);
      since.push(kind);
      bill.started(kind);
      count(kind, {});
    },
    completed: (request, usd) => bill.completed(kindOfRequest(request), usd),
    failed: (request, usd) => bill.failed(kindOfRequest(request), usd),
    spent: () => [...unstated].reduce((sum, [kind, all]) => sum + sumOf(kind, all), stated),
    isExact: () => unstated.size === 0,
    price: (request) => prices.get(kindOfRequest(request)),
    bound: (request) => bound(kindOfRequest(request)),
    isSilent: () => accepted > 0 && prices.size === 0,
    remaining: () => remaining && since.reduce((left, kind) => left - (bound(kind) ?? 0), remaining),
    isOpen({ keepCredits }) {
      const hasPrice = (kind: string) => prices.has(kind);
      if (![...open].every(hasPrice)) return true;
      if (remaining !== undefined || charged === 0) return false;
      return keepCredits !== undefined || ![...unstated.keys()].every(hasPrice);
    },
    usd: bill.usd,
    priceUsd: (request) => bill.price(kindOfRequest(request)),
  };
}

function mayBePaid({ id, state }: Entry): boolean {
  return id !== undefined || stopsOthers(state);
}

/** What a batch costs in USD, which is stated when a generation has completed: until then the highest price of its kind counts. */
function createBill(earlier: readonly Entry[]) {
  const highest = new Map<string, number>();
  /** How many generations of each kind were started, and have not ended as far as is known. */
  const running = new Map<string, number>();
  let [spent, isStated] = [0, true];
  const add = (kind: string, more: number) => running.set(kind, (running.get(kind) ?? 0) + more);
  const charge = (kind: string, usd: number) => {
    spent += usd;
    highest.set(kind, Math.max(highest.get(kind) ?? 0, usd));
  };
  const bill = {
    started: (kind: string) => void add(kind, 1),
    failed(kind: string, usd: number | undefined) {
      add(kind, -1);
      if (usd !== undefined) charge(kind, usd);
    },
    completed(kind: string, usd: number | undefined) {
      add(kind, -1);
      if (usd === undefined) {
        isStated = false;
        return;
      }
      charge(kind, usd);
    },
    usd: () =>
      isStated ? [...running].reduce((sum, [kind, count]) => sum + count * (highest.get(kind) ?? 0), spent) : undefined,
    price: (kind: string) => highest.get(kind),
  };
  for (const entry of earlier.filter(mayBePaid)) {
    const kind = kindOfRequest(entry.request);
    bill.started(kind);
    if (entry.state === "ready" || entry.state === "delivered") bill.completed(kind, costOf(entry));
    if (entry.state === "failed") bill.failed(kind, entry.cost);
  }
  return bill;
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
