import type { FrameSize } from "./size.ts";

/** One picture in I420: a whole plane of luma, then two of chroma at half the width and height, in one stretch of memory. */
export type Frame = FrameSize & { bytes: Uint8Array; y: Uint8Array; u: Uint8Array; v: Uint8Array };

/** Returns a picture to draw on; its planes share the memory of `bytes`. */
export function createFrame({ width, height }: FrameSize): Frame {
  const luma = width * height;
  const bytes = new Uint8Array((luma * 3) / 2);
  const [y, u, v] = [bytes.subarray(0, luma), bytes.subarray(luma, luma * 1.25), bytes.subarray(luma * 1.25)];
  return { width, height, bytes, y, u, v };
}
