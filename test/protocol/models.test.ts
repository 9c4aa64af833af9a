import { expect, test } from "vitest";
import { checkModel, defaultModel, findModel, findSimilar, guessModel, models } from "../../src/protocol/models.ts";

const ids = ["sora-2", "veo-3.1", "kling-2.6", "kling-1.6-elements", "wan-2.5", "ray-3", "seedance", "minimax"];

test("the models are the interface's, in its order", () => {
  expect(models.map(({ id }) => id)).toEqual(ids);
});

test("the models' characteristics are the interface's own words", () => {
  expect(models.map(({ characteristic }) => characteristic)).toEqual([
    "flagship, cinematic quality",
    "fast variant, native audio",
    "high fidelity, audio support",
    "multi-image fusion, 2 to 4 images",
    "ultra-realistic, best value",
    "fast creative generation",
    "fast and efficient",
    "ultra-realistic humans",
  ]);
});

test("only kling-1.6-elements wants images, 2 to 4", () => {
  expect(models.filter(({ images }) => images).map(({ id, images }) => [id, images])).toEqual([
    ["kling-1.6-elements", { min: 2, max: 4 }],
  ]);
});

test("the default is one of them", () => {
  expect(ids).toContain(defaultModel);
});

test.each(ids)("%s is known", (id) => {
  expect([checkModel(id), findModel(id)?.id, guessModel(id)]).toEqual([id, id, undefined]);
});

test.each([
  ["veo3.1", "veo-3.1"],
  ["wan2.5", "wan-2.5"],
  ["sora2", "sora-2"],
  ["sora", "sora-2"],
  ["Sora-2", "sora-2"],
  ["SEEDANCE", "seedance"],
  ["kling-2.6 ", "kling-2.6"],
  ["kling-1.6-element", "kling-1.6-elements"],
  ["kling-1.6", "kling-2.6"],
  ["mini-max", "minimax"],
  ["ray3", "ray-3"],
  ["ary-3", "ray-3"],
  ["sora-3", "sora-2"],
  ["wan-2.6", "wan-2.5"],
  ["veo-3", "veo-3.1"],
  ["seedance-2", "seedance"],
  ["my-model-9", undefined],
  ["sora-2-pro", undefined],
])("%j goes as it is typed, and %s may have been meant", (typed, meant) => {
  expect([checkModel(typed), guessModel(typed)]).toEqual([typed, meant]);
});

test.each(ids)("whatever single letter of %s is wrong, it is what is suggested", (id) => {
  for (let i = 0; i < id.length; i++) {
    for (const slip of [`${id.slice(0, i)}${id.slice(i + 1)}`, `${id.slice(0, i)}x${id.slice(i + 1)}`]) {
      if (!findModel(slip)) expect(guessModel(slip)).toBe(id);
    }
  }
});

test.each(["", " "])("the model %j is a usage error that says where they are listed", (id) => {
  expect(() => checkModel(id)).toThrow(expect.objectContaining({ code: "usage", hint: "`vidgen models` lists them." }));
});

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
