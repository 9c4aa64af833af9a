import { expect, test } from "vitest";
import { type Entry, typicalMs } from "../../src/client/history.ts";

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
