import { blueDifferenceOf, lumaOf, redDifferenceOf } from "./color.ts";
import { createFrame, type Frame } from "./frame.ts";
import { averageBlocks } from "./overlay.ts";
import type { FrameSize } from "./size.ts";

/**
 * Converts pixels of red, green, blue (each times alpha, so that they lie on black already) and alpha to a frame. They are `side` times as
 * many each way.
 */
export function toFrame(rgba: Uint8Array, side: number, size: FrameSize): Frame {
  const frame = createFrame(size);
  const [width, height] = [side * size.width, side * size.height];
  fill(frame.y, averageBlocks(rgba, width, height, side), 16, lumaOf);
  const chroma = averageBlocks(rgba, width, height, 2 * side);
  fill(frame.u, chroma, 128, blueDifferenceOf);
  fill(frame.v, chroma, 128, redDifferenceOf);
  return frame;
}

function fill(plane: Uint8Array, rgba: Float32Array, offset: number, component: typeof lumaOf): void {
  for (let i = 0, at = 0; i < plane.length; i++, at += 4) {
    const [red, green, blue] = [rgba[at] as number, rgba[at + 1] as number, rgba[at + 2] as number];
    plane[i] = Math.round(offset + component(red, green, blue));
  }
}
