import type { Clock } from "../../io.ts";
import { stripControls } from "../observe/log.ts";
import type { ReportProblem } from "../observe/problem.ts";
import { traceHeaders } from "../observe/trace.ts";
import type { Post } from "../outbound/outbound.ts";
import { retryForever } from "../retry-forever.ts";
import type { Delivery } from "../store/deliveries.ts";
import type { Store } from "../store/store.ts";
import type { DeliveryEvent } from "./delivery.ts";
import type { Signer } from "./signature.ts";

export type AttemptOptions = {
  post: Post;
  sign: Signer;
  store: Pick<Store, "recordAttempt">;
  clock: Pick<Clock, "limit" | "date" | "now" | "sleep">;
  /** Aborts when the service stops. */
  signal: AbortSignal;
  reportProblem: ReportProblem;
  /** At least 0 and less than 1. */
  random(): number;
  /** Called after each attempt was recorded. */
  onDelivery(event: DeliveryEvent): void;
};

/**
 * Sends a delivery once, then records the outcome and the time of the next attempt. Retries the write until the store accepts it, because the
 * callback would be sent twice without the record. Resolves with the milliseconds until the reply; `undefined` if the signal aborts the attempt,
 * which is then not recorded. Never rejects.
 */
export async function makeAttempt(delivery: Delivery, options: AttemptOptions): Promise<number | undefined> {
  const { clock, store, onDelivery } = options;
  const signedAt = clock.date();
  const startedMs = clock.now();
  const result = await postCallback(delivery, options, signedAt).catch(() => undefined);
  if (!result) return undefined;
  const { outcome, reply, isDelivered, isForbidden = false, isFinal, retryAfter } = result;
  const attempts = delivery.attempts + 1;
  const date = clock.date();
  const nextMs = isFinal ? null : nextDelayMs({ attempts, retryAfter, date, random: options.random() });
  const next_at = nextMs === null ? null : new Date(date.getTime() + nextMs).toISOString();
  const ms = Math.round(clock.now() - startedMs);
  const attempt = { at: signedAt.toISOString(), outcome, delivered: isDelivered, reply, ms };
  const record = () => store.recordAttempt(delivery.id, attempt, next_at);
  // The first write is tried even while the service stops, because the receiver has already replied.
  await record().catch(() => retryForever(record, options).catch(() => {}));
  const { generation, account, url, traceparent } = delivery;
  onDelivery({ generation, account, traceparent, url, attempt: attempts, isDelivered, isForbidden, nextMs, outcome });
  return ms;
}

type AttemptResult = {
  /** In words, such as "HTTP 204". */
  outcome: string;
  /** The text of the receiver's reply. */
  reply: string;
  isDelivered: boolean;
  isForbidden?: boolean;
  /** Whether there is no retry. */
  isFinal: boolean;
  retryAfter: string | undefined;
};

const replyTimeoutMs = 15_000;

/** Any 2xx within 15 s delivers the callback; 410 means that the receiver rejects it forever. Rejects only when the signal aborts. */
async function postCallback(
  delivery: Delivery,
  { post, sign, clock, signal }: AttemptOptions,
  signedAt: Date,
): Promise<AttemptResult> {
  const timeout = clock.limit(replyTimeoutMs, signal, new Error("no response within 15 s"));
  const { url, account, body } = delivery;
  const headers = { "Content-Type": "application/json", ...traceHeaders(delivery), ...sign(delivery, signedAt) };
  try {
    const { status, retryAfter, text = "" } = await post(url, { account, headers, body, signal: timeout.signal });
    const isDelivered = status >= 200 && status < 300;
    const reply = stripControls(text).trim().slice(0, maxReplyLength);
    return { outcome: `HTTP ${status}`, reply, isDelivered, isFinal: isDelivered || status === 410, retryAfter };
  } catch (error) {
    signal.throwIfAborted();
    // Also for a forbidden address, because another process may be allowed to reach it.
    const outcome = reasonOf(error, url);
    const isForbidden = "isForbidden" in Object(error);
    return { outcome, reply: "", isDelivered: false, isForbidden, isFinal: false, retryAfter: undefined };
  } finally {
    timeout.clear();
  }
}

const maxReplyLength = 500;
const maxReasonLength = 200;

/** Returns the message of an error without the query of the address, which may contain secrets. */
function reasonOf(error: unknown, url: string): string {
  const reason = error instanceof Error ? error.message : error;
  if (typeof reason !== "string" || reason === "") return "no response";
  const { search } = URL.canParse(url) ? new URL(url) : { search: "" };
  return stripControls(search === "" ? reason : reason.replaceAll(search, ""))
    .trim()
    .slice(0, maxReasonLength);
}

/** The delays after failed attempts. After one more failure the callback is given up. */
const delaysMs = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000];

/** Varies each delay by up to a fifth, so that attempts that failed together are not retried together. */
const jitter = 0.2;

const maxRetryAfterMs = 3_600_000;

export type FailedAttempt = {
  /** The number of attempts so far, including this one. */
  attempts: number;
  /** The reply's `Retry-After` header, if it had one. */
  retryAfter: string | undefined;
  date: Date;
  /** At least 0 and less than 1. */
  random: number;
};

/**
 * Returns the milliseconds until the next attempt; `null` when no attempt is left. `Retry-After` makes a delay longer, never shorter, up to an
 * hour or twice the planned delay, whichever is longer.
 */
export function nextDelayMs({ attempts, retryAfter, date, random }: FailedAttempt): number | null {
  const delayMs = delaysMs[attempts - 1];
  if (delayMs === undefined) return null;
  const plannedMs = Math.round(delayMs * (1 - jitter + 2 * jitter * random));
  const maxMs = Math.max(2 * plannedMs, maxRetryAfterMs);
  return Math.max(plannedMs, Math.min(readRetryAfterMs(retryAfter ?? "", date), maxMs));
}

const httpDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Reads a number of seconds or a date of RFC 9110; returns 0 for anything else. */
function readRetryAfterMs(retryAfter: string, date: Date): number {
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter) * 1_000;
  const at = httpDate.test(retryAfter) ? Date.parse(retryAfter) : Number.NaN;
  return Number.isNaN(at) ? 0 : at - date.getTime();
}
