import { Readable } from "node:stream";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { decodeBody } from "../../../src/client/http/content-coding.ts";
import { createFetch } from "../../../src/client/http/http.ts";
import { maxReplyBytes } from "../../../src/client/http/raw-reply.ts";
import { type Reply, readReply } from "../../../src/client/http/reply.ts";
import { head, listen, send } from "../../faults/wire.ts";

const text = JSON.stringify({ success: true, data: { id: "0b9c6a52-1f6e", prompt: "a red fox in snow, in snow" } });

const encoders: Record<string, (data: string | Uint8Array) => Buffer> = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
};
const codings = Object.keys(encoders);

function encode(coding: string, data: string | Uint8Array = text): Buffer {
  return encoders[coding]?.(data) ?? Buffer.from(data);
}

/** What a client reads of a reply with this body and Content-Encoding; the connection ends before `missing` more bytes. */
async function read(coding: string, body: Uint8Array, missing = 0): Promise<Pick<Reply, "text" | "cut">> {
  const server = await listen({
    async onRequest(_, socket) {
      await send(socket, head(200, { "Content-Encoding": coding, "Content-Length": body.length + missing }));
      await send(socket, body);
      socket.end();
    },
  });
  onTestFinished(server.close);
  const init = { method: "POST", headers: { "Idempotency-Key": "attempt-1" }, body: "{}" };
  const { text, cut } = await readReply(await createFetch({})(`http://127.0.0.1:${server.port}/`, init));
  return { text, cut };
}

async function readDecoded(body: AsyncIterable<Uint8Array>): Promise<Pick<Reply, "text" | "cut">> {
  const { text, cut } = await readReply({ status: 200, headers: { get: () => null }, body, text: async () => "" });
  return { text, cut };
}

/** Overwrites the last bytes, where the checksum is. */
function spoilEnd(bytes: Buffer, length: number): Buffer {
  return bytes.fill(0x55, bytes.length - length);
}

test.each([
  ["gzip, gzip", encode("gzip", encode("gzip"))],
  ["GZIP ,br", encode("br", encode("gzip"))],
  ["identity", encode("identity")],
  ["identity, deflate", encode("deflate")],
  ["", encode("identity")],
  ["zip, gzip", encode("gzip")],
  ["gzip, gzip, gzip, gzip", encode("gzip")],
])("a reply in %j is decoded as far as its codings are known", async (coding, body) => {
  const isLeft = coding.includes("zip, gzip") && coding !== "gzip, gzip";
  expect(await read(coding, body)).toEqual({ text: isLeft ? body.toString() : text, cut: undefined });
});

test.each([
  ["gzip", 8],
  ["deflate", 4],
])("a wrong checksum in %s costs nothing of the text", async (coding, length) => {
  expect(await read(coding, spoilEnd(encode(coding), length))).toEqual({ text, cut: expect.any(Error) });
});

test("with a wrong checksum in both of two codings, the whole text is read", async () => {
  const inner = spoilEnd(encode("gzip"), 8);
  const outer = spoilEnd(encode("gzip", inner), 8);
  expect(await read("gzip, gzip", outer)).toEqual({ text, cut: expect.any(Error) });
});

test.each(codings)("with extra bytes after the end of %s, the whole text is read", async (coding) => {
  for (const behind of ["<!-- cached -->", "\x1f\x8b", "\x1f\x8b\x08\0\0\0\0\0\0\0no"]) {
    const { text: found } = await read(coding, Buffer.concat([encode(coding), Buffer.from(behind, "latin1")]));
    expect(found).toBe(text);
  }
});

test.each(codings)("of %s that is cut, all that can be decoded is read, and then an error", async (coding) => {
  const body = encode(coding);
  const found = [];
  for (let at = 1; at < body.length; at++) {
    async function* cut() {
      yield body.subarray(0, at);
      throw new Error("the connection was reset");
    }
    const asCut = await readDecoded(decodeBody(Readable.from(cut()), coding));
    const asWhole = await readDecoded(decodeBody(Readable.from([body.subarray(0, at)]), coding));
    expect(asCut).toEqual({ text: asWhole.text, cut: new Error("the connection was reset") });
    expect(asWhole.cut).toBeInstanceOf(Error);
    expect(text.slice(0, asCut.text.length)).toBe(asCut.text);
    found.push(asCut.text.length);
  }
  expect(found).toEqual(found.toSorted((a, b) => a - b));
  // A decoder may hold a few last letters back.
  expect(found.at(-1)).toBeGreaterThan(text.length - 10);
  const cutLate = body.subarray(0, -1);
  expect(await read(coding, cutLate, 1)).toEqual({ text: text.slice(0, found.at(-1)), cut: expect.any(Error) });
});

test.each(codings)("of %s that is damaged, what comes before the damage is read", async (coding) => {
  // Random letters cannot be compressed into few bytes.
  const long = text + Array.from({ length: 5_000 }, (_, i) => ((i * 2_654_435_761) >>> 7).toString(36)).join("");
  const body = encode(coding, long);
  body.fill(0xff, body.length - 1_000, body.length - 900);
  const { text: found, cut } = await read(coding, body);
  expect(cut).toBeInstanceOf(Error);
  // The damaged part is a twentieth of it.
  const sound = Math.floor(long.length * 0.9);
  expect(found.slice(0, sound)).toBe(long.slice(0, sound));
});

test("a reply that is small in gzip and large without is read up to its limit", async () => {
  const mebibyte = Buffer.alloc(1024 * 1024, "a");
  // Not pressed as far as can be: what a stream holds back is a small part of it.
  const bomb = gzipSync(Buffer.concat(Array(100).fill(mebibyte)), { level: 1 });
  let taken = 0;
  const pieces = function* () {
    for (let at = 0; at < bomb.length; at += 512) {
      taken += 512;
      yield bomb.subarray(at, at + 512);
    }
  };
  const body = decodeBody(Readable.from(pieces()), "gzip");
  const { text: found, cut } = await readDecoded(body);
  expect(found.length).toBeLessThanOrEqual(maxReplyBytes);
  expect(cut).toMatchObject({ message: expect.stringContaining("longer than") });
  expect(taken).toBeLessThan(bomb.length / 2);
});

test("of a decompression bomb with a wrong checksum, at most 1 MiB is decoded again", async () => {
  const bomb = spoilEnd(gzipSync(Buffer.alloc(5 * 1024 * 1024, "a")), 8);
  let length = 0;
  const reading = async () => {
    for await (const chunk of decodeBody(Readable.from([bomb]), "gzip")) length += chunk.byteLength;
  };
  await expect(reading()).rejects.toThrow("incorrect");
  expect(length).toBeGreaterThan(4 * 1024 * 1024);
  expect(length).toBeLessThanOrEqual(5 * 1024 * 1024);
});
