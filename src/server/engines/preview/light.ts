import type { Yuv } from "./color.ts";
import type { Random } from "./swing.ts";
import { between, createSwing, createWave, sample } from "./swing.ts";

/** A patch of colour at one moment; places and sizes are fractions of the frame. */
export type Lump = { x: number; y: number; size: number; color: Yuv };

/** A curtain of light at one moment: for each column, the height of its lower hem and its strength. */
export type Ribbon = { hem: Float32Array; strength: Float32Array };

/** Falls from 1 to 0 like a bell, at a fraction of the cost of an exponential. */
export const closeness = (distanceSquared: number, size: number) => 1 / (1 + distanceSquared / size) ** 2;

/** Returns where two lumps of each colour are at a second; they start spread around the middle. */
export function createLumps(colors: readonly Yuv[], random: Random): (seconds: number) => Lump[] {
  const turn = random();
  const lumps = [...colors, ...colors].map((color, i, all) => {
    const angle = 2 * Math.PI * (turn + i / all.length);
    const x = createSwing(random, 0.5 + 0.42 * Math.cos(angle), 0.2);
    const y = createSwing(random, 0.5 + 0.42 * Math.sin(angle), 0.2);
    return { x, y, size: between(random, 0.04, 0.1), color };
  });
  return (seconds) => lumps.map(({ x, y, size, color }) => ({ x: x(seconds), y: y(seconds), size, color }));
}

/** Returns the shape of a ribbon at a second, for so many columns. It waves, and it is brighter here than there. */
export function createRibbon(random: Random, height: number, strength: number) {
  const middle = createSwing(random, height, 0.08);
  const bend = createWave(random, 0.13, 0.7);
  const ripple = createWave(random, 0.05, 1.7);
  const fade = createWave(random, 0.4, 0.9);
  return (columns: number, seconds: number): Ribbon => ({
    hem: sample(columns, (at) => middle(seconds) + bend(at, seconds) + ripple(at, seconds)),
    strength: sample(columns, (at) => strength * (0.6 + fade(at, seconds))),
  });
}

/** Returns how strongly a ribbon shines in a column at a height: it ends sharply at the hem and dies away slowly above it. */
export function shine({ hem, strength }: Ribbon, column: number, y: number): number {
  const above = (hem[column] as number) - y;
  return (strength[column] as number) * closeness(above * above, above > 0 ? 0.03 : 0.004);
}
