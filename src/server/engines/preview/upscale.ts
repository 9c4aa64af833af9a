/** One plane of a small picture, `columns` points wide. */
export type SmallPlane = { points: Float32Array; columns: number; rows: number };

/** One plane of a frame, in bytes. */
export type LargePlane = { bytes: Uint8Array; width: number; height: number };

const tile = 16;

/**
 * A threshold for each pixel of a tile, spread evenly over 0 to 1 (interleaved gradient noise). Added before a value is cut to a whole
 * number, it turns the steps that a slow gradient would show into a fine grain.
 */
const grain = Float32Array.from({ length: tile * tile }, (_, i) => {
  const x = i % tile;
  const y = Math.floor(i / tile);
  return (52.9829189 * ((0.06711056 * x + 0.00583715 * y) % 1)) % 1;
});

/** Spreads a small plane over a large one, bilinearly; the outermost points lie on the edges. */
export function upscale(small: SmallPlane, large: LargePlane): void {
  const line = new Float32Array(small.columns);
  for (let y = 0; y < large.height; y++) {
    mixRows(small, ((small.rows - 1) * y) / (large.height - 1), line);
    stretch(line, large.bytes.subarray(y * large.width, (y + 1) * large.width), (y % tile) * tile);
  }
}

function mixRows({ points, columns, rows }: SmallPlane, at: number, line: Float32Array): void {
  const row = Math.min(Math.floor(at), rows - 2);
  const below = at - row;
  const offset = row * columns;
  for (let i = 0; i < columns; i++) {
    const upper = points[offset + i] as number;
    line[i] = upper + below * ((points[offset + columns + i] as number) - upper);
  }
}

function stretch(line: Float32Array, pixels: Uint8Array, grainRow: number): void {
  const step = (line.length - 1) / (pixels.length - 1);
  const last = line.length - 2;
  for (let x = 0; x < pixels.length; x++) {
    const at = x * step;
    const left = Math.min(at | 0, last);
    const value = line[left] as number;
    const mixed = value + (at - left) * ((line[left + 1] as number) - value);
    pixels[x] = mixed + (grain[grainRow + (x % tile)] as number);
  }
}
