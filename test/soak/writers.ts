import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import type { Answer } from "./ask.ts";
import { type Client, startedId } from "./serve.ts";

/** A start that was acknowledged, and how it must end. */
export type Started = { id: string; prompt: string; expected: "completed" | "failed"; hasCallback: boolean };

/** Clients that start generations without end, whatever becomes of the service. */
export type Writers = {
  started: Started[];
  faults: string[];
  /** How many acknowledged starts were sent once more under their key. */
  repeated(): number;
  stop(): Promise<void>;
};

export type WritersOptions = {
  /** Of each process of the service: what one has not answered is sent again to the next. */
  clients: readonly Client[];
  random: Random;
  count: number;
  callbackUrl: string;
  /** Milliseconds that a writer waits after a start, at the most. */
  pauseMs?: number;
  createStart?: CreateStart;
};

/** What a writer sends, by a name that no other start has. */
export type CreateStart = (random: Random, name: string, callbackUrl: string) => Start;
export type Start = { body: { prompt: string }; key: string | undefined } & Omit<Started, "id" | "prompt">;

export function createWriters(options: WritersOptions): Writers {
  const { clients, random, count, callbackUrl, pauseMs = 60, createStart = createFox } = options;
  let turn = 0;
  const started: Started[] = [];
  const faults: string[] = [];
  let repeated = 0;
  let isStopping = false;

  async function write(random: Random, name: number): Promise<void> {
    for (let index = 0; !isStopping; index++) {
      const start = createStart(random, `${name}-${index}`, callbackUrl);
      const answer = await send(start, random);
      if (answer) started.push({ ...start, id: startedId(answer), prompt: start.body.prompt });
      if (answer && start.key !== undefined && random.next() < 0.3) await repeat(start, answer);
      await pause(random.between(5, pauseMs));
    }
  }

  /** Without a key it is tried once: nobody knows what became of it. */
  async function send({ body, key }: Start, random: Random): Promise<Answer | undefined> {
    for (let which = turn++; ; which++) {
      const answer = await tryStart(clients[which % clients.length], body, key);
      if (answer || key === undefined) return answer;
      await pause(random.between(5, 40));
    }
  }

  async function repeat(start: Start, first: Answer): Promise<void> {
    await pause(random.between(0, 1_000));
    const again = await send(start, random);
    repeated++;
    if (JSON.stringify(again?.json) !== JSON.stringify(first.json))
      faults.push(`${start.key} was answered ${JSON.stringify(first.json)}, then ${JSON.stringify(again?.json)}`);
  }

  const fail = (error: unknown) => void faults.push(`a writer gave up: ${error}`);
  const writing = Array.from({ length: count }, (_, name) => write(random.fork(name), name).catch(fail));
  return {
    started,
    faults,
    repeated: () => repeated,
    async stop() {
      isStopping = true;
      await Promise.all(writing);
      for (const client of clients) client.close();
    },
  };
}

/** The reply; `undefined` when the service went away. */
async function tryStart(client: Client | undefined, body: object, key: string | undefined) {
  return client?.start(body, key).catch(() => undefined);
}

/** Few are rendered, since one that renders long enough holds up what waits behind it. */
export function createFox(random: Random, name: string, callbackUrl: string): Start {
  const expected = random.next() < 0.015 ? "completed" : "failed";
  const hasCallback = random.next() < 0.5;
  const prompt = `fox ${name}${expected === "failed" ? " [fail]" : ""}`;
  const body = {
    prompt,
    model: "veo-3.1",
    duration: 0.1,
    ...(hasCallback && { callback_url: `${callbackUrl}?${name}` }),
  };
  return { body, key: random.next() < 0.6 ? `key ${name}` : undefined, expected, hasCallback };
}
