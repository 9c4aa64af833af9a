import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type Goal, portion } from "../faults/goal.ts";
import { inFolder } from "../faults/work.ts";
import { troubles } from "./engines-faults.ts";
import { kindIds } from "./engines-network.ts";
import { judge } from "./engines-oracle.ts";
import { runStory, type Story } from "./engines-world.ts";

/** Goal 12: whatever happens to an engine, on the way to it and to the service, no video is made twice, lost or mixed up. */
export const engines: Goal = {
  number: 12,
  title: `${kindIds.length} kinds of engines x ${Object.keys(troubles).length} faults`,
  run: ({ random, share }) =>
    inFolder(async (home) => {
      const seeds = portion(20, share);
      const faults: string[] = [];
      const stories: Story[] = [];
      for (const kind of kindIds)
        for (const [name, makeTrouble] of Object.entries(troubles))
          for (let index = 0; index < seeds; index++) {
            const run = `${kind}, ${name}, ${index}`;
            const folder = join(home, "videos");
            const story = await runStory(kind, makeTrouble, { random: random.fork(run), folder });
            faults.push(...judge(story, folder).map((fault) => `${run}: ${fault}`));
            stories.push(story);
            await rm(folder, { recursive: true });
          }
      return { figures: figuresOf(stories), target: "each ends as the engine knows it", faults };
    }),
};

function figuresOf(stories: Story[]): string {
  const generations = stories.flatMap((story) => story.generations);
  const countOf = (status: string) => generations.filter((generation) => generation.status === status).length;
  const sum = (count: (story: Story) => number) => stories.reduce((total, story) => total + count(story), 0);
  const unclear = generations.filter(({ error }) => error?.includes("it was not submitted again")).length;
  const creates = sum(({ sent }) => sent.length);
  const taken = sum(({ fake }) => fake.creates.filter(({ isAccepted }) => isAccepted).length);
  return (
    `${stories.length} runs, ${sum(({ restarts }) => restarts)} restarts; of ${generations.length} generations ` +
    `${countOf("completed")} completed, ${countOf("failed")} failed (${unclear} since it was unclear whether the engine had them), ` +
    `${countOf("processing")} open; ${creates} creates sent, ${taken} taken`
  );
}
