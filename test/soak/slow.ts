import { once } from "node:events";
import type { Socket } from "node:net";
import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { dial, portOf } from "./raw.ts";
import { type Announced, type Client, createClient, startedId, whileServing } from "./serve.ts";

/** How a slow client goes about it, and within how many milliseconds it must be cut. */
type Kind = {
  name: string;
  address: "base_url" | "media_url";
  limitMs: number;
  /** Until then it reads nothing. */
  readsAfterMs?: number;
  open(socket: Socket, target: Target): void;
};

type Target = Announced & { id: string; random: Random };

const headersMs = 15_000;
/** Proxies keep idle connections for up to 120 s, and the service keeps them longer. */
const idleMs = 155_000;
/** A body that keeps coming may be a slow upload, which has an hour: too long for this. */
const bodiesMs = 125_000;
const unreadMs = 32_000;
const mostMs = 250;

const head = ({ base_url, api_key }: Target, path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: ${new URL(base_url).host}\r\nAuthorization: Bearer ${api_key}\r\nContent-Type: application/json\r\n`;

const look = ({ base_url, api_key, id }: Target) =>
  `GET /api/generation-status?id=${id} HTTP/1.1\r\nHost: ${new URL(base_url).host}\r\nAuthorization: Bearer ${api_key}\r\n\r\n`;

const video = ({ media_url, id }: Target) => `GET /${id}.mp4 HTTP/1.1\r\nHost: ${new URL(media_url).host}\r\n\r\n`;

/** Those that are cut for what they do before there is a whole head, or after a whole reply. */
const quick: Kind[] = [
  { name: "silent", address: "base_url", limitMs: headersMs, open: () => {} },
  { name: "silent at the media address", address: "media_url", limitMs: headersMs, open: () => {} },
  {
    name: "half a request line",
    address: "base_url",
    limitMs: headersMs,
    open: (socket) => socket.write("GET /api/gen"),
  },
  {
    name: "slow headers",
    address: "base_url",
    limitMs: headersMs,
    open(socket, target) {
      socket.write(head(target, "/api/generate"));
      drip(socket, target.random, () => "X: y\r\n");
    },
  },
  {
    name: "slow bytes of a request line",
    address: "media_url",
    limitMs: headersMs,
    open(socket, { random }) {
      socket.write("GET /");
      drip(socket, random, () => "x");
    },
  },
  {
    name: "half a request after a reply",
    address: "base_url",
    limitMs: headersMs,
    open: (socket, target) => socket.resume().write(`${look(target)}GET /api`),
  },
];

const patient: Kind[] = [
  {
    name: "idle after a reply",
    address: "base_url",
    limitMs: idleMs,
    open: (socket, target) => socket.resume().write(look(target)),
  },
  {
    name: "half a body",
    address: "base_url",
    limitMs: bodiesMs,
    open: (socket, target) => socket.write(`${head(target, "/api/generate")}Content-Length: 100\r\n\r\n{"prompt":`),
  },
  {
    name: "never reads its videos",
    address: "media_url",
    limitMs: unreadMs,
    readsAfterMs: unreadMs - 3_000,
    open: (socket, target) => socket.write(video(target).repeat(400)),
  },
];

/** Goal 4: whoever is slow is cut, and nobody else notices. */
export const slow: Goal = {
  number: 4,
  title: "slow clients beside normal ones",
  run: ({ random, share }) =>
    inFolder((home) =>
      whileServing(home, [], async (announced) => {
        const client = createClient(announced, 4);
        const id = await makeVideo(client);
        const target = { ...announced, id, random };
        const kinds = share < 1 ? quick : [...quick, ...patient];
        const clients = Array.from(
          { length: portion(400, share, 40) },
          (_, index) => kinds[index % kinds.length] as Kind,
        );
        const work = createWork(client, id);
        const before = await work.during(() => pause(500));
        let cuts: Cut[] = [];
        let uploaded: number | undefined;
        const during = await work.during(async () => {
          const holding = Promise.all(clients.map((kind) => hold(kind, target)));
          if (share === 1) uploaded = await upload(target);
          cuts = await holding;
        });
        client.close();
        const p99 = percentile(during.times, 0.99);
        const faults = [...before.faults, ...during.faults, ...cuts.flatMap(faultsOf)];
        // 402 is an answer too: the others have spent the credits.
        if (share === 1 && uploaded !== 200 && uploaded !== 402)
          faults.push(`a slow upload was answered with ${uploaded}`);
        if (p99 >= mostMs) faults.push(`normal requests took ${Math.round(p99)} ms at p99`);
        return { figures: figures(cuts, during.times), target: goalText, faults };
      }),
    ),
};

const goalText = `all cut, headers within ${headersMs / 1_000} s, bodies within ${bodiesMs / 1_000} s, idle ones within ${idleMs / 1_000} s; an upload of 45 s is taken; normal ones under ${mostMs} ms at p99`;

/** Some megabytes: four hundred of it do not fit into any buffer on the way. */
async function makeVideo(client: Client): Promise<string> {
  const body = { prompt: "a fox", model: "sora-2", duration: 5, resolution: "720p" };
  const id = startedId(await client.start(body));
  for (let turn = 0; turn < 600; turn++) {
    const { status } = (await client.status(id)).json;
    if (status === "completed") return id;
    if (status === "failed") break;
    await pause(100);
  }
  throw new Error("there is no video");
}

/** Bits that come too often for an idle connection, and too seldom for anything to come of them. */
async function drip(socket: Socket, random: Random, bit: () => string): Promise<void> {
  while (!socket.destroyed && socket.writable) {
    await pause(random.between(300, 1_200));
    if (socket.writable) socket.write(bit());
  }
}

/** A start whose body takes 45 s to arrive, as one with an image over a slow line does. Resolves with the status of its reply; `undefined` when it was cut. */
async function upload(target: Target): Promise<number | undefined> {
  const body = `${JSON.stringify({ prompt: "a fox [fail]", model: "sora-2" })}${" ".repeat(4_500_000)}`;
  const socket = dial(portOf(target.base_url));
  let reply = "";
  socket.setEncoding("latin1").on("data", (data) => {
    reply += data;
  });
  socket.write(`${head(target, "/api/generate")}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n`);
  for (let at = 0; at < body.length && !socket.destroyed; at += 10_000) {
    socket.write(body.slice(at, at + 10_000));
    await pause(100);
  }
  if (!socket.closed) await once(socket, "close");
  const status = /^HTTP\/1\.1 (\d+)/.exec(reply)?.[1];
  return status === undefined ? undefined : Number(status);
}

type Cut = { kind: Kind; ms: number | undefined };

/** Opens a slow client and waits until the service cuts it, or a little longer than it may take. */
async function hold(kind: Kind, target: Target): Promise<Cut> {
  await pause(target.random.between(0, 3_000));
  const socket = dial(portOf(target[kind.address]));
  let start = performance.now();
  return new Promise((resolve) => {
    const end = (ms?: number) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ kind, ms });
    };
    const timer = setTimeout(end, kind.limitMs + 1_500);
    // One that does not read sees neither data nor the end. What it finds in the end has long been on its way, and is soon over.
    if (kind.readsAfterMs === undefined) socket.resume();
    else setTimeout(() => socket.resume(), kind.readsAfterMs);
    socket.once("end", () => end(performance.now() - start));
    socket.once("close", () => end(performance.now() - start));
    socket.once("connect", () => {
      start = performance.now();
      kind.open(socket, target);
    });
  });
}

function faultsOf({ kind, ms }: Cut): string[] {
  if (ms !== undefined && ms <= kind.limitMs) return [];
  return [`${kind.name}: ${ms === undefined ? "not cut" : `cut after ${Math.round(ms)} ms`}`];
}

/** Normal clients that ask for a status and start generations, one request after the other. */
/** Polls of a generation, and some starts, by four clients as long as something else is done. `times` are in milliseconds. */
export function createWork(client: Client, id: string) {
  const faults: string[] = [];
  async function ask(times: number[], index: number): Promise<void> {
    const start = performance.now();
    const isStart = index % 10 === 0;
    const asking = isStart ? client.start({ prompt: "a fox [fail]", model: "sora-2" }) : client.status(id);
    const status = await asking.then(({ status }) => status).catch(String);
    times.push(performance.now() - start);
    if (status !== 200 && status !== 402) faults.push(`a normal request was answered with ${status}`);
  }
  return {
    async during(work: () => Promise<unknown>): Promise<{ times: number[]; faults: string[] }> {
      const times: number[] = [];
      let isOver = false;
      const worker = async () => {
        for (let index = 0; !isOver; index++) {
          await ask(times, index);
          await pause(20);
        }
      };
      const workers = Promise.all(Array.from({ length: 4 }, worker));
      await work().finally(() => {
        isOver = true;
      });
      await workers;
      return { times, faults: faults.splice(0) };
    },
  };
}

function percentile(times: number[], part: number): number {
  return times.sort((a, b) => a - b)[Math.floor(times.length * part)] ?? Number.POSITIVE_INFINITY;
}

function figures(cuts: Cut[], times: number[]): string {
  const isCut = ({ kind, ms }: Cut) => ms !== undefined && ms <= kind.limitMs;
  const longest = (limitMs: number) =>
    Math.max(0, ...cuts.filter(({ kind }) => kind.limitMs === limitMs).map(({ ms }) => ms ?? Number.POSITIVE_INFINITY));
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
  return (
    `${cuts.filter(isCut).length} of ${cuts.length} cut in time, headers within ${seconds(longest(headersMs))}, ` +
    `bodies within ${seconds(longest(bodiesMs))}, idle ones within ${seconds(longest(idleMs))}, those that read nothing within ${seconds(longest(unreadMs))}; ${times.length} normal requests, ${Math.round(percentile(times, 0.99))} ms at p99`
  );
}
