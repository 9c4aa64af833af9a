import { minuteMs } from "./patience.ts";
import { backOffMs, createAbsence, type Upstream } from "./upstream.ts";

/**
 * Why there is no video. "trouble": a temporary error of the network, of a server or of this machine. "not ready" and "missing": the file may
 * appear later than the job's status, and a replica may not have it. "nowhere": the job is completed, but states no address. "unfinished": an .mp4
 * whose end is still missing. "fault": another file; it is final when it is the same, by its `digest`, a minute later. "denied": the server does
 * not show it, which a new address may change. "address refused": we do not download from this address, because our rules for addresses forbid it
 * or its file is too large.
 */
export type Failure =
  | {
      kind: "trouble" | "not ready" | "nowhere" | "unfinished" | "missing" | "denied" | "address refused";
      reason: string;
      retryAfterMs?: number | undefined;
      /** Whether the reply had no body. A proxy's error has one. */
      isEmpty?: boolean;
      /** Whether it was JSON, as a server's own is. */
      isJson?: boolean;
      /** Whether a part of a video came before. */
      hasPart?: boolean;
    }
  | { kind: "fault"; reason: string; digest: string };

type Rule = {
  /** Whether the server has no video here, which counts against the upstream's time limit. */
  isAbsent: boolean;
  /** Whether a replica that answers so may know the job, whatever another one says of it. */
  mayKnowJob: boolean;
  /** When another try may find the video: at once at another address or replica (always, or during the first minute of absence), or only later. */
  retries: "soon" | "soon at first" | "later";
};

/** What each failure means. Trouble in between does not restart the time of absence. */
export const rules: Readonly<Record<Failure["kind"], Rule>> = {
  trouble: { isAbsent: false, mayKnowJob: true, retries: "later" },
  "address refused": { isAbsent: false, mayKnowJob: true, retries: "soon" },
  "not ready": { isAbsent: true, mayKnowJob: true, retries: "soon at first" },
  nowhere: { isAbsent: true, mayKnowJob: true, retries: "later" },
  missing: { isAbsent: true, mayKnowJob: false, retries: "soon at first" },
  unfinished: { isAbsent: true, mayKnowJob: false, retries: "later" },
  denied: { isAbsent: true, mayKnowJob: false, retries: "later" },
  fault: { isAbsent: true, mayKnowJob: false, retries: "later" },
};

/** What is known of a video besides the last failure. */
export type Known = {
  /** Whether its server says, or its time or another address shows, that it is gone. */
  isGone: boolean;
  /** Whether the last poll of its job found no file in it. */
  hasNoFile: boolean;
};

/** `over` is why the download is given up, if it is; `isSoon` whether another address or replica is tried at once, otherwise after `waitMs`. */
export type Verdict = { over: Limit | undefined; isSoon: boolean; waitMs: number };

type Limit = keyof ReturnType<typeof limitsOf>;

/** How long each of these may last before the download is given up. */
function limitsOf({ patienceMs }: Pick<Upstream, "patienceMs">) {
  return {
    /** The server has no video. */
    absent: patienceMs,
    /** The same, without trouble in between, where the video is known to be gone. */
    gone: minuteMs,
    /** The same, where the server does not know the job either. */
    forgotten: minuteMs,
    /** The file is the same one, and no .mp4. */
    "same file": minuteMs,
    /** Neither the job nor its `/content` has a file. */
    "no file": minuteMs,
  };
}

const absentPollMs = 20_000;
/** A video that is still missing after an hour is requested less often: a provider's time limit is a day. */
const lateMs = 3_600_000;
const latePollMs = 300_000;
/** A longer gap between two answers without a video means an outage: it counts as this long. */
const maxGapMs = 2 * latePollMs;

/** Returns what judges the failures to fetch one video, one after the other, and takes the results of the polls of its job in between. */
export function createDownloadPatience(upstream: Upstream) {
  const { io } = upstream;
  const limits = limitsOf(upstream);
  const [gone, forgotten, fileless] = [createAbsence(io), createAbsence(io), createAbsence(io)];
  const lasted: Record<Limit, number> = { absent: 0, gone: 0, forgotten: 0, "same file": 0, "no file": 0 };
  let absentAt: number | undefined;
  let file: { digest: string; at: number } | undefined;
  let isForgotten = false;
  let tries = 0;
  return {
    /** The digest of the last file that was no .mp4. */
    seen: () => file?.digest,
    /** Takes the result of a poll of the job: whether the server does not know it, and whether it has no file. */
    look({ isMissing, hasNoFile }: { isMissing: boolean; hasNoFile: boolean }): void {
      isForgotten = isMissing;
      lasted.forgotten = forgotten(isMissing);
      if (!hasNoFile) fileless(false);
    },
    judge(failure: Failure, { isGone, hasNoFile }: Known): Verdict {
      const { kind } = failure;
      const { isAbsent, mayKnowJob, retries } = rules[kind];
      const now = io.now();
      tries++;
      if (failure.kind === "fault" && failure.digest !== file?.digest) file = { digest: failure.digest, at: now };
      if ("hasPart" in failure && failure.hasPart) [lasted.absent, absentAt] = [0, undefined];
      if (isAbsent) {
        lasted.absent += Math.min(now - (absentAt ?? now), maxGapMs);
        absentAt = now;
      }
      if (mayKnowJob) [isForgotten, lasted.forgotten] = [false, forgotten(false)];
      lasted.gone = gone(isAbsent);
      lasted["same file"] = failure.kind === "fault" && file ? now - file.at : 0;
      lasted["no file"] = fileless(hasNoFile && failure.kind === "missing" && failure.isJson === true);
      const counts: Record<Limit, boolean> = {
        "no file": true,
        "same file": kind === "fault",
        forgotten: isAbsent,
        gone: isAbsent && isGone,
        absent: isAbsent,
      };
      const over = (Object.keys(counts) as Limit[]).find((limit) => counts[limit] && lasted[limit] >= limits[limit]);
      const isSoon = isForgotten || retries === "soon" || (retries === "soon at first" && lasted.absent < minuteMs);
      const retryAfterMs = "retryAfterMs" in failure ? failure.retryAfterMs : undefined;
      const absentWaitMs = lasted.absent < lateMs ? Math.min(backOffMs(tries - 1), absentPollMs) : latePollMs;
      return { over, isSoon, waitMs: isAbsent ? absentWaitMs : backOffMs(tries - 1, retryAfterMs) };
    },
  };
}
