import { mkdir } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RowOptions } from "../../../../src/client/batch/rows/rows.ts";
import { fillId, fillWords } from "../../../../src/video/naming.ts";
import { makeFolder } from "../../../folder.ts";
import { faultsOf, read } from "./read.ts";

const header = "id,prompt,aspect_ratio,animal,place,date";

async function placeOf(cells: string, output: string, options: Partial<RowOptions> = {}) {
  const { rows } = await read(`${header}\n${cells}\n`, { output, ...options });
  return rows[0]?.outputPath;
}

test("--prompt is filled in with the words of the row, for rows without a prompt of their own", async () => {
  const { rows } = await read('animal,place,prompt\nfox,"{place}, $& at <night>",\nowl,,as it is {animal}\n', {
    prompt: "{n}: a {animal} in {place}, {aspect-ratio}",
    texts: { model: "wan-2.5", aspectRatio: "1:1" },
  });
  expect(rows.map(({ record }) => record.prompt)).toEqual([
    "1: a fox in {place}, $& at <night>, 1:1",
    "as it is {animal}",
  ]);
});

test.each([
  ["x,a,16:9,fox,snow,1 May", "{animal}/{place}-{n}.mp4", "fox/snow-1.mp4"],
  ["x,a,16:9,fox,snow,1 May", "{id}-{aspectRatio}-{aspect_ratio}-{date}.mp4", "x-16-9-16-9-1 May.mp4"],
  [",a,,fox,snow,", "{slug}-{model}-{id}.mp4", "{slug}-{model}-{id}.mp4"],
  ["a/b,a,,../../etc/passwd,C:\\x,", "{id}/{animal}-{place}.mp4", "a-b/-..-etc-passwd-C-x.mp4"],
  ["x,a,,..,con,", "{animal}/{place}.mp4", "_/con_.mp4"],
  ["x,a,,.hidden. ,con.txt,", "{animal}-{place}.mp4", "hidden-con_.txt.mp4"],
  ["x,a,,{id},{slug},", "{animal}{place}.mp4", "-id--slug-.mp4"],
  ["x,a,,狐 é_1,ok,", "{animal}.mp4", "狐 é_1.mp4"],
  [`x,a,,${"狐".repeat(90)},ok,`, "{animal}.mp4", `${"狐".repeat(33)}.mp4`],
  ["x,a,,fox,ok,", "clips/", "clips/"],
  ["x,a,,fox,ok,", "{{animal}}.mp4", "{fox}.mp4"],
])("the row %s is saved by %s to %s", async (cells, output, place) => {
  expect(await placeOf(cells, output)).toBe(place);
});

test("the column output has the precedence over -o, and is a template too", async () => {
  const { rows } = await read("prompt,output\na,\nb,{n}-{prompt}.mp4\n", { output: "o-{n}.mp4" });
  expect(rows.map(({ outputPath: place }) => place)).toEqual(["o-1.mp4", "2-b.mp4"]);
  expect((await read("prompt\na\n")).rows[0]?.outputPath).toBe(undefined);
});

test.each([
  ["{anmal}.mp4", "-o has an unknown placeholder {anmal}. Did you mean {animal}? The placeholders are {slug}, "],
  ["{animal.mp4", "-o has {animal.mp4 without a closing brace. The placeholders are "],
  ["{place}.mp4", "line 3, column 5 (place): is empty, but -o uses {place}"],
  ["{resolution}.mp4", "line 2 (resolution): is empty, but -o uses {resolution}"],
  ["{date}-{n}.mp4", "line 2, column 6 (date): is empty, but -o uses {date}"],
  ["-", "-o must be a file or a folder: stdout can take only one video"],
  [" ", "-o is empty"],
  ["{id}/x.mp4", "-o accepts {id} only in the file name: the folder must exist before the generation is paid for."],
  [`${"x".repeat(247)}{n}.mp4`, "-o has a file name of more than 255 bytes"],
  ["x.mp4", "line 3: is saved to x.mp4, and so is line 2"],
  ["{prompt}.mp4", "line 3: is saved to fox.mp4, and so is line 2"],
])("-o %s is a fault", async (output, fault) => {
  const faults = await faultsOf(read(`${header}\n,fox,,a,x,\n,fox,,b,,\n`, { output }));
  expect(faults).toContainEqual(expect.stringContaining(fault));
});

test("a fault in an output path is reported with its column", async () => {
  expect(await faultsOf(read("prompt,output\na,{x}\nb,-\nc,y.mp4\nd,./y.mp4\n", {}))).toEqual([
    expect.stringMatching(/^line 2, column 2 \(output\): has an unknown placeholder \{x\}\. /),
    "line 3, column 2 (output): must be a file or a folder: stdout can take only one video",
    "line 5, column 2 (output): is saved to ./y.mp4, and so is line 4",
  ]);
});

