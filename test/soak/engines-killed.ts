import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder, side } from "../faults/work.ts";
import type { Call, FakeOptions } from "../server/engines/videos/fakes/fake.ts";
import { readBooks } from "./books.ts";
import { cost } from "./crashes.ts";
import { type KindId, kindIds, model, videoOf } from "./engines-network.ts";
import { type EngineServer, listenAsEngine } from "./engines-server.ts";
import { type Client, createClient, findPort, type Serving, serve, startedId } from "./serve.ts";

const count = 20;
const killsPerRound = 10;
const endLimitMs = 60_000;
/** An answered create must be on the disk so long after its reply. */
const keepLimitMs = 1_000;
const unclear =
  /ended while it submitted this video to http:.*, which may be generating it; it was not submitted again/;

/** Goal 13: the built program, killed at any moment while an engine makes its videos, starts none twice and finds them all again. */
export const enginesKilled: Goal = {
  number: 13,
  title: `SIGKILL while ${count} generations wait for an engine`,
  run: ({ random, share }) =>
    inFolder(async (home) => {
      const ports = ["--port", `${await findPort(random)}`, "--media-port", `${await findPort(random)}`];
      const flags = [...ports, "--jobs", `${count}`, "--credits", "1000000"];
      const kills = portion(100, share, 3);
      const rounds: Round[] = [];
      for (let done = 0; done < kills; done += killsPerRound) {
        const round = random.fork(rounds.length);
        const kind = kindIds[rounds.length % kindIds.length] ?? "sglang";
        const times = Math.min(killsPerRound, kills - done);
        rounds.push(await runRound(kind, times, { home, flags, random: round }));
      }
      const faults = rounds.flatMap((round, index) => round.faults.map((fault) => `round ${index + 1}: ${fault}`));
      return {
        figures: figuresOf(rounds),
        target: "none made twice, every one whose create was answered completed, what is unclear not given back",
        faults,
      };
    }),
};

type Round = { kills: Kill[]; completed: number; unclear: number; creates: number; refunds: number; faults: string[] };

/** When the service was sent the signal, when it had ended, and what the engine was answering at the signal. */
type Kill = { atMs: number; untilMs: number } & EngineServer["answering"];

type RoundOptions = { home: string; flags: string[]; random: Random };

async function runRound(kind: KindId, times: number, { home, flags, random }: RoundOptions): Promise<Round> {
  const options = { ...slowly(random), completeAfterMs: random.between(500, 5_000) };
  const engine = await listenAsEngine(kind, options, home);
  const kills: Kill[] = [];
  const unbalanced: string[] = [];
  const begin = () => serve(home, ...flags, ...engine.flags);
  let serving = begin();
  try {
    const client = createClient(await serving.started, count);
    const starting = Array.from({ length: count }, (_, index) =>
      startOne(client, { prompt: `fox ${random.between(0, 1e9)}${index} at dusk` }, random.between(0, 500 * times)),
    );
    for (let left = times; left > 0; left--) {
      await live(serving, random);
      const atMs = performance.now();
      const hit = { ...engine.answering };
      await serving.end("SIGKILL");
      kills.push({ atMs, untilMs: performance.now(), ...hit });
      unbalanced.push(...readBooks(home, cost).faults.map((fault) => `kill ${kills.length}: ${fault}`));
      serving = begin();
    }
    await serving.started;
    const ended = await untilEnded(client, await Promise.all(starting));
    client.close();
    const { refunds, faults } = readBooks(home, cost);
    const judged = judge(ended, { engine, kills, home });
    const all = [...judged.faults, ...unbalanced, ...faults];
    return { ...judged, kills, refunds, creates: engine.arrived.length, faults: all };
  } finally {
    await serving.end("SIGKILL");
    await engine.close();
  }
}

/** Some lives end before the service answers, some long after creates were answered. */
async function live(serving: Serving, random: Random): Promise<void> {
  if (random.next() < 0.2) return pause(random.between(0, 600));
  await serving.started;
  await pause(random.between(0, 3 * keepLimitMs));
}

