import { type Attempt, type Finished, finish, handOver } from "../client/generation/attempt.ts";
import type { NotStarted, StartedAttempt } from "../client/generation/start.ts";
import type { CompletedGeneration } from "../protocol/schema.ts";
import type { DownloadOptions } from "./options.ts";
import type { Started } from "./results.ts";

/** Returns the attempt of a start, and what the program is told of it. Throws the error of a start that was not accepted. */
export function readStarted(
  made: StartedAttempt | NotStarted,
  idempotencyKey: string | undefined,
): { attempt: Attempt; started: Started } {
  if (made.kind === "accepted") {
    const { id, attempt: name = "" } = made.attempt;
    const { credits_charged: credits, remaining_credits: remainingCredits } = made.started;
    const started = { id, idempotencyKey: idempotencyKey ?? name, resumed: false, credits, remainingCredits };
    return { attempt: made.attempt, started };
  }
  if (made.kind === "resumed") {
    const { id, attempt, key = attempt, credits, remaining_credits: remainingCredits } = made.earlier;
    const started = { id, idempotencyKey: key, resumed: true, credits, remainingCredits };
    return { attempt: made.attempt, started };
  }
  throw made.error;
}

type Listeners = Pick<DownloadOptions, "onState" | "onProgress"> & {
  /** Takes the video before it is handed over. */
  take?: (finished: Finished) => Promise<void>;
};

/** Follows a generation to its end, and hands its result over. Rejects as `finish` does, and with what `take` does. */
export async function finishFor(attempt: Attempt, { onState, onProgress, take }: Listeners): Promise<Finished> {
  const finished = await finish(attempt, {
    state: (status, percent) => tell(onState, status, percent),
    progress: (...args) => tell(onProgress, ...args),
  });
  await take?.(finished);
  await handOver(finished);
  return finished;
}

/** A listener that throws must not stop a download that was paid for. */
export function tell<Args extends unknown[]>(listener: ((...args: Args) => void) | undefined, ...args: Args): void {
  try {
    listener?.(...args);
  } catch {}
}

/** The generation of a result that the service was asked for. */
export function asCompleted(finished: Finished): CompletedGeneration {
  if (finished.kind === "found") throw new Error("a video that is downloaded was not saved before");
  return finished;
}

/** Where the video is saved, and where the service has it, each where that is known. */
export function placesOf(finished: Finished): { file: string | undefined; videoUrl: string | undefined } {
  const file = finished.kind === "url" ? undefined : finished.file;
  return { file, videoUrl: finished.kind === "found" ? undefined : finished.videoUrl };
}
