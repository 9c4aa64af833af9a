import type { Clock } from "../../io.ts";
import { backoffMs } from "../retry.ts";

/** How many generations of a batch may run at once, as far as the service accepts them. */
export type Slots = {
  /** How long to wait until another may start, in milliseconds; `undefined` until one of those in flight has ended. */
  waitMs(inFlight: number): number | undefined;
  accepted(): void;
  /** The service has said "not now" (429) to a start while `inFlight` others ran; `afterMs` is its Retry-After. */
  refused(inFlight: number, afterMs: number | undefined): void;
  /** One of those in flight has ended. */
  ended(): void;
  /** For how long, in milliseconds, the service has accepted nothing although nothing of the batch has ended meanwhile. */
  refusedForMs(): number;
};

/** After so many that have ended, one more than the service had accepted is tried. */
const endedBeforeTrial = 20;

/**
 * "Not now" halves the number in flight; each one that ends makes it grow by one, up to the number that the service had accepted. Only now
 * and then one more is tried: each refused start is a request too much.
 */
export function createSlots(jobs: number, clock: Pick<Clock, "now">): Slots {
  let limit = jobs;
  let accepted = jobs;
  let ended = 0;
  let refusals = 0;
  let refusedSince: number | undefined;
  let notBefore = Number.NEGATIVE_INFINITY;
  return {
    waitMs: (inFlight) => (inFlight < Math.min(limit, accepted) ? Math.max(0, notBefore - clock.now()) : undefined),
    accepted() {
      refusals = 0;
      refusedSince = undefined;
    },
    refused(inFlight, afterMs = 0) {
      refusedSince ??= clock.now();
      accepted = Math.max(1, inFlight);
      limit = Math.max(1, Math.floor(inFlight / 2));
      ended = 0;
      notBefore = clock.now() + Math.max(afterMs, 500, backoffMs(refusals++));
    },
    ended() {
      refusedSince = undefined;
      limit = Math.min(jobs, limit + 1);
      if (++ended % endedBeforeTrial === 0) accepted = Math.min(jobs, accepted + 1);
    },
    refusedForMs: () => (refusedSince === undefined ? 0 : clock.now() - refusedSince),
  };
}
