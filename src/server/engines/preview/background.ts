import { createField, createGrid } from "./field.ts";
import type { Frame } from "./frame.ts";
import { paletteOf } from "./palette.ts";
import { hashText } from "./seed.ts";
import type { FrameSize } from "./size.ts";
import { upscale } from "./upscale.ts";

/** Points of the small picture along the shorter side: enough for soft light, and few enough to be cheap at any resolution. */
const pointsAcross = 61;

/** Returns a painter that fills the frame with the prompt's moving background as it is `seconds` after the start. */
export function createBackground(size: FrameSize, prompt: string): (frame: Frame, seconds: number) => void {
  const scale = (pointsAcross - 1) / Math.min(size.width, size.height);
  const grid = createGrid(1 + Math.round(size.width * scale), 1 + Math.round(size.height * scale));
  const paintField = createField(paletteOf(prompt), hashText(`light of ${prompt}`));
  const { columns, rows } = grid;
  return (frame, seconds) => {
    const half = { width: frame.width / 2, height: frame.height / 2 };
    paintField(grid, seconds);
    upscale({ points: grid.y, columns, rows }, { bytes: frame.y, width: frame.width, height: frame.height });
    upscale({ points: grid.u, columns, rows }, { bytes: frame.u, ...half });
    upscale({ points: grid.v, columns, rows }, { bytes: frame.v, ...half });
  };
}
