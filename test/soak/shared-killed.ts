import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { compare, compareEnd, cost, credits, writerCount } from "./crashes.ts";
import { slowly } from "./engines-killed.ts";
import { model } from "./engines-network.ts";
import { type EngineServer, listenAsEngine } from "./engines-server.ts";
import { receive } from "./receiver.ts";
import type { Client } from "./serve.ts";
import { clientsOf, type Process, type Shared, untilAllEnded, whileSharing } from "./shared-processes.ts";
import { checkServed } from "./shared-videos.ts";
import { type CreateStart, createWriters, type WritersOptions } from "./writers.ts";

const processCount = 4;
const endLimitMs = 150_000;
/** Long enough for another process to take over what a suspended one makes. */
const longestSuspensionMs = 20_000;
/** An answered create must be in the database so long after its reply. */
const keepLimitMs = 2_000;

/** Goal 16: goal 1 for several processes on one database, of which any may be killed. */
export const sharedKilled: Goal = {
  number: 16,
  title: `SIGKILL of one of ${processCount} processes on one PostgreSQL`,
  run: ({ random, share }) =>
    whileSharing(random, async (shared) => {
      const processes = await shared.open(processCount, "--jobs", "16", "--credits", `${credits}`);
      const kills = portion(100, share, 4);
      const { figures, faults } = await killAll(shared, processes, { random, kills, pauseMs: 150 });
      return { figures, target, faults };
    }),
};

const target = "0 acknowledged lost, the ledger always balanced, one result and one webhook-id for each";

/** Goal 17: the same while an engine makes the videos, which counts the creates, and while processes are suspended, too. */
export const sharedEngine: Goal = {
  number: 17,
  title: `the same, also with SIGSTOP, with an engine that counts creates`,
  run: ({ random, share }) =>
    whileSharing(random, async (shared) => {
      const engine = await listenAsEngine("vllm-omni", { ...slowly(random), completeAfterMs: 3_000 });
      try {
        const processes = await shared.open(processCount, ...engine.flags, "--jobs", "64", "--credits", `${credits}`);
        const kills = portion(100, share, 4);
        const options = { random, kills, suspends: true, engine, createStart: createEngineStart, pauseMs: 4_000 };
        const { figures, faults, ...found } = await killAll(shared, processes, options);
        const judged = judgeCreates(engine, found);
        const all = `${figures}; ${judged.figures}`;
        return {
          figures: all,
          target: "no create twice, and each as in goal 16",
          faults: [...faults, ...judged.faults],
        };
      } finally {
        await engine.close();
      }
    }),
};

/** A start whose prompt the engine finds. */
export const createEngineStart: CreateStart = (random, name, callbackUrl) => {
  const prompt = `fox ${name.replace("-", "")} at dusk`;
  const body = { prompt, model, ...(random.next() < 0.5 && { callback_url: `${callbackUrl}?${name}` }) };
  return {
    body,
    key: random.next() < 0.8 ? `key ${name}` : undefined,
    expected: "completed",
    hasCallback: "callback_url" in body,
  };
};

/** When a process was killed, or suspended and until when. */
type Kill = { atMs: number; untilMs?: number } & Partial<EngineServer["answering"]>;
type KillOptions = { random: Random; kills: number; suspends?: boolean; engine?: EngineServer } & Pick<
  WritersOptions,
  "createStart" | "pauseMs"
>;
type Found = { kills: Kill[]; states: Map<string, string>; prompts: Map<string, string> };

