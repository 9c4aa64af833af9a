import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { side } from "../faults/work.ts";
import { percentile } from "./busy.ts";
import { cost } from "./crashes.ts";
import { model } from "./engines-network.ts";
import { type EngineServer, listenAsEngine } from "./engines-server.ts";
import { startedId } from "./serve.ts";
import { clientsOf, type Process, type Shared, untilAllEnded, whileSharing } from "./shared-processes.ts";

const count = 20;
const limitMs = 30_000;
const waitLimitMs = 60_000;

/** Goal 20: what a killed process waits for at an engine is looked at by another one soon, and not started again. */
export const sharedTakeover: Goal = {
  number: 20,
  title: `a process killed while ${count} generations wait for the engine`,
  run: ({ random, share }) =>
    whileSharing(random, async (shared) => {
      /** When each job was looked at first. */
      const polls = new Map<string, number>();
      const engine = await listenAsEngine("vllm-omni", {
        async fault({ route, request }) {
          const id = request.url.split("/").at(-1) ?? "";
          if (route === "poll" && !polls.has(id)) polls.set(id, performance.now());
          return undefined;
        },
      });
      try {
        const flags = [...engine.flags, "--jobs", `${count}`, "--credits", "1000000"];
        const rounds = portion(3, share);
        const ms: number[] = [];
        const faults: string[] = [];
        for (let round = 0; round < rounds; round++) {
          const found = await runRound(shared, { engine, flags, polls, round });
          ms.push(...found.ms);
          faults.push(...found.faults);
        }
        const figures =
          `${rounds} x ${count} looked at again after p50 ${seconds(percentile(ms, 0.5))}, ` +
          `at the most ${seconds(Math.max(...ms))}; ${engine.arrived.length} creates`;
        if (engine.arrived.length !== rounds * count) faults.push(`${engine.arrived.length} creates arrived`);
        return { figures, target: `all within ${limitMs / 1_000} s, and no create again`, faults };
      } finally {
        await engine.close();
      }
    }),
};

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

type RoundOptions = { engine: EngineServer; flags: string[]; polls: Map<string, number>; round: number };

/** One process takes them all; others come, and it is killed. */
async function runRound(shared: Shared, { engine, flags, polls, round }: RoundOptions) {
  const first = await shared.open(1, ...flags);
  await startAll(first, round);
  const jobs = () => [...engine.fake.jobs.values()].filter(({ end }) => !end).map(({ id }) => id);
  await until(() => jobs().length === count && jobs().every((id) => polls.has(id)));
  const others = await shared.open(2, ...flags);
  const killedAtMs = performance.now();
  for (const process of first) await process.end();
  // What it sent before its end has come by then.
  await pause(100);
  polls.clear();
  await until(() => polls.size === count);
  const ms = jobs().map((id) => (polls.get(id) ?? Number.POSITIVE_INFINITY) - killedAtMs);
  const faults = ms.filter((each) => each > limitMs).map((each) => `a generation was taken over after ${each} ms`);
  for (const id of jobs()) engine.fake.complete(id);
  faults.push(...(await untilAllEnded(shared, cost, waitLimitMs)));
  const { states } = await shared.books(cost);
  for (const [id, state] of states) if (state !== "completed") faults.push(`${id} is ${state}`);
  for (const process of others) await process.end();
  return { ms, faults };
}

async function startAll(processes: readonly Process[], round: number): Promise<void> {
  for (const client of clientsOf(processes, count)) {
    await side([...Array(count).keys()], count, async (index) => {
      startedId(await client.start({ prompt: `fox ${round}${index} at dusk`, model }));
    });
    client.close();
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  const end = performance.now() + waitLimitMs;
  while (!isTrue() && performance.now() < end) await pause(20);
}
