import { createHash } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Version } from "../../../src/client/ledger/version.ts";
import { download } from "../../../src/client/save/download.ts";
import { type FetchInit, systemMachine } from "../../../src/io.ts";
import { createVirtualClock } from "../../clock.ts";
import { makeFolder } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";

const video = tinyMp4("a red fox runs through snow");
const other = tinyMp4("another video of the very same length".slice(0, 27));
const etag = '"one"';
const total = video.length;
const length = String(total);
const modified = "Thu, 01 Jan 2026 00:00:00 GMT";
const minuteLater = "Thu, 01 Jan 2026 00:01:00 GMT";

/** An answer to one request, seen with the range it asks for. */
type Answer = (headers: Headers) => Response;

const whole: Answer = () => new Response(video.slice(), { headers: { ETag: etag, "Content-Length": length } });

/** The rest of the video, as a good server sends it. */
const rest: Answer = (headers) => {
  const from = Number(/^bytes=(\d+)-$/.exec(headers.get("Range") ?? "")?.[1]);
  const range = `bytes ${from}-${video.length - 1}/${video.length}`;
  return new Response(video.slice(from), { status: 206, headers: { ETag: etag, "Content-Range": range } });
};

function cut(size: number, headers: Record<string, string> = { ETag: etag, "Content-Length": length }): Answer {
  const pull = (stream: ReadableStreamDefaultController) => stream.error(new Error("cut"));
  const start = (stream: ReadableStreamDefaultController) => stream.enqueue(video.slice(0, size));
  return () => new Response(new ReadableStream({ start, pull }, { highWaterMark: 0 }), { headers });
}

const partial =
  (headers: Record<string, string>, body = video.slice(20)) =>
  () =>
    new Response(body, { status: 206, headers });

async function run(answers: Answer[], before: { bytes?: Uint8Array; version?: Version; expected?: Uint8Array } = {}) {
  const folder = makeFolder();
  const file = await open(join(folder, "fox.part"), "wx+");
  onTestFinished(() => file.close());
  if (before.bytes) await file.write(before.bytes);
  const asked: [range: string | null, condition: string | null][] = [];
  const versions: Version[] = [];
  const fetch = async (_: string, init: FetchInit = {}) => {
    const headers = new Headers(init.headers);
    const answer = answers[Math.min(asked.length, answers.length - 1)] ?? whole;
    asked.push([headers.get("Range"), headers.get("If-Range")]);
    return answer(headers);
  };
  const options = {
    signal: new AbortController().signal,
    version: before.version,
    onVersion: async (found: Version) => {
      expect((await file.stat()).size).toBe(0);
      versions.push(found);
    },
    renewUrl: async () => "https://media.video.example/fresh",
    onProgress() {},
    onNote() {},
  };
  const io = { ...systemMachine, ...createVirtualClock(), fetch };
  const sha256 = await download("https://media.video.example/fox.mp4", file, options, io);
  const expected = before.expected ?? video;
  expect(new Uint8Array(await readFile(join(folder, "fox.part")))).toEqual(expected);
  expect(sha256).toBe(createHash("sha256").update(expected).digest("hex"));
  return { asked, versions };
}

