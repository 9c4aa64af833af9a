import { isData } from "../../protocol/url.ts";
import type { Claim, Needs } from "./claims.ts";
import {
  type Completed,
  type Images,
  listImages,
  replaceImages,
  type State,
  type StoredCheckpoint,
  type StoredGeneration,
  type StoredRequest,
  type StoredResult,
} from "./generations.ts";
import { readJson } from "./values.ts";

/** What is stored beside a request, so that a claim does not read it. */
export function needsOf({ request, checkpoint }: Pick<StoredGeneration, "request" | "checkpoint">) {
  const { model, images, isReal } = request;
  const isFetched = listImages(request).some((source) => !isData(source));
  return { model, images: images.length, isReal, isFetched, ...submissionOf(checkpoint) };
}

/** How much of a prompt a list has. */
export const shownCharacters = 300;

/** So much of a data: address stays in the row of a generation, for people. */
const imageCharacters = 64;

/** Takes the images out of a request: a look at a generation must not read many megabytes. `images` have their places among its images. */
export function cutImages(request: StoredRequest): {
  request: StoredRequest;
  images: { place: number; source: string }[];
} {
  const isLong = (source: string) => isData(source) && source.length > imageCharacters;
  const sources = listImages(request);
  const images = sources.flatMap((source, place) => (isLong(source) ? [{ place, source }] : []));
  const shown = sources.map((source) => (isLong(source) ? source.slice(0, imageCharacters) : source));
  return { request: { ...request, ...replaceImages(request, shown) }, images };
}

/** Puts the images that were taken out of a request back into their places. */
export function joinImages(
  shown: Images<string>,
  images: readonly { place?: unknown; source?: unknown }[],
): Images<string> {
  const joined = listImages(shown);
  for (const { place, source } of images) joined[Number(place)] = String(source);
  return replaceImages(shown, joined);
}

/** Which engine a generation was submitted to, or can be asked for it, and whether nobody can tell. */
export function submissionOf(checkpoint: StoredCheckpoint | null): Pick<Claim, "engine" | "isSubmitting"> {
  const isBegun = checkpoint !== null && !["rendering", "submitting"].includes(checkpoint.state);
  const engine = isBegun ? checkpoint.engine : null;
  return { engine, isSubmitting: checkpoint?.state === "submitting" };
}

/** Reads the needs of generations out of a row. */
export function readNeeds({ model, images, is_real, engine }: Record<string, unknown>): Needs {
  return {
    model: String(model),
    images: Number(images),
    isReal: Boolean(is_real),
    engine: engine === null ? null : String(engine),
  };
}

/** Reads what may be made out of a generation's row. */
export function readClaim(row: Record<string, unknown>): Omit<Claim, "lost" | "confirm"> {
  return {
    ...readNeeds(row),
    number: Number(row.number),
    id: String(row.id),
    account: String(row.account),
    isFetched: Boolean(row.is_fetched),
    isSubmitting: Boolean(row.is_submitting),
  };
}

/** A generation that no engine has begun is queued. */
export function stateOf({ status, checkpoint }: Pick<StoredGeneration, "status" | "checkpoint">): State {
  if (status !== "processing") return status;
  return checkpoint === null ? "queued" : "running";
}

/** Reads out of a generation's row what happened to it since: when it was removed, and whether it has a star. */
export function marksOf({ removed_at, starred }: Record<string, unknown>) {
  const removal: Pick<StoredGeneration, "removed_at"> = typeof removed_at === "string" ? { removed_at } : {};
  return starred ? { ...removal, isStarred: true } : removal;
}

/** Reads out of a generation's row what is removed when its video is. */
export function readCompleted({ id, completed_at, result }: Record<string, unknown>): Completed {
  return { id: String(id), completed_at: String(completed_at), media: readJson<StoredResult>(result).media };
}

/** The host of a receiver with its port, by which attempts are counted. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
