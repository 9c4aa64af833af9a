import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { download } from "../../src/client/download.ts";
import type { FetchInit } from "../../src/io.ts";
import { createVirtualClock } from "../clock.ts";
import { tinyMp4 } from "../mp4.ts";

const video = tinyMp4("a red fox runs through snow");
const other = tinyMp4("another video of the very same length".slice(0, 27));
const etag = '"one"';
const length = String(video.length);

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

async function run(answers: Answer[], before: { bytes?: Uint8Array; etag?: string } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "vidgen-test-"));
  const file = await open(join(folder, "fox.part"), "wx+");
  onTestFinished(async () => {
    await file.close();
    await rm(folder, { recursive: true });
  });
  if (before.bytes) await file.write(before.bytes);
  const asked: [range: string | null, condition: string | null][] = [];
  const etags: string[] = [];
  const fetch = async (_: string, init: FetchInit = {}) => {
    const headers = new Headers(init.headers);
    const answer = answers[Math.min(asked.length, answers.length - 1)] ?? whole;
    asked.push([headers.get("Range"), headers.get("If-Range")]);
    return answer(headers);
  };
  const options = {
    signal: new AbortController().signal,
    etag: before.etag,
    onEtag: async (found: string) => void etags.push(found),
    freshUrl: async () => "https://media.video.example/fresh",
    onProgress() {},
    onNote() {},
  };
  await download("https://media.video.example/fox.mp4", file, options, { ...createVirtualClock(), fetch });
  expect(new Uint8Array(await readFile(join(folder, "fox.part")))).toEqual(video);
  return { asked, etags };
}

describe("a download that broke off", () => {
  test("goes on where it was, on condition that the video is the same", async () => {
    const { asked, etags } = await run([cut(20), rest]);
    expect(asked).toEqual([
      [null, null],
      ["bytes=20-", etag],
    ]);
    expect(etags).toEqual([etag]);
  });

  test.each([
    ["no ETag", { "Content-Length": length }],
    ["a weak ETag", { ETag: 'W/"one"', "Content-Length": length }],
  ])("starts again with %s", async (_, headers) => {
    expect((await run([cut(20, headers), whole])).asked).toEqual([
      [null, null],
      [null, null],
    ]);
  });

  test("starts again when the body came encoded: its ranges would count encoded bytes", async () => {
    const { asked, etags } = await run([cut(20, { ETag: etag, "Content-Encoding": "gzip" }), whole]);
    expect(asked).toEqual([
      [null, null],
      [null, null],
    ]);
    expect(etags).toEqual([etag]);
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

describe("what an earlier run has left", () => {
  test("is gone on with by its ETag", async () => {
    expect((await run([rest], { bytes: video.slice(0, 30), etag })).asked).toEqual([["bytes=30-", etag]]);
  });

  test("is all there is to it when it is whole", async () => {
    const complete = () => new Response(null, { status: 416, headers: { "Content-Range": `bytes */${video.length}` } });
    expect((await run([complete], { bytes: video, etag })).asked).toEqual([[`bytes=${video.length}-`, etag]]);
  });

  test("is fetched again when nobody knows what it is", async () => {
    expect((await run([whole], { bytes: other.slice(0, 30) })).asked).toEqual([[null, null]]);
  });

  test("is fetched again when it is longer than the video", async () => {
    const bytes = new Uint8Array(video.length + 9);
    const tooFar = () => new Response(null, { status: 416, headers: { "Content-Range": `bytes */${video.length}` } });
    await run([tooFar, whole], { bytes, etag });
  });
});
