import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import type { Answer } from "./ask.ts";
import { compare, compareEnd, cost, credits, writerCount } from "./crashes.ts";
import { slowly } from "./engines-killed.ts";
import { listenAsEngine } from "./engines-server.ts";
import { type Receiver, receive } from "./receiver.ts";
import type { Client } from "./serve.ts";
import { createEngineStart, repeatsOf } from "./shared-killed.ts";
import { clientsOf, type Process, type Shared, untilAllEnded, whileSharing } from "./shared-processes.ts";
import { checkServed } from "./shared-videos.ts";
import { createFox, createWriters, type Writers } from "./writers.ts";

const processCount = 3;
const readerCount = 8;
const hungMs = 15_000;
const endLimitMs = 120_000;
/** Until then all must go on after PostgreSQL is back. */
const backLimitMs = 15_000;
/** The longest is longer than a process may hold what it makes. */
const outagesMs = [1_500, 15_000, 300, 4_000];

/** Goal 18: PostgreSQL goes and comes back; meanwhile requests are refused as the interface says, and afterwards nothing is missing. */
export const sharedAway: Goal = {
  number: 18,
  title: "PostgreSQL stopped and started under load",
  run: ({ random, share }) =>
    whileSharing(random, async (shared) => {
      const receiver = await receive(random.fork("receiver"), 10);
      const engine = await listenAsEngine("vllm-omni", { ...slowly(random, 1_500), completeAfterMs: 5_000 });
      try {
        const flags = [...engine.flags, "--engine", "preview", "--jobs", "16", "--credits", `${credits}`];
        const processes = await shared.open(processCount, ...flags);
        const seen = createWitness();
        const clients = clientsOf(processes, writerCount + readerCount).map(seen.watch);
        const writers = createWriters({
          clients,
          random,
          count: writerCount,
          callbackUrl: receiver.url,
          pauseMs: 300,
          createStart: (...options) => (random.next() < 0.2 ? createEngineStart : createFox)(...options),
        });
        const stopReading = read(clients, writers);
        const faults: string[] = [];
        const outages = portion(10, share);
        for (let index = 0; index < outages; index++) {
          await pause(random.between(1_000, 4_000));
          await shared.postgres.stop(index % 2 === 0 ? "SIGINT" : "SIGQUIT");
          await pause(outagesMs[index % outagesMs.length] ?? 0);
          await shared.postgres.start();
          faults.push(...(await untilBack(processes)));
          const started = [...writers.started];
          faults.push(...compare(await shared.books(cost), started, `outage ${index + 1}`));
        }
        await stopReading();
        await writers.stop();
        for (const { prompt, times } of repeatsOf(engine)) faults.push(`${prompt}: ${times} creates arrived`);
        faults.push(...writers.faults, ...seen.faults, ...(await judgeEnd(shared, processes, { writers, receiver })));
        const figures =
          `${outages} outages, ${writers.started.length} starts acknowledged, ${engine.arrived.length} creates, ${seen.count(200)} requests answered, ` +
          `${seen.count(503)} refused with 503, the slowest after ${(seen.slowestMs() / 1_000).toFixed(1)} s`;
        return { figures, target: "nothing lost, each refusal a 503 with Retry-After", faults };
      } finally {
        await engine.close();
        await receiver.close();
      }
    }),
};

/** Sees how requests end: with a reply of use, or with 503 and when to come again, within 15 s. */
function createWitness() {
  const faults: string[] = [];
  const counts = new Map<number, number>();
  let slowestMs = 0;
  const note = async (what: string, asking: Promise<Answer>) => {
    const start = performance.now();
    const answer = await asking.catch((error) => {
      faults.push(`${what}: ${error}`);
      throw error;
    });
    const ms = performance.now() - start;
    slowestMs = Math.max(slowestMs, ms);
    const { status, retryAfter, json } = answer;
    counts.set(status, (counts.get(status) ?? 0) + 1);
    if (ms > hungMs) faults.push(`${what}: ${status} after ${ms} ms`);
    if (status !== 200 && !(status === 503 && /^[1-9]\d*$/.test(retryAfter ?? "")))
      faults.push(`${what}: ${status} with Retry-After ${retryAfter}: ${JSON.stringify(json)}`);
    // Whoever asked tries again later.
    if (status !== 200) throw new Error(`refused with ${status}`);
    return answer;
  };
  const watch = (client: Client): Client => ({
    ...client,
    start: (body, key) => note("a start", client.start(body, key)),
    status: (id) => note("a look", client.status(id)),
  });
  return { watch, faults, count: (status: number) => counts.get(status) ?? 0, slowestMs: () => slowestMs };
}

/** Looks at what was acknowledged, again and again. Returns how to stop. */
function read(clients: readonly Client[], { started }: Writers): () => Promise<void> {
  let isStopping = false;
  const one = async (client: Client) => {
    for (let index = 0; !isStopping; index++) {
      const { id } = started[(index * 7) % Math.max(1, started.length)] ?? {};
      if (id !== undefined) await client.status(id).catch(() => {});
      await pause(20);
    }
  };
  const reading = Array.from({ length: readerCount }, (_, index) => clients[index % clients.length]);
  const all = reading.map((client) => client && one(client));
  return async () => {
    isStopping = true;
    await Promise.all(all);
  };
}

/** Resolves when every process starts generations again; with what does not, in words. */
async function untilBack(processes: readonly Process[]): Promise<string[]> {
  const end = performance.now() + backLimitMs;
  const clients = clientsOf(processes, 1);
  for (const client of clients) {
    while ((await client.status("none").catch(() => undefined))?.status !== 404) {
      if (performance.now() > end)
        return [`a process still refuses requests ${backLimitMs / 1_000} s after PostgreSQL is back`];
      await pause(100);
    }
    client.close();
  }
  return [];
}

type Seen = { writers: Writers; receiver: Receiver };

async function judgeEnd(shared: Shared, processes: readonly Process[], { writers, receiver }: Seen): Promise<string[]> {
  const faults = await untilAllEnded(shared, cost, endLimitMs);
  const books = await shared.books(cost);
  const completed = [...books.states].flatMap(([id, state]) => (state === "completed" ? [id] : []));
  faults.push(...compareEnd(books, writers.started, receiver), ...(await checkServed(processes, completed)));
  const killed = [...books.states.values()].filter((state) => state === "killed").length;
  if (killed > 0) faults.push(`${killed} have failed as if processes had ended`);
  return faults;
}
