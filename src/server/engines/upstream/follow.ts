import type { RenderOptions } from "../engine.ts";
import { clean, type Job } from "./reply.ts";
import { backOffMs, createAbsence, describe, minutes, type Trouble, type Upstream } from "./upstream.ts";

const pollMs = 2_000;
/** A job without news for so long is asked for less often. */
const longMs = 10 * 60_000;
const longPollMs = 20_000;
const pollLimitMs = 30_000;
/** A server of several replicas may answer 404 for a job of another one: only a 404 that repeats for this long counts. */
export const missingMs = 30_000;
/** Until then it is asked this often, so that one of many replicas is found. */
export const missingPollMs = 500;
/** A job has no more statuses that count as going on. */
const maxStatuses = 20;
/** After so many polls without an answer of use, the owner is told. */
const worryingFailures = 3;

/** What servers call a job that has ended, or that waits for its turn, in any case of letters. With another status it runs. */
const statuses = {
  completed: ["completed", "complete", "done", "finished", "succeeded", "success"],
  failed: ["failed", "failure", "error", "expired", "unclear"],
  cancelled: ["deleted", "cancelled", "canceled"],
  waiting: ["queued", "pending"],
};

/** A completed job, or the server's words about one that failed. */
export type Ended = Job & { failure?: string };

/**
 * Polls a job until it has ended. Rejects when it was cancelled there; when the server says for 30 s that it does not know the job, as it does after a restart; and when, for as long as its time limit, it answered nothing of use or the job did not go on. A job that
 * waits in the server's queue goes on as long as any job of that server does. A paid job whose replies cannot be read is asked for without end.
 */
export async function follow(
  id: string,
  upstream: Upstream,
  { progress, signal }: Pick<RenderOptions, "progress" | "signal">,
): Promise<Ended> {
  const { io, name, patienceMs } = upstream;
  let [answeredAt, newsAt, failures] = [io.now(), io.now(), 0];
  const absence = createAbsence(io);
  const seen = new Set<string>();
  let best = -1;
  for (;;) {
    const look = await lookOnce(id, upstream, signal);
    if ("trouble" in look) {
      if (absence(look.isMissing) >= missingMs)
        throw new Error(`${name} no longer knows this video's job (${look.trouble}); it may have been restarted`);
      if (look.isUnreadable) answeredAt = io.now();
      if (io.now() - answeredAt > patienceMs)
        throw new Error(
          `${name}, which was generating this video, has not responded for ${minutes(patienceMs)}: ${look.trouble}`,
        );
      if (!look.isMissing && ++failures === worryingFailures) upstream.report(describeTrouble(look, name));
      await io.sleep(look.isMissing ? missingPollMs : backOffMs(failures, look.retryAfterMs), signal);
      continue;
    }
    upstream.report(undefined);
    const { error, progress: percent } = look;
    const status = look.status.toLowerCase();
    absence(false);
    [failures, answeredAt] = [0, io.now()];
    // A job that goes back and forth does not go on.
    if ((!seen.has(status) && seen.size < maxStatuses) || (percent ?? -1) > best) {
      seen.add(status);
      best = Math.max(best, percent ?? -1);
      upstream.newsAt = newsAt = io.now();
    }
    if (isCompleted(look)) return look;
    const failure = error ?? `the model run did not succeed (${status})`;
    if (statuses.failed.includes(status)) return { ...look, failure };
    // That is no fault of the request: what was paid is given back, also when whoever cancelled it here has ended meanwhile.
    if (statuses.cancelled.includes(status)) throw new Error(failure);
    if (percent !== undefined) progress(percent);
    if (io.now() - (statuses.waiting.includes(status) ? Math.max(newsAt, upstream.newsAt) : newsAt) > patienceMs)
      throw new Error(`${name} made no progress with this video for ${minutes(patienceMs)} (${clean(status)})`);
    await io.sleep(io.now() - newsAt > longMs ? longPollMs : pollMs, signal);
  }
}

function describeTrouble({ trouble, isUnreadable }: Trouble, name: string): string {
  const what = isUnreadable ? "answers about this video, but its reply could not be read" : "does not answer";
  return `${name} ${what}: ${trouble}. Retrying.`;
}

/** Whether a job's video is made. */
export function isCompleted({ status }: Pick<Job, "status">): boolean {
  return statuses.completed.includes(status.toLowerCase());
}

/** Looks at a job once. Whatever does not tell about the job is trouble. Rejects only when the signal aborts. */
export async function lookOnce(id: string, { io, look }: Upstream, signal: AbortSignal): Promise<Job | Trouble> {
  const limit = io.limit(pollLimitMs, signal, new Error(`no response within ${pollLimitMs / 1_000} s`));
  try {
    return await look(id, limit.signal);
  } catch (error) {
    signal.throwIfAborted();
    return { trouble: describe(error), isMissing: false };
  } finally {
    limit.clear();
  }
}
