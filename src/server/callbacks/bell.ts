import type { Clock } from "../../io.ts";

/** Waits for a time or for somebody who rings, whichever comes first. */
export type Bell = {
  /** Ends the wait under way, or else the next one before it begins. */
  ring(): void;
  /** Resolves after `ms` or a minute, whichever is shorter, or when it rings; `Infinity` waits for that alone. */
  wait(ms: number): Promise<void>;
};

/** The time of day may be set, and leaps when a laptop wakes up: whoever waits for it has to look again. */
const longestSleepMs = 60_000;

export function createBell(clock: Pick<Clock, "sleep">): Bell {
  let ringer = new AbortController();
  return {
    ring: () => ringer.abort(),
    async wait(ms) {
      const { signal } = ringer;
      if (ms === Number.POSITIVE_INFINITY) await whenAborted(signal);
      else if (ms > 0) await clock.sleep(Math.min(ms, longestSleepMs), signal).catch(() => {});
      if (signal.aborted) ringer = new AbortController();
    },
  };
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
