import { asVidgenError, doctorHint, systemCode, VidgenError } from "../../errors.ts";
import { type Clock, type Io, RequestError } from "../../io.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import { type AcceptedStart, errorText, type StartRequest } from "../../protocol/schema.ts";
import { isNotNow, isRefusal, retryAfterMs } from "../../protocol/status.ts";
import type { Api, Label } from "../http/api.ts";
import { describeFailure, describeReply, describeValues, type Reply, refusal } from "../http/reply.ts";
import { backoffMs, isFinalConnectFailure, type RetryIo } from "../http/retry.ts";
import { readStartReply } from "../http/salvage.ts";
import type { JournalLine } from "../ledger/history.ts";
import type { Journal } from "../ledger/journal.ts";
import { withdraw } from "../ledger/withdraw.ts";

export type PaidStartOptions = {
  /** The attempt's name in the journal and in errors. */
  attempt: string;
  /** The Idempotency-Key. */
  key: string;
  journal: Pick<Journal, "append" | "withdraw">;
  /** Aborts at the first Ctrl-C; a request that was sent gets 10 s more, so that its id is not lost. */
  signal: AbortSignal;
  /** Aborts at the second Ctrl-C, which ends those 10 s. */
  leave: AbortSignal;
  /** Rejects where this process may no longer send the attempt: before each request it is asked. */
  confirm(): Promise<void>;
  /** Throws where this process has stood still since then; called right before the first byte of a request. */
  assertFresh(): void;
  /** Whether the id belongs to another request, or to another account: a gateway may replay a reply. */
  isForeign(id: string): Promise<boolean>;
  /**
   * Whether it is sent again because an earlier request with the same key may have been charged, to a service that knows its keys: see
   * `keepsKey` in `client.ts`. Then it has its id, or stays unknown.
   */
  mayBeCharged?: boolean | undefined;
  /** Whether "not now" answers are retried; without, such an answer ends the start as refused. */
  retriesNotNow?: boolean | undefined;
  /** What the account had before, where that is known: by how much it fell is written down where the service states no cost. */
  balance?: number | undefined;
  /** What it belongs to, for a service that shows that. */
  label?: Label | undefined;
  onNote(text: string): void;
};

type StartIo = RetryIo & Pick<Io, "unsettled">;

type Accepted = { kind: "accepted"; started: AcceptedStart };
type Final = { kind: "refused" | "unknown"; error: VidgenError };
/** `notNow` has what Retry-After asks for, where the last answer was "not now" and is not retried. */
type Refused = { kind: "refused"; error: VidgenError; notNow?: { waitMs: number | undefined } };

/** How a start ended, in the journal's words. */
export type End = Accepted | Refused | { kind: "unknown" | "unsent"; error: VidgenError };

/** The outcomes that may be retried. */
type Unsent = { kind: "unsent"; reason: string; isFinal: boolean };
type NotNow = { kind: "not now"; reason: string; httpStatus: number; waitMs: number | undefined };

/** Another process has taken the attempt, or may have: nothing more is sent. */
type Stopped = { kind: "stopped"; error: VidgenError };

type SendOutcome = Accepted | Final | Unsent | NotNow | Stopped;

/** How long making the connection may take, then the upload without progress, and then the service with its answer. */
const stepLimitMs = 120_000;
/** How long unsent requests and "not now" answers are retried. */
const unsentLimitMs = 60_000;
const notNowLimitMs = 120_000;
/** The shortest wait after "not now", whatever Retry-After says. */
const minWaitMs = 500;
/** How long a sent request may still take after the first Ctrl-C. */
const interruptLimitMs = 10_000;

/**
 * Starts a generation (interface 4.1) whose intent is in the journal: see `begin.ts`. The request costs money, so it is sent once: it is retried
 * only when no byte of it was written, or when the service said "not now" (429, 421, 425). Returns how it ended; the error is `network`
 * (nothing was sent), `unknown` (it may have been charged), or the code of the service's refusal.
 */
export async function start(api: Api, request: StartRequest, options: PaidStartOptions, io: StartIo): Promise<End> {
  const { attempt } = options;
  const end = await startUntilKnown(api, request, options, io)
    .then((end) => unlessForeign(end, options))
    .then((end) => unlessCharged(end, options))
    .then((end) => withFall(end, options));
  const recorded = await record(end, options);
  // A process that ends after an unknown outcome, however it ends, ends with exit 6.
  if (end.kind !== "unknown") io.unsettled.delete(attempt);
  return recorded;
}

/** Writes down the outcome, and returns it. It is reported even where the journal can no longer be written. */
async function record(end: End, { attempt, journal, onNote }: PaidStartOptions): Promise<End> {
  // A generation that a refusal names may exist: its id is never overwritten.
  if (end.kind === "unsent" || (end.kind === "refused" && end.error.id === undefined)) {
    const { kind, error } = end;
    return { ...end, error: await withdraw(attempt, { kind, error }, journal) };
  }
  await journal.append(outcomeLine(end, attempt)).catch((error) => onNote(asVidgenError(error).message));
  return end;
}

