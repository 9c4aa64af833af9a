/** A colour as the encoder takes it: BT.601, limited range (luma 16 to 235, chroma 16 to 240). */
export type Yuv = { y: number; u: number; v: number };

/** Returns the luma, without its offset of 16, of red, green and blue from 0 to 255. */
export const lumaOf = (red: number, green: number, blue: number) =>
  (65.738 * red + 129.057 * green + 25.064 * blue) / 256;

/** Returns the blue difference, without its offset of 128. */
export const blueDifferenceOf = (red: number, green: number, blue: number) =>
  (-37.945 * red - 74.494 * green + 112.439 * blue) / 256;

/** Returns the red difference, without its offset of 128. */
export const redDifferenceOf = (red: number, green: number, blue: number) =>
  (112.439 * red - 94.154 * green - 18.285 * blue) / 256;

/** Returns the colour written as "#rrggbb". */
export function yuvOfHex(hex: string): Yuv {
  const bits = Number.parseInt(hex.slice(1), 16);
  const [red, green, blue] = [bits >> 16, (bits >> 8) & 255, bits & 255];
  return {
    y: 16 + lumaOf(red, green, blue),
    u: 128 + blueDifferenceOf(red, green, blue),
    v: 128 + redDifferenceOf(red, green, blue),
  };
}

/** Returns red, green and blue, which may lie a little below 0 or above 255, of a colour as the encoder takes it. */
export function rgbOf({ y, u, v }: Yuv): [red: number, green: number, blue: number] {
  const light = 1.164383 * (y - 16);
  const [blue, red] = [u - 128, v - 128];
  return [light + 1.596027 * red, light - 0.391762 * blue - 0.812968 * red, light + 2.017232 * blue];
}
