import type { Clock } from "../io.ts";

export type Loop = {
  /** Begins a step soon, regardless of what the last step resolved with. Resolves when a step that began after the call has ended. */
  wake(): Promise<void>;
  /** Stops the loop, and resolves when the current step has ended. */
  close(): Promise<void>;
};

/**
 * Runs a step repeatedly: after the milliseconds that the last step resolved with, or when woken, but at least `pauseMs` after the last step. The
 * step must not reject.
 */
export function createLoop(
  step: () => Promise<number>,
  { clock, pauseMs = 0 }: { clock: Pick<Clock, "sleep">; pauseMs?: number },
): Loop {
  const stop = new AbortController();
  let timer = new AbortController();
  let last = Promise.resolve();
  let next: Promise<void> | undefined;
  const run = async () => {
    next = undefined;
    timer.abort();
    if (stop.signal.aborted) return;
    const ms = await step();
    if (pauseMs > 0) await clock.sleep(pauseMs, stop.signal).catch(() => {});
    if (stop.signal.aborted || next) return;
    timer = new AbortController();
    clock.sleep(ms, timer.signal).then(wake, () => {});
  };
  const wake: Loop["wake"] = () => {
    next ??= last = last.then(run);
    return next;
  };
  return {
    wake,
    async close() {
      stop.abort();
      timer.abort();
      await last;
    },
  };
}