/** The id of another request is not taken for this one's: its video would be saved under the wrong name. */
async function unlessForeign(end: End, { attempt, isForeign }: PaidStartOptions): Promise<End> {
  const id = end.kind === "accepted" ? end.started.generation.id : end.error.id;
  if (id === undefined || end.kind === "unknown") return end;
  if (!(await isForeign(id).catch(() => false))) return end;
  return unknownOutcome(`its reply named generation ${id}, which another request started`, attempt);
}

/** What the second request says tells of the first one only when it gives its id. */
function unlessCharged(end: End, { attempt, mayBeCharged }: PaidStartOptions): End {
  if (!mayBeCharged || end.kind === "accepted" || end.kind === "unknown") return end;
  return unknownOutcome(`it was sent again with the same key: ${end.error.message}`, attempt);
}

function withFall(end: End, { balance }: PaidStartOptions): End {
  if (end.kind !== "accepted" || balance === undefined) return end;
  const { credits_charged, remaining_credits: left } = end.started;
  if (credits_charged !== undefined || left === undefined) return end;
  return { ...end, started: { ...end.started, balance_fell: balance - left } };
}

function outcomeLine(end: End, attempt: string): JournalLine {
  if (end.kind !== "accepted") {
    const { message: reason, code, id } = end.error;
    return { kind: end.kind, attempt, id, reason, code };
  }
  const { generation, credits_charged: credits, balance_fell, remaining_credits } = end.started;
  return { kind: "accepted", attempt, id: generation.id, credits, balance_fell, remaining_credits };
}

async function startUntilKnown(api: Api, request: StartRequest, options: PaidStartOptions, io: StartIo): Promise<End> {
  const begin = io.now();
  /** Set once a request was answered with "not now": then no message may say that nothing was sent. */
  let notNow: NotNow | undefined;
  for (let failures = 0; ; failures++) {
    if (options.signal.aborted) return stoppedBetweenRequests(asVidgenError(options.signal.reason), notNow);
    const outcome = await attemptOnce(api, request, options, io);
    if (outcome.kind === "stopped") return stoppedBetweenRequests(outcome.error, notNow);
    if (outcome.kind !== "unsent" && outcome.kind !== "not now") return outcome;
    if (outcome.kind === "not now") notNow = outcome;
    if (options.signal.aborted) return stoppedBetweenRequests(asVidgenError(options.signal.reason), notNow);
    const minimumMs = outcome.kind === "not now" ? Math.max(outcome.waitMs ?? 0, minWaitMs) : 0;
    const waitMs = Math.max(minimumMs, backoffMs(failures, io.random()));
    const isOver = io.now() + waitMs - begin > (notNow ? notNowLimitMs : unsentLimitMs);
    if (notNow && options.retriesNotNow === false) return { ...notAccepted(outcome, notNow), notNow };
    if (isOver || (outcome.kind === "unsent" && outcome.isFinal))
      return notNow ? notAccepted(outcome, notNow) : unreachable(outcome);
    const what = notNow ? "Not accepted yet" : "Nothing was sent";
    options.onNote(`${what} (${outcome.reason}); retrying in ${Math.ceil(waitMs / 1000)} s.`);
    await io.sleep(waitMs, options.signal).catch(() => {});
  }
}

/** Sends the request once, unless another process may have taken the attempt. */
async function attemptOnce(
  api: Api,
  request: StartRequest,
  options: PaidStartOptions,
  io: StartIo,
): Promise<SendOutcome> {
  const { attempt } = options;
  try {
    await options.confirm();
  } catch (error) {
    return stopped(error);
  }
  io.unsettled.add(attempt);
  const outcome = await sendOnce(api, request, options, io);
  if (outcome.kind === "unsent" || outcome.kind === "not now" || outcome.kind === "stopped")
    io.unsettled.delete(attempt);
  return outcome;
}

async function sendOnce(
  api: Api,
  request: StartRequest,
  options: PaidStartOptions,
  clock: Clock,
): Promise<SendOutcome> {
  const limit = createStepLimit(options, clock);
  let isStale = false;
  const beforeSend = () => {
    isStale = true;
    options.assertFresh();
    isStale = false;
    limit.restart("no response within 120 s");
  };
  const onUpload = (bytesLeft: number) =>
    limit.restart(bytesLeft > 0 ? "the upload made no progress for 120 s" : "no response within 120 s");
  try {
    const how = { signal: limit.signal, unsentSignal: options.signal, beforeSend, onUpload, label: options.label };
    return classify(await api.start(request, options.key, how), options.attempt, clock.date());
  } catch (error) {
    if (isStale) return stopped(error instanceof RequestError ? error.cause : error);
    if (wasSent(error)) {
      const wasInterrupted = limit.signal.aborted && options.signal.aborted;
      const reason = wasInterrupted ? "interrupted before the service responded" : describeFailure(error);
      return unknownOutcome(reason, options.attempt);
    }
    const isFinal = isFinalConnectFailure(systemCode(error), api.baseUrl);
    return { kind: "unsent", reason: describeFailure(error), isFinal };
  } finally {
    limit.clear();
  }
}

