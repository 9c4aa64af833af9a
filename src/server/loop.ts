import type { Clock } from "../io.ts";

export type Loop = {
  /** Lets a step begin soon, whatever the last one said. Resolves when a step that began after the call has ended. */
  wake(): Promise<void>;
  /** Lets no other step begin, and resolves when the one under way has ended. */
  close(): Promise<void>;
};

/**
 * Runs a step again and again: when it is woken, but not sooner than `pauseMs` after the last one, and after the milliseconds that the last one
 * resolved with. It must not reject.
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
