import { VidgenError } from "../../errors.ts";
import { type Entry, isPaidBy } from "../history.ts";
import { findFalls, median } from "../price.ts";
import type { ResultLine } from "./results.ts";
import { isUnclear } from "./status.ts";

/** What a start cost. Where that is not known, by how much the balance fell: somebody else may have spent too, or bought. */
export type Cost = { credits?: number | undefined; balance_fell?: number | undefined };

/** What generations cost, as far as the service has told: by how much `remaining_credits` falls from one start to the next. */
export type Costs = {
  /** Takes the credits left after a start, and returns what is known of its cost; nothing where nothing tells. */
  started(model: string, remaining: number | undefined): Cost;
  /** Takes a start that may have been charged. */
  unknown(model: string): void;
  /** The most that the batch can have spent over all of its runs; where nothing tells, the dearest cost of that model. */
  spent(): number;
  /** Whether that is what it has spent. */
  isExact(): boolean;
  /** The most by which the balance fell for a generation of the model in this batch, else its typical cost. */
  dearest(model: string): number | undefined;
  /** The median of what the model has cost on this account, as far as the journal and the batch have seen. */
  typical(model: string): number | undefined;
  /** The credits that were left after the last start that told, less what may have been charged since. */
  remaining(): number | undefined;
  /** Whether a start has cost nobody knows how much: no balance was told, or it did not fall. Then no budget can be kept. */
  isOpen(): boolean;
  /** Takes the end of a generation, with what it cost in USD. */
  ended(model: string, told: { cost: number | undefined; isFree: boolean }): void;
  /** The most that the batch can have cost in USD over all of its runs, with what runs; `undefined` once that cannot be told. */
  usd(): number | undefined;
  /** The highest price of a model in USD that the batch has seen. */
  dearestUsd(model: string): number | undefined;
  /** Whether a generation of the model runs, so that its price may be known soon. */
  isPriceAwaited(model: string): boolean;
};

export type Budget = {
  /** The most credits that may be spent, over all runs of a batch. */
  maxCredits?: number | undefined;
  /** The fewest that are left on the account. */
  keepCredits?: number | undefined;
  /** The most that all runs of a batch may cost in USD. */
  maxCost?: number | undefined;
};

/** Another process may have spent, or somebody bought, credits since: an older balance tells nothing of the next cost. */
const balanceLastsMs = 3600_000;

/**
 * Begins with what earlier runs of the batch have cost, and with the journal's entries of the service, newest first. The balance of another
 * account tells nothing.
 */
export function createCosts(
  earlier: readonly ResultLine[],
  entries: readonly Entry[],
  { account, now }: { account: string; now: Date },
): Costs {
  /** By how much the balance fell for each model; a fall that comes twice is its price. */
  const falls = new Map<string, number[]>();
  const fallsOf = (model: string) => {
    const known = falls.get(model) ?? [];
    falls.set(model, known);
    return known;
  };
  for (const { model, credits } of findFalls(entries, account)) fallsOf(model).push(credits);
  const fellOf = ({ credits, balance_fell }: ResultLine) => credits ?? balance_fell ?? undefined;
  for (const line of earlier) {
    const fell = fellOf(line) ?? 0;
    if (fell > 0) fallsOf(line.model).push(fell);
  }
  const medians = new Map([...falls].map(([model, known]) => [model, median(known)]));

  const bill = createBill(earlier);
  let spent = 0;
  let charged = 0;
  let isExact = true;
  const most = new Map<string, number>();
  /** How many rows of each model were charged, or may have been, without a word of what they cost. */
  const uncounted = new Map<string, number>();
  const dearest = (model: string) => most.get(model) ?? medians.get(model);
  /** What is left on the account, and when the service told so. */
  let balance: { credits: number; at: string } | undefined;
  const count = (model: string, { credits, balance_fell = 0 }: Cost) => {
    const cost = credits ?? balance_fell;
    charged++;
    isExact &&= credits !== undefined;
    if (cost <= 0) return void uncounted.set(model, (uncounted.get(model) ?? 0) + 1);
    spent += cost;
    most.set(model, Math.max(most.get(model) ?? 0, cost));
  };
  const paid = earlier.filter((line) => line.id !== null || isUnclear(line));
  for (const { model, credits, balance_fell } of paid)
    count(model, { credits: credits ?? undefined, balance_fell: balance_fell ?? undefined });
  for (const line of earlier)
    if (line.remaining_credits !== null && isPaidBy(account, line))
      balance = { credits: line.remaining_credits, at: line.started_at };
  const last = entries.find((entry) => entry.remaining_credits !== undefined && isPaidBy(account, entry));
  if (last && (balance === undefined || last.at > balance.at))
    balance = { credits: last.remaining_credits ?? 0, at: last.at };
  let remaining = balance?.credits;
  /** The models of the rows that may have been charged since the balance was told. */
  let since = paid
    .filter(({ started_at, remaining_credits }) => remaining_credits === null && started_at >= (balance?.at ?? ""))
    .map(({ model }) => model);
  let before = balance && now.getTime() - Date.parse(balance.at) < balanceLastsMs ? balance.credits : undefined;
  let isOpen = paid.some((line) => (fellOf(line) ?? 1) <= 0 && dearest(line.model) === undefined);
  return {
    started(model, left) {
      const fell = before === undefined || left === undefined ? undefined : before - left;
      const isPrice = fell !== undefined && fell > 0 && fallsOf(model).includes(fell);
      const cost = isPrice ? { credits: fell } : { balance_fell: fell };
      if (left === undefined || (fell !== undefined && fell <= 0)) isOpen = true;
      if (fell !== undefined && fell > 0 && !isPrice) fallsOf(model).push(fell);
      before = left ?? before;
      remaining = left ?? remaining;
      if (left === undefined) since.push(model);
      else since = [];
      count(model, cost);
      bill.started(model);
      return cost;
    },
    unknown(model) {
      since.push(model);
      bill.started(model);
      count(model, {});
    },
    spent: () => [...uncounted].reduce((sum, [model, rows]) => sum + rows * (dearest(model) ?? 0), spent),
    isExact: () => isExact,
    dearest,
    typical: (model) => medians.get(model),
    remaining: () => remaining && since.reduce((left, model) => left - (dearest(model) ?? 0), remaining),
    isOpen: () => isOpen || (remaining === undefined && charged > 0),
    ended: bill.ended,
    usd: bill.usd,
    dearestUsd: bill.dearestUsd,
    isPriceAwaited: bill.isPriceAwaited,
  };
}

