import { doctorHint, systemCode, VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import type { Api } from "./api.ts";
import { isRecord } from "./json.ts";
import { describeFailure, describeReply, errorCode, type Reply, refusal } from "./reply.ts";
import { freeRetryMs, isFinalConnectFailure, isTransient, type RetryIo, retryAfterMs } from "./retry.ts";
import { errorText, type Generation, normalizeGeneration, readGeneration, saysNo } from "./schema.ts";

/** What one poll shows. `trouble` is a failure that a retry, which is free, may overcome, though hardly when `isFinal`; `refused` is an answer that says no. */
export type PollResult =
  | { kind: "generation"; generation: Generation }
  | { kind: "refused"; error: VidgenError }
  | { kind: "trouble"; reason: string; isFinal?: boolean; reply?: Reply; retryAfterMs?: number | undefined };

/** A poll that takes longer counts as trouble. */
const pollLimitMs = 30_000;
/** How long `pollUntilAnswered` retries. */
const patienceMs = 30_000;

/** Asks for a generation's status once (interface 4.2). Throws the signal's reason when that aborts. */
export async function poll(api: Api, id: string, clock: Clock, signal: AbortSignal): Promise<PollResult> {
  const limit = clock.limit(pollLimitMs, signal, new Error("no response within 30 s"));
  try {
    const reply = await api.status(id, limit.signal);
    return readPoll(reply, { id, baseUrl: api.baseUrl, now: clock.date() });
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof VidgenError) throw error;
    const isFinal = isFinalConnectFailure(systemCode(error), api.baseUrl);
    return { kind: "trouble", reason: describeFailure(error), isFinal };
  } finally {
    limit.clear();
  }
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
  onNote: (text: string) => void = () => {},
): Promise<Generation> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const result = await poll(api, id, clock, signal);
    if (result.kind === "generation") return result.generation;
    if (result.kind === "refused") throw result.error;
    const waitMs = freeRetryMs(failures, clock.random(), result.retryAfterMs);
    if (result.isFinal || clock.now() + waitMs > end) {
      throw new VidgenError(
        "network",
        `No usable response from the service: ${result.reason}. Checking the status is free.`,
        {
          id,
          httpStatus: result.reply?.status,
          headers: result.reply?.headers,
          hint: doctorHint,
        },
      );
    }
    onNote(`No usable response (${result.reason}); retrying in ${Math.ceil(waitMs / 1000)} s.`);
    await clock.sleep(waitMs, signal);
  }
}

type Asked = { id: string; baseUrl: string; now: Date };

function readPoll(reply: Reply, { id, baseUrl, now }: Asked): PollResult {
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
  if (isTransient(status) || status === 404) {
    const after = retryAfterMs(reply.retryAfter, now);
    return { kind: "trouble", reason: describeReply(reply), reply, retryAfterMs: after };
  }
  const generation = status < 300 && reply.cut === undefined ? readGeneration(reply.json, id) : undefined;
  if (generation) return { kind: "generation", generation: normalizeGeneration(generation, baseUrl) };
  const saysWhy = saysNo(reply.json) && errorText(reply.json) !== undefined;
  if (status >= 300 || saysWhy) return { kind: "refused", error: refusal(reply).with({ id }) };
  return { kind: "trouble", reason: `an unusable response (HTTP ${status})`, reply };
}
