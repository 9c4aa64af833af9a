/** A source of numbers in [0, 1). */
export type Random = () => number;

/** Returns a number from `low` to `high`. */
export const between = (random: Random, low: number, high: number) => low + (high - low) * random();

const direction = (random: Random) => (random() < 0.5 ? -1 : 1);

/** Returns a number that sways around `middle`; once there and back takes 9 to 16 seconds, so that a clip of 5 shows it move. */
export function createSwing(random: Random, middle: number, reach: number): (seconds: number) => number {
  const pace = (direction(random) * 2 * Math.PI) / between(random, 9, 16);
  const start = between(random, 0, 2 * Math.PI);
  return (seconds) => middle + reach * Math.sin(start + pace * seconds);
}

/** The height of a travelling wave at a place from 0 to 1. */
export type Wave = (place: number, seconds: number) => number;

/** Returns a wave of about `cycles` crests between 0 and 1. */
export function createWave(random: Random, height: number, cycles: number): Wave {
  const pace = direction(random) * between(random, 0.35, 0.7);
  const start = between(random, 0, 2 * Math.PI);
  const turns = 2 * Math.PI * cycles * between(random, 0.85, 1.15);
  return (place, seconds) => height * Math.sin(start + turns * place + pace * seconds);
}

/** Returns `count` values of a function, evenly spaced from 0 to 1. */
export function sample(count: number, at: (place: number) => number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => at(i / (count - 1)));
}