/** Kills one process after the other while clients start generations at all of them, and judges what becomes of these. */
async function killAll(
  shared: Shared,
  processes: readonly Process[],
  { random, kills: count, suspends = false, engine, ...options }: KillOptions,
): Promise<Found & { figures: string; faults: string[] }> {
  const receiver = await receive(random.fork("receiver"), 10);
  try {
    const all = clientsOf(processes, writerCount);
    const clients = suspends ? all.map(refusable) : all;
    const writers = createWriters({ ...options, clients, random, count: writerCount, callbackUrl: receiver.url });
    const kills: Kill[] = [];
    const suspensions: { ended: Promise<Kill> }[] = [];
    const faults: string[] = [];
    for (let index = 0; index < count; index++) {
      if (suspends && random.next() < 0.3) suspensions.push(await suspend(random.pick(processes), random));
      const process = random.pick(processes);
      await live(process, random);
      kills.push({ atMs: performance.now(), ...engine?.answering });
      await process.kill();
      const started = [...writers.started];
      faults.push(...compare(await shared.books(cost), started, `kill ${index + 1}`));
    }
    const suspended = await Promise.all(suspensions.map(({ ended }) => ended));
    await Promise.all(processes.map((process) => process.started()));
    await writers.stop();
    faults.push(...writers.faults, ...(await untilAllEnded(shared, cost, endLimitMs)));
    const books = await shared.books(cost);
    const { ids, states, refunds } = books;
    const completed = [...states].flatMap(([id, state]) => (state === "completed" ? [id] : []));
    faults.push(...compareEnd(books, writers.started, receiver), ...(await checkServed(processes, completed)));
    const lost = writers.started.filter(({ id }) => !ids.has(id)).length;
    const killed = [...states.values()].filter((state) => state === "killed").length;
    const attempts = [...receiver.received.values()].flat().length;
    const figures =
      `${count} kills, ${suspended.length} suspensions, ${lost} of ${writers.started.length} acknowledged lost, ${writers.repeated()} sent again to ` +
      `another process for the same reply, ${completed.length} completed, ${killed} failed since processes ended, ${refunds} given back; ` +
      `callbacks for ${receiver.received.size}, ${attempts} attempts`;
    const prompts = new Map(writers.started.map(({ id, prompt }) => [id, prompt]));
    return { figures, faults, kills: [...kills, ...suspended], states, prompts };
  } finally {
    await receiver.close();
  }
}

/** One life in ten ends before its first answer. */
async function live(process: Process, random: Random): Promise<void> {
  if (random.next() < 0.1) return pause(random.between(0, 300));
  await process.started();
  await pause(random.between(40, 500));
}

/** Suspends a process once it listens; one that begins would give up its connection. It goes on later, or is killed meanwhile. */
export async function suspend(process: Process, random: Random): Promise<{ ended: Promise<Kill> }> {
  await process.started();
  const atMs = performance.now();
  process.signal("SIGSTOP");
  const goOn = async () => {
    await pause(random.between(500, longestSuspensionMs));
    process.signal("SIGCONT");
    return { atMs, untilMs: performance.now() };
  };
  return { ended: goOn() };
}

/**
 * A process that is suspended in a transaction holds up the starts of its account for 10 s, until PostgreSQL ends it: they get a 503. To itself a
 * request has taken too long to arrive, a 408. Either is sent again with its key.
 */
export function refusable(client: Client): Client {
  const start: Client["start"] = async (...given) => {
    const answer = await client.start(...given);
    const isRefused = answer.status === 408 || (answer.status === 503 && answer.retryAfter !== undefined);
    if (isRefused) throw new Error(`refused with ${answer.status}`);
    return answer;
  };
  return { ...client, start };
}

/** The prompts of which more than one create has come. */
export function repeatsOf({ arrived }: Pick<EngineServer, "arrived">): { prompt: string; times: number }[] {
  const times = new Map<string, number>();
  for (const { prompt } of arrived) times.set(prompt, (times.get(prompt) ?? 0) + 1);
  return [...times].flatMap(([prompt, count]) => (count > 1 ? [{ prompt, times: count }] : []));
}

/** What the engine has seen, against what the service says. */
function judgeCreates({ arrived }: EngineServer, { kills, states, prompts }: Found) {
  const faults = repeatsOf({ arrived }).map(({ prompt, times }) => `${prompt}: ${times} creates arrived`);
  for (const [id, prompt] of prompts) {
    const [create] = arrived.filter((each) => each.prompt === prompt);
    const state = states.get(id);
    if (state === "completed" && !create) faults.push(`${prompt}: it is completed, and no create arrived`);
    const { arrivedAtMs = 0, answeredAtMs = Number.POSITIVE_INFINITY } = create ?? {};
    const isHit = kills.some(
      ({ atMs, untilMs = atMs }) => untilMs > arrivedAtMs - keepLimitMs && atMs < answeredAtMs + keepLimitMs,
    );
    if (state === "killed" && !isHit)
      faults.push(`${prompt}: it failed, and nothing was killed while it was submitted`);
  }
  const during = (what: "creates" | "downloads") => kills.filter((kill) => (kill[what] ?? 0) > 0).length;
  const figures = `${arrived.length} creates of ${prompts.size} acknowledged generations; ${during("creates")} kills during creates, ${during("downloads")} during downloads`;
  return { figures, faults };
}
