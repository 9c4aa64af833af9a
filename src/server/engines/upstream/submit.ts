import { VidgenError } from "../../../errors.ts";
import { RequestError } from "../../../io.ts";
import { lacksCredits } from "../../../protocol/credits.ts";
import { isRefusal } from "../../../protocol/status.ts";
import type { Checkpoint } from "../../store/generations.ts";
import type { RenderOptions, RenderOutcome } from "../engine.ts";
import { lookOnce, missingMs, missingWaitMs } from "./follow.ts";
import { beginningOf, errorCodeOf, isAboutRequest, type Reply, refusesKey, wordsOf } from "./reply.ts";
import { backOffMs, createAbsence, describe, minutes, type Upstream } from "./upstream.ts";

/** What a create gave: a job, or a video that is finished already, by its address, or in a file that is on the disk. */
export type Submitted = { job: string } | { finished: string } | { saved: string };

/** What came of a create. One that was not submitted can be sent again later, or to another server. */
export type Outcome = { kind: "submitted"; submitted: Submitted } | Exclude<RenderOutcome, { kind: "made" }>;

/** What the reply to a create means. "no credits": the owner's account there has none. */
export type Verdict = Outcome | NoCredits;

export type NoCredits = { kind: "no credits"; reason: string };

/**
 * The first signal aborts a create that is out, the second one only before it is sent; what `beforeSend` throws keeps it from being sent.
 * `onPart` is to be called while a reply comes that takes long.
 */
export type SubmitSignals = { signal: AbortSignal; unsentSignal: AbortSignal; beforeSend(): void; onPart(): void };

export type SubmitOptions = Pick<RenderOptions, "checkpoint" | "confirm" | "signal"> & {
  /** The name of the job, where it is chosen here and not by the server. */
  job?: string;
};

/**
 * Sends a create once: `send` resolves with what its reply means, or rejects as `fetch` does. "submitting", or "unconfirmed" with the job's name,
 * is kept before the request goes out. It is removed only when the server certainly did not accept the create: it could not be reached, it says
 * that it cannot accept it now, it refused (`isNotSubmitted`), or it does not know the name. Rejects with `credits` when the owner's account there has none.
 */
export async function submitOnce<Judged extends Verdict>(
  send: (signals: SubmitSignals) => Promise<Judged>,
  upstream: Upstream,
  { job, ...options }: SubmitOptions,
): Promise<Exclude<Judged, NoCredits> | Confirmed | Unanswered> {
  const { checkpoint, signal } = options;
  signal.throwIfAborted();
  await checkpoint(job === undefined ? { state: "submitting" } : { state: "unconfirmed", job });
  const outcome: Judged | Unanswered = await sendWithGrace(send, upstream, options).catch(unanswered);
  if (outcome.kind === "no credits") {
    await checkpoint(null);
    // Whoever asked for the video gets back what it cost here.
    const message = `${upstream.name} has no credits left for this video: ${outcome.reason}; nothing was submitted`;
    throw new VidgenError("credits", message);
  }
  // The checkpoint says that the create is unclear.
  if (outcome.kind === "unclear") signal.throwIfAborted();
  if (outcome.kind === "unclear" && job !== undefined)
    return confirm(job, upstream, { ...options, reason: outcome.reason });
  if (outcome.kind === "not submitted" || outcome.kind === "refused") await checkpoint(null);
  if (outcome.kind === "submitted") await checkpoint(checkpointOf(outcome.submitted));
  return (outcome.kind === "refused" ? { ...outcome, isNotSubmitted: true } : outcome) as Exclude<Judged, NoCredits>;
}

function checkpointOf(submitted: Submitted): Checkpoint {
  if ("job" in submitted) return { state: "submitted", job: submitted.job };
  if ("saved" in submitted) return { state: "saved", file: submitted.saved };
  return { state: "finished", url: submitted.finished };
}

type Confirmed = { kind: "submitted"; submitted: { job: string } } | Unanswered;

/**
 * Asks a server whether it accepted the create of an "unconfirmed" job; `reason` is why that is unclear. "not submitted" when it says for 60 s that it
 * does not know the job; "unclear" when it answered nothing of use for its time limit.
 */
export async function confirm(
  job: string,
  upstream: Upstream,
  { checkpoint, signal, reason }: Pick<RenderOptions, "checkpoint" | "signal"> & { reason: string },
): Promise<Confirmed> {
  const { io, timeoutMs } = upstream;
  const start = io.now();
  const absence = createAbsence(io);
  for (let failures = 0; ; failures++) {
    const look = await lookOnce(job, upstream, signal);
    if (!("trouble" in look)) {
      // From now on an unknown job is one that the server has lost.
      await checkpoint({ state: "submitted", job });
      return { kind: "submitted", submitted: { job } };
    }
    if (absence(look.isMissing) >= missingMs) {
      await checkpoint(null);
      return { kind: "not submitted", reason };
    }
    if (io.now() - start > timeoutMs) return { kind: "unclear", reason: `${reason}; ${look.trouble}` };
    await io.sleep(look.isMissing ? missingWaitMs() : backOffMs(failures), signal);
  }
}

