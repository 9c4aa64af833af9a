import { VidgenError } from "../../../errors.ts";
import { RequestError } from "../../../io.ts";
import { lacksCredits } from "../../../protocol/credits.ts";
import { isRefusal } from "../../../protocol/status.ts";
import { createReplyLimit, sleepSeen } from "../../../reply-limit.ts";
import type { Checkpoint, FailureKind } from "../../store/generations.ts";
import { type FailureFacts, failed, type RenderOptions, type RenderOutcome } from "../engine.ts";
import { missingMs, missingWaitMs, pollOnce } from "./follow.ts";
import {
  beginningOf,
  describeReply,
  errorCodeOf,
  findRefusal,
  isAboutRequest,
  isOfOtherServer,
  refusesKey,
  type ServerReply,
} from "./reply.ts";
import { backOffMs, createAbsence, describe, timeText, type Upstream } from "./upstream.ts";

/** The result of a create: a job's id, or the address of a finished video, or the path of its file on this machine. */
export type Submitted = { job: string } | { videoUrl: string } | { savedFile: string };

/** The outcome of a create. A create that was not submitted can be sent again later, or to another server. */
export type SubmitOutcome = { kind: "submitted"; submitted: Submitted } | Exclude<RenderOutcome, { kind: "made" }>;

/** The meaning of a reply to a create, or why there is none. */
export type SubmitVerdict = SubmitOutcome | Unpaid;

/** "no credits": the owner's account at the provider has no credits. "not sent": the code that should send the create refused it. */
export type Unpaid = { kind: "no credits"; reason: string } | { kind: "not sent"; error: string };

/**
 * `signal` aborts a create in flight, `unsentSignal` only before it is sent. An error that `beforeSend` throws prevents the create from being sent.
 * `onPart` must be called for each part of a long reply, and `onReceived` when any bytes of the reply arrive.
 */
export type SubmitSignals = {
  signal: AbortSignal;
  unsentSignal: AbortSignal;
  beforeSend(): void;
  onPart(): void;
  onReceived(): void;
};

export type SubmitOptions = Pick<RenderOptions, "checkpoint" | "confirm" | "signal"> & {
  /** The id of the job, where vidgen chooses it and not the server. */
  job?: string;
  /** The seed of the create, where the request has none. */
  drawnSeed?: number | undefined;
};

/**
 * Sends a create once. `send` resolves with the meaning of its reply, or rejects as `fetch` does. The checkpoint "submitting", or "unconfirmed" with
 * the job's id, is stored before the request is sent. It is removed only when the server certainly did not accept the create: it could not be
 * reached, it says that it cannot accept the create now, it refused the create (`isNotSubmitted`), or it does not know the id. Rejects when nothing
 * was sent, and with `credits` when the owner's account at the provider has no credits.
 */
export async function submitOnce<Result extends SubmitVerdict>(
  send: (signals: SubmitSignals) => Promise<Result>,
  upstream: Upstream,
  { job, drawnSeed, ...given }: SubmitOptions,
): Promise<Exclude<Result, Unpaid> | Confirmed | Unanswered> {
  const { signal } = given;
  const checkpoint: SubmitOptions["checkpoint"] = (state) =>
    given.checkpoint(state && drawnSeed !== undefined ? { ...state, drawn_seed: drawnSeed } : state);
  const options = { ...given, checkpoint };
  signal.throwIfAborted();
  await checkpoint(job === undefined ? { state: "submitting" } : { state: "unconfirmed", job });
  const outcome: Result | Unanswered = await sendWithGrace(send, upstream, options).catch(toUnanswered);
  if (outcome.kind === "no credits" || outcome.kind === "not sent") {
    await checkpoint(null);
    throw failed(unpaidError(outcome, upstream), { isNotSubmitted: true });
  }
  // The checkpoint already records that the create is unclear.
  if (outcome.kind === "unclear") signal.throwIfAborted();
  if (outcome.kind === "unclear" && job !== undefined)
    return confirm(job, upstream, { ...options, reason: outcome.reason });
  if (outcome.kind === "not submitted" || outcome.kind === "refused") await checkpoint(null);
  if (outcome.kind === "submitted") await checkpoint(checkpointOf(outcome.submitted));
  return (outcome.kind === "refused" ? { ...outcome, isNotSubmitted: true } : outcome) as Exclude<Result, Unpaid>;
}

