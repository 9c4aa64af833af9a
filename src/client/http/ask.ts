import { systemCode } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import { isTransient, retryAfterMs } from "../../protocol/status.ts";
import { describeFailure, describeReply, type Reply } from "./reply.ts";
import { freeRetryMs, isFinalConnectFailure, type RetryIo } from "./retry.ts";

/** Why there is no usable answer. A retry is free and may help, unless `isFinal` is set. `cause` is the thrown error. */
export type NoAnswer = {
  kind: "no answer";
  reason: string;
  isFinal?: boolean;
  reply?: Reply;
  retryAfterMs?: number | undefined;
  cause?: unknown;
};

export type Answer = { kind: "reply"; reply: Reply; cause?: undefined } | NoAnswer;

/** A short description of an answer: of its reply if there is one, else why there is none. */
export function describeAnswer(answer: Answer): string {
  return answer.kind === "reply" ? describeReply(answer.reply) : answer.reason;
}

type SendRequest = (signal: AbortSignal) => Promise<Reply>;

/** How long to retry by default, in milliseconds. */
const defaultPatienceMs = 30_000;
const replyLimitMs = 60_000;

/** Turns a reply that does not answer the request, such as that of a gateway, into a `NoAnswer`. */
export function asNoAnswer(reply: Reply, { date }: Pick<Clock, "date">): NoAnswer {
  return {
    kind: "no answer",
    reason: describeReply(reply),
    reply,
    retryAfterMs: retryAfterMs(reply.retryAfter, date()),
  };
}

/** Sends a request once, with a time limit. Rejects only with the signal's reason. */
export async function askOnce(
  send: SendRequest,
  { baseUrl, signal, limitMs }: { baseUrl: string; signal: AbortSignal; limitMs: number },
  clock: Clock,
): Promise<Answer> {
  const limit = clock.limit(limitMs, signal, new Error(`no response within ${limitMs / 1000} s`));
  try {
    const reply = await send(limit.signal);
    return isTransient(reply.status) ? asNoAnswer(reply, clock) : { kind: "reply", reply };
  } catch (cause) {
    signal.throwIfAborted();
    const isFinal = isFinalConnectFailure(systemCode(cause), baseUrl);
    return { kind: "no answer", reason: describeFailure(cause), isFinal, cause };
  } finally {
    limit.clear();
  }
}

type RetryOptions = { signal: AbortSignal; patienceMs?: number | undefined; onNote?(text: string): void };

/**
 * Calls `ask` until it returns an answer, for at most `patienceMs`, and notes each retry. An answer is a
 * reply, or what a caller has read from one. Rejects as `ask` does, or with the signal's reason.
 */
export async function retryUntilAnswered<Usable extends { kind: "reply" | "generation" | "refused" }>(
  ask: () => Promise<Usable | NoAnswer>,
  { signal, patienceMs = defaultPatienceMs, onNote }: RetryOptions,
  clock: RetryIo,
): Promise<Usable | NoAnswer> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const answer = await ask();
    if (answer.kind !== "no answer") return answer;
    const waitMs = freeRetryMs(failures, clock.random(), answer.retryAfterMs);
    if (answer.isFinal || clock.now() + waitMs > end) return answer;
    onNote?.(`No usable response (${answer.reason}); retrying in ${Math.ceil(waitMs / 1000)} s.`);
    await clock.sleep(waitMs, signal);
  }
}

/**
 * Sends a request until there is a complete reply. Only for requests that may be sent twice, or with a
 * patience of 0. Rejects only with the signal's reason.
 */
export function askPatiently(
  send: SendRequest,
  options: RetryOptions & { baseUrl: string; limitMs?: number },
  clock: RetryIo,
): Promise<Answer> {
  const ask = async (): Promise<Answer> => {
    const answer = await askOnce(send, { limitMs: replyLimitMs, ...options }, clock);
    if (answer.kind === "no answer" || answer.reply.cut === undefined) return answer;
    return { kind: "no answer", reason: describeFailure(answer.reply.cut), reply: answer.reply };
  };
  return retryUntilAnswered(ask, options, clock);
}
