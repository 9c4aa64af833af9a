import { asVidgenError, doctorHint, systemCode, VidgenError } from "../../errors.ts";
import { type Limit, RequestError } from "../../io.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import { findWarnings } from "../../protocol/fields.ts";
import { type AcceptedStart, errorText, failureReason, type StartRequest } from "../../protocol/schema.ts";
import { isNotNow, isRefusal, isTransient, retryAfterMs } from "../../protocol/status.ts";
import { createReplyLimit, type ReplyLimit, sleepSeen } from "../../reply-limit.ts";
import type { Label } from "../http/api.ts";
import { describeFailure, describeReply, describeValues, type Reply, refusal } from "../http/reply.ts";
import { backoffMs, isFinalConnectFailure } from "../http/retry.ts";
import { readStartReply, unwrapStart } from "../http/salvage.ts";
import { type JournalLine, keyOf } from "../ledger/history.ts";
import { withdraw } from "../ledger/withdraw.ts";
import { failedError } from "./follow.ts";
import { poll } from "./poll.ts";
import { entriesOf, explainRefusal, record, recordedRequest, remember, type Service } from "./service.ts";

/** An attempt that is recorded, and whose request may be sent. */
export type Intent = {
  /** The attempt's name in the journal and in errors. */
  attempt: string;
  /** The attempt's Idempotency-Key. */
  key: string;
  /** When the attempt was started; ISO 8601, UTC. */
  at: string;
  /** Whether the caller set the key, which then permanently identifies one start. */
  hasCallerKey: boolean;
  /**
   * When the key was first sent, at the latest now; ISO 8601, UTC. It is sent again only as long as the
   * service says that it keeps keys of that age.
   */
  firstSentAt: string;
  /** Whether an earlier request with the key may have been charged. */
  isResend: boolean;
  /**
   * Rejects if nothing may be sent, because another process has, or may have, taken over the attempt, or
   * because the attempt was dismissed.
   */
  confirm(): Promise<void>;
  /** Throws if this process was suspended since `confirm`, so that another process may have taken over. Checks only the clock. */
  assertFresh(): void;
};

export type SendOptions = {
  /** Aborts at the first Ctrl-C; a sent request gets 10 s more, so that its id is not lost. */
  signal: AbortSignal;
  /** Aborts at the second Ctrl-C, which ends those 10 s. */
  abandon?: AbortSignal | undefined;
  /** The balance before the start, if known. Its drop is recorded if the service states no cost. */
  balance?: number | undefined;
  /**
   * Set for a row of a batch, with the batch's label for a service that shows batches. The batch itself
   * starts a row again after a "not now" answer, which ends this start as refused, and has noted probable
   * mistakes in the request.
   */
  batch?: { label: Label } | undefined;
};

type AcceptedOutcome = { kind: "accepted"; started: AcceptedStart };
type FinalOutcome = { kind: "refused" | "unknown"; error: VidgenError };
/** `notNow` has the wait of Retry-After if the last answer was "not now" and is not retried. */
type RefusedOutcome = { kind: "refused"; error: VidgenError; notNow?: { waitMs: number | undefined } };

/** How a start ended, with the journal's kinds. */
export type SendOutcome = AcceptedOutcome | RefusedOutcome | { kind: "unknown" | "unsent"; error: VidgenError };

/** The outcomes that may be retried. */
type UnsentOutcome = { kind: "unsent"; reason: string; isFinal: boolean };
type NotNowOutcome = { kind: "not now"; reason: string; httpStatus: number; waitMs: number | undefined };

/** Nothing more is sent, because another process has, or may have, taken over the attempt. */
type StoppedOutcome = { kind: "stopped"; error: VidgenError };

/** The outcome of one request. */
type PostOutcome = AcceptedOutcome | FinalOutcome | UnsentOutcome | NotNowOutcome | StoppedOutcome;

/** The time limit of each step: the connection, the upload without progress, and the service's answer. */
const stepLimitMs = 120_000;
/** How long unsent requests and "not now" answers are retried. */
const unsentLimitMs = 60_000;
const notNowLimitMs = 120_000;
/** The shortest wait after "not now", whatever Retry-After says. */
const minWaitMs = 500;
/** How long a sent request may still take after the first Ctrl-C. */
const interruptLimitMs = 10_000;

