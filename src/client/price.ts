import { type Entry, isPaidBy } from "./history.ts";

/** By how much the balance fell at a start, compared with the start before: others may have spent or bought credits meanwhile. */
type Fall = { attempt: string; model: string; credits: number };

/** The falls of an account's balance, the oldest first, by the journal's entries of its service, newest first. */
export function findFalls(entries: readonly Entry[], account: string): Fall[] {
  const told = entries.filter((entry) => entry.remaining_credits !== undefined && isPaidBy(account, entry)).reverse();
  return told.flatMap(({ attempt, request: { model }, remaining_credits = 0 }, i) => {
    const credits = (told[i - 1]?.remaining_credits ?? 0) - remaining_credits;
    return credits > 0 ? { attempt, model, credits } : [];
  });
}

/** What a model typically costs: the median of its falls, in credits; `undefined` where there is none. */
export function typicalCredits(model: string, falls: readonly Fall[]): number | undefined {
  return median(falls.filter((fall) => fall.model === model).map(({ credits }) => credits));
}

/** What a start has cost, in credits: a fall that its model has had twice is its price. `undefined` where that is not known. */
export function creditsOf(attempt: string, falls: readonly Fall[]): number | undefined {
  const own = falls.find((fall) => fall.attempt === attempt);
  const same = falls.filter(({ model, credits }) => model === own?.model && credits === own.credits);
  return same.length > 1 ? own?.credits : undefined;
}

export function median(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
