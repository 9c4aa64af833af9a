import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Pixels } from "./pixels.ts";

type Decoder = {
  /** Its buffer is another one whenever the memory has grown. */
  memory: { buffer: ArrayBuffer };
  malloc(bytes: number): number;
  /** Returns where the pixels are, or 0; writes the width and height, 32 bits each. */
  WebPDecodeRGBA(at: number, bytes: number, width: number, height: number): number;
};

/** The part of the platform's WebAssembly that is used here; Node's types leave it to those of browsers. */
declare const WebAssembly: {
  instantiate(code: Uint8Array, imports: object): Promise<{ instance: { exports: unknown } }>;
};

/**
 * Returns the pixels of a still WebP, in the memory of a decoder of their own that goes with them. Throws when it cannot be decoded.
 * The package's own function would copy them, 200 MB of a picture of 50 megapixels, and keep that memory for good.
 */
export async function decodeWebp(bytes: Uint8Array): Promise<Pixels> {
  const { memory, malloc, WebPDecodeRGBA } = await loadDecoder();
  const size = malloc(8);
  const source = malloc(bytes.length);
  if (size === 0 || source === 0) throw new Error("libwebp has no memory");
  new Uint8Array(memory.buffer).set(bytes, source);
  const at = WebPDecodeRGBA(source, bytes.length, size, size + 4);
  if (at === 0) throw new Error("libwebp cannot decode it");
  const [width = 0, height = 0] = new Uint32Array(memory.buffer, size, 2);
  return { width, height, rgba: new Uint8Array(memory.buffer, at, 4 * width * height) };
}

/** libwebp in WebAssembly. It is given nothing but its own memory: the files it asks for are stubs. */
async function loadDecoder(): Promise<Decoder> {
  const code = await readFile(createRequire(import.meta.url).resolve("@cwasm/webp/webp.wasm"));
  const stub = () => -1;
  const wasi_snapshot_preview1 = { fd_close: stub, fd_seek: stub, fd_write: stub };
  const { instance } = await WebAssembly.instantiate(code, { wasi_snapshot_preview1 });
  return instance.exports as Decoder;
}