/** How often a start without a usable response is sent again with its key. */
const maxResends = 1;
const maxNamedResends = 4;
/** How long an unresponsive service is asked whether it remembers the key, because it may be restarting behind a proxy. */
const resendLimitMs = 10_000;
/** How long the service's answer about a key is valid, because this process may be suspended before it sends. */
const keyAnswerValidMs = 60_000;
/** How long to wait for the answer to one question about a key, or about a refused start. */
const answerLimitMs = 10_000;

export const resendNote = "No answer. Sending the same request again; this service charges it once.";

/**
 * Sends the request that costs money, whose intent is recorded. The request is sent again only if no byte of
 * it was written, if the service answered "not now" (429, 421, 425), or if the service says that it remembers
 * the request's key. Never rejects; the outcome is recorded before it is returned. The outcome's error is
 * `network` (nothing was sent), `unknown` (the request may have been charged), or the code of the service's
 * refusal.
 */
export async function sendPaid(
  service: Service,
  request: StartRequest,
  intent: Intent,
  options: SendOptions,
): Promise<SendOutcome> {
  if (!options.batch)
    noteOnce(
      service,
      findWarnings(request, service).map((warning) => `${warning} Sent as typed.`),
    );
  let outcome = await sendAndRecord(service, request, intent, options);
  const maxSends = intent.hasCallerKey ? maxNamedResends : maxResends;
  for (let failures = 0; outcome.kind === "unknown" && failures < maxSends; failures++) {
    if (!(await waitForKeptKey(service, intent.firstSentAt, { ...options, failures }))) break;
    service.note(resendNote);
    outcome = await sendAndRecord(service, request, { ...intent, isResend: true }, options);
  }
  return outcome;
}

/**
 * Asks the service, until it answers, whether it remembers the key of an unanswered request. Returns `false`
 * if there is no answer in time.
 */
async function waitForKeptKey(
  service: Service,
  firstSentAt: string,
  { signal, failures: earlierFailures }: Pick<SendOptions, "signal"> & { failures: number },
): Promise<boolean> {
  const { io, note } = service;
  const end = io.now() + resendLimitMs;
  for (let failures = earlierFailures; ; failures++) {
    const waitMs = Math.min(backoffMs(failures, io.random()), Math.max(0, end - io.now()));
    await io.sleep(waitMs, signal).catch(() => {});
    if (signal.aborted) return false;
    const answer = await askForKey(service, firstSentAt, signal);
    if (answer !== "no answer" || io.now() >= end) return answer === "kept";
    if (failures === earlierFailures) note("No usable response; asking the service whether it has the request.");
  }
}

/** Shows each warning only once, since many rows of a batch may have it. */
function noteOnce({ warned, note }: Service, warnings: readonly string[]): void {
  for (const warning of warnings) {
    if (!warned.has(warning)) note(warning);
    remember(warned, warning, true);
  }
}

/** The safety margin of the stated key lifetime, because clocks may differ, and the request takes time. */
const keyMarginSeconds = 3_600;

/**
 * Whether the service still recognizes a key that was first sent at this time (ISO 8601). The question is
 * free, and asked each time, since another service may be at this address now.
 */
export async function askForKey(
  { api, io }: Service,
  firstSentAt: string,
  signal: AbortSignal,
): Promise<"kept" | "not kept" | "no answer"> {
  const limit = io.limit(answerLimitMs, signal, new Error("no answer"));
  const reply = await api.probe(limit.signal).then(
    (answered) => answered,
    () => undefined,
  );
  limit.clear();
  const seconds = reply?.headers?.["idempotency-key-lifetime"];
  if (seconds === undefined) return reply === undefined || isTransient(reply.status) ? "no answer" : "not kept";
  const age = (io.date().getTime() - Date.parse(firstSentAt)) / 1_000;
  // If the clock is behind the attempt's time, its age is unknown.
  return age > -keyMarginSeconds && age < Number(seconds) - keyMarginSeconds ? "kept" : "not kept";
}

