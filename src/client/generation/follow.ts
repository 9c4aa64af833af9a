import { doctorHint, systemCode, usage, VidgenError } from "../../errors.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import {
  type CompletedGeneration,
  errorText,
  type FailureCode,
  failureReason,
  isCancelledError,
  meaningOf,
  states,
  type WireGeneration,
} from "../../protocol/schema.ts";
import { isLoopback } from "../../protocol/url.ts";
import type { Api } from "../http/api.ts";
import { isProxyRefusal } from "../http/proxy.ts";
import { freeRetryMs, type RetryIo } from "../http/retry.ts";
import { type PollResult, poll } from "./poll.ts";

export type PollOptions = {
  /** How long to wait for the end, in milliseconds. */
  timeoutMs: number;
  /** Returns how long to wait before the next poll, by the time since the first one; both in milliseconds. */
  intervalMs(elapsedMs: number): number;
  /** Whether the generation was just started. If so, the first poll is delayed, and the service counts as reached. */
  isNew: boolean;
  /** Whether the generation was started here. If so, the service may answer 404 for a while. */
  isKnown: boolean;
  /** Whether the generation is known to cost nothing. */
  isFree?: boolean;
  signal: AbortSignal;
  /**
   * Called at each poll of a running generation, with the service's own word for its state and, if stated,
   * the progress in percent: of the video, or of the engine's current node.
   */
  onState?(status: string, percent?: number, node?: string): void;
  /** Called with the reason at each failed poll from the third consecutive one on. */
  onOutage?(reason: string): void;
  /** Called when the generation has failed, before the error is thrown. */
  onFailed?(generation: WireGeneration): void;
  /** Called with a note for the user, such as about a state that the interface does not have. */
  onNote(text: string): void;
};

/** How long a 404 for a known id, or `completed` without a video, counts as a delay inside the service. */
const toleranceMs = 60_000;
/**
 * How many consecutive polls must return any other refusal, or a word for an end that the interface does not
 * have, before it counts.
 */
const maxRefusals = 3;
/** The maximum interval to the next poll after a refusal. */
const refusedIntervalMs = 5_000;

/**
 * Falls from 9.5 s to 5 s over the first minute, because the interface recommends 5 to 10 s, and a generation
 * takes 1 to 3 minutes.
 */
export function remotePace(elapsedMs: number): number {
  return Math.max(5_000, 9_500 - elapsedMs * 0.075);
}

/** The pace for the local service, which renders previews in seconds. */
export function localPace(elapsedMs: number): number {
  return Math.min(1_000, 100 + elapsedMs / 10);
}

const defaultTimeoutMs = 15 * 60_000;

type Times = { timeoutMs?: number | undefined; intervalMs?: number | undefined };

/** Checks the caller's times, in milliseconds, and fills in the defaults for the service. Throws `usage`. */
export function readTimes({ timeoutMs = defaultTimeoutMs, intervalMs }: Times, baseUrl: string) {
  if (!(timeoutMs > 0)) throw usage("timeoutMs must be a number above 0.");
  if (intervalMs !== undefined && !(intervalMs >= 1000)) throw usage("intervalMs must be at least 1000.");
  const pace = isLoopback(new URL(baseUrl).hostname) ? localPace : remotePace;
  return { timeoutMs, intervalMs: intervalMs === undefined ? pace : () => intervalMs };
}

/**
 * Polls a generation until it has completed, and returns it. Network errors, 429 and 5xx are retried until
 * the timeout, and so is a refusal between good answers until it repeats. Throws the error of `failedError`;
 * `pending` at the timeout, or `network` if no poll had an answer by then; `not_found`, `auth`, `credits`,
 * `rejected` (also if the completed generation has no video URL), or the signal's reason.
 */
export async function follow(api: Api, id: string, options: PollOptions, clock: RetryIo): Promise<CompletedGeneration> {
  const start = clock.now();
  const timedOut = (how: string) =>
    new VidgenError("pending", `Timed out after ${formatLimit(options.timeoutMs)}; ${how}.`, { id });
  const timeoutError = timedOut("still generating");
  const limit = clock.limit(options.timeoutMs, options.signal, timeoutError);
  const pollState = createPollState(id, options, clock);
  try {
    if (options.isNew) await clock.sleep(options.intervalMs(0), limit.signal);
    for (;;) {
      const askedAt = clock.now();
      const result = await poll(api, id, clock, limit.signal);
      const completed = pollState.findCompleted(result, askedAt);
      if (completed) return completed;
      await clock.sleep(pollState.waitMs(result, options.intervalMs(askedAt - start)), limit.signal);
    }
  } catch (error) {
    throw error === timeoutError ? pollState.timeoutError(timedOut) : error;
  } finally {
    limit.clear();
  }
}

