import { doctorHint, VidgenError } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import { splitVideoData } from "../../protocol/data-url.ts";
import { isRecord } from "../../protocol/json.ts";
import {
  doubtfulFailure,
  errorText,
  normalizeGeneration,
  readGeneration,
  saysNo,
  type WireGeneration,
} from "../../protocol/schema.ts";
import type { Api } from "../http/api.ts";
import { askOnce, asNoAnswer, type NoAnswer, retryUntilAnswered } from "../http/ask.ts";
import { describeReply, errorCode, isFromGateway, type Reply, refusal } from "../http/reply.ts";
import type { RetryIo } from "../http/retry.ts";
import { unwrapPoll } from "../http/salvage.ts";

/** The result of one poll; `refused` is an error that the service answered. */
export type PollResult =
  /** `videoData` is the video, if it came as a `data:` URL. */
  | { kind: "generation"; generation: WireGeneration; videoData?: string }
  | { kind: "refused"; error: VidgenError }
  | NoAnswer;

/** A longer poll counts as unanswered. */
const pollLimitMs = 30_000;

/** Asks for a generation's status once. Throws the signal's reason when that aborts. */
export async function poll(api: Api, id: string, clock: Clock, signal: AbortSignal): Promise<PollResult> {
  const { baseUrl } = api;
  const send = (signal: AbortSignal) => api.status(id, signal);
  const answer = await askOnce(send, { baseUrl, signal, limitMs: pollLimitMs }, clock);
  if (answer.kind === "reply") return readPoll(answer.reply, { id, baseUrl }, clock);
  if (answer.cause instanceof VidgenError) throw answer.cause;
  return answer;
}

/**
 * Polls for up to 30 s until there is an answer, and returns the generation. Throws `not_found`, `auth`,
 * `credits` or `rejected` if the answer is an error, `network` without an answer, or the signal's reason.
 * `onNote` is called before each retry.
 */
export async function pollUntilAnswered(
  api: Api,
  id: string,
  clock: RetryIo,
  signal: AbortSignal,
  onNote: (text: string) => void,
): Promise<WireGeneration> {
  const result = await retryUntilAnswered(() => poll(api, id, clock, signal), { signal, onNote }, clock);
  if (result.kind === "generation") return result.generation;
  if (result.kind === "refused") throw result.error;
  const { status: httpStatus, headers } = result.reply ?? {};
  const message = `No usable response from the service: ${result.reason}. Checking the status is free.`;
  throw new VidgenError("network", message, { id, httpStatus, headers, hint: doctorHint });
}

/** The account that a generation belongs to, if it is not that of the key. Only `vidgen serve` says so, and only to its owner. */
export function readOtherAccount({ status, json }: Pick<Reply, "status" | "json">): string | undefined {
  const error = isRecord(json) && isRecord(json.error) ? json.error : {};
  const isOther = status === 404 && error.code === "other_account";
  return isOther && typeof error.account === "string" ? error.account : undefined;
}

function otherAccountError(id: string, account: string, { headers }: Reply): VidgenError {
  const hint = `As the owner of the service, add --account ${account} to \`vidgen delete\` or \`vidgen cancel\`.`;
  return new VidgenError("not_found", `${id} belongs to the account ${account}.`, {
    id,
    httpStatus: 404,
    headers,
    hint,
  });
}

function readPoll(reply: Reply, { id, baseUrl }: { id: string; baseUrl: string }, clock: Clock): PollResult {
  const { status } = reply;
  if (status === 404 && isRecord(reply.json)) {
    const account = readOtherAccount(reply);
    if (account !== undefined) return { kind: "refused", error: otherAccountError(id, account, reply) };
    const why = errorCode(reply.json) === "removed" ? `: ${errorText(reply.json)}` : "";
    const message = `The service has no generation ${id}${why}.`;
    return {
      kind: "refused",
      error: new VidgenError("not_found", message, { id, httpStatus: 404, headers: reply.headers }),
    };
  }
  // A 404 without JSON comes from a gateway, as during a deployment, and says nothing about the generation.
  if (status === 404 || isFromGateway(reply)) return asNoAnswer(reply, clock);
  const generation = status < 300 && reply.cut === undefined ? readGeneration(reply.json, id) : undefined;
  if (generation) return { kind: "generation", ...splitVideoData(normalizeGeneration(generation, baseUrl)) };
  const unwrapped = status < 300 ? readGeneration(unwrapPoll(reply, id)?.json, id) : undefined;
  if (unwrapped) {
    const { status, ...fields } = normalizeGeneration(unwrapped, baseUrl);
    const doubtful = { ...fields, status: status === "failed" ? doubtfulFailure : status };
    return { kind: "generation", ...splitVideoData(doubtful) };
  }
  const isReasonedNo = saysNo(reply.json) && errorText(reply.json) !== undefined;
  // A poll is free, and a paid generation continues without credits, so an answer about credits counts as an outage.
  if ((status >= 300 || isReasonedNo) && lacksCredits(reply)) return asNoAnswer(reply, clock);
  if (status >= 300 || isReasonedNo) return { kind: "refused", error: refusal(reply).with({ id }) };
  return { kind: "no answer", reason: describeReply(reply), reply };
}
