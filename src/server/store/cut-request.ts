import { isDeepStrictEqual } from "node:util";
import { hideSecrets } from "../../protocol/secrets.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { type ExtraValue, type Images, listImages, replaceImages, type StoredRequest } from "./generations.ts";

/** How many characters of a data: URL stay in the row of a generation, to show its type. */
const imageCharacters = 64;

/**
 * Takes the images out of a request, so that reading a generation does not read many megabytes; `place` is the index of an image in the request.
 * Replaces secrets in fields that vidgen does not know by hashes, so that nothing shows them; `secrets` are the fields with the values that were
 * sent.
 */
export function cutRequest(request: StoredRequest): {
  request: StoredRequest;
  images: { place: number; source: string }[];
  secrets: StoredRequest["extras"] | null;
} {
  const isLong = (source: string) => isDataUrl(source) && source.length > imageCharacters;
  const sources = listImages(request);
  const images = sources.flatMap((source, place) => (isLong(source) ? [{ place, source }] : []));
  const shown = sources.map((source) => (isLong(source) ? source.slice(0, imageCharacters) : source));
  const { names = [], extras } = request;
  const sent = Object.entries(extras).filter(([field]) => names.some((name) => name.replace(/\/.*/s, "") === field));
  const hidden = sent.map(([field, value]): [string, ExtraValue] => [field, hideSecrets(field, value)]);
  const secrets = sent.filter(([, value], index) => !isDeepStrictEqual(value, hidden[index]?.[1]));
  const shownExtras = { ...extras, ...Object.fromEntries(hidden) };
  return {
    request: { ...request, ...replaceImages(request, shown), extras: shownExtras },
    images,
    secrets: secrets.length > 0 ? Object.fromEntries(secrets) : null,
  };
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
