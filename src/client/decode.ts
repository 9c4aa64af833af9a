import { pipeline, Readable } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from "node:zlib";
import type { HttpResponse } from "../io.ts";

type Bytes = AsyncIterable<Uint8Array>;
type Decoder = (coded: Bytes) => Bytes;

const { BROTLI_OPERATION_FLUSH, Z_SYNC_FLUSH } = constants;

/** A reply that breaks off is read as far as it goes. */
const asFarAsItGoes = { flush: Z_SYNC_FLUSH, finishFlush: Z_SYNC_FLUSH };
const brotliAsFarAsItGoes = { flush: BROTLI_OPERATION_FLUSH, finishFlush: BROTLI_OPERATION_FLUSH };

/** A body without the codings that `Content-Encoding` names; as it is, where one of them is unknown. */
export function decode(body: HttpResponse["body"], codings: string): HttpResponse["body"] {
  const decoders = codings.split(",").map((coding) => decoderOf(coding.trim().toLowerCase()));
  if (body === null || decoders.some((decoder) => decoder === undefined)) return body;
  const known = decoders.filter((decoder) => decoder !== undefined).reverse();
  const decoded = Readable.from(known.reduce((coded: Bytes, undo) => undo(coded), body));
  return Object.assign(decoded, {
    async cancel() {
      decoded.destroy();
      await body.cancel();
    },
  });
}

function decoderOf(coding: string): Decoder | undefined {
  if (coding === "gzip" || coding === "x-gzip") return (coded) => through(coded, createGunzip(asFarAsItGoes));
  if (coding === "deflate") return inflate;
  return coding === "br" ? (coded) => through(coded, createBrotliDecompress(brotliAsFarAsItGoes)) : undefined;
}

/** Where what comes breaks off, all that came is handed out before the error is. */
async function* through(coded: Bytes, decoder: NodeJS.ReadWriteStream): Bytes {
  let broken: { error: unknown } | undefined;
  async function* untilItBreaks() {
    try {
      yield* coded;
    } catch (error) {
      broken = { error };
    }
  }
  yield* pipeline(Readable.from(untilItBreaks()), decoder, () => {}) as unknown as Bytes;
  if (broken) throw broken.error;
}

/** Some servers leave out the two bytes at the beginning that belong to "deflate". */
async function* inflate(coded: Bytes): Bytes {
  const pieces = coded[Symbol.asyncIterator]();
  const { value: first, done } = await pieces.next();
  if (done) return;
  const [start = 0] = first;
  const isWhole = (start & 0x0f) === 8;
  async function* all() {
    yield first;
    yield* { [Symbol.asyncIterator]: () => pieces };
  }
  yield* through(all(), isWhole ? createInflate(asFarAsItGoes) : createInflateRaw(asFarAsItGoes));
}