/** How long a service that is being stopped waits for the reply to a create. */
const graceMs = 10_000;

/** A create is not aborted at once when the service stops: without its reply, the video would be lost. */
async function sendWithGrace<Judged>(
  send: (signals: SubmitSignals) => Promise<Judged>,
  { io, timeoutMs }: Upstream,
  { signal, confirm }: Pick<SubmitOptions, "signal" | "confirm">,
): Promise<Judged> {
  const [late, done] = [new AbortController(), new AbortController()];
  const limit = io.limit(timeoutMs, late.signal, new Error(`no response within ${minutes(timeoutMs)}`));
  const onStop = () =>
    void io.sleep(graceMs, done.signal).then(
      () => late.abort(signal.reason),
      () => {},
    );
  signal.addEventListener("abort", onStop, { once: true });
  try {
    return await send({ signal: limit.signal, unsentSignal: signal, beforeSend: confirm, onPart: limit.restart });
  } finally {
    signal.removeEventListener("abort", onStop);
    done.abort();
    limit.clear();
  }
}

type Unanswered = NotSubmitted | { kind: "unclear"; reason: string };

type NotSubmitted = Extract<RenderOutcome, { kind: "not submitted" }>;

function unanswered(error: unknown): Unanswered {
  const isUnsent = error instanceof RequestError && !error.sent;
  return isUnsent ? unprepared(error) : { kind: "unclear", reason: describe(error) };
}

/** The outcome when a server could not be asked for what comes before a create, or the create was not sent. */
export function unprepared(error: unknown): NotSubmitted {
  const reason = describe(error);
  if (error instanceof VidgenError && error.code === "auth") return { kind: "not submitted", reason, cause: "auth" };
  const reply = error instanceof Error && "reply" in error ? (error.reply as Reply) : undefined;
  if (!reply) return { kind: "not submitted", reason, cause: "unreachable" };
  return isRefusingPage(reply)
    ? notSubmittedByPage(reply, reason)
    : { kind: "not submitted", reason, retryAfterMs: reply.retryAfterMs };
}

/** An error about a server that answers, but not as it should. */
export function answered(reply: Reply, reason: string): Error {
  return Object.assign(new Error(reason), { reply });
}

/** A proxy that takes this program for a robot, or its address for a wrong one, may think otherwise in a while. */
const pageRetryMs = 60_000;

function isRefusingPage(reply: Reply): boolean {
  return reply.status === 403 && !refusesKey(reply);
}

function notSubmittedByPage({ retryAfterMs = 0 }: Reply, reason: string): NotSubmitted {
  return { kind: "not submitted", reason, cause: "unreachable", retryAfterMs: Math.max(pageRetryMs, retryAfterMs) };
}

/** Statuses by which a server says that it did not take a request, and may take the same one later. */
export const notNowStatuses = [401, 403, 425, 429];

/** Words of proxies, such as Envoy and HAProxy, for a 503 because there was no server to send the request to. */
const noServer = /connection failure|overflow|no healthy upstream|no server is available/i;

/** A proxy answers 503 also when a server that has the request does not reply: only the server's own JSON, or such words, are certain. */
function isNotNow({ status, json, text }: Reply): boolean {
  return status === 503 ? json !== undefined || noServer.test(text) : notNowStatuses.includes(status);
}

/** Judges a reply to a create that has no job in it. It may repeat the prompt. */
export function judgeReply(
  reply: Reply,
  prompt?: string,
):
  | NotSubmitted
  | NoCredits
  | { kind: "unclear"; reason: string }
  | { kind: "refused"; reason: string; code?: string | undefined } {
  const { status, retryAfterMs } = reply;
  const reason = wordsOf(reply);
  if (status >= 200 && status < 300)
    return { kind: "unclear", reason: `its reply names no job, ${beginningOf(reply)}` };
  if (status >= 400 && status < 500 && lacksCredits({ ...reply, retryAfter: retryAfterMs, prompt }))
    return { kind: "no credits", reason };
  if (isRefusingPage(reply)) return notSubmittedByPage(reply, reason);
  const refused = { kind: "refused" as const, reason, code: errorCodeOf(reply) };
  if (status === 403 && isAboutRequest(reply)) return refused;
  if (isNotNow(reply) || refusesKey(reply))
    return { kind: "not submitted", reason, cause: refusesKey(reply) ? "auth" : undefined, retryAfterMs };
  return isRefusal(status) ? refused : { kind: "unclear", reason };
}
