import { type Component, components, type Frame } from "./frame.ts";
import { averageBlocks, type Pixels } from "./pixels.ts";

/** How one plane is changed: the share of each pixel that remains, out of 256, and the value that is added. */
type Layer = { keep: Uint16Array; add: Uint8Array };

/** A still picture with transparency, ready to be blended over many frames of its size: a layer for each plane. */
export type Overlay = [y: Layer, u: Layer, v: Layer];

/** Converts pixels, multiplied by alpha, into an overlay for frames of their size. */
export function createOverlay(pixels: Pixels): Overlay {
  const chroma = averageBlocks(pixels, 2);
  const [luma, blueDifference, redDifference] = components;
  return [createLayer(pixels, luma), createLayer(chroma, blueDifference), createLayer(chroma, redDifference)];
}

/** Blends the overlay over the frame. */
export function blend(overlay: Overlay, { planes }: Frame): void {
  for (const [i, { bytes }] of planes.entries()) blendPlane(overlay[i] as Layer, bytes);
}

function blendPlane({ keep, add }: Layer, pixels: Uint8Array): void {
  for (let i = 0; i < pixels.length; i++) {
    const kept = keep[i] as number;
    if (kept === 256) continue;
    pixels[i] = (add[i] as number) + (((pixels[i] as number) * kept + 128) >> 8);
  }
}

function createLayer({ rgba }: Pixels<Uint8Array | Float32Array>, { offset, of }: Component): Layer {
  const count = rgba.length / 4;
  const [keep, add] = [new Uint16Array(count), new Uint8Array(count)];
  for (let i = 0, at = 0; i < count; i++, at += 4) {
    const alpha = (rgba[at + 3] as number) / 255;
    const color = of(rgba[at] as number, rgba[at + 1] as number, rgba[at + 2] as number);
    keep[i] = Math.round(256 * (1 - alpha));
    add[i] = Math.round(offset * alpha + color);
  }
  return { keep, add };
}
