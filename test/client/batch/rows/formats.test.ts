import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readRows } from "../../../../src/client/batch/rows/rows.ts";
import { jsonHint } from "../../../../src/protocol/json-fault.ts";
import { makeFolder } from "../../../folder.ts";
import { lacks } from "../../../needs.ts";
import { faultsOf, io, read, readFile } from "./read.ts";

const flags = { texts: { model: "wan-2.5" }, images: {}, set: [], each: [], isLocal: false };

test.each([
  ["shots.csv", "id,prompt\na,a fox\nb,an owl\n"],
  ["shots.CSV", "\ufeffid,prompt\r\na,a fox\r\n\r\nb,an owl"],
  ["shots.csv", '\ufeff"id","prompt"\n"a","a fox"\n"b",an owl\n'],
  ["shots.tsv", "prompt\tid\na fox\ta\nan owl\tb\n"],
  ["shots.jsonl", '{"id":"a","prompt":"a fox"}\n\n{"prompt":"an owl","id":"b"}'],
  ["shots.jsonl", '\ufeff{"id":"a","prompt":"a fox"}\r\n{"prompt":"an owl","id":"b"}\r\n'],
  ["shots.json", '[{"id":"a","prompt":"a fox"},\n {"id":"b","prompt":"an owl"}]'],
  ["shots.json", '\ufeff [\n  {\n    "id": "a",\n    "prompt": "a fox"\n  },\n  {"prompt":"an owl","id":"b"}\n]\n'],
  ["shots.json", '{"id":"a","prompt":"a fox"}\n{"prompt":"an owl","id":"b"}\n'],
  ["shots.jsonl", '[{"id":"a","prompt":"a fox"},{"id":"b","prompt":"an owl"}]'],
  ["shots.yaml", "- id: a\n  prompt: a fox\n- {prompt: an owl, id: b}\n"],
  [
    "shots.YML",
    "---\n# the shots\n-   id: a # the first\n    prompt: >\n      a\n      fox\n- id: b\n  prompt: 'an owl'\n...\n",
  ],
  ["shots.csv", "sep=;\r\nid;prompt\r\na;a fox\r\nb;an owl\r\n"],
  ["shots.csv", '\ufeff"sep=,"\nid,prompt\na,a fox\nb,an owl\n'],
  ["shots.csv", "sep=\t\nid\tprompt\na\ta fox\nb\tan owl\n"],
  ["shots.csv", "id\tprompt\na\ta fox\nb\tan owl\n"],
  ["shots.csv", "id,prompt,,\na,a fox,,\nb,an owl,,\n,,,\n,,,\n"],
  ["shots.csv", ",,,\n,id,prompt,\n,,,\n,a,a fox,\n,b,an owl\n"],
  ["shots.csv", "id;prompt\na;a fox;;\nb;an owl;\n"],
  ["shots.tsv", "\t\t\nid\tprompt\t\na\ta fox\t\nb\tan owl\t\n\t\t\n"],
])("%s with %j has two rows", async (name, content) => {
  const withoutMark = content.replace("\ufeff", "");
  for (const bytes of [
    content,
    Buffer.from(`\ufeff${withoutMark}`, "utf16le"),
    Buffer.from(`\ufeff${withoutMark}`, "utf16le").swap16(),
    Buffer.from(withoutMark, "utf16le"),
    Buffer.from(withoutMark, "utf16le").swap16(),
  ]) {
    const { rows, total } = await readFile(name, bytes);
    expect(rows.map(({ id, record }) => [id, record.prompt])).toEqual([
      ["a", "a fox"],
      ["b", "an owl"],
    ]);
    expect(total).toBe(2);
  }
});