/**
 * A signal that aborts two minutes after the last step, at the second Ctrl-C, or ten seconds after the first. `restart` begins a step, and says
 * what has happened when its time is over.
 */
function createStepLimit(options: PaidStartOptions, clock: Clock) {
  const tooLong = new Error("no response within 120 s");
  const limit = clock.limit(stepLimitMs, options.leave, tooLong);
  const controller = new AbortController();
  const cleared = new AbortController();
  const onLimit = () => controller.abort(limit.signal.reason);
  const wait = async () => {
    // An unsent request is aborted at once, which clears this limit: then there is no note.
    await clock.sleep(50, cleared.signal);
    options.onNote("Request sent; waiting up to 10 s for its id. Press Ctrl-C again to quit now (you may be charged).");
    await clock.sleep(interruptLimitMs, cleared.signal);
    controller.abort(options.signal.reason);
  };
  const onInterrupt = () => void wait().catch(() => {});
  limit.signal.addEventListener("abort", onLimit, { once: true });
  options.signal.addEventListener("abort", onInterrupt, { once: true });
  const clear = () => {
    limit.clear();
    cleared.abort();
    options.signal.removeEventListener("abort", onInterrupt);
  };
  const restart = (ifTooLong: string) => {
    tooLong.message = ifTooLong;
    limit.restart();
  };
  return { signal: controller.signal, restart, clear };
}

/**
 * What an answer to the start request means. Only `unknown` may have been charged; only "not now" is sent again. An id is never thrown away:
 * whatever the status, the outcome has it.
 */
export function classify(reply: Reply, attempt: string, now: Date): SendOutcome {
  const { status, headers } = reply;
  const { started, saysNo } = readStartReply(reply.text);
  const id = started?.generation.id;
  const isSuccess = status >= 200 && status < 300;
  if (started && !saysNo && (isSuccess || isNotNow(status))) return { kind: "accepted", started };
  const reason = describeReply(reply);
  if (isNotNow(status) && id === undefined && !lacksCredits(reply))
    return { kind: "not now", reason, httpStatus: status, waitMs: retryAfterMs(reply.retryAfter, now) };
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

function refusedOutcome(reply: Reply, id?: string): Final {
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
  return { kind: "refused", error: named.with({ hint: `\`vidgen status ${id}\` shows whether there is one.` }) };
}

/** Whether a byte of the request was written; yes where `fetch` does not say, since a retry could charge twice. */
function wasSent(error: unknown): boolean {
  return !(error instanceof RequestError) || error.sent;
}

type UnknownDetails = { httpStatus?: number; headers?: Reply["headers"]; id?: string };

/** The outcome of a start that may have been charged. `id` is that of a generation which the answer named without accepting the start. */
export function unknownOutcome(reason: string, attempt: string, details: UnknownDetails = {}): Final {
  const { httpStatus, headers, id } = details;
  const named = id === undefined ? "" : ` The reply named generation ${id}.`;
  const message = `The request was sent, but got no usable response: ${reason}. It may have been charged (attempt ${attempt}).${named}`;
  const fetches = id === undefined ? "`vidgen wait <id>` fetches it" : `\`vidgen wait ${id}\` fetches it`;
  const hint = `Check your account for it before retrying; ${fetches}. \`vidgen list --status unknown\` shows the attempt, which was not sent again.`;
  return { kind: "unknown", error: new VidgenError("unknown", message, { httpStatus, headers, id, hint, attempt }) };
}

function stopped(error: unknown): Stopped {
  const hint = "Run the same command again: what another process has started meanwhile is not paid for again.";
  return { kind: "stopped", error: asVidgenError(error).with({ hint }) };
}

/** The end of a start that stops between two requests. A request that was sent before was answered with "not now". */
function stoppedBetweenRequests({ code, message, hint }: VidgenError, notNow: NotNow | undefined): End {
  if (notNow) {
    const { httpStatus } = notNow;
    const error = new VidgenError(code, `${message} No generation was started.`, { httpStatus, hint });
    return { kind: "refused", error };
  }
  return {
    kind: "unsent",
    error: new VidgenError(code, `${message} Nothing was sent, nothing was charged.`, { hint }),
  };
}

function unreachable({ reason }: Pick<Unsent, "reason">): End {
  const message = `Could not reach the service: ${reason}. Nothing was sent, nothing was charged.`;
  return { kind: "unsent", error: new VidgenError("network", message, { hint: doctorHint }) };
}

function notAccepted(last: Unsent | NotNow, notNow: NotNow): Refused {
  const then = last.kind === "unsent" ? `; then it could not be reached: ${last.reason}` : "";
  const message = `The service did not accept the request: ${notNow.reason}${then}. Try again later.`;
  return { kind: "refused", error: new VidgenError("network", message, { httpStatus: notNow.httpStatus }) };
}
