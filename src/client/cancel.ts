import { VidgenError } from "../errors.ts";
import type { Api } from "./api.ts";
import { cancelledReason, failedError } from "./follow.ts";
import { type Reply, refusal } from "./reply.ts";
import { freeRetryMs, isTransient, type RetryIo, retryAfterMs } from "./retry.ts";
import { errorText, type Generation, readGeneration } from "./schema.ts";

/** A generation that was cancelled; `creditsReturned` is `undefined` where the service does not say. */
export type Cancelled = { generation: Generation; creditsReturned: number | undefined };

export type CancelOptions = {
  signal: AbortSignal;
  /** Asks how the generation stands; see `Client.status`. */
  look(): Promise<Generation>;
};

/** An engine behind the service may take its time to stop. */
const replyLimitMs = 60_000;
/** For how long it is tried again; cancelling twice does no harm. */
const patienceMs = 30_000;

/**
 * Asks the service to cancel a generation. Throws `rejected` when it does not: it says so, has no way to, or the generation has completed;
 * `failed` when it has failed otherwise; what `look` throws for an unknown id, a wrong key and a service that does not answer; or the
 * signal's reason. Nothing has changed then.
 */
export async function cancel(
  api: Api,
  id: string,
  { signal, look }: CancelOptions,
  clock: RetryIo,
): Promise<Cancelled> {
  const reply = await askPatiently(api, id, signal, clock);
  const cancelled = reply && readCancelled(reply, id);
  if (cancelled) return cancelled;
  const hint = `\`vidgen wait ${id}\` waits for it.`;
  if (reply?.status === 409 && errorText(reply.json) !== undefined) throw refusal(reply).with({ id, hint });
  // Another service may answer anything here: the status alone tells an unknown id from a request that it does not have.
  const generation = await look();
  if (isCancelled(generation)) return { generation, creditsReturned: undefined };
  if (generation.status === "failed") throw failedError(id, generation);
  const message =
    generation.status === "completed"
      ? "The generation has completed: nothing was cancelled."
      : "This service cannot cancel: the generation goes on. Nothing was changed.";
  throw new VidgenError("rejected", message, { id, httpStatus: reply?.status, hint });
}

/** Resolves with the reply; `undefined` when none came that is of use. */
async function askPatiently(api: Api, id: string, signal: AbortSignal, clock: RetryIo): Promise<Reply | undefined> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const limit = clock.limit(replyLimitMs, signal, new Error("no response within 60 s"));
    const reply = await api
      .cancel(id, limit.signal)
      .catch(() => undefined)
      .finally(limit.clear);
    signal.throwIfAborted();
    if (reply && reply.cut === undefined && !isTransient(reply.status)) return reply;
    const waitMs = freeRetryMs(failures, clock.random(), reply && retryAfterMs(reply.retryAfter, clock.date()));
    if (clock.now() + waitMs > end) return reply;
    await clock.sleep(waitMs, signal);
  }
}

function readCancelled({ status, json }: Reply, id: string): Cancelled | undefined {
  const generation = status < 300 ? readGeneration(json, id) : undefined;
  if (!generation || !isCancelled(generation)) return undefined;
  const { credits_returned: credits } = generation;
  return { generation, creditsReturned: typeof credits === "number" ? credits : undefined };
}

function isCancelled({ status, error }: Generation): boolean {
  return status === "failed" && errorText(error) === cancelledReason;
}
