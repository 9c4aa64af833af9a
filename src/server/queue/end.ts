import { models } from "../../protocol/models.ts";
import { newDelivery } from "../callbacks/delivery.ts";
import type { FailureFacts } from "../engines/engine.ts";
import { readDirectives } from "../engines/preview/directives.ts";
import type { RenderResult } from "../outcomes.ts";
import { retryForever } from "../retry-forever.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Delivery } from "../store/deliveries.ts";
import type { GenerationEnd, StoredGeneration } from "../store/generations.ts";
import { removeImages } from "./image-fetch.ts";
import { findGeneration, type MakeOptions, notSubmittedAgain } from "./make.ts";

export type EndOptions = MakeOptions & Pick<ServiceParts, "pace" | "hasRefunds" | "mediaUrl" | "onEnd">;

/**
 * Stores the end of a generation with its callback, once its pace allows that. Resolves with `false` if the generation did not end here, such as when
 * another process has taken over. Rejects only when the signal aborts.
 */
export async function endGeneration(
  id: string,
  result: Exclude<RenderResult, { kind: "not submitted" }>,
  options: EndOptions,
): Promise<boolean> {
  const { store, clock, pace, mediaUrl, signal } = options;
  const generation = await findGeneration(id, options);
  const { slowMs, noVideo } = readDirectives(generation.request);
  // The clock may have been set back since the start, and another machine's clock may be ahead.
  const elapsedMs = Math.max(0, clock.date().getTime() - Date.parse(generation.created_at));
  const isRealistic = pace === "realistic" && !generation.request.isReal;
  const remainingMs = Math.max(slowMs, isRealistic ? realisticMs(generation) : 0) - elapsedMs;
  if (remainingMs > 0) await clock.sleep(remainingMs, signal);
  const date = clock.date();
  const end = { ...endOf(result, options), completed_at: date.toISOString() };
  if (noVideo && end.media) end.media = { ...end.media, isUnlisted: true };
  const delivery = newDelivery({ ...generation, ...end }, mediaUrl(), date);
  const isEnded = await retryForever(() => store.finish(id, end, delivery), options);
  const reason = result.kind === "made" ? undefined : (end.error_code ?? result.kind);
  if (isEnded) await removeImages(generation.imageFetch, options);
  if (isEnded) options.onEnd?.({ generation: { ...generation, ...end }, reason, isRefunded: end.isRefunded });
  return isEnded;
}

/**
 * Returns the end of a generation that is not submitted in a restored copy of the database. The generation may have been submitted, and charged for,
 * after the copy was made.
 */
export function endRestored(
  generation: StoredGeneration,
  date: Date,
): { end: GenerationEnd; delivery: Delivery | undefined } {
  const error = `the database was restored from a copy, after which this video may have been submitted; ${notSubmittedAgain}`;
  const result = { kind: "unclear", error, reason: "restored from a copy" } as const;
  const end = { ...endOf(result, { hasRefunds: false }), completed_at: date.toISOString() };
  return { end, delivery: newDelivery({ ...generation, ...end }, "", date) };
}

/**
 * Whether a generation that was not made gets its credits back: always if no engine can have accepted it, since clients say "nothing was charged";
 * never if that is unclear; and otherwise if the service has failed, unless its owner runs `serve --no-refunds`.
 */
export function isRefunded(
  { kind, isNotSubmitted = false }: { kind: RenderResult["kind"] | "cancelled" } & FailureFacts,
  { hasRefunds }: Pick<EndOptions, "hasRefunds">,
): boolean {
  if (kind === "unclear") return false;
  return isNotSubmitted || (hasRefunds && kind !== "refused");
}

function endOf(
  result: Exclude<RenderResult, { kind: "not submitted" }>,
  options: Pick<EndOptions, "hasRefunds">,
): Omit<GenerationEnd, "completed_at"> {
  const { cost = null } = "cost" in result ? result : {};
  if (result.kind === "made") return { status: "completed", error: null, media: result.media, cost };
  const { failure }: FailureFacts = "failure" in result ? result : {};
  const engine_code = result.kind === "refused" ? result.code : undefined;
  const why = { error: result.error, error_code: errorCodeOf(result), failure, engine_code };
  return { status: "failed", ...why, media: null, cost, isRefunded: isRefunded(result, options) };
}

function errorCodeOf(
  result: Exclude<RenderResult, { kind: "made" | "not submitted" }>,
): StoredGeneration["error_code"] {
  if (result.kind === "unclear") return result.kind;
  return result.kind === "failed" ? result.error_code : undefined;
}

/** Returns the milliseconds from start to end that a real model would take: 1 to 3 minutes, depending on the model. */
function realisticMs({ id, request }: StoredGeneration): number {
  const ids = models.map((model) => model.id);
  // An owner's own model, which is not in the list, is as fast as the first.
  const position = Math.max(0, ids.indexOf(request.model)) / (ids.length - 1);
  const jitter = Number.parseInt(id.slice(0, 4), 16) / 0xffff;
  return 60_000 + position * 100_000 + jitter * 20_000;
}
