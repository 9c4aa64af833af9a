import type { Frame, FrameSize, Plane, Yuv } from "./frame.ts";
import { type Palette, paletteOf } from "./palette.ts";
import { between, createRandom, createSwing, createWave, type Random } from "./random.ts";

/** The number of the grid's points along the shorter side: enough for soft light, and few enough to be fast at any resolution. */
const pointsAcross = 61;

/** The weight of the ground, which shows where there is no patch and no ribbon. */
const groundWeight = 0.4;

/** The small picture that is drawn and then scaled up to the frame: `columns` times `rows` points, evenly spaced from edge to edge. */
type Grid = { columns: number; rows: number; y: Float32Array; u: Float32Array; v: Float32Array };

/** A patch of colour at one moment. Positions and sizes are fractions of the frame. */
type Patch = { x: number; y: number; size: number; color: Yuv };

/** A curtain of light at one moment: the height of its lower hem and its strength, for each column. */
type Ribbon = { hem: Float32Array; strength: Float32Array };

/** The background at one moment. The shifts bend the picture: one for each row and one for each column. */
type Scene = { patches: Patch[]; ribbons: Ribbon[]; shiftX: Float32Array; shiftY: Float32Array };

/**
 * Returns a function that fills the frame with the seed's background at a time in seconds: patches of the palette's colours float over its ground,
 * bent by waves, and two ribbons of light cross them.
 */
export function createBackground(size: FrameSize, seed: string): (frame: Frame, seconds: number) => void {
  const scale = (pointsAcross - 1) / Math.min(size.width, size.height);
  const grid = createGrid(1 + Math.round(size.width * scale), 1 + Math.round(size.height * scale));
  const palette = paletteOf(seed);
  const sceneAt = createScene(palette, grid, createRandom(`light of ${seed}`));
  return (frame, seconds) => {
    paintGrid(grid, palette, sceneAt(seconds));
    const [y, u, v] = frame.planes;
    scaleUp(grid.y, grid, y);
    scaleUp(grid.u, grid, u);
    scaleUp(grid.v, grid, v);
  };
}

function createGrid(columns: number, rows: number): Grid {
  const plane = () => new Float32Array(columns * rows);
  return { columns, rows, y: plane(), u: plane(), v: plane() };
}

/** The order of these calls determines the picture, because each takes the next numbers from `random`. */
function createScene(
  { patches: colors }: Palette,
  { columns, rows }: Grid,
  random: Random,
): (seconds: number) => Scene {
  const patchesAt = createPatches(colors, random);
  const bendX = createWave(random, 0.12, 0.8);
  const bendY = createWave(random, 0.1, 0.9);
  const rippleX = createWave(random, 0.03, 2);
  const brightAt = createRibbon(random, between(random, 0.24, 0.42), 1);
  const faintAt = createRibbon(random, between(random, 0.5, 0.85), 0.4);
  return (seconds) => ({
    patches: patchesAt(seconds),
    ribbons: [brightAt(columns, seconds), faintAt(columns, seconds)],
    shiftX: sample(rows, (at) => bendX(at, seconds) + rippleX(at, seconds)),
    shiftY: sample(columns, (at) => bendY(at, seconds)),
  });
}

/** Returns the positions of two patches of each colour at a time; they start around the middle. */
function createPatches(colors: readonly Yuv[], random: Random): (seconds: number) => Patch[] {
  const rotation = random();
  const movingPatches = [...colors, ...colors].map((color, i, all) => {
    const angle = 2 * Math.PI * (rotation + i / all.length);
    const x = createSwing(random, 0.5 + 0.42 * Math.cos(angle), 0.2);
    const y = createSwing(random, 0.5 + 0.42 * Math.sin(angle), 0.2);
    return { x, y, size: between(random, 0.04, 0.1), color };
  });
  return (seconds) => movingPatches.map(({ x, y, size, color }) => ({ x: x(seconds), y: y(seconds), size, color }));
}