test("each element of a JSON array has the line on which it begins", async () => {
  const text =
    '[\n  {\n    "prompt": "a }] \\" fox"\n  }, { "prompt": "b" },\n  7,\n\n  [{"prompt": "c"}], { "duration": "x" }\n]\n';
  expect(await faultsOf(readFile("shots.json", text))).toEqual([
    "line 5: is not a JSON object",
    "line 7: is not a JSON object",
    "line 7 (prompt): is empty",
    expect.stringMatching(/^line 7 \(duration\): must be/),
  ]);
  const { rows } = await readFile("shots.json", '[\n  {\n    "prompt": "a }] \\" fox"\n  }, { "prompt": "b" }]');
  expect(rows.map(({ line, record }) => [line, record.prompt])).toEqual([
    [2, 'a }] " fox'],
    [4, "b"],
  ]);
  const one = await readFile("shot.json", '{\n  "prompt": "a fox"\n}\n');
  expect(one.rows.map(({ record }) => record.prompt)).toEqual(["a fox"]);
});

test("a text file has a prompt in each line that is not blank", async () => {
  const { rows } = await readFile("prompts.txt", '\ufeffa fox\r\n\r\n  an owl, "at" night \n');
  expect(rows.map(({ line, record }) => [line, record.prompt])).toEqual([
    [1, "a fox"],
    [3, 'an owl, "at" night'],
  ]);
});

test("a line of a text file that begins with # is a comment", async () => {
  const { rows } = await readFile("prompts.txt", "# night shots\na fox\n  # an owl\nroom #7\n");
  expect(rows.map(({ line, record }) => [line, record.prompt])).toEqual([
    [2, "a fox"],
    [4, "room #7"],
  ]);
});

test.each([
  ["id;prompt\n1;a fox, red\n", "a fox, red"],
  ['"id, or name";prompt\r\n1;"a fox; red"\r\n', "a fox; red"],
  ['id,"a;b",prompt\n1,x,a fox; red\n', "a fox; red"],
])(
  "a file with semicolons in place of commas is read, as Excel writes it in half of Europe: %j",
  async (text, prompt) => {
    expect((await readFile("shots.csv", text)).rows.map(({ record }) => record.prompt)).toEqual([prompt]);
  },
);

test("--input-format has precedence over the extension, and is needed for stdin", async () => {
  expect((await readFile("shots.csv", "a fox, red\n", { format: "txt" })).rows).toHaveLength(1);
  await expect(readRows("-", flags, io)).rejects.toThrow(
    "stdin needs --input-format: csv, tsv, jsonl, json, yaml, txt.",
  );
  await expect(readRows("shots.xlsx", flags, io)).rejects.toThrow(
    "The extension of shots.xlsx is not a known format: csv, tsv, jsonl, json, yaml, txt.",
  );
});

test("what cannot be read is an error that says why", async () => {
  const folder = makeFolder();
  await mkdir(join(folder, "x.csv"));
  await expect(readRows(join(folder, "x.csv"), flags, io)).rejects.toThrow(/^Cannot read .*: it is a folder\.$/);
  await expect(readRows(join(folder, "y.csv"), flags, io)).rejects.toThrow(/^Cannot read .*: there is no such file\.$/);
  await expect(read("")).rejects.toThrow("stdin is empty.");
  await expect(read("prompt\n")).rejects.toThrow("stdin has a header, but no rows.");
  await expect(read("\n\n", { format: "txt" })).rejects.toThrow("stdin has no rows.");
});

test.skipIf(lacks("devices in folders"))("a device that never ends is too large", async () => {
  await expect(readRows("/dev/zero", { ...flags, format: "txt" }, io)).rejects.toThrow("larger than 256 MB");
});

test("a file that is not text is reported once, with the first line that is not and what to do", async () => {
  const ansi = Buffer.from("prompt\na fox\nein F\xf6hn\n\xe9t\xe9\n", "latin1");
  await expect(readFile("shots.csv", ansi)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringMatching(/shots\.csv is not in UTF-8: line 3 is the first that is not\. Nothing was sent\.$/),
    hint: 'Save it again as "CSV UTF-8".',
  });
  const binary = Buffer.from("prompt\na fox\nb\0\n");
  await expect(readFile("shots.txt", binary)).rejects.toMatchObject({
    message: expect.stringMatching(/line 3 is the first/),
    hint: "Save it again as UTF-8.",
  });
});

