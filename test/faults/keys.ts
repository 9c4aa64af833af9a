import { EventEmitter, once } from "node:events";
import type { Socket } from "node:net";
import { join } from "node:path";
import { createClient, VidgenError } from "../../src/index.ts";
import { type Goal, portion, tally } from "./goal.ts";
import type { Random } from "./random.ts";
import { createService, type Service } from "./server.ts";
import { fineStart, lostStarts, slowStart } from "./start-faults.ts";
import { listen } from "./wire.ts";
import { inFolder } from "./work.ts";

/** What a program that gives its starts keys learned of one: an id, or the code of an error. */
type Outcome = { key: string; prompt: string; id: string | undefined; code: string };

/** A service that breaks each connection in its TLS handshake, when it is told to. */
type Breaking = { url: string; connected(): Promise<unknown>; breakAll(): void };

type Round = { number: number; service: Service; journal: string; breaking: Breaking; ids: string[]; random: Random };

const model = "wan-2.5";
/** The one that never answers would be waited for for two minutes. */
const losses = Object.entries(lostStarts).flatMap(([kind, fault]) => (kind === "never answered" ? [] : [fault]));

/** Goal 25: a key is one start, however it resembles other keys, and ids, in the same process and journal. */
export const keys: Goal = {
  number: 25,
  title: "keys that resemble each other and ids, started at once",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const sockets = new Set<Socket>();
      const connections = new EventEmitter();
      const silent = await listen({
        onConnection(socket) {
          sockets.add(socket);
          socket.resume();
          connections.emit("connection");
          return true;
        },
      });
      const breaking: Breaking = {
        url: `https://127.0.0.1:${silent.port}`,
        connected: () => once(connections, "connection"),
        breakAll() {
          for (const socket of sockets) socket.resetAndDestroy();
          sockets.clear();
        },
      };
      const ids: string[] = [];
      const outcomes: Outcome[] = [];
      const faults: string[] = [];
      for (let number = 1; number <= portion(40, share, 3); number++) {
        const journal = join(folder, `journal-${number % 3}.jsonl`);
        const round = { number, service, journal, breaking, ids, random: random.fork(`${number}`) };
        const played = await play(round);
        outcomes.push(...played.outcomes);
        faults.push(...played.faults.map((fault) => `round ${number}: ${fault}`));
        ids.push(...played.outcomes.flatMap(({ id }) => id ?? []));
      }
      await Promise.all([service.close(), silent.close()]);
      return {
        figures: `${outcomes.length} keys: ${tally(outcomes.map(({ code }) => code))}; ${faults.length} swapped, paid twice or forgotten`,
        target: "0",
        faults,
      };
    }),
};

async function play(round: Round): Promise<{ outcomes: Outcome[]; faults: string[] }> {
  const { number, service, journal, breaking, ids, random } = round;
  const order = `order-${number}`;
  const names = [order, `${order}2`, `${order}23`, `x${order}`, ...ids.slice(-2)];
  const wanted = names.map((key, i) => ({ key, prompt: `round ${number}, ${i}` }));
  for (const { prompt } of wanted)
    service.plan(prompt, { starts: [random.next() < 0.4 ? random.pick(losses) : slowStart(random), fineStart] });
  const open = (baseUrl: string, path = journal) => createClient({ baseUrl, apiKey: "key", journal: path });
  const stop = new AbortController();
  // Under the shortest of the keys, at another service, while the longer ones are sent.
  const connected = breaking.connected();
  const unsent = open(breaking.url, `${journal}.unsent`)
    .start({ prompt: "unsent", model }, { idempotencyKey: order, signal: stop.signal })
    .then(
      ({ id }) => [`an unsent start took the id ${id}`],
      () => [],
    );
  const startAll = async () => {
    const client = open(service.baseUrl);
    const start = ({ key, prompt }: (typeof wanted)[number]) =>
      client.start({ prompt, model }, { idempotencyKey: key }).then(
        ({ id }): Outcome => ({ key, prompt, id, code: "accepted" }),
        (error): Outcome => ({ key, prompt, id: undefined, code: error instanceof VidgenError ? error.code : "bug" }),
      );
    return Promise.all(wanted.map(start));
  };
  await connected;
  const first = await startAll();
  breaking.breakAll();
  stop.abort();
  // Another process asks for the same.
  const again = await startAll();
  const faults: string[] = [...(await unsent)];
  first.forEach(({ key, prompt, id, code }, i) => {
    const charged = service.oracle.startsOf(prompt).flatMap(({ generated }) => generated ?? []);
    const say = (what: string) => faults.push(`${key}: ${what}: ${code} ${id}, then ${again[i]?.code} ${again[i]?.id}`);
    if (charged.length !== 1) say(`charged ${charged.length} times`);
    if (id !== undefined && id !== charged[0]?.id) say("the id of another one");
    if (code !== "accepted" && code !== "unknown") say("neither accepted nor unknown");
    if (again[i]?.id !== id || again[i]?.code !== code) say("something else the second time");
  });
  return { outcomes: first, faults };
}
