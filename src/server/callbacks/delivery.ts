import { randomBytes } from "node:crypto";
import { type NewDelivery, type StoredGeneration, statusBody } from "../store/store.ts";

/**
 * The result callback of a generation that has ended (interface section 6), due at once; `undefined` when none was asked for. The body is a
 * snapshot: the status reply and `completed_at`, and `error` where the generation failed.
 */
export function newDelivery(generation: StoredGeneration, mediaUrl: string, date: Date): NewDelivery | undefined {
  const { callback_url: url, completed_at } = generation;
  if (url === null) return undefined;
  const body = JSON.stringify({ ...statusBody(generation, mediaUrl), completed_at });
  return { id: `msg_${randomBytes(16).toString("hex")}`, url, body, next_at: date.toISOString() };
}

/** What became of one attempt to deliver a callback. */
export type DeliveryEvent = {
  generation: string;
  url: string;
  /** Counted from 1. */
  attempt: number;
  /** In words, such as "HTTP 204". */
  outcome: string;
  isDelivered: boolean;
  /** Milliseconds until the next attempt; `null` when there is none to come. */
  nextMs: number | null;
};

/** Whether a callback will not be delivered any more. */
export function isGivenUp({ isDelivered, nextMs }: DeliveryEvent): boolean {
  return !isDelivered && nextMs === null;
}

/** One line for the service's log. Of the address it has no query, which may hold secrets. */
export function deliveryLine(event: DeliveryEvent): string {
  return plain(`callback for ${event.generation} to ${addressOf(event.url)}: ${event.outcome}${ending(event)}`);
}

function ending({ isDelivered, attempt, nextMs }: DeliveryEvent): string {
  if (isDelivered) return attempt === 1 ? "" : ` at attempt ${attempt}`;
  if (nextMs === null) return `, given up after ${attempt} ${attempt === 1 ? "attempt" : "attempts"}`;
  return `, attempt ${attempt}, next in ${duration(nextMs)}`;
}

function duration(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

/** An address without its query, its fragment and whoever is named in it. */
function addressOf(url: string): string {
  if (!URL.canParse(url)) return "an address that cannot be read";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** A text without what could move the cursor of a terminal, or turn its direction. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
}