test.each([
  ["prompt,,x,x\na,b,c,d", ["line 1, column 2: the header cell is empty", "line 1, column 4: the header has x twice"]],
  ["prompt,aspect_ratio,Aspect-Ratio\na,,", ["line 1, column 3: the header has aspectRatio twice"]],
  ["prompt,set\na,b=1", ["line 1, column 2: the header must be set.<field>, such as set.seed"]],
  [
    'id,prompt\n1,"two\nlines"\n2\n3,x,y\n,\n',
    [
      "line 4, column 2: the row has 1 cell, but the header has 2 cells",
      "line 5, column 3: the row has 3 cells, but the header has 2 cells",
    ],
  ],
  ['id,prompt\r\n1,"a\r\nb"\r\n2,', ["line 4, column 2 (prompt): is empty"]],
  [
    'id,prompt\n1,a "fox"\n2,',
    [
      'line 2, column 2: a cell with a quote inside must be in quotes, with the quote written ""',
      "line 3, column 2 (prompt): is empty",
    ],
  ],
  ['id,prompt\n1,a\n2,"a fox\n3,b\n', ["line 3, column 2: the cell's quote is not closed"]],
  [
    'id,prompt\n1,\n2,"two\nlines"\n3,\n4,"open\n5,x\n',
    [
      "line 2, column 2 (prompt): is empty",
      "line 5, column 2 (prompt): is empty",
      "line 6, column 2: the cell's quote is not closed",
    ],
  ],
])("the faults of %j are told with line and column", async (text, faults) => {
  expect(await faultsOf(read(text))).toEqual(expect.arrayContaining(faults));
});

test.each([
  ['[1]\n{"prompt":\n{"prompt":"a"}', ["line 1: is not a JSON object", `line 2, column 11: is not JSON: ${jsonHint}`]],
  ['{"prompt":"a"}\n{"prompt":"b",}', [`line 2, column 15: is not JSON: ${jsonHint}`]],
  ['[\n {"prompt":"a"},\n {"prompt":"b" // a comment\n}]', [`line 3, column 16: is not JSON: ${jsonHint}`]],
  ['{\n "prompt":"a",\n}\n', [`line 3, column 1: is not JSON: ${jsonHint}`]],
  ['{"prompt":true}', ["line 1 (prompt): must be text"]],
  ['{"prompt":"a","image_url":[1]}', ["line 1 (image_url): must be text or a list of texts"]],
  ['{"prompt":"a","set":5}', ["line 1 (set): must be an object"]],
  [
    '{"prompt":"a","aspectRatio":"1:1","aspect_ratio":"1:1"}',
    ["line 1 (aspect_ratio): the object has aspectRatio twice"],
  ],
])("the faults of the objects %s", async (text, faults) => {
  expect(await faultsOf(read(text, { format: "jsonl" }))).toEqual(expect.arrayContaining(faults));
});

/** Text that a file can hold and that no reader trims. */
const cell = fc
  .string({ unit: fc.constantFrom("a", "é", "狐", '"', ",", "\n", "\r\n", "\t", " ", "'", ";", "{") })
  .map((text) => `x${text}x`);

test("what a writer of RFC 4180 writes is read back, with LF for each CRLF, and the lines where the rows begin", async () => {
  const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(cell, cell), { minLength: 1 }),
      fc.constantFrom("\n", "\r\n"),
      async (cells, end) => {
        const records = cells.map(([prompt, word]) => `${quote(prompt)},${quote(word)}${end}`);
        const { rows } = await read(`prompt,set.word${end}${records.join("")}`);
        const lf = (text: string) => text.replaceAll("\r\n", "\n");
        expect(rows.map(({ record }) => [record.prompt, record.word])).toEqual(cells.map((pair) => pair.map(lf)));
        const starts = records.map((_, index) => 2 + records.slice(0, index).join("").split("\n").length - 1);
        expect(rows.map(({ line }) => line)).toEqual(starts);
      },
    ),
  );
});
