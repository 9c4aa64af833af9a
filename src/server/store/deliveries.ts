import type { Traced } from "../observe/trace.ts";
import type { PageOf } from "./paging.ts";

/** A callback that is still to be delivered. */
export type Delivery = Traced & {
  /** The webhook-id: the same for every attempt. */
  id: string;
  /** The id of the generation that the callback is about, and whose it is. */
  generation: string;
  account: string;
  url: string;
  /** Stored, not built again for each attempt, so that every attempt signs the same bytes. */
  body: string;
  /** How many attempts were made so far. */
  attempts: number;
  /** When the next attempt is due (ISO 8601). */
  next_at: string;
};

/**
 * One attempt to deliver a callback: when it was signed (ISO 8601), its outcome in words, how the text of the reply begins, and after how many
 * milliseconds the outcome was there.
 */
export type Attempt = { at: string; outcome: string; delivered: boolean; reply: string; ms: number };

/** The host of a receiver with its port, by which attempts are counted. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

/** Deliveries that are due now; `busy` are those that this process attempts, by the host of their receivers. */
export type DueQuery = {
  /** The time by this process's clock (ISO 8601). */
  now: string;
  limit: number;
  perHost: number;
  except: readonly string[];
  busy: Readonly<Record<string, number>>;
};

/** A callback with all attempts so far; `next_at` is null when no attempt is to come, and `prompt`, the generation's, is cut. */
export type DeliveryRecord = Omit<Delivery, "attempts" | "next_at"> & {
  attempts: Attempt[];
  next_at: string | null;
  prompt: string;
};

/** "waiting" while an attempt is to come; otherwise what the last one came to. */
export type DeliveryState = "waiting" | "delivered" | "given_up";

/** The callbacks of an account, and those to a host (with its port); of all without these. */
export type DeliveryFilter = { account?: string | undefined; host?: string | undefined };

/** `generations` are the only ones whose callbacks are wanted; `before` is a webhook-id. */
export type DeliveryQuery = PageOf<string> &
  DeliveryFilter & { state?: DeliveryState | undefined; generations?: readonly string[] | undefined };

/** How many callbacks there are in each state, and the hosts that an account has used, in alphabetical order; at most a hundred. */
export type DeliveryTotals = { counts: Partial<Record<DeliveryState, number>>; hosts: string[] };

/** The callbacks, and the attempts to deliver them. When a method resolves and rejects, `Store` says. */
export type Deliveries = {
  /** Records an attempt, and when the next one is due; `null` when the callback was delivered or given up. */
  recordAttempt(deliveryId: string, attempt: Attempt, next_at: string | null): Promise<void>;
  /** Makes a generation's callback due at a time (ISO 8601), also when it was delivered or given up; `undefined` when it has none. */
  resend(generation: string, at: string): Promise<Delivery | undefined>;
  /** Makes all callbacks due at a time (ISO 8601) that were given up. Resolves with how many there were. */
  resendGivenUp(filter: DeliveryFilter, at: string): Promise<number>;
  /**
   * The deliveries to attempt now, those first that have been due for longest, and in how many milliseconds the next one is due. Where processes
   * share the database, no other one gets them for the time of an attempt.
   */
  due(query: DueQuery): Promise<{ deliveries: Delivery[]; nextMs: number }>;
  /** How many callbacks are to be delivered, now or later. */
  pendingCallbacks(): Promise<number>;
  deliveries(query: DeliveryQuery): Promise<DeliveryRecord[]>;
  /** The counts are of the filter, the hosts of all its account has sent. */
  deliveryTotals(filter: DeliveryFilter): Promise<DeliveryTotals>;
};
