import type { Io } from "../../io.ts";
import { backoffMs } from "../http/retry.ts";

/** How many generations of a batch may run at once, as far as the service accepts them. */
export type Slots = {
  /** How long to wait until another may start, in milliseconds; `undefined` until one of those in flight has ended. */
  waitMs(inFlight: number): number | undefined;
  /** The service has taken one, beside `inFlight` others. */
  accepted(inFlight: number): void;
  /** The service has said "not now" (429) to a start while `inFlight` others ran; `afterMs` is its Retry-After. */
  refused(inFlight: number, afterMs: number | undefined): void;
  /** One of those in flight has ended. */
  ended(): void;
  /** For how long, in milliseconds, the service has accepted nothing although nothing of the batch has ended meanwhile. */
  refusedForMs(): number;
};

/** How long after a start one more than the service has taken is tried: twice as long as was too early, since starts in a minute may be limited. */
const minGapMs = 5_000;
const maxGapMs = 60_000;
/** How long after it was refused. */
const minTrialMs = 15_000;
const maxTrialMs = 10 * 60_000;

/**
 * "Not now" halves the number in flight; each one that ends makes it grow by one, up to the number that the service has taken. Beyond that
 * one more is tried now and then, and the less often the more often it was refused: each refused start is a request too much.
 */
export function createSlots(jobs: number, io: Pick<Io, "now" | "random">): Slots {
  let limit = jobs;
  let taken = jobs;
  let trialMs = minTrialMs;
  let gapMs = minGapMs;
  let startedAt = Number.NEGATIVE_INFINITY;
  let trialAt = 0;
  let refusals = 0;
  let refusedSince: number | undefined;
  let notBefore = Number.NEGATIVE_INFINITY;
  return {
    waitMs(inFlight) {
      if (inFlight >= limit || inFlight > taken) return undefined;
      const at = inFlight === taken ? Math.max(notBefore, trialAt, startedAt + gapMs) : notBefore;
      return Math.max(0, at - io.now());
    },
    accepted(inFlight) {
      refusals = 0;
      refusedSince = undefined;
      startedAt = io.now();
      if (inFlight < taken) return;
      taken = inFlight + 1;
      // Not all the way back: one of those in flight may have ended without this process knowing it yet.
      trialMs = Math.max(minTrialMs, trialMs / 2);
    },
    refused(inFlight, afterMs = 0) {
      refusedSince ??= io.now();
      taken = Math.max(1, inFlight);
      gapMs = Math.min(maxGapMs, Math.max(minGapMs, 2 * (io.now() - startedAt)));
      limit = Math.max(1, Math.floor(inFlight / 2));
      trialAt = io.now() + trialMs;
      trialMs = Math.min(trialMs * 2, maxTrialMs);
      notBefore = io.now() + Math.max(afterMs, 500, backoffMs(refusals++, io.random()));
    },
    ended() {
      refusedSince = undefined;
      limit = Math.min(jobs, limit + 1);
    },
    refusedForMs: () => (refusedSince === undefined ? 0 : io.now() - refusedSince),
  };
}
