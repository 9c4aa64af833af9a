import { setMaxListeners } from "node:events";
import type { Clock } from "../../io.ts";
import type { Backlog, Delivery } from "../store/store.ts";
import { type AttemptOptions, makeAttempt } from "./attempt.ts";

export type CallbackScheduler = {
  /** Reads the pending deliveries of the store and begins to send. */
  start(): void;
  /** Schedules a delivery that was added to the store, or whose time was changed there. One that is being sent now stays as it is. */
  add(delivery: Delivery): void;
  /** Resolves when every delivery that is due now was attempted; a retry that is due later does not count. */
  settled(): Promise<void>;
  /** Stops. Running attempts are aborted and not recorded: the next process makes them again. */
  close(): Promise<void>;
};

export type CallbackOptions = AttemptOptions & {
  store: Pick<Backlog, "pendingDeliveries">;
  clock: Pick<Clock, "sleep">;
};

const maxConcurrent = 32;
/** Leaves room for other receivers when one does not answer. */
export const maxPerHost = 4;
const storeRetryMs = 10_000;
/** The scheduler reads the time of day at least this often, because it jumps when it is set or a laptop wakes up. */
const maxSleepMs = 60_000;

type Waiting = { delivery: Delivery; host: string };

/**
 * Delivers the result callbacks (interface section 6), each at least once, signed as Standard Webhooks specifies. The store is read once,
 * at the start; later deliveries are added by `add`.
 */
export function createCallbackScheduler(options: CallbackOptions): CallbackScheduler {
  const { store, clock } = options;
  /** Sorted by the time when the next attempt is due. */
  const waiting: Waiting[] = [];
  const attempts = new Set<Promise<void>>();
  /** The ids of the deliveries that these attempts send. */
  const sending = new Set<string>();
  const attemptsByHost = new Map<string, number>();
  const stop = new AbortController();
  // Every attempt listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  let wakeUp = new AbortController();
  let running: Promise<void> | undefined;
  let whenSettled: (() => void)[] = [];

  async function run(): Promise<void> {
    let isStoreRead = false;
    for (;;) {
      isStoreRead ||= await readStore();
      if (stop.signal.aborted) break;
      wakeUp = new AbortController();
      const waitMs = isStoreRead ? sendDue() : storeRetryMs;
      if (attempts.size === 0) settle();
      await clock.sleep(Math.min(waitMs, maxSleepMs), wakeUp.signal).catch(() => {});
    }
    await Promise.all(attempts);
    settle();
  }

  /** Returns false when the store cannot be read. Nothing is sent before, so that no delivery is sent twice. */
  async function readStore(): Promise<boolean> {
    const pending = await store.pendingDeliveries().catch(() => undefined);
    const known = new Set(waiting.map(({ delivery }) => delivery.id));
    for (const delivery of pending ?? []) if (!known.has(delivery.id)) enqueue(delivery);
    return pending !== undefined;
  }

  /** Starts the attempts that are due, as long as there is room, and returns the milliseconds until the next one is due. */
  function sendDue(): number {
    while (attempts.size < maxConcurrent) {
      const next = waiting.findIndex(({ host }) => (attemptsByHost.get(host) ?? 0) < maxPerHost);
      const found = waiting[next];
      if (!found) break;
      const waitMs = Date.parse(found.delivery.next_at) - clock.date().getTime();
      if (waitMs > 0) return waitMs;
      waiting.splice(next, 1);
      const attempt = send(found).finally(() => {
        attempts.delete(attempt);
        wakeUp.abort();
      });
      attempts.add(attempt);
    }
    return Number.POSITIVE_INFINITY;
  }

  async function send({ delivery, host }: Waiting): Promise<void> {
    attemptsByHost.set(host, (attemptsByHost.get(host) ?? 0) + 1);
    sending.add(delivery.id);
    const next = await makeAttempt(delivery, options, stop.signal);
    sending.delete(delivery.id);
    const remaining = (attemptsByHost.get(host) ?? 1) - 1;
    if (remaining > 0) attemptsByHost.set(host, remaining);
    else attemptsByHost.delete(host);
    if (next) enqueue(next);
  }

  function enqueue(delivery: Delivery): void {
    const before = waiting.findLastIndex((other) => other.delivery.next_at <= delivery.next_at);
    waiting.splice(before + 1, 0, { delivery, host: hostOf(delivery.url) });
  }

  function settle(): void {
    for (const resolve of whenSettled) resolve();
    whenSettled = [];
  }

  return {
    start() {
      running ??= run();
    },
    add(delivery) {
      if (sending.has(delivery.id)) return;
      const known = waiting.findIndex((other) => other.delivery.id === delivery.id);
      if (known >= 0) waiting.splice(known, 1);
      enqueue(delivery);
      wakeUp.abort();
    },
    async settled() {
      if (!running || stop.signal.aborted) return running;
      wakeUp.abort();
      await new Promise<void>((resolve) => whenSettled.push(resolve));
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      wakeUp.abort();
      await running;
    },
  };
}

export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
