import { expect, test } from "vitest";
import { faultsOf, read } from "./read.ts";

const output = "{n}.mp4";

test("a row begins from the row before it, or from any row by its id", async () => {
  const { rows } = await read("id,prompt,from\na,one,\nb,two,previous\nc,three,d\nd,four,a\n", { output });
  expect(rows.map(({ from }) => from)).toEqual([undefined, 0, 3, 0]);
});

test("with --each the same values belong together", async () => {
  const each = ["seed=1,2"];
  const { rows } = await read("id,prompt,from\na,one,\nb,two,previous\nc,three,a\n", { output, each });
  expect(rows.map(({ from }) => from)).toEqual([undefined, undefined, 0, 1, 0, 1]);
});

test("a row that begins from another one does not take the image of the flags", async () => {
  const imageUrl = ["https://example.com/first.png"];
  const { rows } = await read("prompt,from\none,\ntwo,previous\n", { output, images: { imageUrl } });
  expect(rows.map(({ record }) => record)).toEqual([
    expect.objectContaining({ imageUrl: imageUrl[0] }),
    expect.not.objectContaining({ imageUrl: expect.anything() }),
  ]);
});

test.each([
  ["an unknown row", "id,prompt,from\na,one,b\n", 'line 2, column 3 (from): no row has the id "b"'],
  ["the first row", "prompt,from\none,previous\n", "line 2, column 2 (from): there is no row before it"],
  ["itself", "id,prompt,from\na,one,a\n", "line 2, column 3 (from): is a circle: line 2 begins from line 2"],
  [
    "a circle, once",
    "id,prompt,from\nx,zero,c\na,one,c\nb,two,a\nc,three,b\nd,four,previous\n",
    "line 3, column 3 (from): is a circle: line 3 begins from line 5, which begins from line 4, which begins from line 3",
  ],
  [
    "an image beside it",
    "prompt,from,imageUrl\none,,\ntwo,previous,https://example.com/a.png\n",
    "line 3, column 2 (from): cannot be combined with an image: the row begins with a frame",
  ],
  [
    "an image in a further field",
    "prompt,from,set.image_url\none,,\ntwo,previous,https://example.com/a.png\n",
    "line 3, column 2 (from): cannot be combined with an image: the row begins with a frame",
  ],
])("a fault is %s", async (_, text, fault) => {
  expect(await faultsOf(read(text, { output }))).toEqual([fault]);
});

test("the row that it begins from has to be saved", async () => {
  expect(await faultsOf(read("prompt,from,output\none,,\ntwo,previous,two.mp4\n"))).toEqual([
    "line 3, column 2 (from): needs -o: line 2 is not saved, and its last frame is needed",
  ]);
});

test("a row has its own: --each from is not possible", async () => {
  expect(await faultsOf(read("id,prompt\na,one\n", { output, each: ["from=a,b"] }))).toEqual([
    "--each from is not possible: a row has one of its own",
  ]);
});