/** Each create and each download takes its time, so that kills hit many of them. */
export function slowly(random: Random, mostMs = 200): FakeOptions {
  return {
    video: videoOf,
    async fault(call: Call) {
      const isDownload = call.route === "content";
      if (call.route !== "create" && !isDownload) return undefined;
      await pause(random.between(0, mostMs));
      const reply = await call.serve();
      await pause(random.between(0, mostMs));
      return isDownload && reply.status === 200 ? trickle(reply, random) : reply;
    },
  };
}

async function trickle(reply: Response, random: Random): Promise<Response> {
  const bytes = new Uint8Array(await reply.arrayBuffer());
  const pieces = async function* () {
    for (let at = 0; at < bytes.length; at += 300) {
      yield bytes.subarray(at, at + 300);
      await pause(random.between(0, 150));
    }
  };
  return new Response(ReadableStream.from(pieces()), { headers: reply.headers });
}

type Started = { id: string; prompt: string };

/** Starts one as a client does that tries again with the same key, whatever becomes of the service. */
export async function startOne(
  client: Client,
  body: { prompt: string; duration?: number },
  afterMs: number,
): Promise<Started> {
  const { prompt } = body;
  await pause(afterMs);
  for (;;) {
    const answer = await client.start({ ...body, model }, prompt).catch(() => undefined);
    if (answer) return { id: startedId(answer), prompt };
    await pause(50);
  }
}

export type Ended = Started & { status: string; error: string };

export async function untilEnded(client: Client, started: Started[]): Promise<Ended[]> {
  const end = performance.now() + endLimitMs;
  const ended: Ended[] = [];
  await side(started, 4, async ({ id, prompt }) => {
    for (;;) {
      const { status, error } = (await client.status(id)).json;
      const isOver = status !== "processing" || performance.now() > end;
      if (isOver) return void ended.push({ id, prompt, status: String(status), error: String(error) });
      await pause(100);
    }
  });
  return ended;
}

type Seen = { engine: EngineServer; kills: Kill[]; home: string };

function judge(ended: Ended[], seen: Seen): Pick<Round, "completed" | "unclear" | "faults"> {
  const faults = ended.flatMap((one) => judgeOne(one, seen).map((fault) => `${one.prompt}: ${fault}`));
  const completed = ended.filter(({ status }) => status === "completed").length;
  const partial = readdirSync(join(seen.home, "service", "videos")).filter((name) => {
    return ended.some(({ id, status }) => name.startsWith(id) && status !== "completed");
  });
  if (partial.length > 0) faults.push(`files are left of what did not complete: ${partial}`);
  return { completed, unclear: ended.filter(({ error }) => unclear.test(error)).length, faults };
}

function judgeOne({ id, prompt, status, error }: Ended, { engine, kills, home }: Seen): string[] {
  const arrived = engine.arrived.filter((create) => create.prompt === prompt);
  const [job] = [...engine.fake.jobs.values()].filter(({ create }) => create.fields.prompt === prompt);
  if (arrived.length > 1) return [`${arrived.length} creates arrived`];
  if (status === "completed") {
    const bytes = readFileSync(join(home, "service", "videos", `${id}.mp4`));
    return job && bytes.equals(videoOf(job)) ? [] : ["its file is not its job's video"];
  }
  // A process may be able to take a reply until it has ended: on a busy machine 0.1 s after the signal.
  const answeredAtMs = arrived[0]?.answeredAtMs;
  const mayBeUnclear =
    answeredAtMs === undefined ||
    kills.some(({ atMs, untilMs }) => atMs < answeredAtMs + keepLimitMs && untilMs > answeredAtMs - 50);
  return unclear.test(error) && mayBeUnclear ? [] : [`it is ${status}: ${error}`];
}

function figuresOf(rounds: Round[]): string {
  const kills = rounds.flatMap((round) => round.kills);
  const sum = (part: (round: Round) => number) => rounds.reduce((total, round) => total + part(round), 0);
  const hit = (what: "creates" | "downloads") => kills.filter((kill) => kill[what] > 0).length;
  return (
    `${kills.length} kills, ${hit("creates")} during creates, ${hit("downloads")} during downloads; of ` +
    `${rounds.length * count} generations ${sum(({ completed }) => completed)} completed, ` +
    `${sum(({ unclear }) => unclear)} failed since it was unclear whether the engine had them; ` +
    `${rounds.at(-1)?.refunds} given back, the ledger right after each kill; ` +
    `${sum(({ creates }) => creates)} creates`
  );
}