/** Formats a time limit, such as "15 min" or "90 s". */
function formatLimit(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000} min` : `${ms / 1000} s`;
}

/** Interprets each poll by what the earlier polls returned. */
function createPollState(id: string, options: PollOptions, clock: RetryIo) {
  const notedStatuses = new Set<string>(states);
  let failures = 0;
  let lastFailure = "no response";
  /** Whether the service complained about missing credits. The generation may still be running. */
  let isShortOfCredits = false;
  const wasReached = () => options.isNew || wasSeen || refusals > 0 || isShortOfCredits;
  let wasSeen = false;
  let refusals = 0;
  let missingSince: number | undefined;
  let completedSince: number | undefined;
  let stage: string | undefined;
  let previousReport = "";
  let repeats = 0;
  /** Translates another service's word for the end after three consecutive polls; a success only with a video URL. */
  const interpret = ({ generation, videoData }: PollResult & { kind: "generation" }): WireGeneration => {
    const report = `${generation.status} ${generation.video_url ?? ""}`;
    repeats = report === previousReport ? repeats + 1 : 1;
    previousReport = report;
    const meaning = meaningOf(generation);
    if (meaning === undefined || repeats < maxRefusals) return generation;
    if (meaning === "completed" && (videoData ?? readVideoUrl(generation)) === undefined) return generation;
    if (meaning === "completed") return { ...generation, status: meaning };
    return {
      ...generation,
      status: meaning,
      error: failureReason(generation) ?? `its state is "${generation.status}"`,
    };
  };
  /**
   * Whether a refusal ends the wait: a 404 for a known id after a minute, any other 404 once it repeats.
   * Other refusals, such as a rejected key, end it at once, or once they repeat if an earlier poll returned
   * the generation.
   */
  const isFinalRefusal = ({ code }: VidgenError, missingMs: number) => {
    if (code === "not_found" && options.isKnown) return missingMs >= toleranceMs;
    return refusals >= (code === "not_found" || wasSeen ? maxRefusals : 1);
  };
  let unlistedState: string | undefined;
  const stillGenerating = () => {
    if (failures > 0) return `still generating, and the last poll failed: ${lastFailure}`;
    return unlistedState === undefined
      ? "still generating"
      : `still generating; the service's last state was ${unlistedState}`;
  };
  const unreachedError = () =>
    new VidgenError("network", `No usable response from the service: ${lastFailure}.`, { id, hint: doctorHint });
  return {
    /** The error at the timeout: `pending` only if the service has answered, so that the generation may be running. */
    timeoutError(over: (how: string) => VidgenError): VidgenError {
      if (completedSince !== undefined) return missingVideoUrlError(id);
      return wasReached() ? over(stage ?? stillGenerating()) : unreachedError();
    },
    /** `askedAt` is when the request was sent, because a suspension of this process before it read the reply does not count. */
    findCompleted(result: PollResult, askedAt: number): CompletedGeneration | undefined {
      failures = result.kind === "no answer" ? failures + 1 : 0;
      if (result.kind === "no answer") {
        lastFailure = result.reason;
        isShortOfCredits ||= result.reply !== undefined && lacksCredits(result.reply);
        // A service that was reached before may come back. A proxy that refuses may lock the account after retries.
        if (result.isFinal && (!wasReached() || isProxyRefusal(systemCode(result.cause)))) throw unreachedError();
        if (failures >= 3) options.onOutage?.(lastFailure);
        return undefined;
      }
      if (result.kind === "refused") {
        refusals++;
        // Other refusals, such as a rejected key, say nothing about the generation.
        missingSince = result.error.code === "not_found" ? (missingSince ?? clock.now()) : undefined;
        if (isFinalRefusal(result.error, askedAt - (missingSince ?? askedAt))) throw result.error;
        return undefined;
      }
      wasSeen = true;
      refusals = 0;
      missingSince = undefined;
      const generation = interpret(result);
      if (generation.status === "failed") {
        options.onFailed?.(generation);
        throw failedError(id, generation, options);
      }
      if (generation.status === "completed") {
        const videoUrl = result.videoData ?? readVideoUrl(generation);
        if (videoUrl !== undefined) return { generation, videoUrl };
        completedSince ??= clock.now();
        if (askedAt - completedSince < toleranceMs) return undefined;
        throw missingVideoUrlError(id);
      }
      completedSince = undefined;
      stage = readStage(generation);
      const status = errorText(generation.status) ?? "";
      const isTaken = generation.not_submitted === undefined && generation.submitting === undefined;
      options.onState?.(isTaken ? status : "queued", readPercent(generation), errorText(generation.progress_node));
      const url = readVideoUrl(generation);
      const isUnlisted = !(states as readonly string[]).includes(status);
      unlistedState = isUnlisted ? `"${status}"${url === undefined ? "" : `, with the address ${url}`}` : undefined;
      if (!notedStatuses.has(status))
        options.onNote(`The service reports the state "${status}"; treated as still running.`);
      notedStatuses.add(status);
      return undefined;
    },
    waitMs(result: PollResult, intervalMs: number): number {
      if (result.kind === "no answer") return freeRetryMs(failures, clock.random(), result.retryAfterMs);
      if (result.kind === "refused") return Math.min(intervalMs, refusedIntervalMs);
      if (completedSince === undefined) return intervalMs;
      // Polls at the end of the tolerance even if the interval is longer.
      return Math.min(intervalMs, Math.max(0, completedSince + toleranceMs - clock.now()));
    },
  };
}

