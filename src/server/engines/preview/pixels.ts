import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { crc32, deflateSync } from "node:zlib";
import { initWasm, Resvg } from "@resvg/resvg-wasm";
import { checkAddressSpace } from "../../../address-space.ts";
import { keepLoaded } from "../../keep-loaded.ts";
import { type Component, components, createFrame, type Frame, rgbOf } from "./frame.ts";

/** A picture as red, green, blue and alpha, row by row. A Float32Array contains unrounded values. */
export type Pixels<Values = Uint8Array> = { width: number; height: number; rgba: Values };

/** Initializes resvg's WebAssembly, which is allowed only once per thread. */
const prepareResvg = keepLoaded(async () => {
  checkAddressSpace(1);
  await initWasm(readFile(createRequire(import.meta.url).resolve("@resvg/resvg-wasm/index_bg.wasm")));
});

/** Returns the pixels of an SVG, which can use only the given fonts; red, green and blue are multiplied by alpha. */
export async function rasterize(svg: string, fontBuffers: Uint8Array[]): Promise<Pixels> {
  await prepareResvg();
  const drawing = new Resvg(svg, { font: { fontBuffers, loadSystemFonts: false, defaultFontFamily: "Inter" } });
  const image = drawing.render();
  const { width, height, pixels: rgba } = image;
  image.free();
  drawing.free();
  return { width, height, rgba };
}

/** Returns the mean of each block of `side` by `side` pixels; incomplete blocks at the right and lower edges are dropped. */
export function averageBlocks({ width, height, rgba }: Pixels, side: number): Pixels<Float32Array> {
  const [blockWidth, blockHeight] = [Math.min(side, width), Math.min(side, height)];
  const [columns, rows] = [Math.floor(width / blockWidth), Math.floor(height / blockHeight)];
  const share = 1 / (blockWidth * blockHeight);
  const means = new Float32Array(4 * columns * rows);
  for (let y = 0; y < rows * blockHeight; y++) {
    const row = 4 * columns * Math.floor(y / blockHeight);
    for (let x = 0, at = 4 * width * y; x < columns * blockWidth; x++) {
      const block = row + 4 * Math.floor(x / blockWidth);
      for (let part = 0; part < 4; part++, at++) {
        means[block + part] = (means[block + part] as number) + share * (rgba[at] as number);
      }
    }
  }
  return { width: columns, height: rows, rgba: means };
}

/** Returns the picture with its sides divided by a whole number. */
export function shrink(pixels: Pixels, side: number): Pixels {
  if (side === 1) return pixels;
  const { width, height, rgba: means } = averageBlocks(pixels, side);
  const rgba = new Uint8Array(means.length);
  for (let i = 0; i < means.length; i++) rgba[i] = Math.round(means[i] as number);
  return { width, height, rgba };
}

/** Returns pixels as a frame with the sides divided by `side`. The pixels are multiplied by alpha, so transparent parts are black. */
export function toFrame(pixels: Pixels, side: number): Frame {
  const frame = createFrame({ width: pixels.width / side, height: pixels.height / side });
  const chroma = averageBlocks(pixels, 2 * side);
  for (const [i, { bytes }] of frame.planes.entries())
    fill(bytes, i === 0 ? averageBlocks(pixels, side) : chroma, components[i] as Component);
  return frame;
}

function fill(bytes: Uint8Array, { rgba }: Pixels<Float32Array>, { offset, of }: Component): void {
  for (let i = 0, at = 0; i < bytes.length; i++, at += 4) {
    bytes[i] = Math.round(offset + of(rgba[at] as number, rgba[at + 1] as number, rgba[at + 2] as number));
  }
}

/** Returns a frame as pixels, with the sides divided by `side`. Shrinking before the colours are converted is less work. */
export function toPixels({ width, height, planes }: Frame, side: number): Pixels {
  const [y, u, v] = planes;
  const yuv = new Uint8Array(4 * width * height).fill(255);
  for (let row = 0, i = 0; row < height; row++) {
    for (let x = 0; x < width; x++, i++) {
      const chroma = (width / 2) * (row >> 1) + (x >> 1);
      yuv[4 * i] = y.bytes[i] as number;
      yuv[4 * i + 1] = u.bytes[chroma] as number;
      yuv[4 * i + 2] = v.bytes[chroma] as number;
    }
  }
  const small = shrink({ width, height, rgba: yuv }, side);
  const rgba = new Uint8ClampedArray(small.rgba);
  for (let at = 0; at < rgba.length; at += 4) {
    const color = { y: rgba[at] as number, u: rgba[at + 1] as number, v: rgba[at + 2] as number };
    [rgba[at], rgba[at + 1], rgba[at + 2]] = rgbOf(color);
  }
  return { ...small, rgba: new Uint8Array(rgba.buffer) };
}

/** Returns a picture as a PNG: 8 bits each of red, green, blue and alpha. */
export function encodePng(pixels: Pixels): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(pixels.width, 0);
  header.writeUInt32BE(pixels.height, 4);
  header.set([8, 6], 8);
  // Each level above this one doubles the time, for a tenth of the size.
  const data = deflateSync(filterRows(pixels), { level: 4 });
  const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const chunks = [pngChunk("IHDR", header), pngChunk("IDAT", data), pngChunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([signature, ...chunks]);
}

/**
 * Puts the number of PNG's filter "up" before each row, and subtracts from each byte the byte above it, which compresses better. The first row has
 * zeros above it.
 */
function filterRows({ width, height, rgba }: Pixels): Uint8Array {
  const stride = 4 * width;
  const filtered = new Uint8Array((stride + 1) * height);
  for (let y = 0; y < height; y++) {
    const [from, to] = [y * stride, y * (stride + 1)];
    filtered[to] = 2;
    for (let x = 0; x < stride; x++)
      filtered[to + 1 + x] = (rgba[from + x] as number) - (y === 0 ? 0 : (rgba[from - stride + x] as number));
  }
  return filtered;
}

function pngChunk(type: string, data: Buffer): Buffer {
  const chunk = Buffer.alloc(12 + data.length);
  chunk.writeUInt32BE(data.length, 0);
  chunk.write(type, 4, "latin1");
  chunk.set(data, 8);
  chunk.writeUInt32BE(crc32(chunk.subarray(4, 8 + data.length)), 8 + data.length);
  return chunk;
}