/** Sends the request until its outcome is known, and records that. */
async function sendAndRecord(
  service: Service,
  request: StartRequest,
  intent: Intent,
  options: SendOptions,
): Promise<SendOutcome> {
  const { attempt, at } = intent;
  const posted = await postUntilAnswered(service, request, intent, options);
  const checked = await rejectForeignId(service, posted, intent);
  const outcome = withBalanceDrop(unknownAfterResend(checked, intent), options);
  const recorded = await recordOutcome(service, outcome, intent);
  // An unknown outcome stays there, so that the process exits with 6 even if it crashes later.
  if (outcome.kind !== "unknown") service.io.unsettled.delete(attempt);
  const settled =
    recorded.kind === "refused" ? await settleRefused(service, recorded, { attempt, ...options }) : recorded;
  if (settled.kind !== "accepted")
    return { ...settled, error: explainRefusal(service, settled.error).with({ attempt }) };
  const { generation, credits_charged: credits, remaining_credits, warnings = [] } = settled.started;
  noteOnce(
    service,
    warnings.map((warning) => `The service warns: ${warning}`),
  );
  const { name: base_url, account } = service;
  const entry = {
    attempt,
    at,
    base_url,
    account,
    request: recordedRequest(service, request),
    is_preview: service.isPreview(request.model),
    credits,
    remaining_credits,
  };
  remember(service.unfollowed, generation.id, { ...entry, id: generation.id, state: "running", status: "processing" });
  return settled;
}

/** Rejects an id that belongs to another request, because a gateway may replay a reply, and the wrong video would be saved. */
async function rejectForeignId(service: Service, outcome: SendOutcome, { attempt, key }: Intent): Promise<SendOutcome> {
  const id = outcome.kind === "accepted" ? outcome.started.generation.id : outcome.error.id;
  if (id === undefined || outcome.kind === "unknown") return outcome;
  const entriesWithId = await entriesOf(service, id).catch(() => []);
  if (!entriesWithId.some((entry) => keyOf(entry) !== key)) return outcome;
  return unknownOutcome(`its reply named generation ${id}, which another request started`, attempt);
}

/**
 * After a resend, a refused or unsent request leaves open what happened to the first one: the outcome is
 * unknown unless the service accepted it.
 */
function unknownAfterResend(outcome: SendOutcome, { attempt, isResend }: Intent): SendOutcome {
  if (!isResend || outcome.kind === "accepted" || outcome.kind === "unknown") return outcome;
  const { kind, error } = outcome;
  const reason = kind === "unsent" ? "it could not be sent again with its key" : `it was sent again: ${error.message}`;
  // "Not now" says nothing about the earlier request.
  const isNotNow = "notNow" in outcome && outcome.notNow !== undefined;
  return unknownOutcome(
    reason,
    attempt,
    isNotNow || error.httpStatus === undefined ? {} : { httpStatus: error.httpStatus },
  );
}

function withBalanceDrop(outcome: SendOutcome, { balance }: SendOptions): SendOutcome {
  if (outcome.kind !== "accepted" || balance === undefined) return outcome;
  const { credits_charged, remaining_credits: left } = outcome.started;
  if (credits_charged !== undefined || left === undefined) return outcome;
  return { ...outcome, started: { ...outcome.started, balance_fell: balance - left } };
}

/** Records the outcome, and returns it. It is reported even if the journal cannot be written. */
async function recordOutcome(service: Service, outcome: SendOutcome, intent: Intent): Promise<SendOutcome> {
  const { attempt } = intent;
  // A refusal with an id is recorded, not withdrawn, because the generation may exist.
  if (outcome.kind === "unsent" || (outcome.kind === "refused" && outcome.error.id === undefined)) {
    const { kind, error } = outcome;
    return { ...outcome, error: await withdraw(attempt, { kind, error }, service.journal) };
  }
  await service.journal.append(outcomeLine(outcome, intent)).catch((error) => {
    const { message } = asVidgenError(error);
    const id = outcome.kind === "accepted" ? outcome.started.generation.id : outcome.error.id;
    const warning = `${message} This start could not be recorded: the same command may stop with exit 6.`;
    service.note(id === undefined ? warning : `${warning} \`vidgen wait ${id}\` continues generation ${id}.`);
  });
  return outcome;
}

function outcomeLine(outcome: SendOutcome, { attempt, isResend }: Intent): JournalLine {
  if (outcome.kind !== "accepted") {
    const { message: reason, code, id, httpStatus } = outcome.error;
    const isAnswered = outcome.kind === "unknown" && isResend && httpStatus !== undefined;
    return { kind: outcome.kind, attempt, id, reason, code, resend_answered: isAnswered || undefined };
  }
  const { generation, credits_charged: credits, balance_fell, remaining_credits } = outcome.started;
  return { kind: "accepted", attempt, id: generation.id, credits, balance_fell, remaining_credits };
}

