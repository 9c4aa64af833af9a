import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../src/client/undici-fetch.ts";
import { createCertificate } from "../faults/certificate.ts";

const size = 12_000_003;
/** No two stretches of it are alike. */
const video = new Uint8Array(Uint32Array.from({ length: size / 4 + 1 }, (_, i) => i * 2_654_435_761).buffer, 0, size);

/** Serves on this machine until the test ends. */
async function serve(listener: RequestListener, isSecure = false): Promise<string> {
  const server = isSecure ? createHttpsServer(createCertificate(), listener) : createHttpServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `${isSecure ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Reads as a download does: each piece is released once it was put elsewhere, which now and then takes longer. */
async function readReleasing(url: string, fetch = createFetch({})) {
  const { body } = await fetch(url);
  const memory = new Set<ArrayBufferLike>();
  const read = new Uint8Array(size);
  let length = 0;
  let pieces = 0;
  for await (const piece of body ?? []) {
    if (pieces++ % 5 === 0) for (let turn = 0; turn < 40; turn++) await new Promise(setImmediate);
    read.set(piece, length);
    length += piece.byteLength;
    memory.add(piece.buffer);
    body?.release?.(piece);
  }
  return { read: read.subarray(0, length), memory: [...memory].map(({ byteLength }) => byteLength) };
}

/** In pieces of odd sizes, the length unsaid. */
const inChunks: RequestListener = (_, response) => {
  for (let at = 0, i = 1; at < size; at += i++ * 997) response.write(video.subarray(at, Math.min(size, at + i * 997)));
  response.end();
};

const whole: RequestListener = (_, response) => {
  response.setHeader("Content-Length", size);
  response.end(video);
};

test.each([
  ["whole", whole, false],
  ["in chunks", inChunks, false],
  ["whole, by https", whole, true],
  ["in chunks, by https", inChunks, true],
])("a body that comes %s is read byte for byte, though its memory is used again", async (_, listener, isSecure) => {
  const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env;
  if (isSecure) process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  onTestFinished(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
  });
  const { read } = await readReleasing(await serve(listener, isSecure));
  expect(Buffer.compare(read, video)).toBe(0);
});

test("a large body takes the memory of a few blocks, and is copied nowhere else", async () => {
  const { memory } = await readReleasing(await serve(whole));
  expect(memory.length).toBeLessThanOrEqual(10);
  expect(new Set(memory)).toEqual(new Set([1024 * 1024]));
});

test("several bodies at once stay apart", async () => {
  const url = await serve(whole);
  const fetch = createFetch({});
  const all = await Promise.all([1, 2, 3].map(() => readReleasing(url, fetch)));
  for (const { read } of all) expect(Buffer.compare(read, video)).toBe(0);
});

test("headers that come byte by byte, while another body comes, are read as they are", async () => {
  const etag = `"${"e".repeat(300)}"`;
  const url = await serve(async (request, response) => {
    if (request.url === "/whole") return whole(request, response);
    for (const byte of `HTTP/1.1 200 OK\r\nETag: ${etag}\r\nContent-Length: 2\r\n\r\nok`) {
      request.socket.write(byte);
      await new Promise(setImmediate);
    }
  });
  const fetch = createFetch({});
  const [reply, { read }] = await Promise.all([fetch(url), readReleasing(`${url}/whole`, fetch)]);
  expect(reply.headers.get("ETag")).toBe(etag);
  expect(await reply.text()).toBe("ok");
  expect(Buffer.compare(read, video)).toBe(0);
});
