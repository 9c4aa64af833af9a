import { type Entry, isPaidBy } from "./history.ts";

/** By how much the balance fell at a start, compared with the start before: others may have spent or bought credits meanwhile. */
type Fall = { attempt: string; model: string; credits: number };

/** The falls of an account's balance, the oldest first, by the journal's entries of its service, newest first. */
export function findFalls(entries: readonly Entry[], account: string): Fall[] {
  const told = withBalance(entries, account).reverse();
  return told.flatMap(({ attempt, request: { model }, remaining_credits = 0 }, i) => {
    const credits = (told[i - 1]?.remaining_credits ?? 0) - remaining_credits;
    return credits > 0 ? { attempt, model, credits } : [];
  });
}

function withBalance(entries: readonly Entry[], account: string): Entry[] {
  return entries.filter((entry) => entry.remaining_credits !== undefined && isPaidBy(account, entry));
}

/** What starts cost on an account, in credits; `undefined` where nothing tells. */
export type Prices = {
  /** The median of what a model has cost. */
  typical(model: string): number | undefined;
  /** What an attempt has cost: a fall that its model has had twice is the price. */
  of(attempt: string): number | undefined;
  /** What the next start has cost, by the balance that it left: the model has had the same fall before. */
  next(model: string, remaining_credits: number | undefined): number | undefined;
};

/** The prices by the journal's entries of a service, newest first. */
export function readPrices(entries: readonly Entry[], account: string): Prices {
  const falls = findFalls(entries, account);
  return {
    typical: (model) => median(falls.filter((fall) => fall.model === model).map(({ credits }) => credits)),
    of(attempt) {
      const own = falls.find((fall) => fall.attempt === attempt);
      const same = falls.filter(({ model, credits }) => model === own?.model && credits === own.credits);
      return same.length > 1 ? own?.credits : undefined;
    },
    next(model, remaining_credits) {
      const before = withBalance(entries, account)[0]?.remaining_credits;
      if (before === undefined || remaining_credits === undefined) return undefined;
      const credits = before - remaining_credits;
      return falls.find((fall) => fall.model === model && fall.credits === credits)?.credits;
    },
  };
}

export function median(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
