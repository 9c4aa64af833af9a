import { expect, test } from "vitest";
import { isPriceable, readListedPrices, readUsdPrice, type UsdPrices } from "../../src/protocol/price.ts";

const fox = { prompt: "a fox", model: "veo-3.1" };
const eight = { ...fox, duration: 8 };
const priceOf = (prices: UsdPrices, request: object = eight) =>
  readUsdPrice([{ source: "OpenRouter", prices }], { ...request })?.amount;

// The names are those of OpenRouter's list and of its documentation.
const veoFast = {
  duration_seconds_with_audio: "0.12",
  duration_seconds_without_audio: "0.10",
  duration_seconds_with_audio_720p: "0.10",
  duration_seconds_without_audio_720p: "0.08",
  duration_seconds_with_audio_4k: "0.30",
};
const wan = { text_to_video_duration_seconds_720p: "0.08", image_to_video_duration_seconds_720p: "0.10" };
const imageUrl = "https://example.com/fox.png";

test.each<[string, UsdPrices, object, number]>([
  ["by second", { "per-video-second": "0.40" }, eight, 3.2],
  ["by second, the length as text", { "per-video-second": "0.40" }, { ...fox, duration: "8" }, 3.2],
  ["by second, a part of a second as a whole one", { duration_seconds: "0.10" }, { ...fox, duration: 2.5 }, 0.3],
  ["in cents", { cents_per_second_output: "12" }, eight, 0.96],
  [
    "in cents with a minimum",
    { cents_per_second_output: "28", minimum_cents_per_generation: "56" },
    { ...fox, duration: 1 },
    0.56,
  ],
  [
    "of a resolution",
    { "per-video-second": "0.50", "per-video-second-1080p": "0.75" },
    { ...eight, resolution: "1080p" },
    6,
  ],
  [
    "of another resolution",
    { "per-video-second": "0.50", "per-video-second-1080p": "0.75" },
    { ...eight, resolution: "720p" },
    4,
  ],
  ["of a resolution in capitals", veoFast, { ...eight, resolution: "4K" }, 2.4],
  ["with sound unless the request has none", veoFast, { ...eight, resolution: "720p" }, 0.8],
  ["without sound", veoFast, { ...eight, resolution: "720p", generate_audio: false }, 0.64],
  ["without a resolution: the highest", veoFast, eight, 2.4],
  ["from a text", wan, { ...eight, resolution: "720p" }, 0.64],
  ["from an image", wan, { ...eight, resolution: "720p", imageUrl }, 0.8],
  ["with each image", { duration_seconds: "0.05", cents_per_image_input: "0.2" }, { ...eight, imageUrl }, 0.402],
  [
    "with each reference",
    { duration_seconds: "0.13", reference_images: "0.04" },
    { ...eight, referenceUrls: ["a", "b"] },
    1.12,
  ],
  ["without a reference", { duration_seconds: "0.13", reference_images: "0.04" }, eight, 1.04],
  [
    "beside prices of videos as input",
    { duration_seconds: "0.1", cents_per_second_video_continuation_720p: "41" },
    eight,
    0.8,
  ],
  [
    "with fields that change no price",
    { duration_seconds: "0.1" },
    { ...eight, seed: 7, negative_prompt: "rain", aspectRatio: "9:16" },
    0.8,
  ],
])("a list has a price %s", (_, prices, request, expected) => {
  expect(priceOf(prices, request)).toBe(expected);
});

test.each<[string, UsdPrices, object]>([
  ["a missing length", { "per-video-second": "0.40" }, fox],
  ...[null, 0, -8, "auto", "", Number.NaN].map((duration): [string, UsdPrices, object] => [
    `the length ${duration}`,
    { "per-video-second": "0.40" },
    { ...fox, duration },
  ]),
  ...["0", "0.00", "-0.40", "", "free", "null", "NaN", "Infinity"].map((price): [string, UsdPrices, object] => [
    `the price "${price}"`,
    { "per-video-second": price },
    eight,
  ]),
  ["a list without prices", {}, eight],
  ["another resolution only", { duration_seconds_1080p: "0.4" }, { ...eight, resolution: "720p" }],
  ["a price by token", { video_tokens: "0.000007" }, eight],
  ["a name that vidgen does not know", { duration_seconds: "0.1", per_start: "3" }, eight],
  ["a passed field", { "per-video-second": "0.40" }, { ...eight, multi_prompt: ["a", "b"] }],
  ["a length in frames", { "per-video-second": "0.40" }, { ...eight, num_frames: 999 }],
  ["a size in pixels", { "per-video-second": "0.40" }, { ...eight, size: "3840x2160" }],
  ["a reference video", { "per-video-second": "0.40" }, { ...eight, video_reference: imageUrl }],
  [
    "a video as a reference",
    { "per-video-second": "0.40" },
    { ...eight, referenceUrls: ["https://example.com/a.mp4?x=1"] },
  ],
  ["a video in the request", { "per-video-second": "0.40" }, { ...eight, imageUrl: "data:video/mp4;base64,AAAA" }],
  ["a sound that the list does not name", { "per-video-second": "0.40" }, { ...eight, sound_duration: 8 }],
])("%s is no price", (_, prices, request) => {
  expect(priceOf(prices, request)).toBeUndefined();
});

test("of several engines the highest price counts, and all of them must have one", () => {
  const list = (source: string, usd: string) => ({ source, prices: { duration_seconds: usd } });
  expect(readUsdPrice([list("one", "0.1"), list("two", "0.2")], eight)).toEqual({ source: "two", amount: 1.6 });
  expect(readUsdPrice([list("one", "0.1"), list("two", "0")], eight)).toBeUndefined();
  expect(readUsdPrice([], eight)).toBeUndefined();
});

test("a field that is absent does not count", () => {
  expect(isPriceable({ ...eight, mode: undefined })).toBe(true);
  expect(isPriceable({ ...eight, mode: null })).toBe(false);
});

test.each([
  ["null", null, undefined],
  ["a negative number", -1, undefined],
  ["a text", "10", undefined],
  ["0", 0, 0],
])("credits of %s in a service's list", (_, credits, expected) => {
  const data = [{ id: "veo-3.1", owned_by: "vidgen", credits }];
  expect(readListedPrices({ data }).get("veo-3.1")?.credits).toBe(expected);
});

test("lists of prices that cannot be read are none, and other services state no prices", () => {
  const model = { id: "veo-3.1", owned_by: "vidgen", credits: 10 };
  const prices = { source: "OpenRouter", prices: { duration_seconds: "0.1" } };
  const listsOf = (usd_prices: unknown) => readListedPrices({ data: [{ ...model, usd_prices }] }).get("veo-3.1")?.usd;
  expect([undefined, null, [prices, null], [{ source: 1 }]].map(listsOf)).toEqual([[], [], [], []]);
  expect(listsOf([prices])).toEqual([prices]);
  expect(readListedPrices({ data: [{ ...model, owned_by: "openai" }, null, 7] }).size).toBe(0);
  expect(readListedPrices("a page").size).toBe(0);
});
