import type { Clock, Limit } from "./io.ts";

/**
 * Resolves after `ms`, or when `signal` aborts. Unlike `sleep`, it is not what the program waits for: a clock
 * of a test does not skip it.
 */
export async function untilLimit(ms: number, signal: AbortSignal, { limit }: Pick<Clock, "limit">): Promise<void> {
  const end = limit(ms, signal, new Error("time is up"));
  await new Promise<void>((resolve) => {
    if (end.signal.aborted) return resolve();
    end.signal.addEventListener("abort", () => resolve(), { once: true });
  }).finally(end.clear);
}

/** A step of a limit: a longer stop of the process, as by Ctrl-Z, counts as one step. */
const stepMs = 10_000;
/**
 * How long a limit is exceeded while bytes arrive, and how long after the last ones it is certain that no
 * more were waiting to be read.
 */
const lateMs = 2_000;
const quietMs = 250;

/** A time limit for a reply; `onReceived` must be called when bytes of the reply arrive. */
export type ReplyLimit = Limit & { onReceived(): void };

/**
 * A time limit for a reply that was paid for. It counts only time that this process has seen pass: after a
 * stop, Node runs timers before it reads what has arrived meanwhile. At the limit it goes on while bytes
 * arrive, for at most 2 s.
 */
export function createReplyLimit(ms: number, parent: AbortSignal, reason: Error, clock: Clock): ReplyLimit {
  const controller = new AbortController();
  let restarts = new AbortController();
  let isReceiving = false;
  const count = async (signal: AbortSignal) => {
    for (let leftMs = ms; leftMs > 0 && !signal.aborted; leftMs -= stepMs)
      await untilLimit(Math.min(leftMs, stepMs), signal, clock);
    isReceiving = true;
    for (let lateForMs = 0; isReceiving && lateForMs < lateMs && !signal.aborted; lateForMs += quietMs) {
      isReceiving = false;
      const before = clock.now();
      await untilLimit(quietMs, signal, clock);
      // The process was stopped again before it could read.
      if (clock.now() - before > lateMs) isReceiving = true;
    }
    if (!signal.aborted) controller.abort(reason);
  };
  const onParent = () => controller.abort(parent.reason);
  const clear = () => {
    restarts.abort();
    parent.removeEventListener("abort", onParent);
  };
  const restart = () => {
    restarts.abort();
    restarts = new AbortController();
    void count(restarts.signal);
  };
  parent.addEventListener("abort", onParent, { once: true });
  if (parent.aborted) onParent();
  restart();
  return {
    signal: controller.signal,
    restart,
    clear,
    onReceived() {
      isReceiving = true;
    },
  };
}

/**
 * Sleeps until this process has seen `ms` pass: a step during which it was stopped does not count. Rejects
 * with the signal's reason.
 */
export async function sleepSeen(ms: number, signal: AbortSignal, { now, sleep }: Clock): Promise<void> {
  for (let leftMs = ms; leftMs > 0; ) {
    const before = now();
    await sleep(Math.min(leftMs, quietMs), signal);
    if (now() - before < lateMs) leftMs -= quietMs;
  }
}
