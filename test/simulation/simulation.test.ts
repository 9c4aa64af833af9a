import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import process from "node:process";
import { expect, test } from "vitest";
import { type Plan, planOf } from "./plan.ts";
import { explain, search } from "./search.ts";
import { play } from "./story.ts";

test("two runs of one seed are the same, byte for byte", async () => {
  // Enough for each kind of command, also for the first of its kind in this process.
  for (let index = 0; index < 30; index++) {
    const seed = `same/${index}`;
    const [one, other] = [await play(planOf(seed), { tells: true }), await play(planOf(seed), { tells: true })];
    expect(one.lines.length).toBeGreaterThan(2);
    expect(other).toEqual(one);
  }
});

/** Each was a defect once. Kept as they were drawn then: `plan.ts` draws others by now. */
const mended: Plan[] = JSON.parse(readFileSync(new URL("mended.json", import.meta.url), "utf8"));

test.each(mended)("the story of $seed breaks no rule", async (plan) => {
  const { broken } = await play(plan);
  expect(broken).toBeUndefined();
});

/** Each was found with the client as it was before its rule was added: one of each story of `acts.ts`, and of each way that it broke. */
const found = [
  "deleted-p1/1",
  "dismissed-p1/0",
  "forgotten-p1/0",
  "forgotten-p1/3",
  "paths-p1/3",
  "projects-p1/1",
  "projects-p1/4",
  "redone-p1/2",
  "redone-p1/5",
  "settings-p1/1",
  "settings-p1/6",
  "stopped-p1/0",
];

test.each(found)("the story that %s draws breaks no rule", async (seed) => {
  const { broken } = await play(planOf(seed));
  expect(broken).toBeUndefined();
});

test("15 seconds of stories, from a new seed each time, break no rule", { timeout: 120_000 }, async () => {
  const seed = randomBytes(4).toString("hex");
  const { findings, stories, seconds } = await search(seed, { ms: 15_000 });
  const [first] = findings;
  process.stdout.write(`simulation: seed ${seed}, ${stories} stories, ${Math.round(stories / seconds)} a second\n`);
  if (first) expect.fail(await explain(first.seed));
});
