import { expect, test } from "vitest";
import { type Entry, recordOf, typicalMs } from "../../../src/client/ledger/history.ts";

const entries = (model: string, ...times: (number | undefined)[]) =>
  times.map((took_ms) => ({ request: { model, prompt: "x" }, took_ms }) as Entry);

test.each([
  [[], undefined],
  [[1, 2], undefined],
  [[1, 2, undefined], undefined],
  [[9, 1, 2], 2],
  [[1, 100, 2, 4], 3],
])("of %j the median is %s", (times, median) => {
  const of = { request: { model: "veo-3.1", prompt: "x" } };
  expect(typicalMs([...entries("veo-3.1", ...times), ...entries("ray-3", 7, 7)], of)).toBe(median);
});

test("the typical time ignores previews, and the time in which nothing ran", () => {
  const previews = entries("veo-3.1", 30, 35, 40).map((entry) => ({ ...entry, is_preview: true }));
  const paused = entries("veo-3.1", 900, 900, 900, 900).map((entry) => ({ ...entry, is_preview: true, paused: true }));
  const real = entries("veo-3.1", 200, 200, 200, 200).map((entry) => ({ ...entry, is_preview: false }));
  const all = [...previews, ...paused, ...real];
  expect(all.slice(0, 1).map((entry) => typicalMs(all, entry))).toEqual([35]);
});

test.each(["Data: a fox in numbers", "https://hooks.example/?token=1", "data:image/png;base64,iVBO"])(
  "the prompt and the model %s are kept as they are; images, callbacks and further fields are hashed",
  (text) => {
    const request = {
      prompt: text,
      model: text,
      imageUrl: text,
      callback_url: text,
      extra: { prompt: text },
      imageUrls: [text, "https://images.example/a.png"],
      style: "Database",
      seed: 7,
      hub_token: "secret",
      elements: [{ api_key: "secret" }],
    };
    const hash = expect.stringMatching(/^sha256:[\w-]{43}$/);
    expect(recordOf(request)).toEqual({
      prompt: text,
      model: text,
      imageUrl: hash,
      callback_url: hash,
      extra: { prompt: hash },
      imageUrls: [hash, "https://images.example/a.png"],
      style: "Database",
      seed: 7,
      hub_token: hash,
      elements: [{ api_key: hash }],
    });
  },
);
