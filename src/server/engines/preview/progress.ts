import type { Frame } from "./frame.ts";

/** Draws a thin bar along the lower edge, filled up to `share` (from 0 to 1) of the width. */
export function drawProgress(frame: Frame, share: number): void {
  const unit = Math.min(frame.width, frame.height) / 480;
  const rows = Math.round(2 * unit);
  const filled = Math.round((share * frame.width) / 2);
  fillCorner(frame.y, frame.width, 2 * rows, 2 * filled, 225);
  fillCorner(frame.u, frame.width / 2, rows, filled, 128);
  fillCorner(frame.v, frame.width / 2, rows, filled, 128);
}

function fillCorner(plane: Uint8Array, width: number, rows: number, columns: number, value: number): void {
  for (let row = plane.length - width * rows; row < plane.length; row += width) plane.fill(value, row, row + columns);
}
