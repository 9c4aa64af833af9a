import { isRecord } from "./json.ts";

/** The prices of a model in US dollars, by the provider's own names for them, such as {"per-video-second": "0.40"}. */
export type UsdPrices = Readonly<Record<string, string>>;

/** The prices of a model at a provider; `source` is whose list has them, such as "OpenRouter". */
export type UsdList = { source: string; prices: UsdPrices };

/** What a service states of a model now: what a start costs in credits, and the list of each engine that may make the video. */
export type ListedPrice = { credits?: number; usd: readonly UsdList[] };

/** Matches the fields for sound, such as `generate_audio`, which have other names at each provider. */
const soundField = /audio|sound/i;

/** The fields that change no price, and those that a list has prices for. Any other field may change the price. */
const knownFields = new Set([
  ...["prompt", "model", "aspectRatio", "duration", "resolution", "seed", "callback_url", "negative_prompt"],
  ...["imageUrl", "imageUrls", "lastImageUrl", "referenceUrls", "guidance_scale", "guidance_scale_2", "flow_shift"],
]);

const videoSource = /^data:video\/|\.(mp4|mov|m4v|webm)(?:[?#]|$)/i;

/**
 * Whether the price of a request follows from its model, length, resolution, sound and images: not if it has
 * another field, such as one that is passed on to a provider, or a video as a reference.
 */
export function isPriceable(request: Readonly<Record<string, unknown>>): boolean {
  const sources = imagesIn(request);
  if (sources.some((source) => videoSource.test(source))) return false;
  const isKnown = (name: string) => knownFields.has(name) || (soundField.test(name) && !name.endsWith("_reference"));
  return Object.entries(request).every(([name, value]) => value === undefined || isKnown(name));
}

/** The fields, besides the model, that the price of a request depends on. */
export function priceFieldsOf({ duration, resolution, ...others }: Readonly<Record<string, unknown>>) {
  const sound = Object.entries(others).filter(([name]) => soundField.test(name));
  const all: [name: string, value: unknown][] = [["duration", duration], ["resolution", resolution], ...sound.sort()];
  return all.filter(([, value]) => value !== undefined);
}

function imagesIn({ imageUrl, imageUrls, lastImageUrl, referenceUrls }: Readonly<Record<string, unknown>>): string[] {
  return [imageUrl, imageUrls, lastImageUrl, referenceUrls]
    .flat()
    .flatMap((each) => (each == null ? [] : String(each)));
}

/**
 * What a request costs in US dollars by the lists of all engines that may make its video: the highest,
 * because any of them may get it. `undefined` if one of them does not say: without a length, for a price that
 * is not above 0, and by names that vidgen does not know.
 */
export function readUsdPrice(
  lists: readonly UsdList[],
  request: Readonly<Record<string, unknown>>,
): { amount: number; source: string } | undefined {
  const priced = lists.map(({ source, prices }) => ({ source, amount: usdOf(prices, request) }));
  if (!isPriceable(request) || !priced.every(({ amount }) => amount > 0)) return undefined;
  return priced.sort((one, other) => other.amount - one.amount)[0];
}

/**
 * One price of OpenRouter's list, by second. Its names:
 * https://openrouter.ai/docs/guides/overview/multimodal/video-generation
 */
const secondName =
  /^(?:(text|image)_to_video_)?(duration_seconds|per_video_second|cents_per_second_output|cents_per_video_output_second)(?:_(with|without)_audio)?(?:_(\d+[pk]))?$/;
/** Prices that apply only to a request with a video. */
const videoName = /^reference_duration_seconds|^cents_per_second_video_continuation|_with_video_input/;

type SecondPrice = { usd: number; isExact: boolean; conditions: readonly string[] };

/** What a request costs by one list; NaN if the list does not say. */
function usdOf(prices: UsdPrices, request: Readonly<Record<string, unknown>>): number {
  const seconds = Math.ceil(readPrice(request.duration));
  const { resolution, generate_audio: audio } = request;
  const images = imagesIn(request).length;
  const references = imagesIn({ referenceUrls: request.referenceUrls }).length;
  const hasUnknownSound = priceFieldsOf(request).some(([name]) => soundField.test(name) && name !== "generate_audio");
  const wanted = { mode: images > 0 ? "image" : "text", sound: String(audio) === "false" ? "without" : "with" };
  const perSecond: SecondPrice[] = [];
  let [minimum, ofImages] = [0, 0];
  for (const [listedName, text] of Object.entries(prices)) {
    const name = listedName.toLowerCase().replaceAll("-", "_");
    const usd = readPrice(text) / (/(^|_)cents_/.test(name) ? 100 : 1);
    const [isSecond, mode, , sound, size] = secondName.exec(name) ?? [];
    if (isSecond !== undefined) {
      const isOther = (mode ?? wanted.mode) !== wanted.mode || (sound ?? wanted.sound) !== wanted.sound;
      const isOtherSize = resolution !== undefined && size !== undefined && String(resolution).toLowerCase() !== size;
      const conditions = [mode, sound, size].filter((each) => each !== undefined);
      const isExact = size === undefined || resolution !== undefined;
      if (!isOther && !isOtherSize) perSecond.push({ usd, isExact, conditions });
    } else if (name === "minimum_cents_per_generation") minimum = usd;
    else if (name === "cents_per_image_input") ofImages += images === 0 ? 0 : usd * images;
    else if (name === "reference_images") ofImages += references === 0 ? 0 : usd * references;
    else if (!videoName.test(name)) return Number.NaN;
  }
  if (hasUnknownSound) return Number.NaN;
  // A price with more conditions replaces one with fewer. Without a resolution, the highest counts.
  const applied = perSecond.filter(
    ({ conditions }) =>
      !perSecond.some(
        (other) =>
          other.isExact &&
          other.conditions.length > conditions.length &&
          conditions.every((each) => other.conditions.includes(each)),
      ),
  );
  const rates = applied.map(({ usd }) => usd);
  if (rates.length === 0 || rates.some(Number.isNaN)) return Number.NaN;
  return roundUsd(Math.max(minimum, seconds * Math.max(...rates) + ofImages));
}

/** A number above 0, from a number or a text; NaN for anything else. */
function readPrice(value: unknown): number {
  const number = typeof value === "number" || (typeof value === "string" && value.trim() !== "") ? Number(value) : 0;
  return number > 0 && number < Number.POSITIVE_INFINITY ? number : Number.NaN;
}

/** Without the rounding, 3 times $0.10 would be $0.30000000000000004. */
export function roundUsd(usd: number): number {
  return Math.round(usd * 1e6) / 1e6;
}

/** The prices by model in the list of a `vidgen serve`; empty for other services. */
export function readListedPrices(json: unknown): Map<string, ListedPrice> {
  const data = isRecord(json) && Array.isArray(json.data) ? json.data : [];
  return new Map(
    data.flatMap((model): [string, ListedPrice][] => {
      if (!isRecord(model) || model.owned_by !== "vidgen") return [];
      const { credits, usd_prices } = model;
      const usd = Array.isArray(usd_prices) && usd_prices.every(isUsdList) ? usd_prices : [];
      const isPriced = typeof credits === "number" && credits >= 0 && Number.isFinite(credits);
      return [[String(model.id), { ...(isPriced && { credits }), usd }]];
    }),
  );
}

function isUsdList(list: unknown): list is UsdList {
  return isRecord(list) && typeof list.source === "string" && isRecord(list.prices);
}
