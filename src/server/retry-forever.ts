import type { Clock } from "../io.ts";
import { isUnavailable, type ReportProblem } from "./observe/problem.ts";

const maxRetryMs = 60_000;

export type RetryForeverOptions = {
  clock: Pick<Clock, "sleep">;
  signal: AbortSignal;
  reportProblem: ReportProblem;
  what?: string;
};

/**
 * Retries while the database or the media store rejects, such as during a full disk or an outage, because giving up would lose work that is already
 * done. Rejects only when the signal aborts.
 */
export async function retryForever<Result>(
  work: () => Promise<Result>,
  { clock, signal, reportProblem, what }: RetryForeverOptions,
): Promise<Result> {
  for (let retryMs = 1_000; ; retryMs = Math.min(2 * retryMs, maxRetryMs)) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      // A database on another machine reports its outage itself, once for all generations.
      if (what !== undefined || !isUnavailable(error))
        reportProblem(`${what ?? "The database cannot be used"}; retrying in ${retryMs / 1_000} s`, error);
      await clock.sleep(retryMs, signal);
    }
  }
}
