import { doctorHint, VidgenError } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import { isRecord } from "../../protocol/json.ts";
import { errorText, normalizeGeneration, readGeneration, saysNo, type WireGeneration } from "../../protocol/schema.ts";
import type { Api } from "../http/api.ts";
import { askAgain, askOnce, type Trouble, troubleOf } from "../http/ask.ts";
import { errorCode, isByGateway, type Reply, refusal } from "../http/reply.ts";
import type { RetryIo } from "../http/retry.ts";

/** What one poll shows; `refused` is an answer that says no. */
export type PollResult =
  | { kind: "generation"; generation: WireGeneration }
  | { kind: "refused"; error: VidgenError }
  | Trouble;

/** A poll that takes longer counts as trouble. */
const pollLimitMs = 30_000;

/** Asks for a generation's status once (interface 4.2). Throws the signal's reason when that aborts. */
export async function poll(api: Api, id: string, clock: Clock, signal: AbortSignal): Promise<PollResult> {
  const { baseUrl } = api;
  const send = (signal: AbortSignal) => api.status(id, signal);
  const asked = await askOnce(send, { baseUrl, signal, limitMs: pollLimitMs }, clock);
  if (asked.kind === "reply") return readPoll(asked.reply, { id, baseUrl }, clock);
  if (asked.cause instanceof VidgenError) throw asked.cause;
  return asked;
}

/**
 * Polls until there is an answer, for 30 s at most, and returns the generation. Throws `not_found`, `auth`, `credits` or `rejected` when the
 * answer says no, `network` when none came, or the signal's reason. `onNote` is called before each retry.
 */
export async function pollUntilAnswered(
  api: Api,
  id: string,
  clock: RetryIo,
  signal: AbortSignal,
  onNote: (text: string) => void,
): Promise<WireGeneration> {
  const result = await askAgain(() => poll(api, id, clock, signal), { signal, onNote }, clock);
  if (result.kind === "generation") return result.generation;
  if (result.kind === "refused") throw result.error;
  const { status: httpStatus, headers } = result.reply ?? {};
  const message = `No usable response from the service: ${result.reason}. Checking the status is free.`;
  throw new VidgenError("network", message, { id, httpStatus, headers, hint: doctorHint });
}

function readPoll(reply: Reply, { id, baseUrl }: { id: string; baseUrl: string }, clock: Clock): PollResult {
  const { status } = reply;
  if (status === 404 && isRecord(reply.json)) {
    const why = errorCode(reply.json) === "removed" ? `: ${errorText(reply.json)}` : "";
    const message = `The service has no generation ${id}${why}.`;
    return {
      kind: "refused",
      error: new VidgenError("not_found", message, { id, httpStatus: 404, headers: reply.headers }),
    };
  }
  // A 404 that is not the service's own JSON is that of a gateway, as during a deploy: it says nothing about the generation.
  if (status === 404 || isByGateway(reply)) return troubleOf(reply, clock);
  const generation = status < 300 && reply.cut === undefined ? readGeneration(reply.json, id) : undefined;
  if (generation) return { kind: "generation", generation: normalizeGeneration(generation, baseUrl) };
  const saysWhy = saysNo(reply.json) && errorText(reply.json) !== undefined;
  // A poll is free, and what is paid for is made whatever the account has left: an answer about money is that of an outage.
  if ((status >= 300 || saysWhy) && lacksCredits(reply)) return troubleOf(reply, clock);
  if (status >= 300 || saysWhy) return { kind: "refused", error: refusal(reply).with({ id }) };
  return { kind: "trouble", reason: `an unusable response (HTTP ${status})`, reply };
}
