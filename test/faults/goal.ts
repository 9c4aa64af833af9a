import process from "node:process";
import { expect, test } from "vitest";
import { slowness } from "../slowness.ts";
import { createRandom, type Random, seed } from "./random.ts";

/** What a run of a goal found. */
export type Finding = {
  /** The figures that the goal asks for. */
  figures: string;
  target: string;
  /** What fell short, in words; nothing when the goal is reached. */
  faults: string[];
};

export type Goal = {
  number: number;
  title: string;
  /** `share` is 1 for all that the goal asks for, less for a quick look. */
  run(options: { random: Random; share: number }): Promise<Finding>;
};

export type Line = { number: number; title: string; figures: string; target: string; isReached: boolean; ms: number };

declare module "vitest" {
  interface TaskMeta {
    goal?: Line;
    peakKb?: number;
  }
}

/** Several times what the longest takes by itself: other work on the machine is no fault of the program. */
const limitMs = 30 * 60_000;

/** Makes a test of a goal. What it found is left for the report. */
export function prove(goal: Goal, share: number): void {
  test(`${goal.number}. ${goal.title}`, { timeout: limitMs * slowness }, async ({ task }) => {
    const start = performance.now();
    const random = createRandom(`${seed}/${goal.number}`);
    const { figures, target, faults } = await goal.run({ random, share }).catch(brokenOff);
    const ms = performance.now() - start;
    const { number, title } = goal;
    task.meta.goal = { number, title, figures, target, isReached: faults.length === 0, ms };
    task.meta.peakKb = process.resourceUsage().maxRSS;
    const some = faults.slice(0, 8).map((fault) => `\n- ${fault.slice(0, 700)}`);
    if (some.length > 0) expect.fail(`seed ${seed}, ${faults.length} in all, the first of them:${some.join("")}`);
  });
}

function brokenOff(error: unknown): Finding {
  return { figures: "broken off", target: "an end", faults: [error instanceof Error ? `${error.stack}` : `${error}`] };
}

/** How many of so many: at least `least`. */
export function portion(count: number, share: number, least = 1): number {
  return Math.max(least, Math.round(count * share));
}

/** Such as "14 lost, 2 twice"; for figures. */
export function tally(items: Iterable<string>): string {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([item, count]) => `${count} x ${item}`)
    .join(", ");
}
