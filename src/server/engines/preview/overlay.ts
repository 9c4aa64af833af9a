import { blueDifferenceOf, type Frame, lumaOf, redDifferenceOf } from "./frame.ts";
import { averageBlocks, type Pixels } from "./pixels.ts";

/** How one plane is changed from pixel `start` on: what stays of the pixel below (out of 256), and what is added to it. */
type Layer = { start: number; keep: Uint16Array; add: Uint8Array };

/** A still picture with transparency, ready to be laid over many frames. It holds only the rows below the first that is not empty. */
export type Overlay = { y: Layer; u: Layer; v: Layer };

/** Converts pixels, multiplied by alpha, into an overlay for frames of their size. */
export function createOverlay(pixels: Pixels): Overlay {
  const chroma = averageBlocks(pixels, 2);
  return {
    y: createLayer(pixels, 16, lumaOf),
    u: createLayer(chroma, 128, blueDifferenceOf),
    v: createLayer(chroma, 128, redDifferenceOf),
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

type Source = { width: number; rgba: Uint8Array | Float32Array };

function createLayer({ width, rgba }: Source, offset: number, component: typeof lumaOf): Layer {
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

/** Returns the number of the first row that is not wholly transparent. */
function findFirstRow(rgba: Uint8Array | Float32Array, width: number): number {
  for (let at = 3; at < rgba.length; at += 4) {
    if (rgba[at] !== 0) return Math.floor(at / (4 * width));
  }
  return rgba.length / (4 * width);
}
