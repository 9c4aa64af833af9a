import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { percentile } from "./busy.ts";
import { model } from "./engines-network.ts";
import { type EngineServer, listenAsEngine } from "./engines-server.ts";
import { load } from "./load.ts";
import { type Announced, createClient, startedId, whileServing } from "./serve.ts";
import { whileSharing } from "./shared-processes.ts";
import { onDisk } from "./speed.ts";

const connections = 30;
const roundMs = 1_000;
const startPauseMs = 50;
const credits = ["--credits", "1000000000"];

/** Runs processes with an engine, and measures them. */
type Setup = {
  name: string;
  run(flags: string[], measure: (announced: Announced[]) => Promise<string>): Promise<string>;
};

/** Goal 21: what PostgreSQL and more processes cost and give, all on this one machine. */
export const sharedSpeed: Goal = {
  number: 21,
  title: `several processes on PostgreSQL beside one on SQLite, ${connections} connections`,
  run: async ({ random, share }) => {
    const rounds = portion(3, share);
    const starts = portion(200, share, 10);
    const figures: string[] = [];
    for (const { name, run } of setups(random)) {
      const speeds = await withEngine({}, (engine) =>
        // One job waits at the engine for ever: what is measured is the API.
        run([...engine.flags, "--jobs", "1", ...credits], (announced) => measureSpeed(announced, rounds)),
      );
      const delays = await withEngine({ completeAfterMs: 0 }, (engine) =>
        run([...engine.flags, "--jobs", "64", ...credits], (announced) => measureDelays(announced, engine, starts)),
      );
      figures.push(`${name}: ${speeds}, ${delays}`);
    }
    return { figures: figures.join("; "), target: "the figures alone", faults: [] };
  },
};

function setups(random: Random): Setup[] {
  const shared = [1, 2, 3].map((count) => ({
    name: `PostgreSQL, ${count} process${count === 1 ? "" : "es"}`,
    run: (flags: string[], measure: (announced: Announced[]) => Promise<string>) =>
      whileSharing(random, async ({ open }) =>
        measure((await open(count, ...flags)).map(({ announced }) => announced)),
      ),
  }));
  return [
    {
      name: "SQLite",
      run: (flags, measure) => onDisk((home) => whileServing(home, flags, (announced) => measure([announced]))),
    },
    ...shared,
  ];
}

async function withEngine<Result>(
  options: { completeAfterMs?: number },
  work: (engine: EngineServer) => Promise<Result>,
): Promise<Result> {
  const engine = await listenAsEngine("vllm-omni", options);
  try {
    return await work(engine);
  } finally {
    await engine.close();
  }
}

async function measureSpeed(announced: Announced[], rounds: number): Promise<string> {
  const [first] = announced;
  if (!first) throw new Error("no process");
  const client = createClient(first, 1);
  const id = startedId(await client.start({ prompt: "fox 0 at dusk", model }));
  client.close();
  const body = JSON.stringify({ prompt: "fox 1 at dusk", model });
  const json = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const starts = await medianOf(rounds, announced, ["POST /api/generate", json, body]);
  const reads = await medianOf(rounds, announced, [`GET /api/generation-status?id=${id}`, "", ""]);
  return `${Math.round(starts)} starts and ${Math.round(reads)} status reads a second`;
}

/** The connections are shared out among the processes. The first round warms up. */
async function medianOf(rounds: number, announced: Announced[], [line, head, body]: [string, string, string]) {
  const speeds: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const seen = await Promise.all(
      announced.map(({ base_url, api_key }) => {
        const { host } = new URL(base_url);
        const request = `${line} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${api_key}\r\n${head}\r\n${body}`;
        return load(base_url, request, { connections: connections / announced.length, ms: roundMs });
      }),
    );
    if (round > 0) speeds.push(seen.reduce((sum, { perSecond }) => sum + perSecond, 0));
  }
  return percentile(speeds, 0.5);
}

/** From the moment when a start is sent until its create arrives at the engine. */
async function measureDelays(announced: Announced[], { arrived }: EngineServer, count: number): Promise<string> {
  const clients = announced.map((each) => createClient(each, count));
  const sentAtMs = new Map<string, number>();
  const starting: Promise<unknown>[] = [];
  for (let index = 0; index < count; index++) {
    const prompt = `fox ${index} at dusk`;
    sentAtMs.set(prompt, performance.now());
    starting.push(clients[index % clients.length]?.start({ prompt, model }).then(startedId) ?? Promise.resolve());
    await pause(startPauseMs);
  }
  await Promise.all(starting);
  for (let left = 100; arrived.length < count && left > 0; left--) await pause(100);
  for (const client of clients) client.close();
  const ms = arrived.map(({ prompt, arrivedAtMs }) => arrivedAtMs - (sentAtMs.get(prompt) ?? Number.NaN));
  const [p50, p95] = [percentile(ms, 0.5), percentile(ms, 0.95)].map(Math.round);
  return `from start to create p50 ${p50} ms, p95 ${p95} ms (${ms.length} of ${count})`;
}
