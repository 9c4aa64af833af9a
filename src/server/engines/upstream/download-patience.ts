import { minuteMs } from "./patience.ts";
import { backOffMs, createAbsence, type Upstream } from "./upstream.ts";

/**
 * Why there is no video. "trouble" is that of the network, of a server or of this machine, which passes. "not ready" and "missing": its file may
 * come after the job's status, and a replica may not have it. "nowhere": the job is completed, and tells no address. "unfinished": an .mp4 that still lacks its end. "fault": another file, which stays
 * one when it is the same, by its `digest`, a minute later. "denied": the server does not show it, which a new address may change. "final":
 * another try at this address does not help.
 */
export type Failure =
  | {
      kind: "trouble" | "not ready" | "nowhere" | "unfinished" | "missing" | "denied" | "final";
      reason: string;
      retryAfterMs?: number | undefined;
      /** Whether the reply had no body: a proxy's has one. */
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
  /** How soon another try may find the video: at another address or replica at once, always or for a minute of absence; or by and by. */
  retries: "soon" | "soon at first" | "by and by";
};

/** What a failure says. Trouble in between does not begin the absence anew. */
export const rules: Readonly<Record<Failure["kind"], Rule>> = {
  trouble: { isAbsent: false, mayKnowJob: true, retries: "by and by" },
  final: { isAbsent: false, mayKnowJob: true, retries: "soon" },
  "not ready": { isAbsent: true, mayKnowJob: true, retries: "soon at first" },
  nowhere: { isAbsent: true, mayKnowJob: true, retries: "by and by" },
  missing: { isAbsent: true, mayKnowJob: false, retries: "soon at first" },
  unfinished: { isAbsent: true, mayKnowJob: false, retries: "by and by" },
  denied: { isAbsent: true, mayKnowJob: false, retries: "by and by" },
  fault: { isAbsent: true, mayKnowJob: false, retries: "by and by" },
};

/** What is known of a video besides the last failure. */
export type Known = {
  /** Whether its server says, or its time or another address shows, that it is gone. */
  isGone: boolean;
  /** Whether the last look at its job found no file in it. */
  hasNoFile: boolean;
};

/** `over` is why it is given up, if it is; `isSoon` whether another address or replica is asked next, and else `waitMs` how long it waits. */
export type Verdict = { over: Limit | undefined; isSoon: boolean; waitMs: number };

type Limit = keyof ReturnType<typeof limitsOf>;

/** For how long each of these is borne. */
function limitsOf({ patienceMs }: Pick<Upstream, "patienceMs">) {
  return {
    /** The server has no video. */
    absent: patienceMs,
    /** That, without a break by trouble, where the video is known to be gone. */
    gone: minuteMs,
    /** That, where the server does not know the job either. */
    forgotten: minuteMs,
    /** The file is the same one, and no .mp4. */
    "same file": minuteMs,
    /** Neither the job nor its `/content` has a file. */
    "no file": minuteMs,
  };
}

const absentPollMs = 20_000;
/** What has not come within an hour hardly comes in the next seconds, and a provider's patience is a day. */
const lateMs = 3_600_000;
const latePollMs = 300_000;
/** A longer time between two answers without a video is that of an outage, and counts as so long. */
const maxGapMs = 2 * latePollMs;

/** Returns what judges the failures to fetch one video, each after the other, and is told of the looks at its job in between. */
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
    /** Takes what a look at the job says: whether the server does not know it, and whether it has a file. */
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
