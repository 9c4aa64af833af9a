import type { Frame } from "./frame.ts";
import type { LargePlane } from "./upscale.ts";

/** A part of a picture, in fractions of its width and height. */
export type Window = { left: number; top: number; width: number; height: number };

/** Fills a frame with a part of a picture, bilinearly: the part may lie anywhere between the pixels, so that it can move smoothly. */
export function paintWindow(picture: Frame, window: Window, frame: Frame): void {
  const half = ({ width, height }: Frame) => ({ width: width / 2, height: height / 2 });
  paintPlane({ ...picture, bytes: picture.y }, window, { ...frame, bytes: frame.y });
  paintPlane({ ...half(picture), bytes: picture.u }, window, { ...half(frame), bytes: frame.u });
  paintPlane({ ...half(picture), bytes: picture.v }, window, { ...half(frame), bytes: frame.v });
}

function paintPlane(from: LargePlane, window: Window, to: LargePlane): void {
  const columns = place(to.width, from.width, window.left, window.width);
  const rows = place(to.height, from.height, window.top, window.height);
  for (let y = 0; y < to.height; y++) {
    const upper = from.bytes.subarray((rows.at[y] as number) * from.width);
    const line = to.bytes.subarray(y * to.width, (y + 1) * to.width);
    mixLine(upper, upper.subarray(from.width), rows.share[y] as number, columns, line);
  }
}

/** Where each pixel of a line falls between two others: the first of them, and the share of the second, out of 256. */
type Places = { at: Int32Array; share: Int32Array };

function place(count: number, size: number, start: number, length: number): Places {
  const places = { at: new Int32Array(count), share: new Int32Array(count) };
  for (let i = 0; i < count; i++) {
    const middle = size * (start + (length * (i + 0.5)) / count) - 0.5;
    const within = Math.min(Math.max(middle, 0), size - 1);
    const at = Math.min(Math.floor(within), size - 2);
    places.at[i] = at;
    places.share[i] = Math.round(256 * (within - at));
  }
  return places;
}

/** Five parameters, as this runs for every line of every frame. */
function mixLine(upper: Uint8Array, lower: Uint8Array, below: number, { at, share }: Places, line: Uint8Array): void {
  for (let x = 0; x < line.length; x++) {
    const i = at[x] as number;
    const right = share[x] as number;
    const above = (upper[i] as number) * (256 - right) + (upper[i + 1] as number) * right;
    const under = (lower[i] as number) * (256 - right) + (lower[i + 1] as number) * right;
    line[x] = (above * (256 - below) + under * below + 32768) >> 16;
  }
}
