import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { pngOf } from "../server/queue/pictures.ts";
import { percentile, readPeakMb } from "./busy.ts";
import { model } from "./engines-network.ts";
import { listenAsEngine } from "./engines-server.ts";
import { createClient, startedId, whileServing } from "./serve.ts";
import { createWork } from "./slow.ts";

const mostMs = 250;
/** Beside large images, polls take at most so many times as long as beside none. */
const mostRatio = 5;
const imageBytes = 20_000_000;

/** Goal 24: neither a prompt, nor what an engine says, nor an image that is stored keeps others waiting. */
export const hostile: Goal = {
  number: 24,
  title: "polls beside hostile prompts, a hostile engine and large images",
  run: ({ share }) =>
    inFolder(async (home) => {
      const engine = await listenAsEngine("vllm-omni", {});
      const flags = [...engine.flags, "--engine", "preview", "--jobs", "64", "--credits", "1000000"];
      return whileServing(home, flags, async (announced, { pid }) => {
        const client = createClient(announced, 8);
        const id = startedId(await client.start({ prompt: "a fox at dusk", model }));
        const work = createWork(client, id);
        await until(() => engine.fake.jobs.size === 1);
        const before = await work.during(() => pause(2_000));
        const prompts = await work.during(async () => {
          for (let count = portion(20, share, 2); count > 0; count--)
            await client.start({ prompt: "[a:".repeat(10_900), model: "sora-2", duration: 0.5 });
        });
        const words = await work.during(async () => {
          const { jobs } = engine.fake;
          const known = new Set(jobs.keys());
          const count = portion(20, share, 2);
          const failing: string[] = [];
          while (failing.length < count)
            failing.push(startedId(await client.start({ prompt: "an owl at dusk", model })));
          await until(() => jobs.size === known.size + count);
          const message = "https://x".repeat(100_000);
          for (const job of jobs.keys()) if (!known.has(job)) engine.fake.fail(job, { message });
          for (const each of failing) await until(async () => (await client.status(each)).json.status === "failed");
        });
        const image = `data:image/png;base64,${Buffer.from(pngOf(16, 16, Buffer.alloc(portion(imageBytes, share, 1_000_000)))).toString("base64")}`;
        const arrival = await work.during(async () => {
          for (let count = portion(20, share, 4); count > 0; count--)
            startedId(await client.start({ prompt: `a hare ${count}`, model, imageUrl: image }));
          await pause(2_000);
        });
        const images = await work.during(() => pause(2_000));
        client.close();
        const p50 = (times: number[]) => percentile(times, 0.5);
        const most = (times: number[]) => Math.round(Math.max(...times));
        const ratio = p50(images.times) / p50(before.times);
        const faults = [before, prompts, words, arrival, images].flatMap((each) => each.faults);
        for (const [name, { times }] of Object.entries({ prompts, words, images }))
          if (share === 1 && most(times) > mostMs) faults.push(`${name}: a request waited for ${most(times)} ms`);
        if (share === 1 && ratio > mostRatio) faults.push(`polls took ${ratio.toFixed(1)} times as long`);
        const figures =
          `at the most ${most(prompts.times)} ms beside prompts, ${most(words.times)} ms beside the engine's words, ` +
          `${most(images.times)} ms beside images that are stored (p50 ${ratio.toFixed(1)} times that beside none), ` +
          `${most(arrival.times)} ms while they arrive; ${readPeakMb(pid) ?? "unknown"} MB`;
        return {
          figures,
          target: `${mostMs} ms at the most but while images arrive, p50 within ${mostRatio} times`,
          faults,
        };
      }).finally(engine.close);
    }),
};

async function until(isDone: () => boolean | Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 2_000 && !(await isDone()); turn++) await pause(10);
}