/** What a batch costs in USD, which is told when a generation has completed: until then the highest price of its model counts. */
function createBill(earlier: readonly ResultLine[]) {
  const most = new Map<string, number>();
  /** How many generations of each model were started, and have not ended as far as is known. */
  const running = new Map<string, number>();
  let [spent, isTold] = [0, true];
  const add = (model: string, more: number) => running.set(model, (running.get(model) ?? 0) + more);
  const bill = {
    started: (model: string) => void add(model, 1),
    ended(model: string, { cost, isFree }: { cost: number | undefined; isFree: boolean }) {
      add(model, -1);
      if (cost === undefined && !isFree) isTold = false;
      if (cost === undefined) return;
      spent += cost;
      most.set(model, Math.max(most.get(model) ?? 0, cost));
    },
    usd: () =>
      isTold ? [...running].reduce((sum, [model, count]) => sum + count * (most.get(model) ?? 0), spent) : undefined,
    dearestUsd: (model: string) => most.get(model),
    isPriceAwaited: (model: string) => !most.has(model) && (running.get(model) ?? 0) > 0,
  };
  for (const line of earlier) {
    if (line.id === null && !isUnclear(line)) continue;
    bill.started(line.model);
    const isFree = line.is_preview === true || line.status === "failed";
    if (["completed", "failed"].includes(line.status)) bill.ended(line.model, { cost: line.cost ?? undefined, isFree });
  }
  return bill;
}

/** The error that a start would go beyond the budget; the first row of a model is started to see what it costs. */
export function checkBudget(model: string, budget: Budget, costs: Costs): VidgenError | undefined {
  const { maxCredits, keepCredits, maxCost } = budget;
  const overrun = maxCost === undefined ? undefined : checkCost(model, maxCost, costs);
  if (overrun) return overrun;
  if (maxCredits === undefined && keepCredits === undefined) return undefined;
  const next = costs.dearest(model) ?? 0;
  const spent = costs.spent();
  if (maxCredits !== undefined && (spent >= maxCredits || spent + next > maxCredits)) {
    const cost = next === 0 ? "" : `, and the next generation costs up to ${next}`;
    const upTo = costs.isExact() ? "" : "Up to ";
    return new VidgenError(
      "credits",
      `${upTo}${spent} of at most ${maxCredits} credits are spent${cost}: nothing more is started.`,
    );
  }
  if (costs.isOpen())
    return new VidgenError(
      "credits",
      "The service has not told what a start cost: no balance, or one that did not fall. So no budget can be kept: nothing more is started.",
      { hint: "Check your account, and run it without a budget." },
    );
  const left = costs.remaining();
  if (keepCredits !== undefined && left !== undefined && left - Math.max(next, 1) < keepCredits)
    return new VidgenError(
      "credits",
      `${left} credits are left, and --keep-credits is ${keepCredits}: nothing more is started.`,
      {
        hint: "The service tells the balance only at a start: if credits were bought since the last one, run once without it.",
      },
    );
  return undefined;
}

function checkCost(model: string, maxCost: number, costs: Costs): VidgenError | undefined {
  const usd = costs.usd();
  if (usd === undefined)
    return new VidgenError(
      "credits",
      "The service has not told what a video cost in USD. So --max-cost cannot be kept: nothing more is started.",
      { hint: "Run it without --max-cost, or bound it with --max-credits." },
    );
  const next = costs.dearestUsd(model) ?? 0;
  if (usd < maxCost && usd + next <= maxCost) return undefined;
  const cost = next === 0 ? "" : `, and the next one costs up to $${next}`;
  const spent = Number(usd.toFixed(4));
  return new VidgenError(
    "credits",
    `Up to $${spent} of at most $${maxCost} are spent${cost}: nothing more is started.`,
  );
}
