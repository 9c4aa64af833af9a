import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import process from "node:process";
import { expect, test } from "vitest";
import { lacks } from "../../needs.ts";
import { explain, search } from "../search.ts";
import { type EnginePlan, planOf } from "./plan.ts";
import { playEngine } from "./story.ts";

test.skipIf(lacks("symbolic links"))("two runs of one seed are the same, byte for byte", async () => {
  for (const seed of ["same/1", "same/2", "same/3", "same/4", "same/5", "same/6", "same/7", "same/8"]) {
    const play = () => playEngine(planOf(seed), { tells: true });
    const [one, other] = [await play(), await play()];
    expect(one.lines.length).toBeGreaterThan(2);
    expect(other).toEqual(one);
  }
});

test.skipIf(lacks("/proc"))("a story leaves no database open, also that of a process which was killed", async () => {
  for (const seed of ["same/1", "same/2", "same/3", "same/4"]) await playEngine(planOf(seed));
  const open = readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
  expect(open.filter((path) => path.includes("vidgen-story-"))).toEqual([]);
});

/** Each broke a rule once. */
const mended: EnginePlan[] = JSON.parse(readFileSync(new URL("mended.json", import.meta.url), "utf8"));

test.skipIf(lacks("symbolic links")).each(mended)("the story of $seed breaks no rule", async (plan) => {
  const { broken } = await playEngine(plan);
  expect(broken).toBeUndefined();
});

test.skipIf(lacks("symbolic links"))(
  "6 seconds of stories of a service and its provider, from a new seed each time, break no rule",
  async () => {
    const seed = randomBytes(4).toString("hex");
    const { findings, stories, seconds } = await search(seed, { kind: "engine", ms: 6_000 });
    const [first] = findings;
    const perSecond = Math.round(stories / seconds);
    process.stdout.write(`simulation of an engine: seed ${seed}, ${stories} stories, ${perSecond} a second\n`);
    if (first) expect.fail(await explain(first.seed));
  },
);