test("an unknown or empty word of --prompt is a fault", async () => {
  expect(await faultsOf(read("animal\nfox\n", { prompt: "{anmal}" }))).toEqual([
    expect.stringMatching(/^--prompt has an unknown placeholder \{anmal\}\. Did you mean \{animal\}\? .*\{animal\}/),
  ]);
  const rows = '{"animal":"fox"}\n{"id":"a"}\n';
  expect(await faultsOf(read(rows, { format: "jsonl", prompt: "{animal}" }))).toEqual([
    "line 2 (animal): is empty, but --prompt uses {animal}",
  ]);
});

test("two rows may share a folder, and a name that the generation's id makes distinct", async () => {
  const folder = makeFolder();
  await mkdir(join(folder, "clips"));
  for (const output of [join(folder, "clips"), "new/", "{id}.mp4", "{slug}-{n}.mp4"])
    expect((await read("prompt\na\na\n", { output })).rows).toHaveLength(2);
});

test("upper and lower case are one file on Windows and macOS", async () => {
  const rows = "prompt,word\na,Fox\nb,fox\n";
  expect((await read(rows, { output: "{word}.mp4" })).rows).toHaveLength(2);
  for (const platform of ["win32", "darwin"])
    expect(await faultsOf(read(rows, { output: "{word}.mp4" }, platform))).toHaveLength(1);
});

test("a name that Windows cannot use is a fault there, with the reason", async () => {
  const rows = "prompt,output\na,CON.mp4\nb,a?b.mp4\nc,fox.\n";
  expect((await read(rows)).rows).toHaveLength(3);
  expect(await faultsOf(read(rows, {}, "win32"))).toEqual([
    "line 2, column 2 (output): has the name CON.mp4: Windows reserves CON for a device",
    "line 3, column 2 (output): has a name with ?, which Windows does not allow",
    "line 4, column 2 (output): has a name that ends with a dot, which Windows does not allow",
  ]);
  expect(await faultsOf(read("prompt\na\nb\n", { output: "clips|{n}.mp4" }, "win32"))).toEqual([
    "-o has a name with |, which Windows does not allow",
  ]);
});

test("a row on Windows names no path on another machine, and no device: a flag may", async () => {
  const server = "\\\\\\\\host\\\\share\\\\fox";
  const rows = `{"prompt":"a","output":"${server}.mp4"}\n{"prompt":"b","image":"${server}.png"}\n{"prompt":"c","image":"file://host/fox.png"}\n`;
  expect(await faultsOf(read(rows, { format: "jsonl" }, "win32"))).toEqual([
    "line 1 (output): is a path on another machine or a device: only a flag may name one",
    "line 2: an image is a path on another machine or a device: only a flag may name one",
    "line 3: an image is a path on another machine or a device: only a flag may name one",
  ]);
  const { rows: kept } = await read("prompt\na\n", { output: "\\\\host\\share\\{n}.mp4" }, "win32");
  expect(kept).toHaveLength(1);
});

test("no value of a cell makes the path leave its folder", async () => {
  const unit = fc.constantFrom(
    ".",
    "..",
    "/",
    "\\",
    "a",
    ":",
    " ",
    "~",
    "{",
    "}",
    "{id}",
    "con",
    "\0",
    "\ud800",
    "-",
    "é",
    "\n",
  );
  const words = [fc.string({ unit, minLength: 1 }), fc.string({ unit: "binary", minLength: 1 })];
  // A cell of spaces is an empty word.
  const word = fc.oneof(...words).filter((text) => text.trim() !== "");
  const template = fc.constantFrom(
    "out/{a}.mp4",
    "out/{a}/{b}",
    "out/.{a}{b}",
    "out/{id}-{a}",
    "out/{id}/{a}",
    "out/{prompt}",
  );
  await fc.assert(
    fc.asyncProperty(fc.tuple(word, word, word), template, async ([a, b, id], output) => {
      const row = JSON.stringify({ prompt: `x${a}`, a, b, id: "i" });
      const { rows } = await read(row, { format: "jsonl", output });
      for (const { outputPath: place = "", record } of rows) {
        const path = fillId(fillWords(place, record, "2026-01-31"), { id });
        const below = relative(resolve("out"), resolve(path));
        const parts = below.split(sep);
        expect(parts.join("/")).not.toMatch(/^\.\.|^$|[\\:\0{}]/);
        expect(parts).toHaveLength(output.split("/").length - 1);
      }
    }),
    { numRuns: 500 },
  );
});
