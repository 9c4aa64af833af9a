import { createAbsence, type Upstream } from "./upstream.ts";

/**
 * What a poll shows of a job. "unreadable": the reply has an unknown format, or the provider's package cannot read it; "unanswered": there is no
 * usable reply; "missing": the server says that it does not know the job; "faulty": the server returned an error of the server behind it.
 */
export type JobObservation = "running" | "waiting" | "unreadable" | "unanswered" | "missing" | "faulty";

/** How long a temporary state must last without interruption before it counts, because short errors pass. */
export const minuteMs = 60_000;

type PatienceRule = {
  /**
   * From when the time counts: the last progress of this job, the last progress of any job of the server, the last usable reply, or the first of
   * consecutive polls that did not find the job.
   */
  since: "progress" | "any progress" | "answer" | "absence";
  /** Which time limit applies. */
  limit: "default" | "running" | "minute";
  /** Whether the job's slot is freed after a minute, because the job then hardly keeps the engine from running another one. */
  freesSlot: boolean;
};

/** When a job is given up, and when its slot is freed. */
export const rules: Readonly<Record<JobObservation, PatienceRule>> = {
  running: { since: "progress", limit: "running", freesSlot: false },
  waiting: { since: "any progress", limit: "default", freesSlot: false },
  unreadable: { since: "progress", limit: "default", freesSlot: true },
  unanswered: { since: "answer", limit: "default", freesSlot: false },
  faulty: { since: "answer", limit: "default", freesSlot: true },
  missing: { since: "absence", limit: "minute", freesSlot: false },
};

export type PatienceVerdict = {
  isGivenUp: boolean;
  freesSlot: boolean;
  limitMs: number;
  /** The time since the job's last progress. */
  quietMs: number;
};

/** A longer gap between two polls counts as this long, because the process was suspended, which says nothing about the job. */
const maxGapMs = 2 * minuteMs;

/**
 * Returns a function that takes the result of each poll of one job, and whether the job has made progress since the last poll; it returns whether to
 * give the job up.
 */
export function createPatience(
  upstream: Upstream,
): (observation: JobObservation, hasProgress?: boolean) => PatienceVerdict {
  const { io, patienceMs, runningPatienceMs = patienceMs } = upstream;
  const limits = { default: patienceMs, running: runningPatienceMs, minute: minuteMs };
  const absence = createAbsence(io);
  let [polledAt, watchedMs] = [io.now(), 0];
  // These times are values of `watchedMs`, which grows from poll to poll.
  let [progressAt, answeredAt, changedAt] = [0, 0, 0];
  let lastObservation: JobObservation | undefined;
  return (observation, hasProgress = false) => {
    const now = io.now();
    watchedMs += Math.min(now - polledAt, maxGapMs);
    polledAt = now;
    if (hasProgress) [progressAt, upstream.lastChangeAt] = [watchedMs, now];
    if (!["unanswered", "missing", "faulty"].includes(observation)) answeredAt = watchedMs;
    if (observation !== lastObservation) changedAt = watchedMs;
    lastObservation = observation;
    const quietMs = watchedMs - progressAt;
    const lastedMs: Record<PatienceRule["since"], number> = {
      progress: quietMs,
      "any progress": Math.min(quietMs, now - upstream.lastChangeAt),
      answer: watchedMs - answeredAt,
      absence: absence(observation === "missing"),
    };
    const { since, limit, freesSlot } = rules[observation];
    const limitMs = limits[limit];
    return {
      isGivenUp: limit === "minute" ? lastedMs[since] >= limitMs : lastedMs[since] > limitMs,
      freesSlot: freesSlot && watchedMs - changedAt >= minuteMs,
      limitMs,
      quietMs,
    };
  };
}
