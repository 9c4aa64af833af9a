import { blueDifferenceOf, lumaOf, redDifferenceOf } from "./color.ts";
import type { Frame } from "./frame.ts";
import type { FrameSize } from "./size.ts";

/** How one plane is changed from pixel `start` on: what stays of the pixel below (out of 256), and what is added to it. */
type Layer = { start: number; keep: Uint16Array; add: Uint8Array };

/** A still picture with transparency, ready to be laid over many frames. It holds only the rows that are not empty. */
export type Overlay = { y: Layer; u: Layer; v: Layer };

/** Converts pixels of red, green, blue (each times alpha) and alpha into an overlay for frames of that size. */
export function createOverlay(rgba: Uint8Array, { width, height }: FrameSize): Overlay {
  const chroma = averageBlocks(rgba, width, height, 2);
  return {
    y: createLayer(rgba, width, 16, lumaOf),
    u: createLayer(chroma, width / 2, 128, blueDifferenceOf),
    v: createLayer(chroma, width / 2, 128, redDifferenceOf),
  };
}

/** Lays the overlay over the frame. */
export function blend(overlay: Overlay, frame: Frame): void {
  blendPlane(overlay.y, frame.y);
  blendPlane(overlay.u, frame.u);
  blendPlane(overlay.v, frame.v);
}

function blendPlane({ start, keep, add }: Layer, pixels: Uint8Array): void {
  for (let i = 0; i < keep.length; i++) {
    const kept = keep[i] as number;
    if (kept === 256) continue;
    pixels[start + i] = (add[i] as number) + (((pixels[start + i] as number) * kept + 128) >> 8);
  }
}

/** Returns the mean of each block of `side` by `side` pixels, of which there is a whole number each way, still as red, green, blue and alpha. */
export function averageBlocks(rgba: Uint8Array, width: number, height: number, side: number): Float32Array {
  const columns = width / side;
  const share = 1 / side ** 2;
  const means = new Float32Array(4 * columns * (height / side));
  for (let y = 0, at = 0; y < height; y++) {
    const row = 4 * columns * Math.floor(y / side);
    for (let x = 0; x < width; x++) {
      const block = row + 4 * Math.floor(x / side);
      for (let part = 0; part < 4; part++, at++) {
        means[block + part] = (means[block + part] as number) + share * (rgba[at] as number);
      }
    }
  }
  return means;
}

type Component = (red: number, green: number, blue: number) => number;

function createLayer(rgba: Uint8Array | Float32Array, width: number, offset: number, component: Component): Layer {
  const start = findFirstRow(rgba, width) * width;
  const count = rgba.length / 4 - start;
  const keep = new Uint16Array(count);
  const add = new Uint8Array(count);
  for (let i = 0, at = 4 * start; i < count; i++, at += 4) {
    const alpha = (rgba[at + 3] as number) / 255;
    const color = component(rgba[at] as number, rgba[at + 1] as number, rgba[at + 2] as number);
    keep[i] = Math.round(256 * (1 - alpha));
    add[i] = Math.round(offset * alpha + color);
  }
  return { start, keep, add };
}

/** The first row that is not wholly transparent. */
function findFirstRow(rgba: Uint8Array | Float32Array, width: number): number {
  for (let at = 3; at < rgba.length; at += 4) {
    if (rgba[at] !== 0) return Math.floor(at / (4 * width));
  }
  return rgba.length / (4 * width);
}
