import { open } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { faultOfMp4, readVideoFacts } from "../../src/video/mp4.ts";
import { makeFolder } from "../folder.ts";
import { box, describedMp4, tinyMp4 } from "../mp4.ts";

const ftyp = box("ftyp", new Uint8Array(8));
const moov = box("moov", new Uint8Array(4));
const mdat = box("mdat", new Uint8Array(5));

/** A box whose header says any size it likes: 32 bits, and then 64 where a second one is given. */
function oddBox(type: string, short: number, long?: bigint, payload: number[] = []): number[] {
  const header = new DataView(new ArrayBuffer(long === undefined ? 8 : 16));
  header.setUint32(0, short);
  new TextEncoder().encode(type).forEach((byte, i) => {
    header.setUint8(4 + i, byte);
  });
  if (long !== undefined) header.setBigUint64(8, long);
  return [...new Uint8Array(header.buffer), ...payload];
}

/** An open, empty file of the test's own. */
async function openFile() {
  const folder = makeFolder();
  const file = await open(join(folder, "video.part"), "wx+");
  onTestFinished(() => file.close());
  return file;
}

async function faultOf(bytes: Iterable<number>, options = {}) {
  const file = await openFile();
  await file.write(Uint8Array.from(bytes));
  return faultOfMp4(file, options);
}

test.each([
  ["the smallest", tinyMp4()],
  ["the index last", [...ftyp, ...mdat, ...moov]],
  [
    "other boxes among them",
    [...ftyp, ...box("free", new Uint8Array(3)), ...moov, ...mdat, ...box("uuid", new Uint8Array(16))],
  ],
  [
    "a fragmented one",
    [...ftyp, ...moov, ...box("moof", new Uint8Array(4)), ...mdat, ...box("moof", new Uint8Array(4)), ...mdat],
  ],
  ["an empty box", [...ftyp, ...moov, ...mdat, ...box("free", new Uint8Array(0))]],
  ["a 64-bit size", [...ftyp, ...moov, ...oddBox("mdat", 1, 21n, [1, 2, 3, 4, 5])]],
  ["a last box that goes on to the end", [...ftyp, ...moov, ...oddBox("mdat", 0, undefined, [1, 2, 3])]],
  ["a last box without content", [...ftyp, ...moov, ...oddBox("mdat", 0)]],
  ["a last box of another type that goes on to the end", [...ftyp, ...mdat, ...oddBox("moov", 0, undefined, [1])]],
  ["free first", [...box("free", new Uint8Array(3)), ...tinyMp4()]],
  ["a segment's type first", [...box("styp", new Uint8Array(8)), ...moov, ...box("moof", new Uint8Array(4)), ...mdat]],
  ["QuickTime's, without a type", [...box("wide", new Uint8Array(0)), ...mdat, ...moov]],
])("a whole file: %s", async (_, bytes) => {
  expect(await faultOf(bytes)).toBe(undefined);
});

