import { randomBytes } from "node:crypto";
import { redactUrl, stripControls } from "../observe/log.ts";
import type { Traced } from "../observe/trace.ts";
import { statusBody } from "../status-body.ts";
import type { Delivery } from "../store/deliveries.ts";
import type { StoredGeneration } from "../store/generations.ts";

/**
 * Returns the callback of a generation that has ended, due at once; `undefined` when the start request had no callback address. The body is a
 * snapshot of the status reply with `completed_at`.
 */
export function newDelivery(generation: StoredGeneration, mediaUrl: string, date: Date): Delivery | undefined {
  const { account, callback_url: url, completed_at, request } = generation;
  if (url === null) return undefined;
  const id = `msg_${randomBytes(16).toString("hex")}`;
  const body = JSON.stringify({ ...statusBody(generation, mediaUrl), completed_at });
  const { traceparent } = request;
  const delivery = { id, generation: generation.id, account, url, body, attempts: 0, next_at: date.toISOString() };
  return traceparent === undefined ? delivery : { ...delivery, traceparent };
}

/** The outcome of one attempt to deliver a callback. */
export type DeliveryEvent = Traced & {
  generation: string;
  account: string;
  url: string;
  /** Counted from 1. */
  attempt: number;
  /** In words, such as "HTTP 204". */
  outcome: string;
  isDelivered: boolean;
  /** Whether the rules of this process for addresses that others chose forbid the target. */
  isForbidden: boolean;
  /** Milliseconds until the next attempt; `null` after the last one. */
  nextMs: number | null;
};

/** Whether the callback was not delivered and is not retried. */
export function isGivenUp({ isDelivered, nextMs }: DeliveryEvent): boolean {
  return !isDelivered && nextMs === null;
}

/** Whether the owner is told without asking: the callback was given up, or a forbidden target has failed for the first time. */
export function isReported(event: DeliveryEvent): boolean {
  return isGivenUp(event) || (event.isForbidden && event.attempt === 1);
}

/** Returns one line for the service's log, without the query of the address, which may contain secrets. */
export function deliveryLine(event: DeliveryEvent): string {
  return stripControls(`callback for ${event.generation} to ${redactUrl(event.url)}: ${event.outcome}${ending(event)}`);
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
