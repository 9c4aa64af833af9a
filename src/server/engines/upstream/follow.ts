import { unlessAborted } from "../../../abort.ts";
import type { Engine, RenderOptions } from "../engine.ts";
import { createPatience, minuteMs, type Standing } from "./patience.ts";
import { clean, type Job } from "./reply.ts";
import { backOffMs, describe, minutes, type Trouble, type Upstream } from "./upstream.ts";

const pollMs = 2_000;
/** A job whose status has not changed for this long is polled less often. */
const longMs = 10 * 60_000;
const longPollMs = 20_000;
const pollLimitMs = 30_000;
/** A server of several replicas may answer 404 for a job of another one: only a 404 that repeats for this long counts. */
export const missingMs = minuteMs;
/**
 * The wait before a server that does not know a job is asked again: short, to reach the right one of many replicas, and random, because two jobs
 * that are polled in step with a round-robin balancer would always reach each other's replica.
 */
export function missingWaitMs(): number {
  return 250 + 500 * Math.random();
}
/** Further new statuses of a job do not count as progress. */
const maxStatuses = 20;
/** After this number of polls without a usable answer, the owner is notified. */
const worryingFailures = 3;

/** What servers call a job that has ended or is queued; case does not matter. With any other status it runs. */
const statuses = {
  completed: ["completed", "complete", "done", "finished", "succeeded", "success"],
  failed: ["failed", "failure", "error", "expired", "aborted", "unclear"],
  cancelled: ["deleted", "cancelled", "canceled"],
  waiting: ["queued", "pending"],
};

/** A completed job, or the server's words about one that failed. */
export type Ended = Job & { failure?: string };

export type FollowOptions = Pick<RenderOptions, "progress" | "signal" | "releaseSlot"> & {
  /** Stops the job there, where that can be done. */
  cancel?: Engine["cancel"];
};

/**
 * Polls a job until it has ended. Rejects when it was cancelled there, and when the rules of `patience.ts` give it up: a job
 * that may still be queued or running is then cancelled there.
 */
export async function follow(
  id: string,
  upstream: Upstream,
  { progress, signal, releaseSlot, cancel }: FollowOptions,
): Promise<Ended> {
  const { io, name } = upstream;
  const patience = createPatience(upstream);
  const seen = new Set<string>();
  let [best, failures] = [-1, 0];
  for (;;) {
    const look = await lookOnce(id, upstream, signal);
    if ("trouble" in look) {
      const { isOver, isSlotFree, limitMs } = patience(standingOf(look));
      if (isSlotFree) releaseSlot?.();
      if (isOver && look.isMissing)
        throw new Error(
          `${name} no longer knows this video's job (${look.trouble}); ${upstream.lostWords ?? "it may have been restarted"}`,
        );
      if (isOver) {
        await stop(id, upstream, { cancel, signal });
        if (look.fault !== undefined) throw new Error(`${name}: ${look.fault} (${look.trouble})`);
        const what = look.isUnreadable ? "has not given a reply that can be read" : "has not responded";
        throw new Error(`${name}, which was generating this video, ${what} for ${minutes(limitMs)}: ${look.trouble}`);
      }
      if (!look.isMissing && ++failures === worryingFailures) upstream.report(describeTrouble(look, name));
      const waitMs = backOffMs(failures, look.retryAfterMs);
      const waitsMs = look.fault === undefined ? waitMs : Math.min(waitMs, longPollMs);
      await io.sleep(look.isMissing ? missingWaitMs() : waitsMs, signal);
      continue;
    }
    upstream.report(undefined);
    const { error, progress: percent } = look;
    const status = look.status.toLowerCase();
    failures = 0;
    // A job that returns to an earlier status has made no progress.
    const hasProgress = (!seen.has(status) && seen.size < maxStatuses) || (percent ?? -1) > best;
    if (hasProgress) seen.add(status);
    best = Math.max(best, percent ?? -1);
    const { isOver, limitMs, quietMs } = patience(standingOf(look), hasProgress);
    if (isCompleted(look)) return look;
    const failure = error ?? `the model run did not succeed (${status})`;
    if (statuses.failed.includes(status)) return { ...look, failure };
    // Cancelled at the server is no fault of the request: what was paid is given back, even if the process that cancelled it has ended since.
    if (isCancelled(look)) throw new Error(failure);
    if (percent !== undefined) progress(percent);
    if (isOver) {
      await stop(id, upstream, { cancel, signal });
      throw new Error(`${name} made no progress with this video for ${minutes(limitMs)} (${clean(status)})`);
    }
    await io.sleep(quietMs > longMs ? longPollMs : pollMs, signal);
  }
}

function standingOf(look: Job | Trouble): Standing {
  if (!("trouble" in look)) return statuses.waiting.includes(look.status.toLowerCase()) ? "waiting" : "running";
  if (look.isMissing) return "missing";
  if (look.fault !== undefined) return "faulty";
  return look.isUnreadable ? "unreadable" : "unanswered";
}

const stopLimitMs = 10_000;

/** Asks a server once to stop a job that is given up, so that it does not delay the next one or cost more. Nothing depends on the reply. */
async function stop(
  id: string,
  { io }: Upstream,
  { cancel, signal }: Pick<FollowOptions, "cancel" | "signal">,
): Promise<void> {
  const limit = io.limit(stopLimitMs, signal, new Error(`no response within ${stopLimitMs / 1_000} s`));
  await unlessAborted(Promise.resolve(cancel?.(id, limit.signal)), limit.signal)
    .catch(() => {})
    .finally(limit.clear);
  signal.throwIfAborted();
}

function describeTrouble({ trouble, isUnreadable }: Trouble, name: string): string {
  const what = isUnreadable ? "answers about this video, but its reply could not be read" : "does not answer";
  return `${name} ${what}: ${trouble}. Retrying.`;
}

/** Whether a job's video is made. */
export function isCompleted({ status }: Pick<Job, "status">): boolean {
  return statuses.completed.includes(status.toLowerCase());
}

/** Whether a job has failed. */
export function isFailed({ status }: Pick<Job, "status">): boolean {
  return statuses.failed.includes(status.toLowerCase());
}

/** Whether its server has stopped a job. */
export function isCancelled({ status }: Pick<Job, "status">): boolean {
  return statuses.cancelled.includes(status.toLowerCase());
}

/** Polls a job once. A reply that does not state the job's status is trouble. Rejects only when the signal aborts. */
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
