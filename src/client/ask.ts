import { systemCode } from "../errors.ts";
import { describeFailure, type Reply } from "./reply.ts";
import { freeRetryMs, isFinalConnectFailure, isTransient, type RetryIo, retryAfterMs } from "./retry.ts";

/** The last reply to a request, if any came, and why none is of use; without a `failure` the reply is a whole one. */
export type Asked = { reply: Reply; failure?: undefined } | { reply: Reply | undefined; failure: string };

export type AskOptions = {
  baseUrl: string;
  signal: AbortSignal;
  /** For how long it is tried again, in milliseconds; 30 s by default, 0 for a request that must not be sent twice. */
  patienceMs?: number;
};

/** An engine behind the service may take its time to stop. */
const replyLimitMs = 60_000;
const usualPatienceMs = 30_000;

/** Sends a request that does no harm when it is sent twice, until there is an answer. Rejects with the signal's reason alone. */
export async function askPatiently(
  send: (signal: AbortSignal) => Promise<Reply>,
  { baseUrl, signal, patienceMs = usualPatienceMs }: AskOptions,
  clock: RetryIo,
): Promise<Asked> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const limit = clock.limit(replyLimitMs, signal, new Error("no response within 60 s"));
    let thrown: unknown;
    const reply = await send(limit.signal)
      .catch((error) => {
        thrown = error;
        return undefined;
      })
      .finally(limit.clear);
    signal.throwIfAborted();
    if (reply && reply.cut === undefined && !isTransient(reply.status)) return { reply };
    const failure = describeFailure(reply ? (reply.cut ?? new Error(`HTTP ${reply.status}`)) : thrown);
    const waitMs = freeRetryMs(failures, clock.random(), reply && retryAfterMs(reply.retryAfter, clock.date()));
    const isFinal = !reply && isFinalConnectFailure(systemCode(thrown), baseUrl);
    if (isFinal || clock.now() + waitMs > end) return { reply, failure };
    await clock.sleep(waitMs, signal);
  }
}
