import { setMaxListeners } from "node:events";
import type { Delivery } from "../store/store.ts";
import { type AttemptOptions, makeAttempt } from "./attempt.ts";
import { hostOf, maxPerHost } from "./scheduler.ts";

export type CallbackSender = {
  /** Attempts a delivery. Resolves with false when that is for later, or another process: its receiver is busy, or this process stops. */
  deliver(delivery: Delivery): Promise<boolean>;
  /** Resolves when the attempts under way have ended; they are aborted, and not recorded. */
  close(): Promise<void>;
};

/** Makes the attempts that a shared database hands out (interface section 6). */
export function createCallbackSender(options: AttemptOptions): CallbackSender {
  const stop = new AbortController();
  // Every attempt listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const attempts = new Map<Promise<unknown>, string>();
  return {
    async deliver(delivery) {
      const host = hostOf(delivery.url);
      const busy = [...attempts.values()].filter((other) => other === host).length;
      if (stop.signal.aborted || busy >= maxPerHost) return false;
      const attempt = makeAttempt(delivery, options, stop.signal);
      attempts.set(attempt, host);
      await attempt;
      attempts.delete(attempt);
      return !stop.signal.aborted;
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      await Promise.all(attempts.keys());
    },
  };
}