/** Returns the shape of a ribbon at a time, for a number of columns. The ribbon waves, and its strength varies along its length. */
function createRibbon(random: Random, height: number, strength: number): (columns: number, seconds: number) => Ribbon {
  const middle = createSwing(random, height, 0.08);
  const bend = createWave(random, 0.13, 0.7);
  const ripple = createWave(random, 0.05, 1.7);
  const fade = createWave(random, 0.4, 0.9);
  return (columns, seconds) => ({
    hem: sample(columns, (at) => middle(seconds) + bend(at, seconds) + ripple(at, seconds)),
    strength: sample(columns, (at) => strength * (0.6 + fade(at, seconds))),
  });
}

/** Returns `count` values of a function, evenly spaced from 0 to 1. */
function sample(count: number, valueAt: (position: number) => number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => valueAt(i / (count - 1)));
}

/** Sets each point to the weighted mean of the ground, the ribbons and the patches. */
function paintGrid(
  grid: Grid,
  { ground, ribbon: ribbonColor }: Palette,
  { patches, ribbons, shiftX, shiftY }: Scene,
): void {
  for (let index = 0, row = 0; row < grid.rows; row++) {
    for (let column = 0; column < grid.columns; column++, index++) {
      const x = column / (grid.columns - 1) + (shiftX[row] as number);
      const y = row / (grid.rows - 1) + (shiftY[column] as number);
      let glow = 0;
      for (const ribbon of ribbons) glow += shine(ribbon, column, y);
      let total = groundWeight + glow;
      let luma = groundWeight * ground.y + glow * ribbonColor.y;
      let blue = groundWeight * ground.u + glow * ribbonColor.u;
      let red = groundWeight * ground.v + glow * ribbonColor.v;
      for (const patch of patches) {
        const weight = closeness((x - patch.x) ** 2 + (y - patch.y) ** 2, patch.size);
        luma += weight * patch.color.y;
        blue += weight * patch.color.u;
        red += weight * patch.color.v;
        total += weight;
      }
      grid.y[index] = luma / total;
      grid.u[index] = blue / total;
      grid.v[index] = red / total;
    }
  }
}

/** Returns how strongly a ribbon shines in a column at a height: it ends sharply below its hem and fades slowly above it. */
function shine({ hem, strength }: Ribbon, column: number, y: number): number {
  const above = (hem[column] as number) - y;
  return (strength[column] as number) * closeness(above * above, above > 0 ? 0.03 : 0.004);
}

/** Falls from 1 to 0 like a bell curve, at a fraction of the cost of an exponential. */
function closeness(distanceSquared: number, size: number): number {
  return 1 / (1 + distanceSquared / size) ** 2;
}

const tile = 16;

/**
 * A threshold for each pixel of a tile, spread evenly over 0 to 1 (interleaved gradient noise). Added before a value is truncated, it turns the
 * visible steps of a slow gradient into a fine grain.
 */
const grain = Float32Array.from({ length: tile * tile }, (_, i) => {
  const x = i % tile;
  const y = Math.floor(i / tile);
  return (52.9829189 * ((0.06711056 * x + 0.00583715 * y) % 1)) % 1;
});

/** Scales the points of a grid up to a plane, bilinearly; the outermost points lie on the edges. */
function scaleUp(points: Float32Array, { columns, rows }: Grid, { bytes, width, height }: Plane): void {
  const line = new Float32Array(columns);
  for (let y = 0; y < height; y++) {
    const at = ((rows - 1) * y) / (height - 1);
    const row = Math.min(Math.floor(at), rows - 2);
    for (let i = row * columns, column = 0; column < columns; column++, i++) {
      const upper = points[i] as number;
      line[column] = upper + (at - row) * ((points[i + columns] as number) - upper);
    }
    stretch(line, bytes.subarray(y * width, (y + 1) * width), (y % tile) * tile);
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
