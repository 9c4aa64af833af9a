import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { type Books, isKilled, readBooks } from "./books.ts";
import { type Receiver, receive } from "./receiver.ts";
import { type Announced, createClient, findPort, type Serving, serve } from "./serve.ts";
import { createWriters, type Started, type Writers } from "./writers.ts";

export const credits = 100_000_000;
export const cost = 10;
export const writerCount = 8;

/** How long what is left may take once nobody kills any more. */
const endLimitMs = 60_000;

/** Goal 1: what was acknowledged is there after a crash at any moment, and ends; the credits add up; callbacks come. */
export const crashes: Goal = {
  number: 1,
  title: `SIGKILL at seeded moments under ${writerCount} writers`,
  run: ({ random, share }) =>
    inFolder(async (home) => {
      const receiver = await receive(random.fork("receiver"), 10);
      const faults: string[] = [];
      const ports = ["--port", `${await findPort(random)}`, "--media-port", `${await findPort(random)}`];
      let serving = serve(home, ...ports, "--credits", `${credits}`);
      try {
        const announced = await serving.started;
        const writers = createWriters({
          clients: [createClient(announced, writerCount)],
          random,
          count: writerCount,
          callbackUrl: receiver.url,
        });
        const kills = portion(200, share, 5);
        let balanced = 0;
        for (let index = 0; index < kills; index++) {
          await live(serving, random);
          await serving.end("SIGKILL");
          const books = readBooks(home, cost);
          const wrong = compare(books, writers.started, `kill ${index + 1}`);
          if (wrong.length === 0) balanced++;
          faults.push(...wrong);
          // Without it, previews would be free from now on.
          serving = serve(home, ...ports, "--credits", `${books.balance}`);
        }
        await serving.started;
        await writers.stop();
        faults.push(...writers.faults, ...(await untilEnded(announced, writers.started, home)));
        await serving.end("SIGTERM");
        faults.push(...checkEnd(home, writers, receiver));
        return { figures: figures(home, { kills, balanced, writers, receiver }), target, faults };
      } finally {
        await serving.end("SIGKILL");
        await receiver.close();
      }
    }),
};

const target = "0 acknowledged lost, the ledger balanced after each kill, each callback delivered under one webhook-id";

/** One life in ten ends before its first answer. */
async function live(serving: Serving, random: Random): Promise<void> {
  if (random.next() < 0.1) return pause(random.between(0, 300));
  await serving.started;
  await pause(random.between(40, 300));
}

/** What does not agree with what was acknowledged, in words. */
export function compare({ ids, debits, refunds, balance, faults }: Books, started: Started[], when: string): string[] {
  const lost = started.filter(({ id }) => !ids.has(id)).map(({ id }) => `${id} was acknowledged, and is lost`);
  const unpaid = debits === ids.size ? [] : [`${debits} debits for ${ids.size} generations`];
  const isRight = balance === credits - cost * (debits - refunds);
  const wrong = isRight ? [] : [`${balance} credits are left after ${debits} debits and ${refunds} refunds`];
  return [...faults, ...lost, ...unpaid, ...wrong].map((fault) => `${when}: ${fault}`);
}

/** Asks for all that was acknowledged, again and again until each has ended and each callback is through. */
async function untilEnded(announced: Announced, started: Started[], home: string): Promise<string[]> {
  const client = createClient(announced, writerCount);
  const end = performance.now() + endLimitMs;
  const left = [...started];
  try {
    while (left.length > 0 && performance.now() < end) {
      const [next] = left;
      const { status, json } = await client.status(next?.id ?? "");
      if (status !== 200) return [`${next?.id} was acknowledged, and is answered with ${status}`];
      if (json.status === "processing") await pause(50);
      else if (json.status !== next?.expected && !isKilled(String(json.error)))
        return [`${next?.id} is ${json.status}, not ${next?.expected}`];
      else left.shift();
    }
    while (performance.now() < end && readBooks(home, cost).deliveries.some(({ isDue }) => isDue)) await pause(500);
  } finally {
    client.close();
  }
  return left.length === 0 ? [] : [`${left.length} have not ended after ${endLimitMs / 1_000} s`];
}

function checkEnd(home: string, writers: Writers, receiver: Receiver): string[] {
  const books = readBooks(home, cost);
  return [...compareEnd(books, writers.started, receiver), ...checkVideos(home, books.states)];
}

/** The same for when all has ended: each in its way, once, and with its callback. */
export function compareEnd(books: Books, started: Started[], { received }: Receiver): string[] {
  const faults = compare(books, started, "in the end");
  const { deliveries, states, prompts } = books;
  for (const { id, expected, hasCallback } of started) {
    const isRight = states.get(id) === expected || (states.get(id) === "killed" && expected === "completed");
    if (!isRight) faults.push(`${id} is ${states.get(id)} in the end`);
    if (hasCallback && !received.get(id)?.some(({ isAccepted }) => isAccepted)) faults.push(`${id}: no callback came`);
  }
  for (const { id, generation, isDelivered } of deliveries) {
    const all = received.get(generation) ?? [];
    if (!isDelivered) faults.push(`${generation}: its callback is not through`);
    if (all.some((each) => each.id !== id)) faults.push(`${generation}: a callback of another webhook-id`);
    if (new Set(all.map(({ body }) => body)).size > 1) faults.push(`${generation}: callbacks that differ`);
  }
  if (new Set(prompts).size < prompts.length) faults.push("something was started twice");
  return faults;
}

/** Just one video and one thumbnail of each that completed, and nothing half made. */
function checkVideos(home: string, states: Map<string, string>): string[] {
  const completed = [...states].flatMap(([id, state]) => (state === "completed" ? [id] : []));
  const wanted = completed.flatMap((id) => [`${id}.mp4`, `${id}.png`]);
  const there = readdirSync(join(home, "service", "videos")).filter((name) => !name.startsWith("."));
  const isAlike = wanted.sort().join() === there.sort().join();
  return isAlike ? [] : [`${there.length} files of videos for ${completed.length} that completed`];
}

type Found = { kills: number; balanced: number; writers: Writers; receiver: Receiver };

function figures(home: string, { kills, balanced, writers, receiver }: Found): string {
  const { states, ids } = readBooks(home, cost);
  const lost = writers.started.filter(({ id }) => !ids.has(id)).length;
  const completed = [...states.values()].filter((state) => state === "completed").length;
  const attempts = [...receiver.received.values()].flat().length;
  return (
    `${lost} of ${writers.started.length} acknowledged lost, ${writers.repeated()} sent again for the same reply, ` +
    `ledger balanced ${balanced} of ${kills}, ${completed} rendered; ` +
    `callbacks for ${receiver.received.size}, ${attempts} attempts`
  );
}
