import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { side } from "../faults/work.ts";
import type { Call } from "../server/engines/videos/fakes/fake.ts";
import { percentile } from "./busy.ts";
import { cost } from "./crashes.ts";
import { model } from "./engines-network.ts";
import { type EngineServer, listenAsEngine } from "./engines-server.ts";
import { startedId } from "./serve.ts";
import { clientsOf, type Process, type Shared, untilAllEnded, whileSharing } from "./shared-processes.ts";

const count = 20;
const limitMs = 30_000;
const waitLimitMs = 60_000;

/** Goal 20: what a process that is killed or suspended waits for at an engine is looked at by another one soon, and not started again. */
export const sharedTakeover: Goal = {
  number: 20,
  title: `a process killed while ${count} generations wait for the engine`,
  run: ({ random, share }) =>
    whileSharing(random, async (shared) => {
      const watch = createWatch();
      const engine = await listenAsEngine("vllm-omni", { fault: watch.fault });
      try {
        const options = { engine, watch, flags: [...engine.flags, "--jobs", `${count}`, "--credits", "1000000"] };
        const rounds = portion(4, share, 2);
        const ms: number[] = [];
        const faults: string[] = [];
        for (let round = 0; round < rounds; round++) {
          const run = round % 2 === 0 ? whenKilled : whenSuspended;
          const found = await run(shared, { ...options, round });
          ms.push(...found.ms);
          for (const { id, end } of engine.fake.jobs.values()) if (!end) engine.fake.complete(id);
          faults.push(...(await untilAllEnded(shared, cost, waitLimitMs)));
          for (const process of found.left) await process.end();
        }
        for (const [id, state] of (await shared.books(cost)).states)
          if (state !== "completed") faults.push(`${id} is ${state}`);
        const late = ms.filter((each) => each > limitMs);
        if (late.length > 0) faults.push(`${late.length} were looked at after ${seconds(Math.max(...late))}`);
        if (engine.arrived.length !== rounds * count) faults.push(`${engine.arrived.length} creates arrived`);
        const figures =
          `${rounds} rounds, looked at by another one after p50 ${seconds(percentile(ms, 0.5))}, ` +
          `at the most ${seconds(Math.max(...ms))}; ${engine.arrived.length} creates`;
        return { figures, target: `all within ${limitMs / 1_000} s, and no create again`, faults };
      } finally {
        await engine.close();
      }
    }),
};

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** Sees the looks at the engine's jobs, and may hold up those that ask what kind of engine it is, which come before a create. */
function createWatch() {
  /** When each job was looked at first. */
  const looks = new Map<string, number>();
  const held: (() => void)[] = [];
  let isHolding = false;
  const fault = async ({ route, request }: Call) => {
    const id = request.url.split("/").at(-1) ?? "";
    if (route === "poll" && !looks.has(id)) looks.set(id, performance.now());
    if (route === "other" && isHolding) await new Promise<void>((resolve) => held.push(resolve));
    return undefined;
  };
  return {
    looks,
    fault,
    heldCount: () => held.length,
    hold(isOn: boolean) {
      isHolding = isOn;
    },
    release: () => {
      for (const resolve of held.splice(0)) resolve();
    },
  };
}

type RoundOptions = {
  engine: EngineServer;
  watch: ReturnType<typeof createWatch>;
  flags: string[];
  round: number;
};

/** The milliseconds until another process looked at each, and the processes that live. */
type Round = { ms: number[]; left: Process[] };

/** One process takes them all; others come, and it is killed. */
async function whenKilled(shared: Shared, { watch, flags, round }: RoundOptions): Promise<Round> {
  const first = await shared.open(1, ...flags);
  watch.looks.clear();
  await startAll(first, round);
  await until(() => watch.looks.size === count);
  const left = await shared.open(2, ...flags);
  return { ms: await looksAfterKill(first, watch), left };
}

/** One process takes them all, and is suspended before it submits them. Others do; it goes on, and they are killed. */
async function whenSuspended(shared: Shared, { watch, flags, round }: RoundOptions): Promise<Round> {
  const left = await shared.open(1, ...flags);
  watch.hold(true);
  await startAll(left, round);
  await until(() => watch.heldCount() === count);
  for (const process of left) process.signal("SIGSTOP");
  watch.hold(false);
  watch.looks.clear();
  const others = await shared.open(2, ...flags);
  await until(() => watch.looks.size === count);
  watch.release();
  for (const process of left) process.signal("SIGCONT");
  // It finds out that the others have taken its work.
  await pause(1_000);
  return { ms: await looksAfterKill(others, watch), left };
}

async function looksAfterKill(processes: readonly Process[], { looks }: RoundOptions["watch"]): Promise<number[]> {
  const killedAtMs = performance.now();
  await Promise.all(processes.map((process) => process.end()));
  // What they sent before their end has come by then.
  await pause(100);
  looks.clear();
  await until(() => looks.size === count);
  const ms = [...looks.values()].map((at) => at - killedAtMs);
  return ms.length === count ? ms : [...ms, Number.POSITIVE_INFINITY];
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
