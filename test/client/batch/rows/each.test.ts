import { expect, test } from "vitest";
import { faultsOf, read } from "./read.ts";

test("--each multiplies the rows, and the ids with them", async () => {
  const each = ["model=wan-2.5,ray-3", "aspect-ratio=16:9, 9:16"];
  const { rows, total } = await read("id,prompt,model\nfox,a fox,\n,an owl,\n", {
    each,
    output: "{id}-{n}.mp4",
    texts: { model: "x" },
  });
  expect(rows.map(({ id, line, outputPath: place }) => [id, line, place])).toEqual([
    ["fox/wan-2.5/16:9", 2, "fox-1.mp4"],
    ["fox/wan-2.5/9:16", 2, "fox-2.mp4"],
    ["fox/ray-3/16:9", 2, "fox-3.mp4"],
    ["fox/ray-3/9:16", 2, "fox-4.mp4"],
    [undefined, 3, "{id}-5.mp4"],
    [undefined, 3, "{id}-6.mp4"],
    [undefined, 3, "{id}-7.mp4"],
    [undefined, 3, "{id}-8.mp4"],
  ]);
  expect(rows[2]?.record).toEqual({ prompt: "a fox", model: "ray-3", aspectRatio: "16:9" });
  expect(total).toBe(2);
});

test("--each takes words, the prompt, and fields of --set", async () => {
  const each = ["animal=fox,bear", "set.seed=1,2"];
  const { rows } = await read("place\nsnow\n", { each, prompt: "a {animal} in {place}", set: ["seed=9"] });
  expect(rows.map(({ record }) => [record.prompt, record.seed])).toEqual([
    ["a fox in snow", 1],
    ["a fox in snow", 2],
    ["a bear in snow", 1],
    ["a bear in snow", 2],
  ]);
  const prompts = await read("id\na\n", { each: ["prompt=a fox,an owl"] });
  expect(prompts.rows.map(({ record }) => record.prompt)).toEqual(["a fox", "an owl"]);
});

test.each([
  ["model", '--each must be field=value,value, not "model"'],
  ["=a", '--each must be field=value,value, not "=a"'],
  ["id=a,b", "--each id is not possible: a row has one of its own"],
  ["model=a,,b", "--each model has an empty value"],
  ["model=a,a", "--each model has a value twice"],
  ["duration=4,8", "--each duration is not possible: line 3, column 2 (duration) has a value of its own"],
  ["set.seed=1,2", "--each set.seed is not possible: line 2, column 3 (set.seed) has a value of its own"],
  ["mood=1,2", "--each mood changes nothing: no template uses {mood}"],
  ["modle=a,b", "--each modle changes nothing: no template uses {modle}; did you mean model?"],
  ["aspect-ratio=16:9,tall", '--each aspectRatio must be width:height, such as 16:9, not "tall"'],
])("--each %s is a fault, told once", async (each, fault) => {
  expect(await faultsOf(read("prompt,duration,set.seed\na,,1\nb,4,2\n", { each: [each] }))).toEqual([fault]);
});

test("--each twice with one field, or with too many values, is a fault", async () => {
  const many = `=${Array.from({ length: 101 }, (_, n) => n).join(",")}`;
  expect(await faultsOf(read("prompt\na\n", { each: ["model=a", "model=b"] }))).toEqual([
    "--each model is given twice",
  ]);
  expect(await faultsOf(read("prompt\na\n", { each: [`set.a${many}`, `set.b${many}`] }))).toEqual([
    "--each makes 10201 rows from each line; the limit is 10000",
  ]);
});
