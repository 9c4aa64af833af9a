import type { Io } from "../../io.ts";
import { backoffMs } from "../http/retry.ts";

/** Adapts how many generations of a batch run at once to what the service accepts. */
export type Slots = {
  /** How long to wait before the next start, in milliseconds; `undefined` until a running generation has ended. */
  waitMs(inFlight: number): number | undefined;
  /** The service accepted a start while `inFlight` others ran. */
  accepted(inFlight: number): void;
  /** The service answered "not now" (429) to a start while `inFlight` others ran; `afterMs` is its Retry-After. */
  refused(inFlight: number, afterMs: number | undefined): void;
  /** A running generation has ended. */
  ended(): void;
  /** For how long, in milliseconds, all starts were refused while no generation of the batch ended. */
  refusedForMs(): number;
};

/**
 * The gap between a start and the next start above the accepted number. A refusal doubles the gap, because
 * the service may have a rate limit.
 */
const minGapMs = 5_000;
const maxGapMs = 60_000;
/** How long after a refusal one more start than the accepted number is tried. */
const minTrialGapMs = 15_000;
const maxTrialGapMs = 10 * 60_000;
/** The shortest wait after a refusal, whatever Retry-After says. */
const minWaitMs = 500;

/**
 * A 429 halves the number in flight; each ended generation raises it by one, up to the number that the
 * service accepted before. From time to time one more start is tried, with longer gaps after each refusal.
 */
export function createSlots(jobs: number, io: Pick<Io, "now" | "random">): Slots {
  let limit = jobs;
  let acceptedLimit = jobs;
  let trialGapMs = minTrialGapMs;
  let gapMs = minGapMs;
  let startedAt = Number.NEGATIVE_INFINITY;
  let trialAt = 0;
  let refusals = 0;
  let refusedSince: number | undefined;
  let notBefore = Number.NEGATIVE_INFINITY;
  return {
    waitMs(inFlight) {
      if (inFlight >= limit || inFlight > acceptedLimit) return undefined;
      const at = inFlight === acceptedLimit ? Math.max(notBefore, trialAt, startedAt + gapMs) : notBefore;
      return Math.max(0, at - io.now());
    },
    accepted(inFlight) {
      refusals = 0;
      refusedSince = undefined;
      startedAt = io.now();
      if (inFlight < acceptedLimit) return;
      acceptedLimit = inFlight + 1;
      // Halved, not reset: a running generation may already have ended without this process knowing it.
      trialGapMs = Math.max(minTrialGapMs, trialGapMs / 2);
    },
    refused(inFlight, afterMs = 0) {
      refusedSince ??= io.now();
      acceptedLimit = Math.max(1, inFlight);
      gapMs = Math.min(maxGapMs, Math.max(minGapMs, 2 * (io.now() - startedAt)));
      limit = Math.max(1, Math.floor(inFlight / 2));
      trialAt = io.now() + trialGapMs;
      trialGapMs = Math.min(trialGapMs * 2, maxTrialGapMs);
      notBefore = io.now() + Math.max(afterMs, minWaitMs, backoffMs(refusals++, io.random()));
    },
    ended() {
      refusedSince = undefined;
      limit = Math.min(jobs, limit + 1);
    },
    refusedForMs: () => (refusedSince === undefined ? 0 : io.now() - refusedSince),
  };
}
