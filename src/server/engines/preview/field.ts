import type { Yuv } from "./color.ts";
import type { Lump } from "./light.ts";
import { closeness, createLumps, createRibbon, shine } from "./light.ts";
import type { Palette } from "./palette.ts";
import { createRandom } from "./seed.ts";
import type { Random } from "./swing.ts";
import { between, createWave, sample } from "./swing.ts";

/** A small picture of which every point is a colour; `columns` times `rows` points, spread evenly from edge to edge. */
export type Grid = { columns: number; rows: number; y: Float32Array; u: Float32Array; v: Float32Array };

/** Returns an empty picture of that many points. */
export function createGrid(columns: number, rows: number): Grid {
  const plane = () => new Float32Array(columns * rows);
  return { columns, rows, y: plane(), u: plane(), v: plane() };
}

/** How much of the ground shines through between the lights. */
const groundWeight = 0.4;

/**
 * Returns a painter of drifting light: lumps of the palette's patches float over its ground, bent by waves, and two ribbons of its light
 * cross them. The same seed gives the same picture at the same second.
 */
export function createField(palette: Palette, seed: number): (grid: Grid, seconds: number) => void {
  const sceneAt = createScene(palette, createRandom(seed));
  return (grid, seconds) => {
    const scene = sceneAt(grid, seconds);
    const color = { y: 0, u: 0, v: 0 };
    for (let index = 0, row = 0; row < grid.rows; row++) {
      for (let column = 0; column < grid.columns; column++, index++) {
        const x = column / (grid.columns - 1) + (scene.shiftX[row] as number);
        const y = row / (grid.rows - 1) + (scene.shiftY[column] as number);
        const glow = shine(scene.bright, column, y) + shine(scene.faint, column, y);
        mixLights(palette, scene.lumps, { x, y, glow }, color);
        grid.y[index] = color.y;
        grid.u[index] = color.u;
        grid.v[index] = color.v;
      }
    }
  };
}

/** Returns where everything is at a second; what bends the picture is worked out once for each row and column. */
function createScene({ patches }: Palette, random: Random) {
  const lumpsAt = createLumps(patches, random);
  const bendX = createWave(random, 0.12, 0.8);
  const bendY = createWave(random, 0.1, 0.9);
  const rippleX = createWave(random, 0.03, 2);
  const brightAt = createRibbon(random, between(random, 0.24, 0.42), 1);
  const faintAt = createRibbon(random, between(random, 0.5, 0.85), 0.4);
  return ({ columns, rows }: Grid, seconds: number) => ({
    lumps: lumpsAt(seconds),
    shiftX: sample(rows, (at) => bendX(at, seconds) + rippleX(at, seconds)),
    shiftY: sample(columns, (at) => bendY(at, seconds)),
    bright: brightAt(columns, seconds),
    faint: faintAt(columns, seconds),
  });
}

/** Sets `color` to the mean of all that shines on a point, each by its weight. It is handed in, as this runs a million times a clip. */
function mixLights({ ground, light }: Palette, lumps: Lump[], at: { x: number; y: number; glow: number }, color: Yuv) {
  let total = groundWeight + at.glow;
  color.y = groundWeight * ground.y + at.glow * light.y;
  color.u = groundWeight * ground.u + at.glow * light.u;
  color.v = groundWeight * ground.v + at.glow * light.v;
  for (const lump of lumps) {
    const weight = closeness((at.x - lump.x) ** 2 + (at.y - lump.y) ** 2, lump.size);
    color.y += weight * lump.color.y;
    color.u += weight * lump.color.u;
    color.v += weight * lump.color.v;
    total += weight;
  }
  color.y /= total;
  color.u /= total;
  color.v /= total;
}
