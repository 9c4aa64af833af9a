import { unlessAborted } from "../../../abort.ts";
import { createMutex } from "../../../mutex.ts";
import { cancelledError, isCancelledError } from "../../../protocol/schema.ts";
import { isDataUrl } from "../../../protocol/url.ts";
import { type Engine, failed, type RenderOptions } from "../engine.ts";
import { createPatience, type JobObservation, minuteMs } from "./patience.ts";
import { clean, type UpstreamJob } from "./reply.ts";
import {
  backOffMs,
  type ConnectionUse,
  describe,
  describeSilence,
  type PollFailure,
  statusOfError,
  timeText,
  type Upstream,
} from "./upstream.ts";

const pollMs = 2_000;
/** A job whose status has not changed for this long is polled less often. */
const quietJobMs = 10 * 60_000;
const quietPollMs = 20_000;
const pollTimeoutMs = 30_000;
/** A 404 counts only when it repeats for this long. */
export const missingMs = minuteMs;
/** The wait before polling a job again that the server does not know: random, so that several servers behind one address answer in no fixed order. */
export function missingWaitMs(): number {
  return 250 + 500 * Math.random();
}
/** How many new statuses of a job count as progress. With a limit, because a server may send another text at each poll. */
const maxStatuses = 20;
/** The owner is notified when a job is known for the third time, after the server did not know it twice. A single 404 may be an error. */
const maxChanges = 5;
/** The owner is notified after this number of polls without a usable reply. */
const notifyAfter = 3;

/** The names that servers use for a job that has ended or is queued, in lower case. A job with any other status is running. */
const statuses = {
  completed: ["completed", "complete", "done", "finished", "succeeded", "success"],
  failed: ["failed", "failure", "error", "expired", "aborted", "unclear"],
  cancelled: ["deleted", "cancelled", "canceled"],
  waiting: ["queued", "pending"],
};

/** A completed job, or a failed job with `failedWith`, the server's message. */
export type EndedJob = UpstreamJob & { failedWith?: string };

export type FollowJobOptions = Pick<RenderOptions, "progress" | "signal" | "releaseSlot"> & {
  /** Stops the job at the server, where the server can. */
  cancel?: Engine["cancel"];
};

/**
 * Polls a job until it has ended. Rejects when the job was cancelled at the server, and when the rules of `patience.ts` give the job up. A job that
 * is given up is also cancelled, because it may still be queued or running.
 */
export async function follow(
  id: string,
  upstream: Upstream,
  { progress, signal, releaseSlot, cancel }: FollowJobOptions,
): Promise<EndedJob> {
  const { io, name } = upstream;
  const decide = createPatience(upstream);
  const seenStatuses = new Set<string>();
  let [bestPercent, failures] = [-1, 0];
  let [isKnown, changes] = [false, 0];
  for (;;) {
    const keepsConnection = isKnown && changes === 1 && failures === 0;
    const polled = await pollOnce(id, upstream, signal, { keepsConnection });
    if (!("reason" in polled) || polled.isMissing) {
      const isKnownNow = !("reason" in polled);
      if (isKnownNow !== isKnown && ++changes === maxChanges) upstream.reportInconsistency?.();
      isKnown = isKnownNow;
    }
    if ("reason" in polled) {
      const { isGivenUp, freesSlot, limitMs } = decide(observationOf(polled));
      if (freesSlot) releaseSlot?.();
      if (isGivenUp && polled.isMissing)
        throw failed(
          new Error(
            `${name} no longer knows this video's job (${polled.reason}); ${upstream.lostReason ?? "it may have been restarted"}`,
          ),
          { failure: "lost" },
        );
      if (isGivenUp) {
        await stop(id, upstream, { cancel, signal });
        if (polled.fault !== undefined)
          throw failed(new Error(`${name}: ${polled.fault} (${polled.reason})`), { failure: "lost" });
        const what = describeSilence(polled.replied, `for ${timeText(limitMs)}`);
        const error = `${name}, which was generating this video, ${what}: ${polled.reason}`;
        throw failed(new Error(error), { failure: "silent" });
      }
      if (!polled.isMissing && ++failures === notifyAfter) upstream.report(describePollFailure(polled, name));
      const backOff = backOffMs(failures, polled.retryAfterMs);
      const waitMs = polled.fault === undefined ? backOff : Math.min(backOff, quietPollMs);
      await io.sleep(polled.isMissing ? missingWaitMs() : waitMs, signal);
      continue;
    }
    upstream.report(undefined);
    const { error, progress: percent } = polled;
    const status = polled.status.toLowerCase();
    failures = 0;
    // A job that returns to an earlier status has made no progress.
    const hasProgress = (!seenStatuses.has(status) && seenStatuses.size < maxStatuses) || (percent ?? -1) > bestPercent;
    if (hasProgress) seenStatuses.add(status);
    bestPercent = Math.max(bestPercent, percent ?? -1);
    const { isGivenUp, limitMs, quietMs } = decide(observationOf(polled), hasProgress);
    if (isCompleted(polled)) return polled;
    const failedWith = error ?? `the model run did not succeed (${status})`;
    if (statuses.failed.includes(status)) return { ...polled, failedWith };
    // A cancelled job is not the request's fault. Rejecting refunds the credits, also when the process that cancelled the job has ended.
    if (isCancelled(polled)) {
      const why = error === undefined || isCancelledError(error) ? "" : `: ${error}`;
      throw failed(new Error(`${cancelledError} at ${name}${why}`), { failure: "stopped" });
    }
    if (percent !== undefined) progress(percent);
    if (isGivenUp) {
      await stop(id, upstream, { cancel, signal });
      const error = `${name} made no progress with this video for ${timeText(limitMs)} (${clean(status)})`;
      throw failed(new Error(error), { failure: "silent" });
    }
    await io.sleep(quietMs > quietJobMs ? quietPollMs : pollMs, signal);
  }
}

