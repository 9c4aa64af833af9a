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
/** So many accounts start at once, after one alone has. */
const accounts = 7;
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
  title: `starts and reads a second: processes on PostgreSQL beside one on SQLite, ${connections} connections`,
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
  const keys = await Promise.all(Array.from({ length: accounts }, (_, index) => createKey(first, `team-${index}`)));
  const body = JSON.stringify({ prompt: "fox 1 at dusk", model });
  const json = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const start: Asked = ["POST /api/generate", json, body];
  const measure = (asked: Asked, ...keys: string[]) => medianOf(rounds, lanesOf(announced, keys), asked);
  const speeds = [
    await measure(start, first.api_key),
    await measure(start, ...keys),
    await measure([`GET /api/generation-status?id=${id}`, "", ""], first.api_key),
  ];
  const [one, several, reads] = speeds.map(Math.round);
  return `${one} starts a second for one account, ${several} for ${accounts}, and ${reads} status reads`;
}

/** Makes an account of its own, with credits for the whole measurement. */
async function createKey({ base_url, api_key }: Announced, name: string): Promise<string> {
  const reply = await fetch(`${base_url}/accounts`, {
    method: "POST",
    headers: { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name, credits: 1_000_000_000 }),
  });
  return JSON.parse(await reply.text()).api_key;
}

/** The first line of a request, more headers, and the body. */
type Asked = [line: string, head: string, body: string];

/** Who asks which process, on so many of the connections. */
type Lane = { url: string; key: string; connections: number };

/** Shares out the connections among the processes and the keys. */
function lanesOf(announced: Announced[], keys: string[]): Lane[] {
  const pairs = announced.flatMap(({ base_url }) => keys.map((key) => ({ url: base_url, key })));
  const count = (index: number) => Math.floor((connections + index) / pairs.length);
  return pairs.map((pair, index) => ({ ...pair, connections: count(index) }));
}

/** The first round warms up. */
async function medianOf(rounds: number, lanes: Lane[], [line, head, body]: Asked): Promise<number> {
  const speeds: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const seen = await Promise.all(
      lanes.map(({ url, key, connections }) => {
        const { host } = new URL(url);
        const request = `${line} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n${head}\r\n${body}`;
        return load(url, request, { connections, ms: roundMs });
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
