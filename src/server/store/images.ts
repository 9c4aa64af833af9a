import { isDataUrl } from "../../protocol/url.ts";
import { type Images, listImages, replaceImages, type StoredRequest } from "./generations.ts";

/** How many characters of a data: URL stay in the row of a generation, to show its type. */
const imageCharacters = 64;

/** Takes the images out of a request, so that reading a generation does not read many megabytes. `place` is the index of an image in the request. */
export function cutImages(request: StoredRequest): {
  request: StoredRequest;
  images: { place: number; source: string }[];
} {
  const isLong = (source: string) => isDataUrl(source) && source.length > imageCharacters;
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
