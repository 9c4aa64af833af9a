import type { Resolution } from "../engine.ts";

/** Pixels; both sides are even, as the chroma planes of yuv420p need. */
export type FrameSize = { width: number; height: number };

const shorterSidePx: Record<Resolution, number> = { "480p": 480, "720p": 720, "1080p": 1080 };

/**
 * Returns the size in pixels of a frame. The resolution names the shorter side; the longer one follows from the ratio, which is any
 * "width:height" of positive numbers ("16:9", "2.39:1"). Throws on anything else.
 */
export function frameSize(aspectRatio: string, resolution: Resolution): FrameSize {
  const ratio = parseRatio(aspectRatio);
  const shorter = shorterSidePx[resolution];
  const longer = 2 * Math.round((shorter * Math.max(ratio, 1 / ratio)) / 2);
  return ratio >= 1 ? { width: longer, height: shorter } : { width: shorter, height: longer };
}

function parseRatio(aspectRatio: string): number {
  const [width = Number.NaN, height = Number.NaN, ...rest] = aspectRatio.split(":").map(Number);
  const ratio = width / height;
  const isRatio = rest.length === 0 && width > 0 && height > 0 && Number.isFinite(ratio);
  if (!isRatio) throw new Error(`The aspect ratio "${aspectRatio}" is not of the form "16:9".`);
  return ratio;
}
