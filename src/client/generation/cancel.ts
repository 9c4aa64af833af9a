import { VidgenError } from "../../errors.ts";
import { errorText, isCancelledError, readGeneration, type WireGeneration } from "../../protocol/schema.ts";
import type { Api } from "../http/api.ts";
import { askPatiently, describeAnswer } from "../http/ask.ts";
import type { Reply } from "../http/reply.ts";
import type { RetryIo } from "../http/retry.ts";
import { failedError } from "./follow.ts";

/** A generation that was cancelled. */
export type Cancelled = {
  generation: WireGeneration;
  /** The returned credits, even if the generation was cancelled earlier; `undefined` if the service does not state them. */
  creditsReturned: number | undefined;
};

export type CancelOptions = {
  signal: AbortSignal;
  /** Reads the status of the generation (see `readStatus`). */
  poll(): Promise<WireGeneration>;
};

/** Longer than the 90 s that the local service waits for an engine to stop. */
const replyLimitMs = 120_000;

/**
 * Asks the service to cancel a generation. If it throws, nothing was changed. Throws `rejected` if the
 * service refuses, cannot cancel, or the generation has completed; `network` if the service gives no usable
 * response while the generation continues; `failed` if the generation failed for another reason; the error of
 * `poll` for an unknown id, a wrong key and a service that does not answer; or the signal's reason.
 */
export async function askToCancel(
  api: Api,
  id: string,
  { signal, poll }: CancelOptions,
  clock: RetryIo,
): Promise<Cancelled> {
  const send = (signal: AbortSignal) => api.cancel(id, signal);
  const ask = () => askPatiently(send, { baseUrl: api.baseUrl, signal, limitMs: replyLimitMs }, clock);
  const answer = await ask();
  const { kind, reply } = answer;
  const cancelled = reply && readCancelled(reply, id);
  if (cancelled) return cancelled;
  // Other services may send any reply here; the status distinguishes an unknown id from an unsupported request.
  const generation = await poll();
  if (isCancelled(generation)) {
    // If the reply was lost, a second request still states the returned credits.
    const secondReply = kind === "no answer" ? (await ask()).reply : undefined;
    return (secondReply && readCancelled(secondReply, id)) ?? { generation, creditsReturned: undefined };
  }
  if (generation.status === "failed") throw failedError(id, generation);
  const details = { id, httpStatus: reply?.status };
  if (generation.status === "completed")
    throw new VidgenError("rejected", "The generation has completed: nothing was cancelled.", {
      ...details,
      hint: `\`vidgen delete ${id}\` deletes its video, where the service can.`,
    });
  const message = `The service did not cancel the generation, which continues: ${describeAnswer(answer)}.`;
  throw new VidgenError(kind === "no answer" ? "network" : "rejected", message, {
    ...details,
    hint: `\`vidgen wait ${id}\` waits for it.`,
  });
}

function readCancelled({ status, json }: Reply, id: string): Cancelled | undefined {
  const generation = status < 300 ? readGeneration(json, id) : undefined;
  if (!generation || !isCancelled(generation)) return undefined;
  const { credits_returned: credits } = generation;
  return { generation, creditsReturned: typeof credits === "number" ? credits : undefined };
}

/** With an error code, an engine may have made the video all the same. */
function isCancelled({ status, error, error_code }: WireGeneration): boolean {
  return status === "failed" && !error_code && isCancelledError(errorText(error));
}
