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
  expect(typicalMs([...entries("veo-3.1", ...times), ...entries("ray-3", 7, 7)], "veo-3.1")).toBe(median);
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
    });
  },
);