/** What `vidgen serve` says about a generation that is not at its engine: not yet, or no longer; `undefined` for all others. */
export function readStage({ status, not_submitted, submitting, fetching }: WireGeneration): string | undefined {
  if (status !== "processing") return undefined;
  const [reason, engine, download] = [not_submitted, submitting, fetching].map((text) =>
    errorText(text)?.replace(/\.$/, ""),
  );
  if (engine !== undefined) return `being submitted to ${engine}, which has not said yet whether it takes it`;
  if (reason !== undefined) return `not submitted yet: ${reason}; nothing was charged so far`;
  return download && `completed at its engine; ${download}`;
}

/** The progress that `vidgen serve` adds for real models; it is not part of the interface. */
function readPercent({ progress }: WireGeneration): number | undefined {
  return typeof progress === "number" && progress >= 0 && progress <= 100 ? Math.floor(progress) : undefined;
}

function missingVideoUrlError(id: string): VidgenError {
  const hint = "`vidgen status <id> --json` shows the full response of the service.";
  return new VidgenError("rejected", "The generation is completed, but the service returned no video URL.", {
    id,
    hint,
  });
}

/**
 * Returns the error for a failed generation: `failed`; or by the error code of `vidgen serve`: `credits` if
 * the engine's provider needs credits, `unknown` if the request to an engine may have been charged, and
 * `network` or `auth` if no engine accepted it. With `isFree`, another attempt costs nothing.
 */
export function failedError(
  id: string,
  generation: WireGeneration,
  { isFree = false }: Pick<PollOptions, "isFree"> = {},
): VidgenError {
  const { error_code, hint: statedHint } = generation;
  const reason = failureReason(generation) ?? "the service gave no reason";
  const failure = Object.hasOwn(failures, String(error_code)) ? failures[error_code as FailureCode] : undefined;
  if (failure) {
    const { code, message, hint, charged } = failure;
    const ended = code === "unknown" ? code : "failed";
    const details = { id, ended, charged, hint: errorText(statedHint) ?? hint } as const;
    return new VidgenError(code, message(reason.replace(/\.$/, "")), details);
  }
  const defaultHint = isFree ? undefined : "Look at the reason first: each attempt may be charged.";
  const hint = isCancelledError(reason) ? undefined : (errorText(statedHint) ?? defaultHint);
  return new VidgenError("failed", `The generation failed: ${reason}`, { id, ended: "failed", hint });
}

type FailureKind = Pick<VidgenError, "code"> & { message(reason: string): string; hint?: string; charged?: "no" };

const notChargedMessage = (reason: string) => `The generation failed: ${reason}. Nothing was charged.`;

const failures: Readonly<Record<FailureCode, FailureKind>> = {
  credits: { code: "credits", message: (reason) => `The generation failed: ${reason}` },
  unclear: {
    code: "unknown",
    message: (reason) => `The generation may have been charged: ${reason}.`,
    hint: "Check your account at the engine's provider. vidgen does not send it again by itself; --again starts another one, which is charged too.",
  },
  not_submitted: {
    code: "network",
    message: notChargedMessage,
    charged: "no",
    hint: "Start the engine or choose another one, then run the same command: it starts a new generation.",
  },
  auth: {
    code: "auth",
    message: notChargedMessage,
    charged: "no",
    hint: "`vidgen doctor` shows which variables with engine keys are set.",
  },
  not_fetched: {
    code: "failed",
    message: (reason) => `The generation failed: ${reason}`,
    hint: "The prompt is not the cause: check the file at the engine. Another generation is charged again.",
  },
};

/** The http(s) URL of the video, with special characters encoded; `undefined` if there is no usable one. */
export function readVideoUrl(generation: WireGeneration): string | undefined {
  const url = generation.video_url;
  if (typeof url !== "string" || !URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  if (parsed.protocol !== "https:" && parsed.protocol !== "http:") return undefined;
  return /^[\x21-\x7e]+$/.test(url) ? url : parsed.href;
}