/** A refusal that names a generation is final only if the service does not know it, or says that it failed. Polls once. */
async function settleRefused(
  service: Service,
  refused: SendOutcome & { kind: "refused" },
  { attempt, abandon }: Pick<Intent, "attempt"> & Pick<SendOptions, "abandon">,
): Promise<SendOutcome> {
  const { api, io } = service;
  const { id } = refused.error;
  if (id === undefined) return refused;
  const limit = io.limit(answerLimitMs, abandon ?? new AbortController().signal, new Error("no answer"));
  const answer = await poll(api, id, io, limit.signal).catch(asVidgenError).finally(limit.clear);
  let reason = `it was refused, and the service did not say whether generation ${id} exists`;
  if ("generation" in answer && answer.generation.status === "failed") {
    if (failedError(id, answer.generation).ended !== "unknown") return refused;
    reason = `it was refused, and the service cannot say whether generation ${id} was charged (${failureReason(answer.generation) ?? "it gave no reason"})`;
  } else if ("generation" in answer) {
    const { generation } = answer;
    await record(service, { kind: generation.status === "completed" ? "completed" : "found", id });
    return { kind: "accepted", started: { generation, remaining_credits: undefined } };
  }
  if ("error" in answer && answer.error.code === "not_found") return refused;
  await record(service, { kind: "unclear", id, reason });
  io.unsettled.add(attempt);
  return unknownOutcome(reason, attempt, { id });
}

/** Sends the request until there is a final answer. */
async function postUntilAnswered(
  service: Service,
  request: StartRequest,
  intent: Intent,
  options: SendOptions,
): Promise<SendOutcome> {
  const { io } = service;
  const begin = io.now();
  /** Set after a "not now" answer, from which on no message may say that nothing was sent. */
  let notNow: NotNowOutcome | undefined;
  for (let failures = 0; ; failures++) {
    if (options.signal.aborted) return stoppedBetweenRequests(asVidgenError(options.signal.reason), notNow);
    const answer = await postOnce(service, request, intent, options);
    if (answer.kind === "stopped") return stoppedBetweenRequests(answer.error, notNow);
    if (answer.kind !== "unsent" && answer.kind !== "not now") return answer;
    if (answer.kind === "not now") notNow = answer;
    if (options.signal.aborted) return stoppedBetweenRequests(asVidgenError(options.signal.reason), notNow);
    const minimumMs = answer.kind === "not now" ? Math.max(answer.waitMs ?? 0, minWaitMs) : 0;
    const waitMs = Math.max(minimumMs, backoffMs(failures, io.random()));
    const isOver = io.now() + waitMs - begin > (notNow ? notNowLimitMs : unsentLimitMs);
    if (notNow && options.batch) return { ...notAccepted(answer, notNow), notNow };
    if (isOver || (answer.kind === "unsent" && answer.isFinal))
      return notNow ? notAccepted(answer, notNow) : unreachable(answer);
    const state = notNow ? "Not accepted yet" : "Nothing was sent";
    service.note(`${state} (${answer.reason}); retrying in ${Math.ceil(waitMs / 1000)} s.`);
    await io.sleep(waitMs, options.signal).catch(() => {});
  }
}

/** Sends the request once, unless another process may have taken over the attempt. */
async function postOnce(
  service: Service,
  request: StartRequest,
  intent: Intent,
  options: SendOptions,
): Promise<PostOutcome> {
  const { io } = service;
  const { unsettled } = io;
  const { attempt, isResend, firstSentAt } = intent;
  // Asked right before a key is sent again, because this process may have been suspended since the last answer.
  const askedAt = io.date().getTime();
  if (isResend) unsettled.add(attempt);
  if (isResend && (await askForKey(service, firstSentAt, options.signal)) !== "kept")
    return unknownOutcome("it was not sent again, because the service no longer says that it keeps its key", attempt);
  // Confirmed after the question, whose answer may take seconds: meanwhile the attempt may have been taken over or dismissed.
  try {
    await intent.confirm();
  } catch (error) {
    return stopped(error);
  }
  unsettled.add(attempt);
  const assertFresh = () => {
    intent.assertFresh();
    if (isResend && io.date().getTime() - askedAt >= keyAnswerValidMs)
      throw new VidgenError("network", "This process was suspended for over a minute.");
  };
  const answer = await post(service, request, { ...intent, assertFresh }, options);
  if (answer.kind === "unsent" || answer.kind === "not now" || answer.kind === "stopped") unsettled.delete(attempt);
  return answer;
}

