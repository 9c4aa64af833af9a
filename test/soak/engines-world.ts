import { prepareLocalAccount } from "../../src/server/api/accounts.ts";
import { paidPatienceMs } from "../../src/server/engines/upstream/upstream.ts";
import { openFolder } from "../../src/server/media/folder.ts";
import type { StoredGeneration } from "../../src/server/store/generations.ts";
import { openStore } from "../../src/server/store/sqlite/sqlite-store.ts";
import { createVirtualClock } from "../clock.ts";
import type { Random } from "../faults/random.ts";
import { findUnfinished } from "../server/store/records.ts";
import { type Trouble, type TroubleMaker, timeoutMs } from "./engines-faults.ts";
import { createNetwork, isPaid, type KindId, model, type Network } from "./engines-network.ts";
import { type Process, type ProcessOptions, startProcess } from "./engines-process.ts";

const apiKey = "key";
const count = 3;

/** All that is known after a run. */
export type Story = Pick<Network, "fake" | "jobs" | "sent"> & {
  kind: KindId;
  trouble: Trouble;
  generations: StoredGeneration[];
  /** Prompts whose create was under way when the service was killed, or stopped before the reply came. */
  interrupted: Set<string>;
  /** How often the service was killed or stopped. */
  restarts: number;
};

/** Everything must have ended by then: each of three that wait for each other has four time limits, and each restart begins anew. */
const limitMs = (restarts: number, patienceMs: number) => (count + restarts) * (4 * patienceMs + 600_000);

export type StoryOptions = { random: Random; folder: string };

/** Starts generations at a service with one engine while the trouble happens. Resolves when all have ended, or should have long ago. */
export async function runStory(kind: KindId, makeTrouble: TroubleMaker, options: StoryOptions): Promise<Story> {
  const { random, folder } = options;
  const videos = await openFolder({ folder });
  const clock = createVirtualClock();
  const store = await openStore(":memory:");
  await prepareLocalAccount(store, apiKey, 1_000);
  const trouble = makeTrouble(random.fork("trouble"), clock);
  const { fetch, fake, jobs, sent, forget } = createNetwork(kind, { clock, random, trouble });
  const concurrency = random.between(1, count);
  const settings = { kind, isKindNamed: random.next() < 0.5, concurrency, folder, store, videos, clock, fetch };
  const restarts = trouble.restarts ?? (random.next() < 0.4 ? 1 : 0);
  const life = createLife(settings, sent, random.fork("life"));
  void trouble.live?.({ forget });
  const [ids] = await Promise.all([startSome(life, settings, random.fork("starts")), life.live(restarts)]);
  const patienceMs = isPaid(kind) ? paidPatienceMs(timeoutMs) : timeoutMs;
  // What stays open has outlived every limit by then.
  const endMs = trouble.staysOpen && isPaid(kind) ? 2 * patienceMs : limitMs(restarts, patienceMs);
  while ((await findUnfinished(store)).length > 0 && clock.now() < endMs) await clock.sleep(20_000);
  const generations = await Promise.all(ids.map((id) => store.generation(id)));
  life.end();
  await store.close();
  const found = generations.filter((generation) => generation !== undefined);
  return { kind, fake, jobs, sent, trouble, generations: found, interrupted: life.interrupted, restarts };
}

type Settings = Omit<ProcessOptions, "killAt">;

type Life = {
  current(): Process | undefined;
  interrupted: Set<string>;
  /** Resolves when the last process has started. */
  live(restarts: number): Promise<void>;
  end(): void;
};

/** One process of the service after the other, each killed at a random step, killed at a random time, or stopped. */
function createLife(settings: Settings, sent: Network["sent"], random: Random): Life {
  const { clock, store } = settings;
  const interrupted = new Set<string>();
  let current: Process | undefined;
  const begin = async (killAt: number) => {
    const process = startProcess({ ...settings, killAt });
    await process.service.start("all");
    current = process;
    return process;
  };
  /** A service that is stopped waits 10 s for the reply to a create. */
  const readInterrupted = async (stoppedAtMs: number) => {
    for (const { checkpoint, request } of await findUnfinished(store)) {
      const last = sent.findLast(({ prompt }) => prompt === request.prompt);
      const isLate = (last?.repliedAtMs ?? Number.POSITIVE_INFINITY) > stoppedAtMs + 9_000;
      if (checkpoint?.state === "submitting" && isLate) interrupted.add(request.prompt);
    }
  };
  return {
    current: () => current,
    interrupted,
    async live(restarts) {
      for (let left = restarts; left > 0; left--) {
        const isStopped = random.next() < 0.3;
        const killAt = isStopped ? Number.POSITIVE_INFINITY : random.between(1, random.pick([40, 300]));
        const process = await begin(killAt);
        await Promise.race([process.killed, clock.sleep(random.between(1_000, random.pick([60_000, 600_000])))]);
        current = undefined;
        const stoppedAtMs = isStopped ? clock.now() : Number.NEGATIVE_INFINITY;
        if (isStopped) await process.service.close();
        process.kill();
        await clock.sleep(random.between(100, 30_000));
        await readInterrupted(stoppedAtMs);
      }
      await begin(Number.POSITIVE_INFINITY);
    },
    end: () => current?.kill(),
  };
}

/** Starts generations as a client does that tries again with the same key, until it has a reply. Resolves with their ids. */
async function startSome(life: Life, { clock }: Settings, random: Random): Promise<string[]> {
  const start = async (index: number) => {
    const prompt = `fox ${index} at dusk`;
    const headers = {
      Authorization: `Bearer ${apiKey}`,
      "Content-Type": "application/json",
      "Idempotency-Key": prompt,
    };
    const init = { method: "POST", headers, body: JSON.stringify({ prompt, model }) };
    await clock.sleep(random.between(0, 40_000));
    for (;;) {
      const process = life.current();
      const reply = process && (await Promise.race([process.service.api(new Request(url, init)), process.killed]));
      if (reply?.status === 200) return ((await reply.json()) as { data: { id: string } }).data.id;
      if (reply) throw new Error(`a start was refused: ${await reply.text()}`);
      await clock.sleep(1_000);
    }
  };
  const url = "http://service.test/api/generate";
  return Promise.all(Array.from({ length: count }, (_, index) => start(index)));
}
