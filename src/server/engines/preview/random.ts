/** A source of numbers in [0, 1). */
export type Random = () => number;

/** Returns a 32-bit hash of the text (FNV-1a over its UTF-16 code units, then mixed so that one changed letter changes every bit). */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Returns a source of numbers that is the same for the same text (mulberry32, seeded with the text's hash). */
export function createRandom(text: string): Random {
  let state = hashText(text);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns a number from `low` to `high`. */
export const between = (random: Random, low: number, high: number) => low + (high - low) * random();

const direction = (random: Random) => (random() < 0.5 ? -1 : 1);

/**
 * Returns a function of time that swings around `middle`. One period takes 9 to 16 seconds, so that the movement is visible in a clip of 5 seconds.
 */
export function createSwing(random: Random, middle: number, reach: number): (seconds: number) => number {
  const pace = (direction(random) * 2 * Math.PI) / between(random, 9, 16);
  const start = between(random, 0, 2 * Math.PI);
  return (seconds) => middle + reach * Math.sin(start + pace * seconds);
}

/** The height of a travelling wave at a position from 0 to 1. */
export type Wave = (position: number, seconds: number) => number;

/** Returns a wave of about `cycles` crests between 0 and 1. */
export function createWave(random: Random, height: number, cycles: number): Wave {
  const pace = direction(random) * between(random, 0.35, 0.7);
  const start = between(random, 0, 2 * Math.PI);
  const turns = 2 * Math.PI * cycles * between(random, 0.85, 1.15);
  return (position, seconds) => height * Math.sin(start + turns * position + pace * seconds);
}
