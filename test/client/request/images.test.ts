import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { readImages } from "../../../src/client/request/images.ts";
import { lacks } from "../../needs.ts";
import { aPng, squaresJpeg, squaresWebp } from "../../server/queue/pictures.ts";

const folder = mkdtempSync(join(tmpdir(), "vidgen-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, bytes: string | Uint8Array, size?: number): string {
  const file = join(folder, name);
  writeFileSync(file, bytes);
  if (size !== undefined) truncateSync(file, size);
  return file;
}

test.each([
  ["a PNG", "png", aPng(2, 2)],
  ["a JPEG", "jpeg", squaresJpeg],
  ["a WebP", "webp", squaresWebp],
])("%s is told by its first bytes and sent as a data: URL", async (_, format, bytes) => {
  const file = write(`image-${format}.txt`, bytes);
  const url = `data:image/${format};base64,${Buffer.from(bytes).toString("base64")}`;
  expect(await readImages([file, pathToFileURL(file).href])).toEqual([url, url]);
});

test.skipIf(lacks("symbolic links"))("a link to an image is read", async () => {
  const file = write("linked.png", aPng(1, 1));
  symlinkSync(file, `${file}.link`);
  expect(await readImages([`${file}.link`])).toEqual(await readImages([file]));
});

test("URLs are unchanged and keep their order", async () => {
  const file = write("between.png", aPng(1, 1));
  const [first, last] = ["HTTPS://x.example/a.png?token=1", "data:image/png;base64,AAAA"];
  const notes: string[] = [];
  expect(await readImages([first, last], { onNote: (text) => notes.push(text) })).toEqual([first, last]);
  expect(notes).toEqual([]);
  expect(await readImages([first, file, last])).toEqual([first, expect.stringMatching(/^data:image\/png;/), last]);
});

test("the note names the files and says how much is sent", async () => {
  const [one, two] = [write("one.png", aPng(1, 1), 1_200_000), write("two.png", aPng(1, 1), 800_000)];
  const notes: string[] = [];
  await readImages([one], { onNote: (text) => notes.push(text) });
  await readImages([one, two], { onNote: (text) => notes.push(text) });
  expect(notes).toEqual([
    "An image is sent as a data: URL (1.2 MB); not every service accepts that.",
    "2 images are sent as data: URLs (2.0 MB); not every service accepts that.",
  ]);
});

test("20 MB in total are sent, and one byte more is refused", async () => {
  const [half, more] = [write("half.png", aPng(1, 1), 10_000_000), write("more.png", aPng(1, 1), 10_000_001)];
  expect(await readImages([half, half])).toHaveLength(2);
  await expect(readImages([half, more])).rejects.toMatchObject({
    code: "usage",
    message: `Cannot read the image "${more}": the images would have 20.1 MB in total; the limit is 20 MB.`,
  });
});

const missing = "it is neither a file nor an http(s) URL";
/** Windows looks for it there. */
const elsewhere = lacks("ENOTDIR") ? missing : expect.stringContaining("host");
const belowFile = lacks("ENOTDIR") ? missing : "part of the path is not a folder";
const special: [string, () => string, string][] = lacks("named pipes in folders")
  ? []
  : [
      ["an endless device", () => "/dev/zero", "it is a pipe, a socket or a device"],
      ["a pipe that nobody writes to", makePipe, "it is a pipe, a socket or a device"],
    ];

test.each([
  ["missing", () => join(folder, "missing.png"), missing],
  ["no word for a file", () => "ftp://x.example/fox.png", missing],
  ["nothing", () => "", missing],
  ["a missing file: URL", () => pathToFileURL(join(folder, "missing.png")).href, missing],
  ["on another machine", () => "file://host.example/fox.png", elsewhere],
  ["a folder", () => folder, "it is a folder"],
  ["empty", () => write("empty.png", ""), "it is empty"],
  ["of another format", () => write("fox.png", "GIF89a and more"), "it is not a PNG, JPEG or WebP"],
  ["almost a WebP", () => write("wave.webp", "RIFF....WAVEfmt "), "it is not a PNG, JPEG or WebP"],
  ["below a file", () => join(write("a.png", "x"), "b.png"), belowFile],
  ["a name that no file can have", () => "fox\0.png", expect.stringContaining("null bytes")],
  ...special,
])("an image that is %s is refused by its name", async (_, make, reason) => {
  const image = make();
  const error = await readImages([image]).catch((error) => error);
  expect(error).toMatchObject({
    code: "usage",
    message: expect.stringContaining(`Cannot read the image "${image}": `),
  });
  expect(error.message.slice(`Cannot read the image "${image}": `.length, -1)).toEqual(reason);
});

test.skipIf(process.getuid?.() === 0 || lacks("file modes"))("an image that may not be read is refused", async () => {
  const file = write("secret.png", aPng(1, 1));
  spawnSync("chmod", ["0", file]);
  await expect(readImages([file])).rejects.toMatchObject({ message: expect.stringContaining("permission denied") });
});

function makePipe(): string {
  const pipe = join(folder, "pipe.png");
  spawnSync("mkfifo", [pipe]);
  return pipe;
}
