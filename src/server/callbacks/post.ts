import type { Clock } from "../../io.ts";
import type { Delivery } from "../store/store.ts";
import { plain } from "./delivery.ts";
import type { Signer } from "./signature.ts";

/**
 * POSTs a callback and follows no redirect. Rejects when there was no reply; the error has `isForbidden: true` when the address may not be
 * connected to.
 */
export type Post = (
  url: string,
  request: { headers: Record<string, string>; body: string; signal: AbortSignal },
) => Promise<{ status: number; headers: Headers | Record<string, string> }>;

export type PostOptions = { post: Post; sign: Signer; clock: Pick<Clock, "limit" | "date"> };

/** How one attempt ended, in words and for what comes next; `isFinal` when another one would be of no use. */
export type Result = { outcome: string; isDelivered: boolean; isFinal: boolean; retryAfter: string | null };

const answerLimitMs = 15_000;
const longestOutcome = 200;

/** Sends a delivery once: a 2xx within 15 s delivers it, 410 says that it is not wanted. Rejects only when `stop` aborts. */
export async function postOnce(delivery: Delivery, options: PostOptions, stop: AbortSignal): Promise<Result> {
  const { post, sign, clock } = options;
  const limit = clock.limit(answerLimitMs, stop, new Error("no answer within 15 s"));
  const { url, body } = delivery;
  const headers = { "Content-Type": "application/json", ...sign(delivery, clock.date()) };
  try {
    const reply = post(url, { headers, body, signal: limit.signal });
    // Told to stop, it may still hang.
    return resultOf(await Promise.race([reply, whenAborted(limit.signal)]));
  } catch (error) {
    stop.throwIfAborted();
    const outcome = reasonOf(error, url);
    return { outcome, isDelivered: false, isFinal: isForbidden(error), retryAfter: null };
  } finally {
    limit.clear();
  }
}

function resultOf({ status, headers }: Awaited<ReturnType<Post>>): Result {
  const isDelivered = status >= 200 && status < 300;
  const retryAfter = new Headers(headers).get("Retry-After");
  return { outcome: `HTTP ${status}`, isDelivered, isFinal: isDelivered || status === 410, retryAfter };
}

function isForbidden(error: unknown): boolean {
  return error instanceof Error && "isForbidden" in error && error.isForbidden === true;
}

/** Whatever was thrown in words, without the query of the address: it may hold secrets. */
function reasonOf(error: unknown, url: string): string {
  const reason = error instanceof Error ? error.message : error;
  if (typeof reason !== "string" || reason === "") return "no answer";
  const { search } = URL.canParse(url) ? new URL(url) : { search: "" };
  return plain(search === "" ? reason : reason.replaceAll(search, ""))
    .trim()
    .slice(0, longestOutcome);
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
