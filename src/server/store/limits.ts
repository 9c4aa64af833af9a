/** How many generations of an account may be unfinished at once, and how many it may start in an hour; `null` for any number. */
export type Limits = { max_running: number | null; max_per_hour: number | null };

/** A start that was refused by a limit, and after how many seconds there may be room. */
export type Limited = { kind: "limited"; limit: keyof Limits; max: number; retryAfterSeconds: number };

/** The number of an account's unfinished generations, the number of its starts in the last hour, and when the oldest of these was (ISO 8601). */
export type AccountUsage = { running: number; starts: number; oldest_at: string | null };

const hourMs = 3_600_000;
/** When an unfinished generation will end is not known, so the client is asked to try again soon. */
const runningRetrySeconds = 5;

/** Reads limits out of an account's row. */
export function readLimits({ max_running, max_per_hour }: Record<string, unknown>): Limits {
  const read = (value: unknown) => (value === null ? null : Number(value));
  return { max_running: read(max_running), max_per_hour: read(max_per_hour) };
}

/** Returns the beginning (ISO 8601) of the hour before `at`, because only starts since then count towards `max_per_hour`. */
export function hourBefore(at: string): string {
  return new Date(Date.parse(at) - hourMs).toISOString();
}

/** Returns the limit that refuses a start at `at` (ISO 8601); `undefined` when none does. */
export function findLimit({ max_running, max_per_hour }: Limits, use: AccountUsage, at: string): Limited | undefined {
  if (max_running !== null && use.running >= max_running)
    return { kind: "limited", limit: "max_running", max: max_running, retryAfterSeconds: runningRetrySeconds };
  if (max_per_hour === null || use.starts < max_per_hour) return undefined;
  const leftMs = Date.parse(use.oldest_at ?? at) + hourMs - Date.parse(at);
  const retryAfterSeconds = Math.min(Math.max(Math.ceil(leftMs / 1_000), 1), hourMs / 1_000);
  return { kind: "limited", limit: "max_per_hour", max: max_per_hour, retryAfterSeconds };
}
