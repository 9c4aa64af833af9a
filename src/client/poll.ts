import { doctorHint, VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import type { Api } from "./api.ts";
import { describeFailure, describeReply, type Reply, refusal } from "./reply.ts";
import { backoffMs, isTransient, retryAfterMs } from "./retry.ts";
import { errorText, type Generation, readGeneration, saysNo } from "./schema.ts";

/** What one poll shows. `trouble` is any failure that a retry, which is free, may overcome. */
export type PollResult =
  | { kind: "generation"; generation: Generation }
  | { kind: "missing" }
  | { kind: "trouble"; reason: string; httpStatus?: number; retryAfterMs?: number | undefined };

/** A poll that takes longer counts as trouble. */
const pollLimitMs = 30_000;
/** How long `pollUntilAnswered` retries. */
const patienceMs = 30_000;

/**
 * Asks for a generation's status once (interface 4.2). Throws `auth`, `credits` or `rejected`, which a retry does not change, or the
 * signal's reason when that aborts.
 */
export async function poll(api: Api, id: string, clock: Clock, signal: AbortSignal): Promise<PollResult> {
  const limit = clock.limit(pollLimitMs, signal, new Error("no answer within 30 s"));
  try {
    return readPoll(await api.status(id, limit.signal), id, clock);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof VidgenError) throw error;
    return { kind: "trouble", reason: describeFailure(error) };
  } finally {
    limit.clear();
  }
}

/**
 * Polls until there is an answer, for 30 s at most, and returns the generation. Throws as `poll` does, `not_found`, or `network` when no
 * answer came. `onNote` is called before each retry.
 */
export async function pollUntilAnswered(
  api: Api,
  id: string,
  clock: Clock,
  signal: AbortSignal,
  onNote: (text: string) => void = () => {},
): Promise<Generation> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const result = await poll(api, id, clock, signal);
    if (result.kind === "generation") return result.generation;
    if (result.kind === "missing")
      throw new VidgenError("not_found", `The service knows no generation ${id}.`, { id, httpStatus: 404 });
    const waitMs = Math.max(result.retryAfterMs ?? 0, backoffMs(failures));
    if (clock.now() + waitMs > end) {
      throw new VidgenError("network", `Could not get an answer: ${result.reason}. Nothing was charged.`, {
        id,
        httpStatus: result.httpStatus,
        hint: doctorHint,
      });
    }
    onNote(`No answer (${result.reason}); trying again in ${Math.ceil(waitMs / 1000)} s.`);
    await clock.sleep(waitMs, signal);
  }
}

function readPoll(reply: Reply, id: string, clock: Clock): PollResult {
  const { status } = reply;
  if (status === 404) return { kind: "missing" };
  if (isTransient(status)) {
    const after = retryAfterMs(reply.retryAfter, clock.date());
    return { kind: "trouble", reason: describeReply(reply), httpStatus: status, retryAfterMs: after };
  }
  if (status >= 300) throw refusal(reply).with({ id });
  const generation = reply.cut === undefined ? readGeneration(reply.json, id) : undefined;
  if (generation?.id === id) return { kind: "generation", generation };
  if (saysNo(reply.json) && errorText(reply.json) !== undefined) throw refusal(reply).with({ id });
  return { kind: "trouble", reason: `an unusable answer (HTTP ${status})`, httpStatus: status };
}
