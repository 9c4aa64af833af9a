import { isDataUrl } from "../../protocol/url.ts";
import type { Claim, Needs, SubmittedWork } from "./claims.ts";
import { listImages, type StoredCheckpoint, type StoredGeneration } from "./generations.ts";
import { readJson } from "./values.ts";

/** Returns the columns that are stored beside a request, so that a claim does not read the request. */
export function needsOf({ request, checkpoint }: Pick<StoredGeneration, "request" | "checkpoint">) {
  const { model, images, isReal } = request;
  const isFetched = listImages(request).some((source) => !isDataUrl(source));
  return { model, images: images.length, isReal, isFetched, ...submissionOf(checkpoint) };
}

/**
 * Returns the engine that a generation was submitted to, or that can be asked whether it has the generation; and whether the submission is unclear.
 */
export function submissionOf(checkpoint: StoredCheckpoint | null): Pick<Claim, "engine" | "isSubmitting"> {
  const isBegun = checkpoint !== null && !["rendering", "submitting"].includes(checkpoint.state);
  const engine = isBegun ? checkpoint.engine : null;
  return { engine, isSubmitting: checkpoint?.state === "submitting" };
}

export function readNeeds({ model, images, is_real, engine }: Record<string, unknown>): Needs {
  return {
    model: String(model),
    images: Number(images),
    isReal: Boolean(is_real),
    engine: engine === null ? null : String(engine),
  };
}

export function readSubmittedWork({ engine, count, checkpoint }: Record<string, unknown>): Omit<SubmittedWork, "held"> {
  const stored = readJson<StoredCheckpoint>(checkpoint);
  return { engine: String(engine), count: Number(count), checkpoint: stored };
}

export function readClaim(row: Record<string, unknown>): Omit<Claim, "lost" | "confirm"> {
  return {
    ...readNeeds(row),
    number: Number(row.number),
    id: String(row.id),
    account: String(row.account),
    isSubmitting: Boolean(row.is_submitting),
  };
}