function unpaidError(unpaid: Unpaid, { name }: Upstream): Error {
  if (unpaid.kind === "not sent") return new Error(`${unpaid.error}; nothing was submitted`);
  return new VidgenError(
    "credits",
    `${name} has no credits left for this video: ${unpaid.reason}; nothing was submitted`,
  );
}

/** Prepares a create. If that fails, nothing was submitted. */
export async function prepare<Prepared>(work: () => Prepared | Promise<Prepared>): Promise<Prepared> {
  try {
    return await work();
  } catch (error) {
    throw failed(error instanceof Error ? error : new Error(String(error)), { isNotSubmitted: true });
  }
}

function checkpointOf(submitted: Submitted): Checkpoint {
  if ("job" in submitted) return { state: "submitted", job: submitted.job };
  if ("savedFile" in submitted) return { state: "saved", file: submitted.savedFile };
  return { state: "finished", url: submitted.videoUrl };
}

type Confirmed = { kind: "submitted"; submitted: { job: string } } | Unanswered;

/**
 * Asks a server whether it accepted the create of an "unconfirmed" job; `reason` is why that is unclear. The result is "not submitted" when the
 * server says for 60 s that it does not know the job, and "unclear" when it sends no usable reply within its time limit.
 */
export async function confirm(
  job: string,
  upstream: Upstream,
  { checkpoint, signal, reason }: Pick<RenderOptions, "checkpoint" | "signal"> & { reason: string },
): Promise<Confirmed> {
  const { io, timeoutMs } = upstream;
  const startedAt = io.now();
  const absence = createAbsence(io);
  for (let failures = 0; ; failures++) {
    const polled = await pollOnce(job, upstream, signal);
    if (!("reason" in polled)) {
      // The server has the job. If the server does not know the job later, the job is lost.
      await checkpoint({ state: "submitted", job });
      return { kind: "submitted", submitted: { job } };
    }
    if (absence(polled.isMissing) >= missingMs) {
      await checkpoint(null);
      return { kind: "not submitted", reason };
    }
    if (io.now() - startedAt > timeoutMs) return { kind: "unclear", reason: `${reason}; ${polled.reason}` };
    await io.sleep(polled.isMissing ? missingWaitMs() : backOffMs(failures), signal);
  }
}

/** How long a stopping service waits for the reply to a create. */
const graceMs = 10_000;

/** Sends a create, and waits for the reply even while the service stops, because without it the video would be lost. */
async function sendWithGrace<Result>(
  send: (signals: SubmitSignals) => Promise<Result>,
  { io, timeoutMs }: Upstream,
  { signal, confirm }: Pick<SubmitOptions, "signal" | "confirm">,
): Promise<Result> {
  const [graceEnd, replied] = [new AbortController(), new AbortController()];
  const tooLong = new Error(`no response within ${timeText(timeoutMs)}`);
  const limit = createReplyLimit(timeoutMs, graceEnd.signal, tooLong, io);
  const onStop = () =>
    void sleepSeen(graceMs, replied.signal, io).then(
      () => graceEnd.abort(signal.reason),
      () => {},
    );
  signal.addEventListener("abort", onStop, { once: true });
  try {
    const { restart: onPart, onReceived } = limit;
    return await send({ signal: limit.signal, unsentSignal: signal, beforeSend: confirm, onPart, onReceived });
  } finally {
    signal.removeEventListener("abort", onStop);
    replied.abort();
    limit.clear();
  }
}

type Unanswered = NotSubmitted | { kind: "unclear"; reason: string };

