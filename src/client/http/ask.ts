import { systemCode } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import { isTransient, retryAfterMs } from "../../protocol/status.ts";
import { describeFailure, describeReply, type Reply } from "./reply.ts";
import { freeRetryMs, isFinalConnectFailure, type RetryIo } from "./retry.ts";

/** Why there is no usable answer. A retry is free and may help, but hardly when `isFinal`. `cause` is what was thrown. */
export type Trouble = {
  kind: "trouble";
  reason: string;
  isFinal?: boolean;
  reply?: Reply;
  retryAfterMs?: number | undefined;
  cause?: unknown;
};

export type Asked = { kind: "reply"; reply: Reply; cause?: undefined } | Trouble;

type Send = (signal: AbortSignal) => Promise<Reply>;

/** For how long to try again by default, in milliseconds. */
const usualPatienceMs = 30_000;
const replyLimitMs = 60_000;

/** The problem with a reply that does not answer the question, such as that of a gateway. */
export function troubleOf(reply: Reply, { date }: Pick<Clock, "date">): Trouble {
  return { kind: "trouble", reason: describeReply(reply), reply, retryAfterMs: retryAfterMs(reply.retryAfter, date()) };
}

/** Sends a request once, with a time limit. Rejects with the signal's reason alone. */
export async function askOnce(
  send: Send,
  { baseUrl, signal, limitMs }: { baseUrl: string; signal: AbortSignal; limitMs: number },
  clock: Clock,
): Promise<Asked> {
  const limit = clock.limit(limitMs, signal, new Error(`no response within ${limitMs / 1000} s`));
  try {
    const reply = await send(limit.signal);
    return isTransient(reply.status) ? troubleOf(reply, clock) : { kind: "reply", reply };
  } catch (cause) {
    signal.throwIfAborted();
    const isFinal = isFinalConnectFailure(systemCode(cause), baseUrl);
    return { kind: "trouble", reason: describeFailure(cause), isFinal, cause };
  } finally {
    limit.clear();
  }
}

type Patience = { signal: AbortSignal; patienceMs?: number | undefined; onNote?(text: string): void };

/** Retries while there is trouble, until the patience is over, and reports each retry. Rejects as `ask` does, or with the signal's reason. */
export async function askAgain<Answer extends { kind: "reply" | "generation" | "refused" }>(
  ask: () => Promise<Answer | Trouble>,
  { signal, patienceMs = usualPatienceMs, onNote }: Patience,
  clock: RetryIo,
): Promise<Answer | Trouble> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const asked = await ask();
    if (asked.kind !== "trouble") return asked;
    const waitMs = freeRetryMs(failures, clock.random(), asked.retryAfterMs);
    if (asked.isFinal || clock.now() + waitMs > end) return asked;
    onNote?.(`No usable response (${asked.reason}); retrying in ${Math.ceil(waitMs / 1000)} s.`);
    await clock.sleep(waitMs, signal);
  }
}

/**
 * Sends a request until there is a whole reply. Only for requests that may be sent twice, or with a patience of 0. Rejects with the signal's
 * reason alone.
 */
export function askPatiently(
  send: Send,
  options: Patience & { baseUrl: string; limitMs?: number },
  clock: RetryIo,
): Promise<Asked> {
  const ask = async (): Promise<Asked> => {
    const asked = await askOnce(send, { limitMs: replyLimitMs, ...options }, clock);
    if (asked.kind === "trouble" || asked.reply.cut === undefined) return asked;
    return { kind: "trouble", reason: describeFailure(asked.reply.cut), reply: asked.reply };
  };
  return askAgain(ask, options, clock);
}