async function post(
  service: Service,
  request: StartRequest,
  { attempt, key, assertFresh }: Intent,
  options: SendOptions,
): Promise<PostOutcome> {
  const { api, io } = service;
  const limit = createStepLimit(service, options);
  let isStale = false;
  const beforeSend = () => {
    // Stays true if `assertFresh` throws: then nothing was sent, and another process may have taken over.
    isStale = true;
    assertFresh();
    isStale = false;
    limit.restart("no response within 120 s");
  };
  const onUpload = (bytesLeft: number) =>
    limit.restart(bytesLeft > 0 ? "the upload made no progress for 120 s" : "no response within 120 s");
  try {
    const startOptions = {
      signal: limit.signal,
      unsentSignal: options.signal,
      beforeSend,
      onUpload,
      onReceived: limit.onReceived,
      label: options.batch?.label,
    };
    const reply = unwrapStart(await api.start(request, key, startOptions), request);
    return classify({ ...reply, prompt: request.prompt }, attempt, io.date());
  } catch (error) {
    if (isStale) return stopped(error instanceof RequestError ? error.cause : error);
    if (wasSent(error)) {
      const wasInterrupted = limit.signal.aborted && options.signal.aborted;
      const reason = wasInterrupted ? "interrupted before the service responded" : describeFailure(error);
      return unknownOutcome(reason, attempt);
    }
    const isFinal = isFinalConnectFailure(systemCode(error), api.baseUrl);
    return { kind: "unsent", reason: describeFailure(error), isFinal };
  } finally {
    limit.clear();
  }
}

/**
 * A signal that aborts two minutes after the last step began, at the second Ctrl-C, or ten seconds after the
 * first. `restart` begins a step of the request, which is sent from then on; its argument is the message of
 * the error at the time limit of this step.
 */
function createStepLimit({ io, note }: Service, options: SendOptions) {
  const abandon = options.abandon ?? new AbortController().signal;
  const tooLong = new Error("no response within 120 s");
  const controller = new AbortController();
  const cleared = new AbortController();
  let limit: Limit = io.limit(stepLimitMs, abandon, tooLong);
  let reply: ReplyLimit | undefined;
  const onLimit = () => controller.abort(limit.signal.reason);
  limit.signal.addEventListener("abort", onLimit, { once: true });
  const wait = async () => {
    // An unsent request is aborted at once, which clears this limit before the note.
    await io.sleep(50, cleared.signal);
    note("Request sent; waiting up to 10 s for its id. Press Ctrl-C again to quit now (you may be charged).");
    await sleepSeen(interruptLimitMs, cleared.signal, io);
    controller.abort(options.signal.reason);
  };
  const onInterrupt = () => void wait().catch(() => {});
  options.signal.addEventListener("abort", onInterrupt, { once: true });
  const clear = () => {
    limit.clear();
    cleared.abort();
    options.signal.removeEventListener("abort", onInterrupt);
  };
  const restart = (ifTooLong: string) => {
    tooLong.message = ifTooLong;
    if (reply) return reply.restart();
    limit.clear();
    reply = createReplyLimit(stepLimitMs, abandon, tooLong, io);
    reply.signal.addEventListener("abort", onLimit, { once: true });
    limit = reply;
  };
  return { signal: controller.signal, restart, onReceived: () => reply?.onReceived(), clear };
}

/**
 * Classifies the reply to a start request. Only `unknown` may have been charged; only "not now" is sent
 * again. An id is never dropped, whatever the status.
 */
