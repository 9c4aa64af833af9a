import { VidgenError } from "../../errors.ts";
import type { Entry } from "../history.ts";
import type { ResultLine } from "./results.ts";
import { isUnclear } from "./status.ts";

/** What generations cost, as far as the service has told: the difference of `remaining_credits` between two starts. */
export type Costs = {
  /** Takes the credits left after a start, and returns what that cost; `undefined` where nothing tells. */
  started(model: string, remaining: number | undefined): number | undefined;
  /** Takes a start that may have been charged. */
  unknown(model: string): void;
  /** What the batch has spent over all of its runs, as far as known; where it is not, the dearest cost of that model. */
  spent(): number;
  /** The most that a generation of the model has cost in this batch, else its typical cost. */
  dearest(model: string): number | undefined;
  /** The median of what the model has cost on this account, as far as the journal and the batch have seen. */
  typical(model: string): number | undefined;
  /** The credits that were left after the last start that told, less what may have been charged since. */
  remaining(): number | undefined;
  /** How many rows were charged, or may have been. */
  charged(): number;
};

export type Budget = {
  /** The most credits that may be spent, over all runs of a batch. */
  maxCredits?: number | undefined;
  /** The fewest that are left on the account. */
  keepCredits?: number | undefined;
};

/** Another process may have spent, or somebody bought, credits since: an older balance tells nothing of the next cost. */
const balanceLastsMs = 3600_000;

/** Begins with what earlier runs of the batch have cost, and with the journal's entries of the service, newest first. */
export function createCosts(earlier: readonly ResultLine[], entries: readonly Entry[], now: Date): Costs {
  const samples = new Map<string, number[]>();
  const samplesOf = (model: string) => {
    const costs = samples.get(model) ?? [];
    samples.set(model, costs);
    return costs;
  };
  const told = entries.filter(({ remaining_credits }) => remaining_credits !== undefined).reverse();
  for (const [i, { request, remaining_credits = 0 }] of told.entries()) {
    const cost = (told[i - 1]?.remaining_credits ?? 0) - remaining_credits;
    if (cost > 0) samplesOf(request.model).push(cost);
  }
  for (const { model, credits } of earlier) if (credits !== null) samplesOf(model).push(credits);
  const medians = new Map([...samples].map(([model, costs]) => [model, median(costs)]));

  let spent = 0;
  let charged = 0;
  const most = new Map<string, number>();
  /** How many rows of each model were charged, or may have been, without a word of what they cost. */
  const uncounted = new Map<string, number>();
  /** What is left on the account, and when the service told so. */
  let balance: { credits: number; at: string } | undefined;
  const count = (model: string, cost: number | undefined) => {
    charged++;
    if (cost === undefined) return void uncounted.set(model, (uncounted.get(model) ?? 0) + 1);
    spent += cost;
    most.set(model, Math.max(most.get(model) ?? 0, cost));
  };
  const paid = earlier.filter((line) => line.id !== null || isUnclear(line));
  for (const { model, credits } of paid) count(model, credits ?? undefined);
  for (const { started_at: at, remaining_credits } of earlier)
    if (remaining_credits !== null) balance = { credits: remaining_credits, at };
  const last = told.at(-1);
  if (last && (balance === undefined || last.at > balance.at))
    balance = { credits: last.remaining_credits ?? 0, at: last.at };
  let remaining = balance?.credits;
  /** The models of the rows that may have been charged since the balance was told. */
  let since = paid
    .filter(({ started_at, remaining_credits }) => remaining_credits === null && started_at >= (balance?.at ?? ""))
    .map(({ model }) => model);
  let before = balance && now.getTime() - Date.parse(balance.at) < balanceLastsMs ? balance.credits : undefined;
  const dearest = (model: string) => most.get(model) ?? medians.get(model);
  return {
    started(model, left) {
      const difference = (before ?? 0) - (left ?? 0);
      // A balance that has not gone down tells of a refund or a purchase, not of a generation without a cost.
      const cost = before !== undefined && left !== undefined && difference > 0 ? difference : undefined;
      before = left ?? before;
      remaining = left ?? remaining;
      if (left === undefined) since.push(model);
      else since = [];
      count(model, cost);
      return cost;
    },
    unknown(model) {
      since.push(model);
      count(model, undefined);
    },
    spent: () => [...uncounted].reduce((sum, [model, rows]) => sum + rows * (dearest(model) ?? 0), spent),
    dearest,
    typical: (model) => medians.get(model),
    remaining: () => remaining && since.reduce((left, model) => left - (dearest(model) ?? 0), remaining),
    charged: () => charged,
  };
}

function median(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}

/** The error that a start would go beyond the budget; the first row of a model is started to see what it costs. */
export function checkBudget(model: string, { maxCredits, keepCredits }: Budget, costs: Costs): VidgenError | undefined {
  if (maxCredits === undefined && keepCredits === undefined) return undefined;
  const next = costs.dearest(model) ?? 0;
  const spent = costs.spent();
  if (maxCredits !== undefined && (spent >= maxCredits || spent + next > maxCredits)) {
    const cost = next === 0 ? "" : `, and the next generation costs up to ${next}`;
    return new VidgenError(
      "credits",
      `${spent} of at most ${maxCredits} credits are spent${cost}: nothing more is started.`,
    );
  }
  const left = costs.remaining();
  if (left === undefined && costs.charged() > 0)
    return new VidgenError(
      "credits",
      "No start has told how many credits are left, so no budget can be kept: nothing more is started.",
      { hint: "Run it without a budget." },
    );
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
