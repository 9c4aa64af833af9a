import { createAbsence, type Upstream } from "./upstream.ts";

/**
 * What a poll shows of a job. "unreadable": the reply has an unknown format, or the provider's package cannot read it; "unanswered": there is no
 * usable reply; "missing": the server says that it does not know the job; "faulty": the server returned an error of the server behind it.
 */
export type Standing = "running" | "waiting" | "unreadable" | "unanswered" | "missing" | "faulty";

/** How long a temporary state must last without interruption before it counts, because one replica may not know a job, and short errors pass. */
export const minuteMs = 60_000;

type PatienceRule = {
  /**
   * From when the time counts: the last progress of this job, the last progress of any job of the server, the last usable reply, or the first of
   * consecutive polls that did not find the job.
   */
  since: "progress" | "any progress" | "answer" | "absence";
  /** Which time limit applies. */
  limit: "usual" | "running" | "minute";
  /** Whether the job's slot is freed after a minute, because the job then hardly keeps the engine from running another one. */
  freesSlot: boolean;
};

/** When a job is given up, and when its slot is freed. Every standing has a time limit. */
export const rules: Readonly<Record<Standing, PatienceRule>> = {
  running: { since: "progress", limit: "running", freesSlot: false },
  waiting: { since: "any progress", limit: "usual", freesSlot: false },
  unreadable: { since: "progress", limit: "usual", freesSlot: true },
  unanswered: { since: "answer", limit: "usual", freesSlot: false },
  faulty: { since: "answer", limit: "usual", freesSlot: true },
  missing: { since: "absence", limit: "minute", freesSlot: false },
};

export type PatienceVerdict = {
  isOver: boolean;
  isSlotFree: boolean;
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
export function createPatience(upstream: Upstream): (standing: Standing, hasProgress?: boolean) => PatienceVerdict {
  const { io, patienceMs, runningPatienceMs = patienceMs } = upstream;
  const limits = { usual: patienceMs, running: runningPatienceMs, minute: minuteMs };
  const absence = createAbsence(io);
  let [polledAt, watchedMs] = [io.now(), 0];
  let [progressMs, answeredMs, standingMs] = [0, 0, 0];
  let last: Standing | undefined;
  return (standing, hasProgress = false) => {
    const now = io.now();
    watchedMs += Math.min(now - polledAt, maxGapMs);
    polledAt = now;
    if (hasProgress) [progressMs, upstream.newsAt] = [watchedMs, now];
    if (!["unanswered", "missing", "faulty"].includes(standing)) answeredMs = watchedMs;
    if (standing !== last) standingMs = watchedMs;
    last = standing;
    const quietMs = watchedMs - progressMs;
    const lasted: Record<PatienceRule["since"], number> = {
      progress: quietMs,
      "any progress": Math.min(quietMs, now - upstream.newsAt),
      answer: watchedMs - answeredMs,
      absence: absence(standing === "missing"),
    };
    const { since, limit, freesSlot } = rules[standing];
    const limitMs = limits[limit];
    return {
      isOver: limit === "minute" ? lasted[since] >= limitMs : lasted[since] > limitMs,
      isSlotFree: freesSlot && watchedMs - standingMs >= minuteMs,
      limitMs,
      quietMs,
    };
  };
}
