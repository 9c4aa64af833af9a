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

/**
 * A clock that only the test moves. `pass(ms)` is one turn of Node's event loop after that time: it fires each timer that is due once, before anything is
 * read. So `pass(130_000)` is a process that was stopped, and `wait` passes the time in steps of 50 ms.
 */
export function createStoppableClock() {
  let now = 0;
  const timers = new Set<{ at: number; fire(): void }>();
  const add = (ms: number, fire: () => void) => {
    const timer = { at: now + ms, fire };
    timers.add(timer);
    return timer;
  };
  const pass = async (ms: number) => {
    now += ms;
    const due = [...timers].filter(({ at }) => at <= now);
    for (const timer of due) timers.delete(timer);
    for (const { fire } of due) fire();
    await new Promise((resolve) => setImmediate(resolve));
  };
  const clock: Clock = {
    now: () => now,
    date: () => new Date(Date.UTC(2026, 0, 1) + now),
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const timer = add(ms, () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        });
        const onAbort = () => {
          timers.delete(timer);
          reject(signal?.reason);
        };
        signal?.addEventListener("abort", onAbort, { once: true });
      }),
    limit(ms, parent, reason) {
      const controller = new AbortController();
      let timer = add(ms, () => controller.abort(reason));
      const onParent = () => controller.abort(parent.reason);
      parent.addEventListener("abort", onParent, { once: true });
      const clear = () => {
        timers.delete(timer);
        parent.removeEventListener("abort", onParent);
      };
      const restart = () => {
        timers.delete(timer);
        timer = add(ms, () => controller.abort(reason));
      };
      return { signal: controller.signal, restart, clear };
    },
  };
  const wait = async (ms: number) => {
    for (let left = ms; left > 0; left -= 50) await pass(50);
  };
  return { ...clock, pass, wait };
}
