import { type FailureCode, failureCodes } from "../protocol/schema.ts";
import type { Charged, Discardable, FailureFacts, RenderOutcome } from "./engines/engine.ts";
import type { Media, StoredGeneration } from "./store/generations.ts";

// How a job ends, from the reply of a server to the log, in the order in which it happens:
//
// | type            | what it says                                                         | made in                     |
// | --------------- | -------------------------------------------------------------------- | --------------------------- |
// | SubmitVerdict   | what the reply to a create means                                     | each engine's `classify`    |
// | SubmitOutcome   | how the create ended: what follows from the verdict, or no reply     | engines/upstream/submit.ts  |
// | EndedJob        | the last status of an accepted job at its server                     | engines/upstream/follow.ts  |
// | RenderOutcome   | how the engine's work on a task ended, if it did not throw           | each engine's `render`      |
// | RenderResult    | the same, with the stored file of a video, and errors as "failed"    | queue/make.ts               |
// | CreateOutcome   | what a result says of the engine                                     | queue/breaker.ts            |
// | GenerationEnd   | the fields of a generation that its end changes                      | queue/end.ts, api/cancel.ts |
// | EndedGeneration | the generation that has ended, for the log and the metrics           | queue/end.ts, api/cancel.ts |
//
// Why a generation failed is said for three readers: `FailureKind` for the hint to its user, `FailureCode` for programs, and `FailureReason` for the
// service's owner. A start ends before all that, as a `StartOutcome` of the store.

/**
 * The result of a generation. "failed" is a failure of the service. "unclear": an engine may be making the video, and charge for it, so no
 * engine gets the generation again.
 */
export type RenderResult =
  | ({ kind: "made"; media: Media } & Charged & Discardable)
  | Extract<RenderOutcome, { kind: "refused" | "not submitted" }>
  | ({ kind: "failed"; error: string; error_code?: Exclude<FailureCode, "unclear"> | undefined } & FailureFacts &
      Charged)
  | { kind: "unclear"; error: string; reason: string };

/** The outcomes of a create. "taken": it was accepted, or refused because of the request, which shows that the engine works. */
export const createOutcomes = ["taken", "not_taken", "unclear"] as const;
export type CreateOutcome = (typeof createOutcomes)[number];

/** Why a generation failed: its error code or, without one, the kind of its `RenderResult`; or "cancelled". */
export const failureReasons = [...failureCodes, "refused", "failed", "cancelled"] as const;
export type FailureReason = (typeof failureReasons)[number];

/** A generation that has ended, why it failed if it did, and whether its credits were returned. */
export type EndedGeneration = {
  generation: StoredGeneration;
  reason: FailureReason | undefined;
  isRefunded: boolean | undefined;
};

/** How many creates each engine has answered in each way, and how many generations have failed for each reason. */
export type Counts = {
  creates: { engine: string; outcome: CreateOutcome; count: number }[];
  failures: { model: string; reason: FailureReason; count: number }[];
};