type NotSubmitted = Extract<RenderOutcome, { kind: "not submitted" }>;

function toUnanswered(error: unknown): Unanswered {
  const isUnsent = error instanceof RequestError && !error.sent;
  return isUnsent ? toNotSubmitted(error) : { kind: "unclear", reason: describe(error) };
}

/** Returns the outcome when a request before the create failed, or the create was not sent. */
export function toNotSubmitted(error: unknown): NotSubmitted {
  const reason = describe(error);
  if (error instanceof VidgenError && error.code === "auth") return { kind: "not submitted", reason, cause: "auth" };
  const { reply, failure }: { reply?: ServerReply } & FailureFacts = Object(error);
  if (!reply) return { kind: "not submitted", reason, cause: failure === "address" ? failure : "unreachable" };
  if (isProxyRefusal(reply)) return refusedByProxy(reply, reason);
  const isElsewhere = reply.status === 404 || (reply.status >= 200 && reply.status < 300);
  return {
    kind: "not submitted",
    reason,
    cause: isElsewhere ? "address" : undefined,
    retryAfterMs: reply.retryAfterMs,
  };
}

/** Returns an error for a reply that cannot be used, with the reply. */
export function replyError(reply: ServerReply, reason: string): Error {
  return Object.assign(new Error(reason), { reply });
}

/** A proxy that mistakes this program for a robot, or blocks its address, may accept the request later. */
const proxyRetryMs = 60_000;

function isProxyRefusal(reply: ServerReply): boolean {
  return reply.status === 403 && !refusesKey(reply);
}

function refusedByProxy({ retryAfterMs = 0 }: ServerReply, reason: string): NotSubmitted {
  return { kind: "not submitted", reason, cause: "unreachable", retryAfterMs: Math.max(proxyRetryMs, retryAfterMs) };
}

/** Statuses that mean that the server did not accept a request, and may accept it later. */
export const notAcceptedStatuses = [401, 403, 425, 429];

/** What proxies such as Envoy and HAProxy write in a 503 when there is no server to forward the request to. */
const noServerText = /connection failure|overflow|no healthy upstream|no server is available/i;

/**
 * Whether the request was certainly not accepted. A proxy also answers 503 when a server that has the request does not reply, so a 503 counts only
 * with the server's own JSON, or with one of these texts.
 */
function isNotAccepted({ status, json, text }: ServerReply): boolean {
  return status === 503 ? json !== undefined || noServerText.test(text) : notAcceptedStatuses.includes(status);
}

/** Returns the meaning of a reply to a create that contains no job. The reply may repeat the prompt. */
export function classifyReply(
  reply: ServerReply,
  prompt?: string,
):
  | NotSubmitted
  | Extract<Unpaid, { kind: "no credits" }>
  | { kind: "unclear"; reason: string }
  | { kind: "refused"; reason: string; failure: FailureKind; code: string | undefined } {
  const { status, retryAfterMs } = reply;
  const reason = describeReply(reply);
  if (status >= 200 && status < 300)
    return { kind: "unclear", reason: `its reply names no job, ${beginningOf(reply)}` };
  if (status >= 400 && status < 500 && lacksCredits({ ...reply, retryAfter: retryAfterMs, prompt }))
    return { kind: "no credits", reason };
  if (isProxyRefusal(reply)) return refusedByProxy(reply, reason);
  const refusal = { kind: "refused" as const, reason, failure: findRefusal(reply, prompt), code: errorCodeOf(reply) };
  if (status === 403 && isAboutRequest(reply)) return refusal;
  if (isOfOtherServer(reply)) return { kind: "not submitted", reason, cause: "address" };
  if (isNotAccepted(reply) || refusesKey(reply))
    return { kind: "not submitted", reason, cause: refusesKey(reply) ? "auth" : undefined, retryAfterMs };
  return isRefusal(status) ? refusal : { kind: "unclear", reason };
}
