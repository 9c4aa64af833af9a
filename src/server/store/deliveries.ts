import type { Traced } from "../observe/trace.ts";
import type { PageOf } from "./paging.ts";

/** A callback that must still be delivered. */
export type Delivery = Traced & {
  /** The webhook-id: the same for every attempt. */
  id: string;
  /** The id of the generation that the callback is about, and its account. */
  generation: string;
  account: string;
  url: string;
  /** Stored rather than built for each attempt, so that every attempt signs the same bytes. */
  body: string;
  /** How many attempts were made so far. */
  attempts: number;
  /** When the next attempt is due (ISO 8601). */
  next_at: string;
};

/**
 * One attempt to deliver a callback: when it was signed (ISO 8601), its outcome in words, the beginning of the reply, and how many milliseconds it
 * took.
 */
export type Attempt = { at: string; outcome: string; delivered: boolean; reply: string; ms: number };

/** Returns the host of a receiver with its port; attempts are counted by host. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

/**
 * Deliveries that are due now: of each host in `hosts` up to `room`, and of any other up to `perHost`. Of four attempts one is a retry, if both
 * retries and first attempts are due: `beforeRetry` first attempts go before the next retry, or none.
 */
export type DueQuery = {
  /** The time by this process's clock (ISO 8601). */
  now: string;
  limit: number;
  perHost: number;
  except: readonly string[];
  hosts: Readonly<Record<string, { room: number; beforeRetry: number }>>;
};

/** A callback with all attempts so far; `next_at` is null if no attempt follows, and `prompt`, the generation's, is cut. */
export type DeliveryRecord = Omit<Delivery, "attempts" | "next_at"> & {
  attempts: Attempt[];
  next_at: string | null;
  prompt: string;
};

/** "waiting" if an attempt follows; otherwise the outcome of the last one. */
export type DeliveryState = "waiting" | "delivered" | "given_up";

/** Selects callbacks by account, and by host (with its port). */
export type DeliveryFilter = { account?: string | undefined; host?: string | undefined };

/** `generations` limits the callbacks to those of these generations; `before` is a webhook-id. */
export type DeliveryQuery = PageOf<string> &
  DeliveryFilter & { state?: DeliveryState | undefined; generations?: readonly string[] | undefined };

/** How many callbacks there are in each state, and the hosts that an account has used, in alphabetical order; at most a hundred. */
export type DeliveryTotals = { counts: Partial<Record<DeliveryState, number>>; hosts: string[] };

/** The callbacks, and the attempts to deliver them. See `Store` for when methods resolve and reject. */
export type Deliveries = {
  /** Records an attempt, and when the next one is due; `null` when the callback was delivered or given up. */
  recordAttempt(deliveryId: string, attempt: Attempt, next_at: string | null): Promise<void>;
  /** Makes a generation's callback due at a time (ISO 8601), also when it was delivered or given up; `undefined` when it has none. */
  resend(generation: string, at: string): Promise<Delivery | undefined>;
  /** Makes all callbacks that were given up due at a time (ISO 8601). Resolves with their number. */
  resendGivenUp(filter: DeliveryFilter, at: string): Promise<number>;
  /**
   * The deliveries to attempt now, longest due first, and in how many milliseconds the next one is due. If processes share the database, no other one
   * gets them for the time of an attempt.
   */
  due(query: DueQuery): Promise<{ deliveries: Delivery[]; nextMs: number }>;
  /** How many callbacks must still be delivered, now or later. */
  pendingCallbacks(): Promise<number>;
  deliveries(query: DeliveryQuery): Promise<DeliveryRecord[]>;
  /** The counts are for the filter, the hosts for its account. */
  deliveryTotals(filter: DeliveryFilter): Promise<DeliveryTotals>;
};
