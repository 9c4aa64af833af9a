import { type Component, components, type Yuv } from "./frame.ts";
import { hashText } from "./random.ts";

/** From dark to light: the ground, three colours of patches that drift over it, and the ribbons. */
type Colors = readonly [ground: string, deep: string, middle: string, bright: string, ribbon: string];

/** Adjacent colours are close in hue, so that their mixtures stay clean, and none is too light for white text. */
export const palettes: Readonly<Record<string, Colors>> = {
  aurora: ["#0b132b", "#1c3f60", "#1b998b", "#5dd39e", "#b497ff"],
  sunset: ["#2b0f2e", "#7a1f4f", "#d1495b", "#f2915a", "#ffd08a"],
  lagoon: ["#06202b", "#0a5a73", "#1199a6", "#56c9b3", "#d7f7d4"],
  dusk: ["#150f33", "#3d2680", "#7b4bc2", "#c77ddb", "#ffc2d9"],
  ember: ["#1f0a0a", "#6d1b15", "#c4431f", "#ee8b2f", "#ffd884"],
  forest: ["#0b1f17", "#1c4a33", "#3f7d4e", "#8fb35c", "#e6e0a3"],
  berry: ["#230a26", "#6a1650", "#b32d6a", "#e8668a", "#ffc6b3"],
  night: ["#050d24", "#12306b", "#2868b8", "#54a9e0", "#c6ecff"],
  rose: ["#33192b", "#83405f", "#c97a86", "#efb0a1", "#ffe6cf"],
  desert: ["#2a1712", "#74402a", "#bd7b47", "#e3b374", "#f7e6bd"],
  glacier: ["#10163a", "#2b3f94", "#3c8dbc", "#63d2b6", "#e2fbd7"],
  neon: ["#12082b", "#41148a", "#9a24b8", "#f0529c", "#ffb86b"],
  peacock: ["#071d2b", "#0c4a5e", "#13848c", "#7a5bd0", "#f3b6e0"],
  slate: ["#14161f", "#343a52", "#646f96", "#a0a9cf", "#e7e6f7"],
};

/** The colours of one clip: its ground, the patches that drift over it, and the ribbons that cross them. */
export type Palette = { ground: Yuv; patches: Yuv[]; ribbon: Yuv };

/** Returns the palette of a seed. The same seed always has the same palette. */
export function paletteOf(seed: string): Palette {
  const all = Object.values(palettes);
  const [ground, deep, middle, bright, ribbon] = all[hashText(seed) % all.length] as Colors;
  return { ground: yuvOfHex(ground), patches: [deep, middle, bright].map(yuvOfHex), ribbon: yuvOfHex(ribbon) };
}

/** Returns the colour written as "#rrggbb". */
export function yuvOfHex(hex: string): Yuv {
  const bits = Number.parseInt(hex.slice(1), 16);
  const rgb = [bits >> 16, (bits >> 8) & 255, bits & 255] as const;
  const componentValue = ({ offset, of }: Component) => offset + of(...rgb);
  const [y, u, v] = components;
  return { y: componentValue(y), u: componentValue(u), v: componentValue(v) };
}
