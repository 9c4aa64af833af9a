import type { Client, Reply } from "../api/client.ts";
import { backoffMs, isFinalConnectFailure, isNotNow, retryAfterMs } from "../api/retry.ts";
import { errorText, readStarted, type Started, type StartRequest, saysNo } from "../api/schema.ts";
import { asVidgenError, systemCode, VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import { describeFailure, describeReply, refusal } from "./look.ts";
import { salvageStarted } from "./salvage.ts";

export type StartOptions = {
  /** Names this attempt to the service and to people; a UUID. */
  attempt: string;
  /** The first Ctrl-C: the request is left out for a while longer, so that its id is not lost. */
  signal: AbortSignal;
  /** The second Ctrl-C. */
  leave: AbortSignal;
  onNote(text: string): void;
};

type Outcome =
  | { kind: "accepted"; started: Started }
  | { kind: "unsent"; reason: string; isFinal: boolean }
  | { kind: "not now"; reason: string; httpStatus: number; waitMs: number | undefined }
  | { kind: "refused"; error: VidgenError }
  | { kind: "unknown"; reason: string; httpStatus?: number };

/** How long the service may take to answer the start request. */
const answerLimitMs = 120_000;
/** How long unsent requests and "not now" answers are tried again. */
const unsentLimitMs = 60_000;
const notNowLimitMs = 120_000;
/** How long the first Ctrl-C waits for the id. */
const interruptLimitMs = 10_000;

/**
 * Starts a generation (interface 4.1). The request costs money, so it is sent once: only one of which no byte was written, or that the
 * service put off (429, 421, 425), is tried again. Throws `network` (nothing was sent), `unknown` (it may have been charged), or what
 * the service's refusal means.
 */
export async function start(
  client: Client,
  request: StartRequest,
  options: StartOptions,
  clock: Clock,
): Promise<Started> {
  const begin = clock.now();
  let wasSentBefore = false;
  for (let failures = 0; ; failures++) {
    if (options.signal.aborted) throw stoppedError(options.signal, wasSentBefore);
    const outcome = await attemptOnce(client, request, options, clock);
    if (outcome.kind === "accepted") return outcome.started;
    if (outcome.kind === "refused") throw outcome.error;
    if (outcome.kind === "unknown") throw unknownError(outcome.reason, options.attempt, outcome.httpStatus);
    wasSentBefore ||= outcome.kind === "not now";
    if (options.signal.aborted) throw stoppedError(options.signal, wasSentBefore);
    const waitMs = (outcome.kind === "not now" ? outcome.waitMs : undefined) ?? backoffMs(failures);
    const limitMs = outcome.kind === "unsent" ? unsentLimitMs : notNowLimitMs;
    const isOver = clock.now() + waitMs - begin > limitMs;
    if (isOver || (outcome.kind === "unsent" && outcome.isFinal)) throw givenUp(outcome);
    options.onNote(
      `${outcome.kind === "unsent" ? "Nothing was sent" : "Not accepted yet"} (${outcome.reason}); trying again in ${Math.ceil(waitMs / 1000)} s.`,
    );
    await clock.sleep(waitMs, options.signal).catch(() => {});
  }
}

async function attemptOnce(
  client: Client,
  request: StartRequest,
  options: StartOptions,
  clock: Clock,
): Promise<Outcome> {
  const patience = createPatience(options, clock);
  try {
    return classify(
      await client.start(request, options.attempt, { signal: patience.signal, unsentSignal: options.signal }),
      clock.date(),
    );
  } catch (error) {
    if (wasSent(error)) {
      if (patience.signal.aborted && options.signal.aborted) throw leftError(options);
      return { kind: "unknown", reason: describeFailure(error) };
    }
    return { kind: "unsent", reason: describeFailure(error), isFinal: isFinalConnectFailure(systemCode(error)) };
  } finally {
    patience.clear();
  }
}

/** Ends the request after two minutes, at the second Ctrl-C, or ten seconds after the first. */
function createPatience(options: StartOptions, clock: Clock) {
  const limit = clock.limit(answerLimitMs, options.leave, new Error("no answer within 120 s"));
  const controller = new AbortController();
  const over = new AbortController();
  const onLimit = () => controller.abort(limit.signal.reason);
  const wait = async () => {
    // A request that was not sent yet ends within this moment, and there is nothing to wait for.
    await clock.sleep(50, over.signal);
    options.onNote(
      "The request is out: waiting up to 10 s for its id. Ctrl-C again leaves at once; it may be charged.",
    );
    await clock.sleep(interruptLimitMs, over.signal);
    controller.abort(options.signal.reason);
  };
  const onInterrupt = () => void wait().catch(() => {});
  limit.signal.addEventListener("abort", onLimit, { once: true });
  options.signal.addEventListener("abort", onInterrupt, { once: true });
  const clear = () => {
    limit.clear();
    over.abort();
    options.signal.removeEventListener("abort", onInterrupt);
  };
  return { signal: controller.signal, clear };
}

/** What an answer to the start request means. Pure: the class table of the paid request, in code. */
export function classify(reply: Reply, now: Date): Outcome {
  const { status } = reply;
  const reason = describeReply(reply);
  if (isNotNow(status))
    return { kind: "not now", reason, httpStatus: status, waitMs: retryAfterMs(reply.retryAfter, now) };
  if (status >= 400 && status < 500 && status !== 408) return { kind: "refused", error: refusal(reply) };
  if (status < 200 || status >= 300) return { kind: "unknown", reason, httpStatus: status };
  if (reply.cut !== undefined) {
    const started = salvageStarted(reply.text);
    if (started) return { kind: "accepted", started };
    return { kind: "unknown", reason: `the answer broke off: ${describeFailure(reply.cut)}`, httpStatus: status };
  }
  if (saysNo(reply.json) && errorText(reply.json) !== undefined) return { kind: "refused", error: refusal(reply) };
  const started = readStarted(reply.json);
  if (started) return { kind: "accepted", started };
  return { kind: "unknown", reason: `an answer without an id (HTTP ${status})`, httpStatus: status };
}

/** Whether a byte of the request was written; where `fetch` does not say, the careful answer is yes. */
function wasSent(error: unknown): boolean {
  return !(error instanceof Error && "sent" in error && error.sent === false);
}

function unknownError(reason: string, attempt: string, httpStatus?: number): VidgenError {
  return new VidgenError(
    "unknown",
    `The request was sent, but no usable answer came: ${reason}. It may have been charged (attempt ${attempt}).`,
    {
      httpStatus,
      hint: "It was not sent again. Look at your account for a new generation before you start another; `vidgen wait <id>` fetches it.",
    },
  );
}

function leftError(options: StartOptions): VidgenError {
  const { code } = asVidgenError(options.signal.reason);
  return new VidgenError(code, `Left before the answer came. It may have been charged (attempt ${options.attempt}).`, {
    hint: "Look at your account for a new generation before you start another; `vidgen wait <id>` fetches it.",
  });
}

/** Interrupted while no request was out; those that were sent before it had been put off. */
function stoppedError(signal: AbortSignal, wasSentBefore: boolean): VidgenError {
  const { code, message } = asVidgenError(signal.reason);
  return new VidgenError(
    code,
    `${message} ${wasSentBefore ? "No generation was started." : "Nothing was sent, nothing was charged."}`,
  );
}

function givenUp(outcome: Extract<Outcome, { kind: "unsent" | "not now" }>): VidgenError {
  if (outcome.kind === "unsent")
    return new VidgenError(
      "network",
      `Could not reach the service: ${outcome.reason}. Nothing was sent, nothing was charged.`,
    );
  const { reason, httpStatus } = outcome;
  return new VidgenError("network", `The service did not take the request: ${reason}. Try again later.`, {
    httpStatus,
  });
}
