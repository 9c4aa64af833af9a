import type { Entry } from "./journal.ts";

/** So many make a habit. */
const fewest = 3;

/**
 * How long a model typically takes, in milliseconds: the median of those among these entries of one service that were watched to their end;
 * `undefined` when there are fewer than three.
 */
export function typicalMs(entries: Entry[], model: string): number | undefined {
  const times = entries
    .filter(({ request }) => request.model === model)
    .flatMap(({ took_ms }) => took_ms ?? [])
    .sort((a, b) => a - b);
  if (times.length < fewest) return undefined;
  const [low = 0, high = 0] = [times[Math.floor((times.length - 1) / 2)], times[Math.floor(times.length / 2)]];
  return (low + high) / 2;
}
