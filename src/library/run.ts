import { type Attempt, type Finished, finish, handOver } from "../client/generation/attempt.ts";
import type { NotStarted, StartedAttempt } from "../client/generation/start.ts";
import type { CompletedGeneration } from "../protocol/schema.ts";
import type { DownloadOptions } from "./options.ts";
import type { Started } from "./results.ts";

/** Returns the attempt of a start, and the result that the library returns. Throws the error of a start that was not accepted. */
export function readStarted(
  outcome: StartedAttempt | NotStarted,
  idempotencyKey: string | undefined,
): { attempt: Attempt; started: Started } {
  if (outcome.kind === "accepted") {
    const { id, attempt: name = "" } = outcome.attempt;
    const { credits_charged: credits, remaining_credits: remainingCredits, warnings } = outcome.started;
    const key = idempotencyKey ?? name;
    const started = {
      id,
      idempotencyKey: key,
      resumed: false,
      credits,
      remainingCredits,
      ...(warnings && { warnings }),
    };
    return { attempt: outcome.attempt, started };
  }
  if (outcome.kind === "resumed") {
    const { id, attempt, key = attempt, credits, remaining_credits: remainingCredits } = outcome.earlier;
    const started = { id, idempotencyKey: key, resumed: true, credits, remainingCredits };
    return { attempt: outcome.attempt, started };
  }
  throw outcome.error;
}

type FinishListeners = Pick<DownloadOptions, "onState" | "onProgress"> & {
  /** Called with the result before it is recorded as delivered. */
  onFinished?: (finished: Finished) => Promise<void>;
};

/** Follows a generation until it ends, and records the result as delivered. Rejects as `finish` and `onFinished` do. */
export async function finishWithListeners(
  attempt: Attempt,
  { onState, onProgress, onFinished }: FinishListeners,
): Promise<Finished> {
  const finished = await finish(attempt, {
    state: (status, percent) => callListener(onState, status, percent),
    progress: (...args) => callListener(onProgress, ...args),
  });
  await onFinished?.(finished);
  await handOver(finished);
  return finished;
}

/** Ignores errors of a listener, which must not stop a paid download. */
export function callListener<Args extends unknown[]>(
  listener: ((...args: Args) => void) | undefined,
  ...args: Args
): void {
  try {
    listener?.(...args);
  } catch {}
}

/** Narrows the type of a result that was just downloaded. */
export function asCompleted(finished: Finished): CompletedGeneration {
  if (finished.kind === "found") throw new Error("a video that is downloaded was not saved before");
  return finished;
}

/** The file and the URL of a video, if known. */
export function locationsOf(finished: Finished): { file: string | undefined; videoUrl: string | undefined } {
  const file = finished.kind === "url" ? undefined : finished.file;
  return { file, videoUrl: finished.kind === "found" ? undefined : finished.videoUrl };
}

/** In the library, "-" is the name of a file and not standard output. */
export function outputPathOf(path: string | undefined): string | undefined {
  return path === "-" ? "./-" : path;
}
