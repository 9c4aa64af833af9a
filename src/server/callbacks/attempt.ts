import type { Delivery, Store } from "../store/store.ts";
import type { DeliveryEvent } from "./delivery.ts";
import { type PostOptions, postOnce, type Result } from "./post.ts";
import { nextDelayMs } from "./retries.ts";

export type AttemptOptions = PostOptions & {
  store: Pick<Store, "recordAttempt">;
  /** At least 0 and less than 1. */
  random(): number;
  /** Told of each attempt, once it is written down. */
  onDelivery(event: DeliveryEvent): void;
};

/** What is left to do for a delivery, if anything, and whether the store knows. */
export type Attempted = { next: Delivery | undefined; isWritten: boolean };

/** Sends a delivery once and writes down how it went and when it is due again. What `stop` breaks off leaves nothing behind. */
export async function makeAttempt(delivery: Delivery, options: AttemptOptions, stop: AbortSignal): Promise<Attempted> {
  const { clock, store, onDelivery } = options;
  const at = clock.date().toISOString();
  const result = await postOnce(delivery, options, stop).catch(() => undefined);
  if (!result) return { next: undefined, isWritten: false };
  const { outcome, isDelivered } = result;
  const attempts = delivery.attempts + 1;
  const nextMs = planNext(result, attempts, options);
  const next_at = nextMs === null ? null : new Date(clock.date().getTime() + nextMs).toISOString();
  const trouble = await troubleOf(store.recordAttempt(delivery.id, { at, outcome, delivered: isDelivered }, next_at));
  const { generation, url } = delivery;
  onDelivery({ ...{ generation, url, attempt: attempts, isDelivered, nextMs }, outcome: outcome + trouble });
  return { next: next_at === null ? undefined : { ...delivery, attempts, next_at }, isWritten: trouble === "" };
}

function planNext({ isFinal, retryAfter }: Result, attempts: number, options: AttemptOptions): number | null {
  if (isFinal) return null;
  return nextDelayMs({ attempts, retryAfter, date: options.clock.date(), random: options.random() });
}

/** Why something could not be written down, to put after the outcome; "" when it was. */
async function troubleOf(writing: Promise<void>): Promise<string> {
  try {
    await writing;
    return "";
  } catch (error) {
    return ` (which could not be written down: ${error instanceof Error ? error.message : error})`;
  }
}
