import { expect, test } from "vitest";
import { findSimilar } from "../../src/cli/similar.ts";

test.each([
  ["fx", "fox"],
  ["FOX", "fox"],
  ["owll", "owl"],
  ["foxes", "fox"],
  ["fawx", "fox"],
  ["foxtrot", undefined],
  ["", undefined],
])("%s is like %s", (word, similar) => {
  expect(findSimilar(word, ["fox", "owl"])).toBe(similar);
});

test("the nearest wins, and the first of two as near", () => {
  expect(findSimilar("hare", ["hart", "hare", "harp"])).toBe("hare");
  expect(findSimilar("harx", ["hart", "harp"])).toBe("hart");
});