test.each([
  ["empty", [], "it is empty"],
  ["an HTML page", new TextEncoder().encode("<!doctype html><title>Sign in</title>"), "it is text"],
  ["a JSON error", new TextEncoder().encode('{"error":"expired"}'), "it is text"],
  ["one byte", [0], "it is not an .mp4"],
  ["zeros", new Uint8Array(64), "it is not an .mp4"],
  ["ftyp not first", [...moov, ...ftyp, ...mdat], "it is not an .mp4"],
  ["only ftyp", ftyp, "it contains no video"],
  ["no moov", [...ftyp, ...mdat], "it contains no video"],
  ["no mdat", [...ftyp, ...moov], "it contains no video"],
  ["one byte of junk at its end", [...tinyMp4(), 0], "it is incomplete or damaged"],
  ["zeros at its end", [...tinyMp4(), ...new Uint8Array(7)], "it is incomplete or damaged"],
  [
    "an HTML page at its end",
    [...tinyMp4(), ...new TextEncoder().encode("<html>502</html>")],
    "it is incomplete or damaged",
  ],
  ["a box of 7 bytes", [...ftyp, ...moov, ...oddBox("free", 7), ...mdat], "it is incomplete or damaged"],
  ["a box of 2 bytes", [...ftyp, ...moov, ...mdat, ...oddBox("free", 2)], "it is incomplete or damaged"],
  ["a 64-bit size below its own header", [...ftyp, ...moov, ...oddBox("mdat", 1, 15n)], "it is incomplete or damaged"],
  [
    "a box of 4 bytes, and a sound one where it would end",
    [...ftyp, ...moov, 0, 0, 0, 4, ...mdat],
    "it is incomplete or damaged",
  ],
  ["a 64-bit size of 8 bytes", [...tinyMp4(), ...oddBox("free", 1, 8n)], "it is incomplete or damaged"],
  ["a 64-bit size of nothing", [...ftyp, ...moov, ...oddBox("mdat", 1, 0n)], "it is incomplete or damaged"],
  ["a 64-bit size without its second half", [...ftyp, ...moov, ...oddBox("mdat", 1)], "it is incomplete or damaged"],
  [
    "a 64-bit size beyond the end",
    [...ftyp, ...moov, ...oddBox("mdat", 1, 2n ** 64n - 1n)],
    "it is incomplete or damaged",
  ],
  [
    "a box that goes on to the end, and others in it",
    [...ftyp, ...oddBox("free", 0), ...moov, ...mdat],
    "it contains no video",
  ],
  [
    "an animated WebP",
    new TextEncoder().encode("RIFF\0\0\0\0WEBPVP8X\n\0\0\0\x02\0\0\0?\0\0?\0\0ANIM"),
    "it is an animated WebP",
  ],
  ["a WebP image", new TextEncoder().encode("RIFF\0\0\0\0WEBPVP8 \n\0\0\0"), "it is not an .mp4"],
  ["an animated PNG", Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08acTL", "latin1"), "it is an animated PNG"],
  ["a PNG image", Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08IDAT", "latin1"), "it is not an .mp4"],
  ["a Matroska file", [0x1a, 0x45, 0xdf, 0xa3, 0x9f, 0x42, 0x86, 0x81, 1], "it is a Matroska file"],
  ["many zeros at its end", [...tinyMp4(), ...new Uint8Array(64)], "it is incomplete or damaged"],
  ["two files in a row", [...tinyMp4("one"), ...tinyMp4("two")], "it contains more than one file"],
  ["two in a row, and only one says its type", [...tinyMp4("one"), ...mdat, ...moov], "it contains more than one file"],
  [
    "a file and the start of another",
    [...tinyMp4("one"), ...tinyMp4("two").slice(0, 20)],
    "it contains more than one file",
  ],
])("no whole file: %s", async (_, bytes, fault) => {
  const isNone = ["it is empty", "it is text", "it contains more than one file"].includes(fault);
  expect(await faultOf(bytes)).toMatchObject({ reason: fault, mayBeVideo: !isNone });
});

const moof = box("moof", new Uint8Array(4));
const openEnd = "its last box extends to the end of the file";
test.each([
  ["a byte after the end", [...tinyMp4(), 0], undefined],
  ["zeros after the end", [...tinyMp4(), ...new Uint8Array(64)], undefined],
  ["a page after the end", [...tinyMp4(), ...new TextEncoder().encode("<html>502</html>")], undefined],
  ["a cut mdat after the end", [...tinyMp4(), ...mdat.slice(0, -1)], { reason: "it is incomplete or damaged" }],
  ["a cut index", [...ftyp, ...mdat, ...moov.slice(0, -1)], { reason: "it is incomplete or damaged" }],
  ["no type first, and a byte after the end", [...box("free", new Uint8Array(3)), ...moov, ...mdat, 0], {}],
  [
    "fragments",
    [...ftyp, ...moov, ...moof, ...mdat],
    { reason: "it is a fragmented .mp4", noLengthReason: "fragments" },
  ],
  ["a cut fragment", [...ftyp, ...moov, ...moof, ...mdat, ...moof.slice(0, -1)], { isFinished: true }],
  [
    "no size of its last box",
    [...ftyp, ...moov, ...oddBox("mdat", 0, undefined, [1, 2])],
    { reason: openEnd, noLengthReason: "open last box" },
  ],
])("a file whose length nobody said, with %s: %j", async (_, bytes, fault) => {
  const found = await faultOf(bytes, { isLengthKnown: false });
  if (fault === undefined) expect(found).toBe(undefined);
  else expect(found).toMatchObject(fault);
});

test.each([
  ["the index first", [...ftyp, ...moov, ...mdat]],
  ["the index last", [...ftyp, ...mdat, ...moov]],
  ["a 64-bit size", [...ftyp, ...moov, ...oddBox("mdat", 1, 21n, [1, 2, 3, 4, 5])]],
])("cut at any byte it is no whole file: %s", async (_, bytes) => {
  const file = await openFile();
  await file.write(Uint8Array.from(bytes));
  expect(await faultOfMp4(file)).toBe(undefined);
  for (let size = bytes.length - 1; size >= 0; size--) {
    await file.truncate(size);
    expect(await faultOfMp4(file), `${size} of ${bytes.length} bytes`).toEqual(expect.anything());
  }
});

test("one file with the middle of another in it is no whole file", async () => {
  const [one, two] = [tinyMp4("a longer video, the first"), tinyMp4("the second")];
  expect(await faultOf([...one.slice(0, 40), ...two.slice(30)])).toMatchObject({
    reason: "it is incomplete or damaged",
  });
});

async function factsOf(bytes: Iterable<number>) {
  const file = await openFile();
  await file.write(Uint8Array.from(bytes));
  return readVideoFacts(file);
}

test.each([0, 1] as const)(
  "says how long and how large a video is, whatever the size of its times (version %d)",
  async (version) => {
    expect(await factsOf(describedMp4(5.25, [854, 480], version))).toEqual({ seconds: 5.25, width: 854, height: 480 });
  },
);

test.each([
  ["nothing", []],
  ["text", [...new TextEncoder().encode("<html>")]],
  ["a header that has nothing in it", tinyMp4()],
  ["a header that is cut off", describedMp4(5, [854, 480]).slice(0, 60)],
  ["a box that says it is longer than what it is in", [...ftyp, ...oddBox("moov", 16), ...oddBox("mvhd", 5_000)]],
  ["a length of zero and a size of zero", describedMp4(0, [0, 0])],
  ["a length that is not known (all ones), which a live recording has", describedMp4(4_294_967.295, [0, 0])],
])("says nothing about %s", async (_, bytes) => {
  expect(await factsOf(bytes)).toEqual({});
});

test("reads no more of many boxes than it needs", async () => {
  const many = Array.from({ length: 5_000 }, () => box("free", new Uint8Array(0))).flat();
  expect(await factsOf([...ftyp, ...many, ...describedMp4(5, [854, 480]).slice(16)])).toEqual({});
});
