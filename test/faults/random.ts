import { createHash } from "node:crypto";
import process from "node:process";

/** Printed by every run; set to repeat one. */
export const seed = process.env.SEED ?? "vidgen";

/** Chance that a seed repeats. `fork` gives a stream of its own, so that what runs side by side does not disturb the rest. */
export type Random = {
  /** From 0 up to, but not including, 1. */
  next(): number;
  /** From `least` up to and including `most`. */
  between(least: number, most: number): number;
  pick<Item>(items: readonly Item[]): Item;
  /** A UUID. */
  uuid(): string;
  fork(name: string | number): Random;
};

export function createRandom(seed: string): Random {
  const digest = createHash("sha256").update(seed).digest();
  let state = digest.readUInt32LE();
  const next = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));
  return {
    next,
    between,
    pick<Item>(items: readonly Item[]): Item {
      return items[between(0, items.length - 1)] as Item;
    },
    uuid() {
      const hex = Array.from({ length: 32 }, () => between(0, 15).toString(16)).join("");
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
    },
    fork: (name) => createRandom(`${seed}/${name}`),
  };
}
