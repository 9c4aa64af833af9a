import { rgbOf } from "./color.ts";
import type { Clip } from "./encode.ts";
import { createFrame, type Frame } from "./frame.ts";
import { type Pixels, shrink } from "./pixels.ts";
import { encodePng } from "./png.ts";

/** The longer side of a thumbnail, in pixels, at most. */
const longestSide = 480;

/** Returns the frame in the middle of a clip as a PNG, whose sides are those of the frame divided by a whole number. */
export function drawThumbnail(clip: Clip): Uint8Array {
  const frame = createFrame(clip);
  clip.paint(frame, Math.floor(clip.frameCount / 2));
  const side = Math.ceil(Math.max(clip.width, clip.height) / longestSide);
  return encodePng(toRgb(shrink(interleave(frame), side)));
}

/** Luma and chroma in the places of red, green and blue: it is quicker to convert the few pixels that are left. */
function interleave({ width, height, y, u, v }: Frame): Pixels {
  const rgba = new Uint8Array(4 * width * height).fill(255);
  for (let row = 0, i = 0; row < height; row++) {
    const line = (width / 2) * (row >> 1);
    for (let x = 0; x < width; x++, i++) {
      const chroma = line + (x >> 1);
      rgba[4 * i] = y[i] as number;
      rgba[4 * i + 1] = u[chroma] as number;
      rgba[4 * i + 2] = v[chroma] as number;
    }
  }
  return { width, height, rgba };
}

function toRgb({ rgba: yuv, ...size }: Pixels): Pixels {
  const rgba = new Uint8ClampedArray(yuv);
  for (let at = 0; at < yuv.length; at += 4) {
    const color = { y: yuv[at] as number, u: yuv[at + 1] as number, v: yuv[at + 2] as number };
    [rgba[at], rgba[at + 1], rgba[at + 2]] = rgbOf(color);
  }
  return { ...size, rgba: new Uint8Array(rgba.buffer) };
}
