import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { decode } from "../../src/client/decode.ts";

const text = "a red fox runs through snow at dusk. ".repeat(100);

/** A body in two pieces; it may break off after them, and says whether it was cancelled. */
function bodyOf(bytes: Uint8Array, failure?: Error) {
  const seen = { cancelled: false };
  async function* pieces() {
    yield bytes.subarray(0, 5);
    yield bytes.subarray(5);
    if (failure) throw failure;
  }
  const cancel = async () => {
    seen.cancelled = true;
  };
  return { seen, body: Object.assign(pieces(), { cancel }) };
}

async function read(body: AsyncIterable<Uint8Array> | null, onPiece = (_: string) => {}): Promise<string> {
  let all = "";
  for await (const piece of body ?? []) {
    all += Buffer.from(piece);
    onPiece(all);
  }
  return all;
}

test.each([
  ["gzip", gzipSync(text)],
  ["x-gzip", gzipSync(text)],
  ["deflate", deflateSync(text)],
  ["deflate", deflateRawSync(text)],
  ["br", brotliCompressSync(text)],
  ["deflate, GZIP", gzipSync(deflateSync(text))],
])("%s is taken off", async (codings, bytes) => {
  expect(await read(decode(bodyOf(bytes).body, codings))).toBe(text);
});

test("with a coding that is unknown the body stays as it is", async () => {
  const bytes = gzipSync(text);
  const { body } = bodyOf(bytes);
  expect(decode(body, "gzip, zip")).toBe(body);
});

test.each([
  ["gzip", gzipSync(text)],
  ["deflate", deflateSync(text)],
  ["br", brotliCompressSync(text)],
])("%s that ends too early is read as far as it goes", async (coding, bytes) => {
  const found = await read(decode(bodyOf(bytes.subarray(0, -4)).body, coding));
  expect(text.startsWith(found) && found.length > 0).toBe(true);
});

test.each(["gzip", "deflate", "br"])(
  "bytes that are no %s, and a reply that breaks off, are errors",
  async (coding) => {
    await expect(read(decode(bodyOf(Buffer.from("\xffno such thing at all")).body, coding))).rejects.toThrow();
    const { body } = bodyOf(gzipSync(text), new Error("other side closed"));
    await expect(read(decode(body, "gzip"))).rejects.toThrow("other side closed");
  },
);

test("cancelling it ends the reply", async () => {
  const { seen, body } = bodyOf(gzipSync(text));
  await decode(body, "gzip")?.cancel();
  expect(seen.cancelled).toBe(true);
});

test("what came before a coded reply broke off is handed out", async () => {
  const { body } = bodyOf(gzipSync(text), new Error("other side closed"));
  let seen = "";
  const reading = read(decode(body, "gzip"), (all) => {
    seen = all;
  });
  await expect(reading).rejects.toThrow("other side closed");
  expect(seen).toBe(text);
});
