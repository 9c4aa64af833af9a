/** A picture as red, green, blue and alpha, row by row. */
export type Pixels = { width: number; height: number; rgba: Uint8Array };

/** Returns the mean of each block of `side` by `side` pixels; what is left over at the right and lower edges is dropped. */
export function shrink({ width, height, rgba }: Pixels, side: number): Pixels {
  if (side === 1) return { width, height, rgba };
  const small = { width: Math.max(1, Math.floor(width / side)), height: Math.max(1, Math.floor(height / side)) };
  const means = new Uint8Array(4 * small.width * small.height);
  const sums = new Uint32Array(4 * small.width);
  const [blockWidth, blockHeight] = [Math.min(side, width), Math.min(side, height)];
  for (let row = 0; row < small.height; row++) {
    sums.fill(0);
    for (let y = 0; y < blockHeight; y++) {
      addRow(rgba.subarray(4 * width * (row * side + y)), blockWidth, sums);
    }
    const count = blockWidth * blockHeight;
    for (let i = 0; i < sums.length; i++) means[4 * small.width * row + i] = Math.round((sums[i] as number) / count);
  }
  return { ...small, rgba: means };
}

/** Adds a row of pixels to the sums of the blocks it crosses. */
function addRow(row: Uint8Array, blockWidth: number, sums: Uint32Array): void {
  for (let block = 0, at = 0; block < sums.length; block += 4) {
    for (let x = 0; x < blockWidth; x++, at += 4) {
      for (let part = 0; part < 4; part++)
        sums[block + part] = (sums[block + part] as number) + (row[at + part] as number);
    }
  }
}
