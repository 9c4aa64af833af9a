import type { Ended, RunEvent } from "../client/generation/run.ts";
import type { CompletedGeneration } from "../protocol/schema.ts";
import type { DownloadOptions } from "./options.ts";
import type { Started } from "./results.ts";

type Events = AsyncGenerator<RunEvent, undefined>;

/** Takes the events of a run until its generation has an id. Rejects with the error of a start that was not accepted. */
export async function untilStarted(events: Events, idempotencyKey: string | undefined): Promise<Started> {
  for (;;) {
    const { value: event } = await events.next();
    if (event?.event === "ended" && event.error) throw event.error;
    if (event?.event === "accepted") {
      const { id, attempt, started } = event;
      const { credits_charged: credits, remaining_credits: remainingCredits } = started;
      return { id, idempotencyKey: idempotencyKey ?? attempt, resumed: false, credits, remainingCredits };
    }
    if (event?.event === "resumed") {
      const { id, attempt, earlier } = event;
      const { key = attempt, credits, remaining_credits: remainingCredits } = earlier;
      return { id, idempotencyKey: key, resumed: true, credits, remainingCredits };
    }
    if (!event) throw new Error("a start ends with an id or an error");
  }
}

type Listeners = Pick<DownloadOptions, "onState" | "onProgress"> & {
  /** Takes the video before it is handed over. */
  take?: (ended: Ended) => Promise<void>;
};

/** Takes the events of a run until its generation has ended, and its result is handed over. Rejects with the error that it has ended with. */
export async function untilEnded(events: Events, { onState, onProgress, take }: Listeners): Promise<Ended> {
  let last: Ended | undefined;
  for await (const event of events) {
    if (event.event === "state") tell(onState, event.status, event.percent);
    if (event.event === "progress") tell(onProgress, event.received, event.total);
    if (event.event !== "ended") continue;
    if (event.error) throw event.error;
    await take?.(event);
    last = event;
  }
  if (last === undefined) throw new Error("a generation is followed to its end");
  return last;
}

/** A listener that throws must not stop a download that was paid for. */
export function tell<Args extends unknown[]>(listener: ((...args: Args) => void) | undefined, ...args: Args): void {
  try {
    listener?.(...args);
  } catch {}
}

/** The generation of a run that has asked the service about it. */
export function asCompleted({ generation, videoUrl }: Pick<Ended, "generation" | "videoUrl">): CompletedGeneration {
  if (generation === undefined || videoUrl === undefined) throw new Error("a completed generation has an address");
  return { generation, videoUrl };
}