function observationOf(polled: UpstreamJob | PollFailure): JobObservation {
  if (!("reason" in polled)) return statuses.waiting.includes(polled.status.toLowerCase()) ? "waiting" : "running";
  if (polled.isMissing) return "missing";
  if (polled.fault !== undefined) return "faulty";
  return polled.isUnreadable ? "unreadable" : "unanswered";
}

const stopTimeoutMs = 10_000;

/** Asks a server once to stop a job that is given up, so that the job does not delay the next one or cost more. The reply is ignored. */
async function stop(
  id: string,
  { io }: Upstream,
  { cancel, signal }: Pick<FollowJobOptions, "cancel" | "signal">,
): Promise<void> {
  const limit = io.limit(stopTimeoutMs, signal, new Error(`no response within ${stopTimeoutMs / 1_000} s`));
  await unlessAborted(Promise.resolve(cancel?.(id, limit.signal)), limit.signal)
    .catch(() => {})
    .finally(limit.clear);
  signal.throwIfAborted();
}

function describePollFailure({ reason, replied }: PollFailure, name: string): string {
  return `${name} ${describeSilence(replied)}: ${reason}. Retrying.`;
}

export function isCompleted({ status }: Pick<UpstreamJob, "status">): boolean {
  return statuses.completed.includes(status.toLowerCase());
}

export function isFailed({ status }: Pick<UpstreamJob, "status">): boolean {
  return statuses.failed.includes(status.toLowerCase());
}

/** Whether the job was stopped at its server. */
export function isCancelled({ status }: Pick<UpstreamJob, "status">): boolean {
  return statuses.cancelled.includes(status.toLowerCase());
}

/** The maximum size of a status, which may contain the video, in base64. */
const maxStatusBytes = 90_000_000;
const oneAtATime = createMutex();

/**
 * Polls a job once. A status of more than 1 MB is requested again once this process reads no other one, because each takes several times its size in
 * memory. Rejects as `poll` does.
 */
export async function pollJob<Job>(
  id: string,
  { io, poll }: { io: Upstream["io"]; poll(...args: Parameters<Upstream["poll"]>): Promise<Job> },
  signal: AbortSignal,
  use?: ConnectionUse,
): Promise<Job> {
  const pollWithin = async (maxBytes?: number) => {
    const limit = io.limit(pollTimeoutMs, signal, new Error(`no whole reply within ${pollTimeoutMs / 1_000} s`));
    try {
      return await poll(id, limit.signal, { maxBytes, onPart: limit.restart, ...use });
    } finally {
      limit.clear();
    }
  };
  return pollWithin().catch((error) => {
    if (!error.isTooLong) throw error;
    return oneAtATime(() => pollWithin(maxStatusBytes), signal);
  });
}

/** In place of the address of a video that is a `data:` URL: a job of which it is kept would take its size in memory. */
export const inStatus = "data:";

/** Polls a job once. A reply without the job's status is a failure. Rejects only when the signal aborts. */
export async function pollOnce(
  id: string,
  upstream: Upstream,
  signal: AbortSignal,
  use?: ConnectionUse,
): Promise<UpstreamJob | PollFailure> {
  try {
    const polled = await pollJob(id, upstream, signal, use);
    return "url" in polled && isDataUrl(polled.url ?? "") ? { ...polled, url: inStatus } : polled;
  } catch (error) {
    signal.throwIfAborted();
    return { reason: describe(error), replied: statusOfError(error), isMissing: false };
  }
}
