import { VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import type { Api } from "./api.ts";
import { type PollResult, poll } from "./poll.ts";
import { backoffMs } from "./retry.ts";
import { errorText, type Generation, states } from "./schema.ts";

/** A generation that is `completed`, with the address of its video. */
export type Completed = { generation: Generation; videoUrl: string };

export type FollowOptions = {
  /** How long to wait for it to end, in milliseconds. */
  timeoutMs: number;
  /** How long to wait before the next poll, by the time since the first one; in milliseconds. */
  intervalMs(elapsedMs: number): number;
  /** Set for a generation that was just started: some of the service's machines may not know its id yet. */
  isNew: boolean;
  signal: AbortSignal;
  /** Called at each poll that sees the generation running, with the service's own word for its state. */
  onState?(status: string): void;
  /** Called with news for the user, such as that the service is hard to reach. */
  onNote(text: string): void;
};

/** For this long a new id that is unknown, or `completed` without a video, counts as a delay inside the service. */
const toleranceMs = 60_000;

/** From 9.5 s down to 5 s over the first minute: the interface recommends every 5 to 10 s, and a generation takes 1 to 3 minutes. */
export function remotePace(elapsedMs: number): number {
  return Math.max(5_000, 9_500 - elapsedMs * 0.075);
}

/** The local service renders in seconds, and a poll costs it nothing. */
export function localPace(elapsedMs: number): number {
  return Math.min(1_000, 100 + elapsedMs / 10);
}

/**
 * Polls a generation until it ends (interface sections 3 and 4.2) and returns it completed. Network errors, 429 and 5xx are retried
 * until the timeout. Throws `failed`, `pending` (the timeout), `not_found`, `auth`, `credits`, `rejected` (also when it has completed and
 * names no video), or the signal's reason.
 */
export async function follow(api: Api, id: string, options: FollowOptions, clock: Clock): Promise<Completed> {
  const start = clock.now();
  const timeout = new VidgenError("pending", "Still running: the time to wait is over.", { id });
  const limit = clock.limit(options.timeoutMs, options.signal, timeout);
  const judge = createJudge(id, options, clock);
  try {
    if (options.isNew) await clock.sleep(options.intervalMs(0), limit.signal);
    for (;;) {
      const elapsedMs = clock.now() - start;
      const result = await poll(api, id, clock, limit.signal);
      const completed = judge.completed(result);
      if (completed) return completed;
      await clock.sleep(judge.waitMs(result, options.intervalMs(elapsedMs)), limit.signal);
    }
  } catch (error) {
    throw error === timeout ? judge.timeoutError(timeout) : error;
  } finally {
    limit.clear();
  }
}

/** Interprets each poll, with what the polls before it have shown. */
function createJudge(id: string, options: FollowOptions, clock: Clock) {
  const statuses = new Set<string>(states);
  let failures = 0;
  let missingSince: number | undefined;
  let completedSince: number | undefined;
  return {
    /** The error for the end of the time to wait: a generation that has completed without a video is not pending. */
    timeoutError: (pending: VidgenError) => (completedSince === undefined ? pending : missingVideoUrlError(id)),
    completed(result: PollResult): Completed | undefined {
      failures = result.kind === "trouble" ? failures + 1 : 0;
      if (result.kind === "trouble") {
        if (failures === 3) options.onNote(`The service is hard to reach (${result.reason}); still trying.`);
        return undefined;
      }
      if (result.kind === "missing") {
        missingSince ??= clock.now();
        if (clock.now() - missingSince < (options.isNew ? toleranceMs : 0)) return undefined;
        throw new VidgenError("not_found", `The service knows no generation ${id}.`, { id, httpStatus: 404 });
      }
      const { generation } = result;
      if (generation.status === "failed") throw failedError(id, generation);
      if (generation.status === "completed") {
        const videoUrl = readVideoUrl(generation);
        if (videoUrl !== undefined) return { generation, videoUrl };
        completedSince ??= clock.now();
        if (clock.now() - completedSince < toleranceMs) return undefined;
        throw missingVideoUrlError(id);
      }
      missingSince = undefined;
      completedSince = undefined;
      const status = errorText(generation.status) ?? "";
      options.onState?.(status);
      if (!statuses.has(status)) options.onNote(`The service reports the state "${status}"; taken as still running.`);
      statuses.add(status);
      return undefined;
    },
    waitMs(result: PollResult, intervalMs: number): number {
      if (result.kind === "trouble") return Math.max(result.retryAfterMs ?? 0, backoffMs(failures));
      if (result.kind !== "generation" || completedSince === undefined) return intervalMs;
      // Polls once more when the tolerance is over, however long the interval.
      return Math.min(intervalMs, Math.max(0, completedSince + toleranceMs - clock.now()));
    },
  };
}

function missingVideoUrlError(id: string): VidgenError {
  const hint = "`vidgen status <id> --json` shows all that the service says.";
  return new VidgenError("rejected", "The generation is completed, but the service names no video.", { id, hint });
}

export function failedError(id: string, generation: Generation): VidgenError {
  const reason = errorText(generation.error) ?? "the service gives no reason";
  return new VidgenError("failed", `The generation failed: ${reason}`, {
    id,
    hint: "Another prompt or model may do; a new start is a new charge.",
  });
}

/** The http(s) address of the video, its odd characters encoded; `undefined` when there is none that can be fetched. */
export function readVideoUrl(generation: Generation): string | undefined {
  const url = generation.video_url;
  if (typeof url !== "string" || !URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  if (parsed.protocol !== "https:" && parsed.protocol !== "http:") return undefined;
  return /^[\x21-\x7e]+$/.test(url) ? url : parsed.href;
}
