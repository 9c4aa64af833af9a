import process from "node:process";
import type { Clock } from "../src/io.ts";

type Timer = { at: number; isSleep: boolean; fire(): void };

/**
 * A clock on which nothing is waited for: once the program does nothing but sleep, time jumps to the next timer. Limits alone never move
 * it, since what they bound may be real work; nor does `doze`, a sleep in the background. It counts whole milliseconds: the sum of
 * fractions is not exact, and a wait of 500 ms would now and then be seen as 499.9999999999999.
 */
export function createVirtualClock(): Clock & { doze: Clock["sleep"] } {
  const timers = new Set<Timer>();
  let now = 0;
  let isStepping = false;

  const add = (ms: number, isSleep: boolean, fire: () => void) => {
    // Nothing waits for the end of a sleep that has none.
    const timer = { at: now + Math.ceil(ms), isSleep: isSleep && ms < Number.POSITIVE_INFINITY, fire };
    timers.add(timer);
    if (timer.isSleep) void step();
    return timer;
  };
  async function step() {
    if (isStepping) return;
    isStepping = true;
    for (;;) {
      await untilIdle();
      if (![...timers].some((timer) => timer.isSleep)) break;
      const next = [...timers].reduce((a, b) => (b.at < a.at ? b : a));
      timers.delete(next);
      now = Math.max(now, next.at);
      next.fire();
    }
    isStepping = false;
  }

  const wait = (ms: number, isSleep: boolean, signal: AbortSignal | undefined) =>
    new Promise<void>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const timer = add(ms, isSleep, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      const onAbort = () => {
        timers.delete(timer);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
    });

  return {
    now: () => now,
    date: () => new Date(Date.UTC(2026, 0, 1) + now),
    sleep: (ms, signal) => wait(ms, true, signal),
    doze: (ms, signal) => wait(ms, false, signal),
    limit(ms, parent, reason) {
      const controller = new AbortController();
      const timer = add(ms, false, () => controller.abort(reason));
      const onParent = () => controller.abort(parent.reason);
      parent.addEventListener("abort", onParent, { once: true });
      if (parent.aborted) onParent();
      const clear = () => {
        timers.delete(timer);
        parent.removeEventListener("abort", onParent);
      };
      const restart = () => {
        timer.at = now + Math.ceil(ms);
      };
      return { signal: controller.signal, restart, clear };
    },
  };
}

/** Resolves when neither promises nor the file system have anything under way. */
async function untilIdle(): Promise<void> {
  for (let quiet = 0; quiet < 10; quiet++) {
    await new Promise((resolve) => setImmediate(resolve));
    while (process.getActiveResourcesInfo().some((name) => /^(FSReq|FileHandleCloseReq|CloseReq)/.test(name))) {
      quiet = 0;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}
