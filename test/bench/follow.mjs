import { runForMemory } from "./measure.mjs";

const count = 1000;

/** `wait` with 1,000 ids of generations that take 20 s. */
export function measureFollow({ bin, env, print }) {
  const args = [bin, "wait", ...Array.from({ length: count }, (_, i) => `slow-${i}`)];
  const start = performance.now();
  const memory = runForMemory({ args, env });
  const seconds = (performance.now() - start) / 1000;
  print(`${count} followed at once`, `${memory.toFixed(0)} MB`, `${seconds.toFixed(1)} s`);
}
