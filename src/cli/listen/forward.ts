import { describeFailure } from "../../client/http/reply.ts";
import type { Io } from "../../io.ts";
import type { Callback } from "../../protocol/callback.ts";

/** The answer to a callback; `reason` if the application gave no usable one. */
export type ForwardAnswer = { httpStatus: number; reason?: string };

/** Less than the 15 s after which the local service gives up an attempt. */
const timeoutMs = 12_000;
/** The number of callbacks that are remembered to recognize duplicates. */
const maxRemembered = 10_000;

/**
 * Forwards each callback once, by its webhook-id; a duplicate gets the answer to the first one. If the
 * application did not accept a callback, a retry is forwarded again. Without a `url` every callback is
 * accepted. The returned function never rejects.
 */
export function createForwarder(url: string | undefined, io: Pick<Io, "fetch" | "limit" | "signal">) {
  const answers = new Map<string, Promise<ForwardAnswer>>();
  return async (callback: Callback): Promise<ForwardAnswer & { isDuplicate: boolean }> => {
    const { webhookId } = callback;
    const first = webhookId === undefined ? undefined : answers.get(webhookId);
    if (first) return { ...(await first), isDuplicate: true };
    const sending = url === undefined ? Promise.resolve({ httpStatus: 200 }) : send(callback, url, io);
    if (webhookId !== undefined) answers.set(webhookId, sending);
    const [oldest] = answers.keys();
    if (oldest !== undefined && answers.size > maxRemembered) answers.delete(oldest);
    const answer = await sending;
    if (webhookId !== undefined && !isAccepted(answer)) answers.delete(webhookId);
    return { ...answer, isDuplicate: false };
  };
}

function isAccepted({ httpStatus }: ForwardAnswer): boolean {
  return httpStatus >= 200 && httpStatus < 300;
}

/** Resolves with the application's own status, or 502 if it cannot be reached or does not answer in time. */
async function send(
  { headers, body }: Callback,
  url: string,
  io: Pick<Io, "fetch" | "limit" | "signal">,
): Promise<ForwardAnswer> {
  const limit = io.limit(timeoutMs, io.signal, new Error(`no response within ${timeoutMs / 1_000} s`));
  const answered = new AbortController();
  const signal = AbortSignal.any([limit.signal, answered.signal]);
  try {
    return { httpStatus: (await io.fetch(url, { method: "POST", headers, body, signal })).status };
  } catch (error) {
    return { httpStatus: 502, reason: describeFailure(error) };
  } finally {
    limit.clear();
    // Ends the connection, because nobody reads the body of the reply.
    answered.abort();
  }
}
