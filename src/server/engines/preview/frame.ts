import { type FrameSize, roundedSize } from "../frame-size.ts";

/** The size of a frame of the preview. Both sides are even, as the chroma planes of yuv420p require. */
export type { FrameSize };

/**
 * One picture in I420: `bytes` contains the plane of luma, then those of the blue and the red difference at half the width and height. The `planes`
 * share its memory.
 */
export type Frame = FrameSize & { bytes: Uint8Array; planes: [y: Plane, u: Plane, v: Plane] };

/** One of the three planes of a frame, with the plane's own size. */
export type Plane = { bytes: Uint8Array; width: number; height: number };

/** A colour for the encoder: BT.601, limited range (luma 16 to 235, chroma 16 to 240). */
export type Yuv = { y: number; u: number; v: number };

/** Returns the size of a frame for a ratio such as "16:9" or "2.39:1", which the API has checked. */
export function frameSize(aspectRatio: string, resolution: string): FrameSize {
  return roundedSize({ aspectRatio, resolution }, 2);
}

/** Returns an empty frame to draw on. */
export function createFrame({ width, height }: FrameSize): Frame {
  const luma = width * height;
  const bytes = new Uint8Array((luma * 3) / 2);
  const half = { width: width / 2, height: height / 2 };
  const planes: Frame["planes"] = [
    { bytes: bytes.subarray(0, luma), width, height },
    { bytes: bytes.subarray(luma, luma * 1.25), ...half },
    { bytes: bytes.subarray(luma * 1.25), ...half },
  ];
  return { width, height, bytes, planes };
}

/** How one plane represents a colour: `offset` plus the value of red, green and blue, each from 0 to 255. */
export type Component = { offset: number; of(red: number, green: number, blue: number): number };

/** The components of the planes, in their order. */
export const components: [luma: Component, blueDifference: Component, redDifference: Component] = [
  { offset: 16, of: (red, green, blue) => (65.738 * red + 129.057 * green + 25.064 * blue) / 256 },
  { offset: 128, of: (red, green, blue) => (-37.945 * red - 74.494 * green + 112.439 * blue) / 256 },
  { offset: 128, of: (red, green, blue) => (112.439 * red - 94.154 * green - 18.285 * blue) / 256 },
];

/** Returns red, green and blue, which may be slightly below 0 or above 255. */
export function rgbOf({ y, u, v }: Yuv): [red: number, green: number, blue: number] {
  const light = 1.164383 * (y - 16);
  const [blue, red] = [u - 128, v - 128];
  return [light + 1.596027 * red, light - 0.391762 * blue - 0.812968 * red, light + 2.017232 * blue];
}
