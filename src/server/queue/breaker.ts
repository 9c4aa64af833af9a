import type { Clock } from "../../io.ts";
import type { NotSubmittedCause } from "../engines/engine.ts";
import type { CreateOutcome } from "../outcomes.ts";

/** Why and since when an engine gets no creates or only one at a time, and when it last failed. */
export type Outage = { since: Date; reason: string; cause: NotSubmittedCause | undefined; lastAt: Date };

export type BreakerOptions = {
  clock: Pick<Clock, "now" | "date">;
  /** The longest time between two tries while no server answers. */
  maxUnreachableRetryMs?: number | undefined;
  /** Called when an outage begins, and with `undefined` when the engine accepts creates again. */
  onChange(outage: Outage | undefined): void;
  onCreate?(created: CreateOutcome): void;
};

/** Decides how many creates an engine gets, so that its failures cost only a few generations. Times are in milliseconds. */
export type Breaker = {
  /** How many more creates may be sent now; `openCreates` is the number of creates without a reply. */
  room(openCreates: number): number;
  /** The time until the next create may be sent; 0 if now. */
  pauseMs(): number;
  /** A create was accepted, or refused because of the request. */
  onTaken(): void;
  /** A create was certainly not accepted; `retryAfterMs` is how long the server asks to wait. */
  onNotTaken(reason: string, cause?: NotSubmittedCause | undefined, retryAfterMs?: number | undefined): void;
  /** A create may have been accepted, so its generation ends as unclear. */
  onUnclear(reason: string): void;
  outage(): Outage | undefined;
  /** How long the outage has lasted, and how long nothing at the address has answered as this engine does. */
  outageMs(): number;
  unreachableMs(): number;
};

const maxRetryMs = 30_000;
/** The pause after the first unclear create; each further one in a row makes it 8 times as long. */
const unclearMs = 30_000;
const maxPauseMs = 30 * 60_000;
/** After an unclear create, this many must be accepted, one at a time, before the engine gets several again. */
const takenPerUnclear = 10;

export function createBreaker(options: BreakerOptions): Breaker {
  const { clock, maxUnreachableRetryMs = maxRetryMs, onChange, onCreate = () => {} } = options;
  let isProven = false;
  let failures = 0;
  /** How many creates must still be accepted one at a time, because of unclear ones. */
  let probation = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;
  let current: (Outage & { at: number }) | undefined;
  let unreachableAt: number | undefined;
  const openCircuit = ({ reason, cause }: Pick<Outage, "reason" | "cause">, ms: number) => {
    isProven = false;
    pausedUntil = Math.max(pausedUntil, clock.now() + ms);
    unreachableAt = isUnreachable(cause) ? (unreachableAt ?? clock.now()) : undefined;
    const isNew = current === undefined;
    current = { since: clock.date(), at: clock.now(), ...current, reason, cause, lastAt: clock.date() };
    if (isNew) onChange(current);
  };
  const isUnreachable = (cause: NotSubmittedCause | undefined) => cause === "unreachable" || cause === "address";
  const pauseMs = () => Math.max(0, pausedUntil - clock.now());
  return {
    pauseMs,
    room(open) {
      if (pauseMs() > 0) return 0;
      // One create at a time shows whether the engine works before many generations are lost.
      return isProven && probation === 0 ? Number.POSITIVE_INFINITY : 1 - open;
    },
    onTaken() {
      onCreate("taken");
      isProven = true;
      failures = 0;
      probation = Math.max(0, probation - 1);
      // A create that was sent before another one failed does not end the pause.
      if (pauseMs() > 0 || current === undefined) return;
      current = undefined;
      unreachableAt = undefined;
      onChange(undefined);
    },
    onNotTaken(reason, cause, retryAfterMs = 0) {
      onCreate("not_taken");
      const maxMs = isUnreachable(cause) ? maxUnreachableRetryMs : maxRetryMs;
      openCircuit(
        { reason, cause },
        Math.max(Math.min(1_000 * 2 ** failures++, maxMs), Math.min(retryAfterMs, maxPauseMs)),
      );
    },
    onUnclear(reason) {
      onCreate("unclear");
      const unclearCount = Math.ceil(probation / takenPerUnclear) + 1;
      probation = unclearCount * takenPerUnclear;
      openCircuit({ reason, cause: undefined }, Math.min(unclearMs * 8 ** (unclearCount - 1), maxPauseMs));
    },
    outage: () =>
      current && { since: current.since, reason: current.reason, cause: current.cause, lastAt: current.lastAt },
    outageMs: () => (current === undefined ? 0 : clock.now() - current.at),
    unreachableMs: () => (unreachableAt === undefined ? 0 : clock.now() - unreachableAt),
  };
}
