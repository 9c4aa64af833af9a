import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { readBooks } from "./books.ts";
import { cost } from "./crashes.ts";
import { type Ended, startOne, untilEnded } from "./engines-killed.ts";
import { model } from "./engines-network.ts";
import { createClient, findPort, type Serving, serve, serveWith } from "./serve.ts";

const count = 12;
const killsPerRound = 8;
/** A rendering that is killed three times fails. */
const backKillsPerRound = 2;
const mostCreateMs = 800;
const unclear = /it was not submitted again/;

/** Goal 25: a service whose engine is another service, both killed at any moment, creates nothing twice there and keeps the right videos. */
export const chain: Goal = {
  number: 25,
  title: `SIGKILL of either service while ${count} generations go through two of them`,
  run: async ({ random, share }) => {
    const kills = portion(40, share, 8);
    const rounds: Round[] = [];
    for (let done = 0; done < kills; done += killsPerRound)
      rounds.push(await runRound(Math.min(killsPerRound, kills - done), random.fork(rounds.length)));
    const sum = (part: (round: Round) => number) => rounds.reduce((total, round) => total + part(round), 0);
    return {
      figures:
        `${kills} kills; of ${rounds.length * count} generations ${sum(({ completed }) => completed)} completed, ` +
        `${sum(({ lost }) => lost)} failed since it was unclear whether the second service had them; ` +
        `${sum(({ creates }) => creates)} creates there`,
      target: "none created twice, each video that of its prompt",
      faults: rounds.flatMap(({ faults }, index) => faults.map((fault) => `round ${index + 1}: ${fault}`)),
    };
  },
};

type Round = { completed: number; lost: number; creates: number; faults: string[] };

function runRound(kills: number, random: Random): Promise<Round> {
  return inFolder(async (folder) => {
    const [front, back] = [join(folder, "front"), join(folder, "back")];
    const backPort = await findPort(random);
    const beginBack = async () =>
      serve(back, "--port", `${backPort}`, "--media-port", `${await findPort(random)}`, "--credits", "1000000");
    let behind = await beginBack();
    const { api_key, base_url } = await behind.started;
    const road = await openSlowRoad(base_url, random);
    const frontPorts = ["--port", `${await findPort(random)}`, "--media-port", `${await findPort(random)}`];
    const flags = [...frontPorts, "--engine", `${model}=${road.url}`, "--jobs", `${count}`, "--credits", "1000000"];
    const beginFront = () => serveWith({ VIDGEN_ENGINE_KEY: api_key }, front, ...flags);
    let before: Serving = beginFront();
    try {
      const client = createClient(await before.started, count);
      const starting = Array.from({ length: count }, (_, index) =>
        startOne(
          client,
          { prompt: `fox ${random.between(0, 1e9)}${index} at dusk`, duration: 0.5 },
          random.between(0, 500 * kills),
        ),
      );
      for (let done = 0; done < kills; done++) {
        await pause(random.between(0, 1_500));
        if (done % Math.ceil(kills / backKillsPerRound) === 1) {
          await behind.end("SIGKILL");
          await pause(random.between(0, 800));
          behind = await beginBack();
        } else {
          await before.end("SIGKILL");
          before = beginFront();
        }
      }
      await Promise.all([before.started, behind.started]);
      const ended = await untilEnded(client, await Promise.all(starting));
      client.close();
      await Promise.all([before.end("SIGKILL"), behind.end("SIGKILL")]);
      return judge(ended, { front, back });
    } finally {
      await Promise.all([before.end("SIGKILL"), behind.end("SIGKILL")]);
      road.close();
    }
  });
}

/** The way from one to the other, on which a create and its reply take their time, so that kills hit many of them. */
export async function openSlowRoad(target: string, random: Random): Promise<{ url: string; close(): void }> {
  const forward = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method = "GET", url = "", headers } = incoming;
    const isCreate = method === "POST";
    const body = isCreate ? await buffer(incoming) : null;
    const key = headers["idempotency-key"];
    const passed = {
      Authorization: headers.authorization ?? "",
      "Content-Type": headers["content-type"] ?? "",
      ...(typeof key === "string" && { "Idempotency-Key": key }),
    };
    if (isCreate) await pause(random.between(0, mostCreateMs));
    const reply = await fetch(target + url, { method, headers: passed, body });
    const bytes = Buffer.from(await reply.arrayBuffer());
    if (isCreate) await pause(random.between(0, mostCreateMs));
    const type = reply.headers.get("Content-Type") ?? "";
    const lifetime = reply.headers.get("Idempotency-Key-Lifetime");
    if (lifetime !== null) outgoing.setHeader("Idempotency-Key-Lifetime", lifetime);
    outgoing.writeHead(reply.status, { "Content-Type": type, "Content-Length": bytes.length }).end(bytes);
  };
  const server = createServer((incoming, outgoing) => {
    void forward(incoming, outgoing).catch(() => incoming.socket.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => void server.close().closeAllConnections() };
}

function judge(ended: Ended[], homes: { front: string; back: string }): Round {
  const [front, back] = [readBooks(homes.front, cost), readBooks(homes.back, cost)];
  const judgeOne = ({ id, prompt, status, error }: Ended): string[] => {
    const creates = back.prompts.filter((each) => each === prompt).length;
    if (creates > 1) return [`${creates} creates`];
    if (status !== "completed") return unclear.test(error) ? [] : [`it is ${status}: ${error}`];
    const bytes = readFileSync(join(homes.front, "service", "videos", `${id}.mp4`));
    const etag = `"${createHash("sha256").update(bytes).digest("hex")}"`;
    return creates === 1 && etag === back.etags.get(prompt) ? [] : ["its file is not the video of its prompt"];
  };
  return {
    completed: ended.filter(({ status }) => status === "completed").length,
    lost: ended.filter(({ error }) => unclear.test(error)).length,
    creates: back.prompts.length,
    faults: [
      ...ended.flatMap((one) => judgeOne(one).map((fault) => `${one.prompt}: ${fault}`)),
      ...front.faults.map((fault) => `front: ${fault}`),
      ...back.faults.map((fault) => `back: ${fault}`),
    ],
  };
}
