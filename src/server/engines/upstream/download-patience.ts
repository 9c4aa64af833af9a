import { minuteMs } from "./patience.ts";
import { backOffMs, createAbsence, type Upstream } from "./upstream.ts";

/**
 * Why a download failed. "temporary": an error of the network, of a server or of this machine. "not ready" and "missing": the file may appear later
 * than the job's status. "nowhere": the job is completed, but states no address. "unfinished": an .mp4 whose end is
 * still missing. "fault": a file that is not an .mp4; final when the server sends the same file (by `digest`) a minute later. "denied": the server
 * refuses access, which a new address may change. "unusable address": the rules for addresses that others chose forbid this address, or its file is
 * too large. In both cases only another address can help.
 */
export type DownloadFailure =
  | {
      kind: "temporary" | "not ready" | "nowhere" | "unfinished" | "missing" | "denied" | "unusable address";
      reason: string;
      retryAfterMs?: number | undefined;
      /** Whether the reply had no body. A proxy's error has one. */
      isEmpty?: boolean;
      /** Whether the reply was JSON, as the server's own errors are. */
      isJson?: boolean;
      /** Whether part of a video arrived. */
      hasPart?: boolean;
    }
  | { kind: "fault"; reason: string; digest: string };

/** The failures that do not say that the server has no video at the address, and so do not count towards the upstream's time limit. */
const temporary: readonly DownloadFailure["kind"][] = ["temporary", "unusable address"];

/** Signs that a video is missing, besides the last failure. */
export type MissingSigns = {
  /** Whether a missing video is believed after a minute, because of the server's reply, the video's age, or another address that is unusable. */
  isLikelyGone: boolean;
  /** Whether the last poll of the job found no file. */
  hasNoFile: boolean;
};

/**
 * `reachedLimit` is set if the download is given up. `isRetriedSoon`: poll the job and try again as after any 404 of a job, otherwise wait for
 * `waitMs`.
 */
export type DownloadVerdict = { reachedLimit: DownloadLimit | undefined; isRetriedSoon: boolean; waitMs: number };

type DownloadLimit = keyof ReturnType<typeof limitsOf>;

/** How long each state may last before the download is given up. */
function limitsOf({ patienceMs }: Pick<Upstream, "patienceMs">) {
  return {
    /** The server has no video. */
    absent: patienceMs,
    /** The same, without a temporary failure in between, when the video is likely to be gone (`MissingSigns`). */
    gone: minuteMs,
    /** The same, when the server does not know the job either. */
    forgotten: minuteMs,
    /** The server sends the same file, which is not an .mp4. */
    "same file": minuteMs,
    /** Neither the job nor its `/content` has a file. */
    "no file": minuteMs,
  };
}

const absentPollMs = 20_000;
/** A video that is still missing after an hour is requested less often, because a provider's time limit is a day. */
const lateMs = 3_600_000;
const latePollMs = 300_000;
/** A longer gap between two replies without a video means an outage, and counts as this long. */
const maxGapMs = 2 * latePollMs;

/** Returns the state of one download: `decide` takes each failure, and `recordPoll` the result of each poll of the job in between. */
export function createDownloadPatience(upstream: Upstream) {
  const { io } = upstream;
  const limits = limitsOf(upstream);
  const [goneTimer, forgottenTimer, noFileTimer] = [createAbsence(io), createAbsence(io), createAbsence(io)];
  const lastedMs: Record<DownloadLimit, number> = { absent: 0, gone: 0, forgotten: 0, "same file": 0, "no file": 0 };
  let absentAt: number | undefined;
  let faultyFile: { digest: string; firstAt: number } | undefined;
  let isForgotten = false;
  let tries = 0;
  return {
    /** The digest of the last file that was not an .mp4. */
    lastDigest: () => faultyFile?.digest,
    /** `isMissing`: the server does not know the job. `hasNoFile`: the job has no file. */
    recordPoll({ isMissing, hasNoFile }: { isMissing: boolean; hasNoFile: boolean }): void {
      isForgotten = isMissing;
      lastedMs.forgotten = forgottenTimer(isMissing);
      if (!hasNoFile) noFileTimer(false);
    },
    decide(failure: DownloadFailure, { isLikelyGone, hasNoFile }: MissingSigns): DownloadVerdict {
      const { kind } = failure;
      const isAbsent = !temporary.includes(kind);
      const isMissing = kind === "missing";
      const now = io.now();
      tries++;
      if (failure.kind === "fault" && failure.digest !== faultyFile?.digest)
        faultyFile = { digest: failure.digest, firstAt: now };
      if ("hasPart" in failure && failure.hasPart) [lastedMs.absent, absentAt] = [0, undefined];
      if (isAbsent) {
        lastedMs.absent += Math.min(now - (absentAt ?? now), maxGapMs);
        absentAt = now;
      }
      if (!isMissing) [isForgotten, lastedMs.forgotten] = [false, forgottenTimer(false)];
      lastedMs.gone = goneTimer(isAbsent);
      lastedMs["same file"] = failure.kind === "fault" && faultyFile ? now - faultyFile.firstAt : 0;
      lastedMs["no file"] = noFileTimer(hasNoFile && failure.kind === "missing" && failure.isJson === true);
      const applies: Record<DownloadLimit, boolean> = {
        "no file": true,
        "same file": kind === "fault",
        forgotten: isMissing,
        gone: isAbsent && isLikelyGone,
        absent: isAbsent,
      };
      const reachedLimit = (Object.keys(applies) as DownloadLimit[]).find(
        (limit) => applies[limit] && lastedMs[limit] >= limits[limit],
      );
      const isRetriedSoon = isMissing && (isForgotten || lastedMs.absent < minuteMs);
      const retryAfterMs = "retryAfterMs" in failure ? failure.retryAfterMs : undefined;
      const absentWaitMs = lastedMs.absent < lateMs ? Math.min(backOffMs(tries - 1), absentPollMs) : latePollMs;
      return { reachedLimit, isRetriedSoon, waitMs: isAbsent ? absentWaitMs : backOffMs(tries - 1, retryAfterMs) };
    },
  };
}
