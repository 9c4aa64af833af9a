import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { postgresPrograms } from "../needs.ts";
import { percentile } from "./busy.ts";
import { model } from "./engines-network.ts";
import { listenAsEngine } from "./engines-server.ts";
import { type Announced, createClient, startedId, whileServing } from "./serve.ts";
import { whileSharing } from "./shared-processes.ts";

const backlog = 200;
const limitMs = 1_000;
const idleModel = "ray-3";

/** Goal 23: a model that has more to make than its engine can keeps no engine of another model waiting. */
export const idleEngine: Goal = {
  number: 23,
  title: `an idle engine beside a model with ${backlog} to make`,
  async run({ random, share }) {
    const trials = portion(50, share, 5);
    const figures: string[] = [];
    const faults: string[] = [];
    const measure = async (
      name: string,
      run: (flags: string[], work: (all: Announced[]) => Promise<void>) => Promise<void>,
    ) => {
      const [busy, idle] = [
        await listenAsEngine("vllm-omni", {}),
        await listenAsEngine("sglang", { completeAfterMs: 0 }),
      ];
      const flags = [...busy.flags, ...idle.flags.map((flag) => flag.replace(`${model}=`, `${idleModel}=`))];
      try {
        await run([...flags, "--jobs", "4", "--credits", "1000000"], async (all) => {
          const clients = all.map((announced) => createClient(announced, 20));
          const startAt = (index: number, body: object) => {
            const client = clients[index % clients.length];
            if (!client) throw new Error("no process");
            return client.start(body).then(startedId);
          };
          for (let index = 0; index < backlog; index++) await startAt(0, { prompt: `fox ${index} at dusk`, model });
          const ms: number[] = [];
          for (let trial = 0; trial < trials; trial++) {
            const prompt = `fox ${1_000 + trial} at dusk`;
            const sentAtMs = performance.now();
            await startAt(trial, { prompt, model: idleModel });
            const find = () => idle.arrived.find((create) => create.prompt === prompt);
            while (!find() && performance.now() - sentAtMs < 10 * limitMs) await pause(5);
            ms.push((find()?.arrivedAtMs ?? Number.POSITIVE_INFINITY) - sentAtMs);
          }
          for (const client of clients) client.close();
          const late = ms.filter((each) => each > limitMs).length;
          if (late > 0) faults.push(`${name}: ${late} of ${trials} creates came after more than ${limitMs} ms`);
          const [p50, most] = [percentile(ms, 0.5), Math.max(...ms)].map(Math.round);
          figures.push(`${name}: p50 ${p50} ms, at the most ${most} ms`);
        });
      } finally {
        await busy.close();
        await idle.close();
      }
    };
    await measure("SQLite", (flags, work) =>
      inFolder((home) => whileServing(home, flags, (announced) => work([announced]))),
    );
    if (postgresPrograms)
      await measure("PostgreSQL, 2 processes", (flags, work) =>
        whileSharing(random, async ({ open }) => work((await open(2, ...flags)).map(({ announced }) => announced))),
      );
    return { figures: figures.join("; "), target: `each create within ${limitMs} ms`, faults };
  },
};
