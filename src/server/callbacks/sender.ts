import { setMaxListeners } from "node:events";
import type { Clock } from "../../io.ts";
import { createBoundedMap } from "../bounded-map.ts";
import { createLoop } from "../loop.ts";
import { isUnavailable } from "../observe/problem.ts";
import { type Delivery, hostOf } from "../store/deliveries.ts";
import type { Store } from "../store/store.ts";
import { type AttemptOptions, makeAttempt } from "./attempt.ts";

export type CallbackSender = {
  /** Starts the attempts that are due now. The first call also starts the sender. Resolves when the due deliveries were read. */
  wake(): Promise<void>;
  /** Resolves when every delivery that is due now was attempted; a retry that is due later does not count. */
  settled(): Promise<void>;
  /** Aborts the running attempts without recording them, so that the next process repeats them. */
  close(): Promise<void>;
};

export type CallbackOptions = Omit<AttemptOptions, "signal"> & {
  store: Pick<Store, "due" | "recordAttempt" | "isShared">;
  clock: Pick<Clock, "now">;
};

/** The maximum number of attempts that have waited for less than `silentMs`. */
const maxConcurrent = 1_024;
/** An attempt without a reply for this long no longer counts towards `maxConcurrent`. */
const silentMs = 1_000;
const maxSilent = 4_096;
/** How many attempts a host gets at once: as many as keep its replies below `fastMs`, but not fewer than `minPerHost`. */
const minPerHost = 12;
const maxPerHost = 100;
const fastMs = 50;
/** A host whose last attempt took this long gets one attempt at a time. */
const deadMs = 10_000;
/** Of four attempts at a host one is a retry, so that neither retries nor first attempts wait for all of the others. */
const firstPerRetry = 3;
const maxHosts = 10_000;
const storeRetryMs = 10_000;
/** The time of day jumps when it is set or a laptop wakes up, so it is read again at least once in this period while a delivery waits. */
const maxSleepMs = 60_000;
/** The period in which a process finds deliveries that another process left. */
const sharedPollMs = 1_000;
/** Every process is woken for each callback, and the pause combines several wake-ups into one query. */
const sharedPauseMs = 50;

/** Delivers the callbacks of generations, each at least once, signed as Standard Webhooks specifies. */
export function createCallbackSender(options: CallbackOptions): CallbackSender {
  const { store, clock } = options;
  const stop = new AbortController();
  // Every attempt listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const sending = new Map<string, { host: string; since: number; attempt: Promise<void> }>();
  /** How many attempts a host gets at once, where that is not `minPerHost`. */
  const limits = createBoundedMap<number>(maxHosts);
  /** How many first attempts go before a host's next retry, where that is not 0. */
  const turns = createBoundedMap<number>(maxHosts);

  const adaptLimit = (host: string, ms: number) => {
    // Grows slowly, because the replies that show that it is too high come late.
    const limit = Math.max(minPerHost, limits.get(host) ?? minPerHost) + (ms < fastMs ? 0.1 : -1);
    if (ms >= deadMs) limits.set(host, 1);
    else if (limit <= minPerHost) limits.delete(host);
    else limits.set(host, Math.min(limit, maxPerHost));
  };
  const countTurns = (deliveries: readonly Delivery[]) => {
    const changes = new Map<string, number>();
    for (const { url, attempts } of deliveries)
      changes.set(hostOf(url), (changes.get(hostOf(url)) ?? 0) + (attempts > 0 ? firstPerRetry : -1));
    for (const [host, change] of changes) {
      const turn = (turns.get(host) ?? 0) + change;
      if (turn <= 0) turns.delete(host);
      else turns.set(host, Math.min(turn, firstPerRetry));
    }
  };
  /** What the query has to know of hosts other than the defaults. */
  const findHosts = () => {
    const busy = new Map<string, number>();
    for (const { host } of sending.values()) busy.set(host, (busy.get(host) ?? 0) + 1);
    const turnOf = (host: string) => ({
      room: Math.floor(limits.get(host) ?? minPerHost) - (busy.get(host) ?? 0),
      beforeRetry: turns.get(host) ?? 0,
    });
    return Object.fromEntries([...limits.keys(), ...turns.keys(), ...busy.keys()].map((host) => [host, turnOf(host)]));
  };
  const startAttempt = (delivery: Delivery) => {
    const [host, since] = [hostOf(delivery.url), clock.now()];
    const attempt = makeAttempt(delivery, { ...options, signal: stop.signal }).then((ms) => {
      sending.delete(delivery.id);
      if (ms !== undefined) adaptLimit(host, ms);
      void loop.wake();
    });
    sending.set(delivery.id, { host, since, attempt });
  };
  /** Returns the milliseconds until the next call. */
  const sendDue = async (): Promise<number> => {
    const recentAttempts = [...sending.values()].filter(({ since }) => clock.now() - since < silentMs);
    const limit = Math.min(maxConcurrent - recentAttempts.length, maxConcurrent + maxSilent - sending.size);
    if (limit <= 0) return silentMs;
    const now = clock.date().toISOString();
    const query = { now, limit, perHost: minPerHost, except: [...sending.keys()], hosts: findHosts() };
    const due = await store.due(query).catch((error) => {
      // The store itself reports when its database cannot be reached.
      if (!isUnavailable(error)) options.reportProblem("The due callbacks could not be read", error);
      return { deliveries: [], nextMs: storeRetryMs };
    });
    if (stop.signal.aborted) return Number.POSITIVE_INFINITY;
    countTurns(due.deliveries);
    for (const delivery of due.deliveries) startAttempt(delivery);
    if (due.deliveries.length === limit) return silentMs;
    if (store.isShared) return Math.min(due.nextMs, sharedPollMs);
    return due.nextMs === Number.POSITIVE_INFINITY ? due.nextMs : Math.min(due.nextMs, maxSleepMs);
  };
  const loop = createLoop(sendDue, { clock, pauseMs: store.isShared ? sharedPauseMs : 0 });
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
