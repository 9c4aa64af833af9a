import { setMaxListeners } from "node:events";
import type { Clock } from "../../io.ts";
import { createLoop } from "../loop.ts";
import { isUnavailable } from "../observe/trouble.ts";
import { type Delivery, hostOf } from "../store/deliveries.ts";
import type { Store } from "../store/store.ts";
import { type AttemptOptions, makeAttempt } from "./attempt.ts";

export type CallbackSender = {
  /** Looks now for what is due; the first call begins. Resolves when it has looked. */
  wake(): Promise<void>;
  /** Resolves when every delivery that is due now was attempted; a retry that is due later does not count. */
  settled(): Promise<void>;
  /** Stops. Running attempts are aborted and not recorded: the next process makes them again. */
  close(): Promise<void>;
};

export type CallbackOptions = Omit<AttemptOptions, "signal"> & {
  store: Pick<Store, "due" | "recordAttempt" | "isShared">;
  clock: Pick<Clock, "now">;
};

/** So many attempts are under way to receivers that may answer at any moment. */
const maxConcurrent = 1_024;
/** From then on an attempt counts as silent, and leaves its place to another receiver's. */
const silentMs = 1_000;
const maxSilent = 4_096;
/** Leaves room for other receivers when one does not answer. */
const maxPerHost = 4;
/** A receiver whose last attempt took as long gets one at a time. */
const deadMs = 10_000;
const maxDead = 10_000;
const storeRetryMs = 10_000;
/** The time of day jumps when it is set or a laptop wakes up, so it is read at least this often while a delivery waits. */
const maxSleepMs = 60_000;
/** What another process has left is found so soon. */
const sharedPollMs = 1_000;
/** All processes hear of each callback. */
const sharedPauseMs = 50;

/** Delivers the result callbacks (interface section 6), each at least once, signed as Standard Webhooks specifies. */
export function createCallbackSender(options: CallbackOptions): CallbackSender {
  const { store, clock } = options;
  const stop = new AbortController();
  // Every attempt listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const sending = new Map<string, { host: string; since: number; attempt: Promise<void> }>();
  const dead = new Set<string>();

  const startAttempt = (delivery: Delivery) => {
    const [host, since] = [hostOf(delivery.url), clock.now()];
    const attempt = makeAttempt(delivery, { ...options, signal: stop.signal }).finally(() => {
      sending.delete(delivery.id);
      dead.delete(host);
      if (clock.now() - since >= deadMs && dead.size < maxDead) dead.add(host);
      void loop.wake();
    });
    sending.set(delivery.id, { host, since, attempt });
  };
  const look = async (): Promise<number> => {
    const quick = [...sending.values()].filter(({ since }) => clock.now() - since < silentMs);
    const limit = Math.min(maxConcurrent - quick.length, maxConcurrent + maxSilent - sending.size);
    if (limit <= 0) return silentMs;
    const busy: Record<string, number> = {};
    for (const host of dead) busy[host] = maxPerHost - 1;
    for (const { host } of sending.values()) busy[host] = (busy[host] ?? 0) + 1;
    const now = clock.date().toISOString();
    const query = { now, limit, perHost: maxPerHost, except: [...sending.keys()], busy };
    const found = await store.due(query).catch((error) => {
      // A database on another machine tells of its outage itself.
      if (!isUnavailable(error)) options.onTrouble("The due callbacks could not be read", error);
      return { deliveries: [], nextMs: storeRetryMs };
    });
    if (stop.signal.aborted) return Number.POSITIVE_INFINITY;
    for (const delivery of found.deliveries) startAttempt(delivery);
    if (found.deliveries.length === limit) return silentMs;
    if (store.isShared) return Math.min(found.nextMs, sharedPollMs);
    return found.nextMs === Number.POSITIVE_INFINITY ? found.nextMs : Math.min(found.nextMs, maxSleepMs);
  };
  const loop = createLoop(look, { clock, pauseMs: store.isShared ? sharedPauseMs : 0 });
  return {
    wake: loop.wake,
    async settled() {
      await loop.wake();
      while (sending.size > 0 && !stop.signal.aborted) {
        await Promise.all([...sending.values()].map(({ attempt }) => attempt));
        await loop.wake();
      }
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      await loop.close();
      await Promise.all([...sending.values()].map(({ attempt }) => attempt));
    },
  };
}
