import { pipeline, Readable } from "node:stream";
import {
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  gunzipSync,
  inflateSync,
} from "node:zlib";
import { maxReplyBytes } from "./raw-reply.ts";

const gzip = { create: createGunzip, decode: gunzipSync, finishFlush: constants.Z_SYNC_FLUSH };
const deflate = { create: createInflate, decode: inflateSync, finishFlush: constants.Z_SYNC_FLUSH };
const br = {
  create: createBrotliDecompress,
  decode: brotliDecompressSync,
  finishFlush: constants.BROTLI_OPERATION_FLUSH,
};
const codings = { gzip, "x-gzip": gzip, deflate, br };
/** Limited, since each decoder takes memory and a header could list thousands. */
const maxCodings = 3;

type Coding = (typeof codings)[keyof typeof codings];

/**
 * Decodes a body with a Content-Encoding, which some servers send although it was not requested; a body with
 * an unknown coding stays unchanged. If the body is cut off or invalid, the decodable part of its first MiB
 * comes before the error.
 */
export function decodeBody(body: AsyncIterable<Uint8Array>, header: string): AsyncIterable<Uint8Array> {
  const listed = header.toLowerCase().split(",");
  const names = listed.map((name) => name.trim()).filter((name) => name !== "" && name !== "identity");
  if (names.length === 0 || names.length > maxCodings || !names.every(isKnownCoding)) return body;
  const decoders = names.reverse().map((name) => codings[name]);
  const keptChunks: Uint8Array[] = [];
  let length = 0;
  const keep = async function* () {
    for await (const chunk of body) {
      if (length < maxReplyBytes) keptChunks.push(chunk);
      length += chunk.byteLength;
      yield chunk;
    }
  };
  const source: Readable = Readable.from(keep());
  const decoded = decoders.reduce((stream, { create }) => pipeline(stream, create(), () => {}), source);
  return passOn(decoded, () => decoders.reduce(decodeBeginning, Buffer.concat(keptChunks)));
}

function isKnownCoding(name: string): name is keyof typeof codings {
  return Object.hasOwn(codings, name);
}

/**
 * Passes on the decoded chunks. On an error zlib drops what it decoded of the last chunk, so `decodeAgain`
 * decodes the beginning again.
 */
async function* passOn(decoded: Readable, decodeAgain: () => Uint8Array): AsyncGenerator<Uint8Array> {
  let length = 0;
  try {
    for await (const chunk of decoded) {
      length += chunk.byteLength;
      yield chunk;
    }
  } catch (error) {
    const rest = decodeAgain().subarray(length);
    if (rest.byteLength > 0) yield rest;
    throw error;
  }
}

/** Decodes as much of the beginning as possible, found by bisection; at most 1 MiB. */
function decodeBeginning(bytes: Uint8Array, { decode, finishFlush }: Coding): Uint8Array {
  let decoded = new Uint8Array();
  for (let [low, high] = [0, bytes.byteLength]; low < high; ) {
    const middle = Math.ceil((low + high) / 2);
    try {
      decoded = decode(bytes.subarray(0, middle), { finishFlush, maxOutputLength: maxReplyBytes });
      low = middle;
    } catch {
      high = middle - 1;
    }
  }
  return decoded;
}
