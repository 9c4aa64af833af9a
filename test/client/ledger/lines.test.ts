import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readLines } from "../../../src/client/ledger/lines.ts";
import { systemMachine } from "../../../src/io.ts";
import { makeFolder } from "../../folder.ts";

/** Reads a file of that text; `most` is how many bytes each read gives. */
async function read(text: string, most = Number.POSITIVE_INFINITY) {
  const folder = makeFolder();
  await writeFile(join(folder, "lines"), text);
  const file = await systemMachine.disk.open(join(folder, "lines"), "r");
  onTestFinished(() => file.close());
  const whole = file.read.bind(file);
  const short = (buffer: Buffer, offset: number, length: number, position: number) =>
    whole(buffer, offset, Math.min(length, most), position);
  const lines: { text: string; start: number; length: number }[] = [];
  for await (const line of readLines(Object.assign(file, { read: short }))) lines.push(line);
  return lines;
}

test.each([
  ["nothing", "", []],
  ["a line", "a\n", ["a"]],
  ["a line without its end", "a\nbc", ["a", "bc"]],
  ["empty lines", "\n\na\n", ["", "", "a"]],
  ["letters of several bytes", "füchse\n🦊🦊\n狐", ["füchse", "🦊🦊", "狐"]],
  ["lines that end elsewhere in other programs", "a\u2028b\rc\n", ["a\u2028b\rc"]],
])("%s is read, however few bytes a read gives", async (_, text, lines) => {
  for (const most of [1, 2, 3, 5, 1_000]) {
    const found = await read(text, most);
    expect(found.map((line) => line.text)).toEqual(lines);
    const bytes = Buffer.from(text);
    for (const line of found) expect(bytes.toString("utf8", line.start, line.start + line.length)).toBe(line.text);
  }
});

test("a line may be longer than a chunk of the file", async () => {
  const long = "fox ".repeat(100_000);
  expect((await read(`a\n${long}\nb\n`)).map(({ text }) => text)).toEqual(["a", long, "b"]);
});