describe("a download that broke off", () => {
  test.each<[string, Record<string, string>, Version]>([
    ["its strong ETag", { ETag: etag, "Content-Length": length }, { etag, total }],
    ["its strong ETag, of unknown length", { ETag: etag }, { etag, total: undefined }],
    [
      "a Last-Modified that is a minute old",
      { "Last-Modified": modified, Date: minuteLater, "Content-Length": length },
      { last_modified: modified, total },
    ],
  ])("goes on where it was, on condition that %s is the same", async (_, headers, version) => {
    const restAsIs: Answer = (asked) => {
      const answer = rest(asked);
      answer.headers.delete("ETag");
      return answer;
    };
    const { asked, versions } = await run([cut(20, headers), restAsIs]);
    expect(asked).toEqual([
      [null, null],
      ["bytes=20-", version.etag ?? version.last_modified ?? ""],
    ]);
    expect(versions).toEqual([version]);
  });

  // RFC 9110: a date serves only without any ETag (13.1.5), and well before the reply's own date (8.8.2.2).
  test.each([
    ["no validator", {}],
    ["a weak ETag", { ETag: 'W/"one"' }],
    ["a weak ETag and a date", { ETag: 'W/"one"', "Last-Modified": modified, Date: minuteLater }],
    ["a date that is too young", { "Last-Modified": modified, Date: "Thu, 01 Jan 2026 00:00:59 GMT" }],
    ["a date, and nothing to hold against it", { "Last-Modified": modified }],
    ["no date", { "Last-Modified": "yesterday", Date: minuteLater }],
  ])("starts again with %s", async (_, headers) => {
    const { asked, versions } = await run([cut(20, { ...headers, "Content-Length": length }), whole]);
    expect(asked).toEqual([
      [null, null],
      [null, null],
    ]);
    expect(versions).toEqual([{ total }, { etag, total }]);
  });

  test("starts again when the body came encoded: its ranges would count encoded bytes", async () => {
    const { asked, versions } = await run([cut(20, { ETag: etag, "Content-Encoding": "gzip" }), whole]);
    expect(asked).toEqual([
      [null, null],
      [null, null],
    ]);
    expect(versions).toEqual([{}, { etag, total }]);
  });

  test("starts again if the file looks odd, until it comes in one piece", async () => {
    // Its first box is none that an .mp4 begins with.
    const odd = tinyMp4("odd".repeat(9)).fill(0x78, 4, 5).fill(255, 16, 24);
    const answer = (from: number, headers: Record<string, string>) => () =>
      new Response(odd.slice(from), { status: from > 0 ? 206 : 200, headers: { ETag: etag, ...headers } });
    const oddWhole = answer(0, { "Content-Length": String(odd.length) });
    const oddRest = answer(20, { "Content-Range": `bytes 20-${odd.length - 1}/${odd.length}` });
    const oddCut = cut(20, { ETag: etag, "Content-Length": String(odd.length) });
    const { asked } = await run([oddCut, oddRest, oddWhole, oddCut, oddRest, oddWhole], { expected: odd });
    expect(asked.map(([range]) => range)).toEqual([null, "bytes=20-", null, null, "bytes=20-", null]);
  });

  test("resumes only the version that its bytes belong to, however often that changes", async () => {
    const { asked, versions } = await run([cut(20), cut(15, { "Content-Length": length }), cut(10), rest]);
    expect(asked.map(([range]) => range)).toEqual([null, "bytes=20-", null, "bytes=10-"]);
    expect(versions).toEqual([{ etag, total }, { total }, { etag, total }]);
  });

  test.each<[string, Answer]>([
    ["the range is ignored", whole],
    ["another place comes", partial({ "Content-Range": `bytes 10-${video.length - 1}/${video.length}`, ETag: etag })],
    [
      "another version comes",
      partial({ "Content-Range": `bytes 20-${video.length - 1}/${video.length}`, ETag: '"two"' }, other.slice(20)),
    ],
    ["no place is named", partial({ ETag: etag })],
    ["there is no such range", () => new Response(null, { status: 416, headers: { "Content-Range": "bytes */9" } })],
    [
      "the rest is not what is missing",
      partial({ "Content-Range": `bytes 20-${video.length - 1}/${video.length}`, ETag: etag }, new Uint8Array(5)),
    ],
  ])("ends with the whole video when %s", async (_, answer) => {
    await run([cut(20), answer, whole]);
  });
});

describe("the partial file of an earlier run", () => {
  test("is resumed by its ETag", async () => {
    expect((await run([rest], { bytes: video.slice(0, 30), version: { etag } })).asked).toEqual([["bytes=30-", etag]]);
  });

  test("is the whole video if the service has no more bytes", async () => {
    const complete = () => new Response(null, { status: 416, headers: { "Content-Range": `bytes */${video.length}` } });
    expect((await run([complete], { bytes: video, version: { etag, total } })).asked).toEqual([
      [`bytes=${video.length}-`, etag],
    ]);
  });

  test("is fetched again when its version is unknown", async () => {
    expect((await run([whole], { bytes: other.slice(0, 30) })).asked).toEqual([[null, null]]);
  });

  test("is fetched again when it is longer than the video", async () => {
    const bytes = new Uint8Array(video.length + 9);
    const tooFar = () => new Response(null, { status: 416, headers: { "Content-Range": `bytes */${video.length}` } });
    await run([tooFar, whole], { bytes, version: { etag } });
  });

  test.each<[string, Version, Record<string, string>]>([
    ["its length is another one", { etag, total: total + 1 }, { ETag: etag }],
    ["its ETag is another one", { etag, total }, { ETag: '"two"' }],
    ["its date is another one", { last_modified: modified, total }, { "Last-Modified": minuteLater }],
    ["it has an ETag now", { last_modified: modified, total }, { ETag: etag }],
  ])("is fetched again when the rest comes and %s", async (_, version, headers) => {
    const range = { "Content-Range": `bytes 20-${total - 1}/${total}` };
    const { asked } = await run([partial({ ...headers, ...range }, other.slice(20)), whole], {
      bytes: video.slice(0, 20),
      version,
    });
    expect(asked.map(([range]) => range)).toEqual(["bytes=20-", null]);
  });

  test("is fetched again when the video now ends where it was cut", async () => {
    const shorter = () => new Response(null, { status: 416, headers: { "Content-Range": `bytes */${total}` } });
    const { asked } = await run([shorter, whole], { bytes: video, version: { etag, total: total + 9 } });
    expect(asked.map(([range]) => range)).toEqual([`bytes=${total}-`, null]);
  });
});
