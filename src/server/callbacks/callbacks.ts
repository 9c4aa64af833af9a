import { setMaxListeners } from "node:events";
import type { Clock } from "../../io.ts";
import type { Delivery, Store } from "../store/store.ts";
import { type AttemptOptions, makeAttempt } from "./attempt.ts";
import { createBacklog } from "./backlog.ts";
import { createBell } from "./bell.ts";
import { createIntake } from "./intake.ts";
import { createSigner } from "./signature.ts";

export type Callbacks = {
  /** Goes on with what the store holds. */
  start(): void;
  /** Looks into the store: a generation that has ended may have left a delivery there. */
  wake(): void;
  /** Resolves when all that the store holds by now has had its attempt, but for what waits for a later one. */
  settled(): Promise<void>;
  /** Stops. An attempt under way is broken off, and made again by whoever owns the store next. */
  close(): Promise<void>;
};

export type CallbackOptions = Omit<AttemptOptions, "sign"> & {
  store: Pick<Store, "pendingDeliveries">;
  /** `whsec_` and base64: see `createSecret`. */
  secret: string;
  clock: Pick<Clock, "sleep">;
};

/** After how long a store that could not be read is read again. */
const readAgainMs = 10_000;

/**
 * Delivers the result callbacks (interface section 6), each at least once: what the interface leaves open is as Standard Webhooks has it.
 * Throws when the secret is none.
 */
export function createCallbacks(options: CallbackOptions): Callbacks {
  const { store, clock } = options;
  const attemptOptions = { ...options, sign: createSigner(options.secret) };
  const backlog = createBacklog();
  const intake = createIntake(store, backlog);
  const bell = createBell(clock);
  const stop = new AbortController();
  // Node takes more than ten for a leak and says so on stderr; here each attempt under way listens.
  setMaxListeners(0, stop.signal);
  const whenSettled: (() => void)[] = [];
  let running: Promise<void> | undefined;

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      const isRead = await intake.read();
      for (let next = take(); next; next = take()) void deliver(next);
      if (backlog.underWay() === 0 && !intake.isAsked()) settle();
      const waitMs = backlog.nextAt() - clock.date().getTime();
      await bell.wait(isRead ? waitMs : Math.min(waitMs, readAgainMs));
      if (!isRead) intake.ask();
    }
    while (backlog.underWay() > 0) await bell.wait(Number.POSITIVE_INFINITY);
    settle();
  }

  const take = () => (stop.signal.aborted ? undefined : backlog.take(clock.date()));

  async function deliver(delivery: Delivery): Promise<void> {
    const { next, isWritten } = await makeAttempt(delivery, attemptOptions, stop.signal);
    backlog.release(delivery);
    if (next) backlog.add(next);
    // One that is over but could not be written down is still in the store: it waits for the next owner.
    else if (isWritten) intake.forget(delivery.id);
    bell.ring();
  }

  function settle(): void {
    for (const resolve of whenSettled.splice(0)) resolve();
  }

  function wake(): void {
    intake.ask();
    bell.ring();
  }

  return {
    start() {
      running ??= run();
    },
    wake,
    async settled() {
      if (!running || stop.signal.aborted) return running;
      wake();
      await new Promise<void>((resolve) => whenSettled.push(resolve));
    },
    async close() {
      stop.abort(new Error("the service is stopping"));
      bell.ring();
      await running;
    },
  };
}
