import { isDataUrl } from "../../protocol/url.ts";
import type { Claim, NamedNeeds, Needs, SubmittedWork } from "./claims.ts";
import { listImages, type StoredCheckpoint, type StoredGeneration } from "./generations.ts";
import { readJson, toJson } from "./values.ts";

/** Returns the columns that are stored beside a request, so that a claim does not read the request. */
export function needsOf({ request, checkpoint }: Pick<StoredGeneration, "request" | "checkpoint">) {
  const { model, images, isReal, names = [] } = request;
  const isFetched = listImages(request).some((source) => !isDataUrl(source));
  return { model, images: images.length, isReal, names, isFetched, ...submissionOf(checkpoint) };
}

/**
 * Returns the engine that a generation was submitted to, or that can be asked whether it has the generation; and whether the submission is unclear.
 */
export function submissionOf(checkpoint: StoredCheckpoint | null): Pick<Claim, "engine" | "isSubmitting"> {
  const isBegun = checkpoint !== null && !["rendering", "submitting"].includes(checkpoint.state);
  const engine = isBegun ? checkpoint.engine : null;
  return { engine, isSubmitting: checkpoint?.state === "submitting" };
}

/** Returns the value of the column `names`. */
export function toNames(names: readonly string[]): string | null {
  return names.length === 0 ? null : toJson(names);
}

/** Returns lists of names as texts that are equal to `model || names` of their rows. */
export function toNamed(named: readonly NamedNeeds[] | undefined): string[] | undefined {
  return named?.map(({ model, names }) => `${model}${toNames(names)}`);
}

export function readNamed({ model, names }: Record<string, unknown>): NamedNeeds {
  return { model: String(model), names: names === null ? [] : readJson(names) };
}

export function readNeeds({ model, names, images, is_real, engine }: Record<string, unknown>): Needs {
  return {
    ...readNamed({ model, names }),
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