export function classify(reply: Reply, attempt: string, now: Date): PostOutcome {
  const { status, headers } = reply;
  const { started, saysNo } = readStartReply(reply.text);
  const id = started?.generation.id;
  const isSuccess = status >= 200 && status < 300;
  if (started && !saysNo && (isSuccess || isNotNow(status))) return { kind: "accepted", started };
  const reason = describeReply(reply);
  if (isNotNow(status) && id === undefined && !lacksCredits(reply))
    return { kind: "not now", reason, httpStatus: status, waitMs: retryAfterMs(reply.retryAfter, now) };
  // "Not now" with an id contradicts itself, so that case is unknown.
  if (isRefusal(status) && !(isNotNow(status) && started)) return refusedOutcome(reply, id);
  if (id !== undefined)
    return unknownOutcome(`${reason}, but the reply contains an id`, attempt, { httpStatus: status, headers, id });
  if (!isSuccess) return unknownOutcome(reason, attempt, { httpStatus: status, headers });
  if (reply.cut !== undefined) {
    const cut = `the response was cut off: ${describeFailure(reply.cut)}`;
    return unknownOutcome(cut, attempt, { httpStatus: status, headers });
  }
  if (saysNo && errorText(reply.json) !== undefined) return refusedOutcome(reply);
  return unknownOutcome(`a response without an id: ${describeValues(reply)}`, attempt, { httpStatus: status, headers });
}

function refusedOutcome(reply: Reply, id?: string): FinalOutcome {
  const error = refusal(reply);
  const hint = "See `vidgen generate --help` for the flags and `vidgen models` for the models.";
  const explained = error.hint === undefined ? error.with({ hint }) : error;
  if (id === undefined) return { kind: "refused", error: explained };
  const { code, message, httpStatus, headers } = explained;
  const named = new VidgenError(code, `${message} The reply named generation ${id} anyway.`, {
    httpStatus,
    headers,
    id,
  });
  return {
    kind: "refused",
    error: named.with({ hint: `\`vidgen status ${id}\` shows whether that generation exists.` }),
  };
}

/** Whether a byte of the request was written; true if `fetch` does not say, since a retry could charge twice. */
function wasSent(error: unknown): boolean {
  return !(error instanceof RequestError) || error.sent;
}

type UnknownDetails = { httpStatus?: number; headers?: Reply["headers"]; id?: string };

/** The outcome of a start that may have been charged. `id` is set if the reply named a generation without accepting the start. */
export function unknownOutcome(reason: string, attempt: string, details: UnknownDetails = {}): FinalOutcome {
  const { httpStatus, headers, id } = details;
  const namedText = id === undefined ? "" : ` The reply named generation ${id}.`;
  const message = `The request was sent, but got no usable response: ${reason}. It may have been charged (attempt ${attempt}).${namedText}`;
  const fetchAdvice = id === undefined ? "`vidgen wait <id>` fetches it" : `\`vidgen wait ${id}\` fetches it`;
  const hint = `Check your account for it before retrying; ${fetchAdvice}. \`vidgen list --status unknown\` shows the attempt.`;
  return { kind: "unknown", error: new VidgenError("unknown", message, { httpStatus, headers, id, hint, attempt }) };
}

function stopped(error: unknown): StoppedOutcome {
  const hint =
    "Run the same command again, without --again: what another process has started meanwhile is not paid for again.";
  return { kind: "stopped", error: asVidgenError(error).with({ hint }) };
}

/** The outcome of a start that stops between two requests. An earlier request was answered with "not now", if any was sent. */
function stoppedBetweenRequests({ code, message, hint }: VidgenError, notNow: NotNowOutcome | undefined): SendOutcome {
  if (notNow) {
    const { httpStatus } = notNow;
    const error = new VidgenError(code, `${message} No generation was started.`, { httpStatus, hint });
    return { kind: "refused", error };
  }
  return {
    kind: "unsent",
    error: new VidgenError(code, `${message} Nothing was sent, nothing was charged.`, { hint, charged: "no" }),
  };
}

function unreachable({ reason }: Pick<UnsentOutcome, "reason">): SendOutcome {
  const message = `Could not reach the service: ${reason}. Nothing was sent, nothing was charged.`;
  return { kind: "unsent", error: new VidgenError("network", message, { hint: doctorHint, charged: "no" }) };
}

function notAccepted(last: UnsentOutcome | NotNowOutcome, notNow: NotNowOutcome): RefusedOutcome {
  const laterOutage = last.kind === "unsent" ? `; then it could not be reached: ${last.reason}` : "";
  const message = `The service did not accept the request: ${notNow.reason}${laterOutage}. Try again later.`;
  return { kind: "refused", error: new VidgenError("network", message, { httpStatus: notNow.httpStatus }) };
}
