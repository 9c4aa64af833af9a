/** How long to wait after the first failed attempt to deliver a callback, the second and so on; after the last it is given up. */
const delaysMs = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000];

/** Each delay is up to a fifth shorter or longer, so that what failed together does not come back together. */
const jitter = 0.2;

/** A receiver may ask for this long a wait, or for twice the planned one where that is longer. */
const longestAskedMs = 3_600_000;

export type Failure = {
  /** Attempts made, with the one that failed. */
  attempts: number;
  /** The header `Retry-After` of the reply, where there was one. */
  retryAfter: string | null;
  date: Date;
  /** At least 0 and less than 1. */
  random: number;
};

/**
 * Milliseconds until the next attempt; `null` when there is none to come. `Retry-After` can make a wait longer but never shorter, and at
 * most an hour or twice what was planned, whichever is longer.
 */
export function nextDelayMs({ attempts, retryAfter, date, random }: Failure): number | null {
  const delayMs = delaysMs[attempts - 1];
  if (delayMs === undefined) return null;
  const plannedMs = Math.round(delayMs * (1 - jitter + 2 * jitter * random));
  const mostMs = Math.max(2 * plannedMs, longestAskedMs);
  return Math.max(plannedMs, Math.min(askedMs(retryAfter ?? "", date), mostMs));
}

const httpDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Seconds or the date of RFC 9110; 0 for anything else. */
function askedMs(retryAfter: string, date: Date): number {
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter) * 1_000;
  const at = httpDate.test(retryAfter) ? Date.parse(retryAfter) : Number.NaN;
  return Number.isNaN(at) ? 0 : at - date.getTime();
}
