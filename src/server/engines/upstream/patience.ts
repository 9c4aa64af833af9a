import { createAbsence, type Upstream } from "./upstream.ts";

/**
 * What a server shows of a job. "unreadable": it answers in a form, or with a reply of its package, that is not known here; "unanswered": nothing
 * of use comes; "missing": it says that it does not know the job; "faulty": it answers, and has an error of the server behind it for the job.
 */
export type Standing = "running" | "waiting" | "unreadable" | "unanswered" | "missing" | "faulty";

/** What counts as a minute of nothing else: replicas may not have a job, and what is wrong for some seconds passes. */
export const minuteMs = 60_000;

type Rule = {
  /** From when it counts: the last progress of this job, that of any job of the server, the last answer, or the first of such looks. */
  since: "progress" | "any progress" | "answer" | "absence";
  /** For how long it is followed. */
  limit: "usual" | "running" | "minute";
  /** Whether the job's slot is free after a minute of it: then the job hardly keeps the engine from another one. */
  freesSlot: boolean;
};

/** When a job is given up, and when its slot is free. No standing lasts without end. */
export const rules: Readonly<Record<Standing, Rule>> = {
  running: { since: "progress", limit: "running", freesSlot: false },
  waiting: { since: "any progress", limit: "usual", freesSlot: false },
  unreadable: { since: "progress", limit: "usual", freesSlot: true },
  unanswered: { since: "answer", limit: "usual", freesSlot: false },
  faulty: { since: "answer", limit: "usual", freesSlot: true },
  missing: { since: "absence", limit: "minute", freesSlot: false },
};

export type Verdict = {
  isOver: boolean;
  isSlotFree: boolean;
  limitMs: number;
  /** How long ago the job's last progress was. */
  quietMs: number;
};

/** Longer gaps between two looks are those of a process that was suspended: they say nothing about the job. */
const maxGapMs = 2 * minuteMs;

/** Returns what judges the looks at one job, each by what it shows and whether the job went on since the last one. */
export function createPatience(upstream: Upstream): (standing: Standing, hasProgress?: boolean) => Verdict {
  const { io, patienceMs, runningPatienceMs = patienceMs } = upstream;
  const limits = { usual: patienceMs, running: runningPatienceMs, minute: minuteMs };
  const absence = createAbsence(io);
  let [lookedAt, watchedMs] = [io.now(), 0];
  let [progressMs, answeredMs, standingMs] = [0, 0, 0];
  let last: Standing | undefined;
  return (standing, hasProgress = false) => {
    const now = io.now();
    watchedMs += Math.min(now - lookedAt, maxGapMs);
    lookedAt = now;
    if (hasProgress) [progressMs, upstream.newsAt] = [watchedMs, now];
    if (!["unanswered", "missing", "faulty"].includes(standing)) answeredMs = watchedMs;
    if (standing !== last) standingMs = watchedMs;
    last = standing;
    const quietMs = watchedMs - progressMs;
    const lasted: Record<Rule["since"], number> = {
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
