import { createHash } from "node:crypto";
import process from "node:process";

/** What `work` takes on one core of the machine that the limits were chosen on, when it has nothing else to do. */
const quietMs = 120;

/**
 * How many times slower this machine is now than a quiet one, at least 1: time limits of tests are multiplied by it. It is measured once, by the
 * process that starts a run, whose workers get it in their environment. `TEST_SLOWNESS=20` sets it by hand.
 */
export const slowness = Number(process.env.TEST_SLOWNESS) || measure();

function measure(): number {
  const start = performance.now();
  work();
  return Math.max(1, Math.round(((performance.now() - start) / quietMs) * 10) / 10);
}

function work(): void {
  const block = Buffer.alloc(1_000_000);
  for (let round = 0; round < 100; round++) createHash("md5").update(block).digest();
}
