import { VidgenError } from "../../errors.ts";
import { errorText, readGeneration, type WireGeneration } from "../../protocol/schema.ts";
import type { Api } from "../http/api.ts";
import { askPatiently } from "../http/ask.ts";
import { type Reply, refusal } from "../http/reply.ts";
import type { RetryIo } from "../http/retry.ts";
import { cancelledReason, failedError } from "./follow.ts";

/** A generation that was cancelled. */
export type Cancelled = {
  generation: WireGeneration;
  /** What came back, whenever it was cancelled; `undefined` where the service does not say. */
  creditsReturned: number | undefined;
};

export type CancelOptions = {
  signal: AbortSignal;
  /** Asks how the generation stands; see `readStatus`. */
  look(): Promise<WireGeneration>;
};

/** The service waits 90 s for an engine to stop. */
const replyLimitMs = 120_000;

/**
 * Asks the service to cancel a generation. Throws `rejected` when it does not: it says so, has no way to, or the generation has completed;
 * `failed` when it has failed otherwise; what `look` throws for an unknown id, a wrong key and a service that does not answer; or the
 * signal's reason. Nothing has changed then.
 */
export async function askToCancel(
  api: Api,
  id: string,
  { signal, look }: CancelOptions,
  clock: RetryIo,
): Promise<Cancelled> {
  const send = (signal: AbortSignal) => api.cancel(id, signal);
  const ask = () => askPatiently(send, { baseUrl: api.baseUrl, signal, limitMs: replyLimitMs }, clock);
  const { kind, reply } = await ask();
  const cancelled = reply && readCancelled(reply, id);
  if (cancelled) return cancelled;
  const hint = `\`vidgen wait ${id}\` waits for it.`;
  if (reply?.status === 409 && errorText(reply.json) !== undefined) throw refusal(reply).with({ id, hint });
  // Another service may answer anything here: the status alone tells an unknown id from a request that it does not have.
  const generation = await look();
  if (isCancelled(generation)) {
    // Where every answer was lost, the next one still says what came back.
    const next = kind === "trouble" ? (await ask()).reply : undefined;
    return (next && readCancelled(next, id)) ?? { generation, creditsReturned: undefined };
  }
  if (generation.status === "failed") throw failedError(id, generation);
  const message =
    generation.status === "completed"
      ? "The generation has completed: nothing was cancelled."
      : "This service cannot cancel generations. The generation continues, and nothing was changed.";
  throw new VidgenError("rejected", message, { id, httpStatus: reply?.status, hint });
}

function readCancelled({ status, json }: Reply, id: string): Cancelled | undefined {
  const generation = status < 300 ? readGeneration(json, id) : undefined;
  if (!generation || !isCancelled(generation)) return undefined;
  const { credits_returned: credits } = generation;
  return { generation, creditsReturned: typeof credits === "number" ? credits : undefined };
}

function isCancelled({ status, error }: WireGeneration): boolean {
  return status === "failed" && errorText(error) === cancelledReason;
}
