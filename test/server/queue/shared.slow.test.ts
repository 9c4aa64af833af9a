import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { createSecret } from "../../../src/server/callbacks/signature.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import { createService } from "../../../src/server/service.ts";
import { createRandom } from "../../faults/random.ts";
import { makeFolder } from "../../folder.ts";
import { postgresPrograms } from "../../needs.ts";
import { query } from "../../postgres.ts";
import { slowness } from "../../slowness.ts";
import { listenAsEngine } from "../../soak/engines-server.ts";
import { type Announced, createClient, startedId } from "../../soak/serve.ts";
import { clientsOf, type Shared, whileSharing } from "../../soak/shared-processes.ts";
import { apiKey, baseUrl, bearer, fakeEngine, readStart, startRequest } from "../service.ts";
import { open, useServer } from "../store/postgres/open.ts";
import { aPng } from "./pictures.ts";

describe("a process of a shared database", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** A service with these engines, and what starts a generation of a model. */
  async function openService(
    engines: Engine[],
    database?: string,
    { clock = systemClock, problems = [] as string[] } = {},
  ) {
    const opened = await open(database ?? (await server().createDatabase()));
    await opened.store.addAccount({ name: "local", keyHash: hashKey(apiKey), creditsOf: () => 1_000 });
    const nobody = () => Promise.reject(new Error("nobody is there"));
    const service = createService({
      store: opened.store,
      engines,
      videos: await openFolder({ folder: makeFolder() }),
      clock,
      pace: "fast",
      hasRefunds: true,
      onNote: () => {},
      creditsPer: new Map(),
      hasPaidPreviews: true,
      hasDirectives: false,
      webhookSecret: createSecret(),
      outbound: { post: nobody, get: async () => ({ status: 200, body: aPng(1, 1) }), open: nobody },
      baseUrl: () => "http://api.test",
      mediaUrl: () => "http://media.test",
      onDelivery: () => {},
      reportProblem: (what) => void problems.push(what),
    });
    await service.start("all");
    onTestFinished(service.close);
    const start = (model: string, fields = {}) => service.api(startRequest({ prompt: "a fox", model, ...fields }));
    return Object.assign(start, { ...service, store: opened.store });
  }

  /** An engine that never ends, and tells when it gets something to make. */
  function anEngine(model: string, concurrency: number, { isSimulation = true } = {}) {
    const begun: number[] = [];
    const stopped: string[] = [];
    const engine = fakeEngine({
      name: `http://${model}`,
      models: [model],
      concurrency,
      isSimulation,
      async render({ file }, { checkpoint, signal }) {
        if (!isSimulation) await checkpoint({ state: "submitted", job: file });
        signal.throwIfAborted();
        begun.push(performance.now());
        return new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => {
            stopped.push(String(signal.reason));
            reject(signal.reason);
          }),
        );
      },
    });
    return { engine, begun, stopped };
  }

  type Maker = ReturnType<typeof anEngine>;

  test("gives an idle engine work within a second, beside a model with too much work", async () => {
    const [busy, idle] = [anEngine("wan-2.5", 2), anEngine("ray-3", 2)];
    const start = await openService([busy.engine, idle.engine]);
    for (let index = 0; index < 20; index++) await start("wan-2.5");
    while (busy.begun.length < 2) await systemClock.sleep(10);
    const startedAt = performance.now();
    await start("ray-3");
    for (let left = 400; idle.begun.length === 0 && left > 0; left--) await systemClock.sleep(10);
    expect((idle.begun[0] ?? Number.POSITIVE_INFINITY) - startedAt).toBeLessThan(1_000 * slowness);
    expect(busy.begun).toHaveLength(2);
  });

  test("shares an engine's number of jobs with the others, and takes over their jobs", async () => {
    const database = await server().createDatabase();
    const [first, second] = [1, 2].map(() => anEngine("ray-3", 5, { isSimulation: false })) as [Maker, Maker];
    const start = await openService([first.engine], database);
    const { close } = await openService([second.engine], database);
    const begun = () => first.begun.length + second.begun.length;
    for (let index = 0; index < 12; index++) await start("ray-3");
    await expect.poll(begun).toBe(5);
    await systemClock.sleep(1_500 * slowness);
    expect(begun()).toBe(5);
    await close();
    await expect.poll(() => first.begun.length).toBe(5);
  });

  test("makes a generation with a field that its engine takes, beside a process with another engine of the model", async () => {
    const database = await server().createDatabase();
    const [plain, taking] = [1, 2].map(() => anEngine("ray-3", 9, { isSimulation: false })) as [Maker, Maker];
    await openService([{ ...plain.engine, name: "plain", passes: async () => ({ names: [] }) }], database);
    const passes = async () => ({ names: ["elements"] });
    const start = await openService([{ ...taking.engine, name: "taking", passes }], database);
    for (let count = 0; count < 4; count++) expect((await start("ray-3", { elements: [1] })).status).toBe(200);
    await expect.poll(() => taking.begun.length).toBe(4);
    for (let count = 0; count < 8; count++) await start("ray-3");
    await expect.poll(() => plain.begun.length + taking.begun.length).toBe(12);
    const made = "SELECT names, checkpoint ->> 'engine' AS engine FROM vidgen.generations WHERE names IS NOT NULL";
    expect(await query(database, made)).toEqual(Array(4).fill({ names: '["elements"]', engine: "taking" }));
  });

  test("ends a generation whose field no engine takes after half an hour, refunded, and no other of the model", async () => {
    const problems: string[] = [];
    let aheadMs = 0;
    const clock = {
      ...systemClock,
      now: () => systemClock.now() + aheadMs,
      date: () => new Date(systemClock.date().getTime() + aheadMs),
    };
    const [taking, other] = [1, 2].map(() => anEngine("ray-3", 1, { isSimulation: false })) as [Maker, Maker];
    const passes = async () => ({ names: ["elements"] });
    const idle = { ...other.engine, name: "other" };
    const start = await openService([{ ...taking.engine, name: "taking", passes }, idle], undefined, {
      clock,
      problems,
    });
    const [first] = await Promise.all([1, 2].map(async () => (await readStart(await start("ray-3"))).data.id));
    await expect.poll(() => taking.begun.length + other.begun.length).toBe(2);
    const balance = await start.store.balance("local");
    const { id } = (await readStart(await start("ray-3", { elements: [1] }))).data;
    expect(await start.store.balance("local")).toBeLessThan(balance);
    const look = (ms: number) => {
      aheadMs += ms;
      start.updateEngines({ engines: [idle], creditsPer: new Map() });
    };
    look(60_000);
    await expect.poll(() => problems).toHaveLength(1);
    look(31 * 60_000);
    await expect
      .poll(() => start.store.generation(id), { timeout: 20_000 })
      .toMatchObject({
        status: "failed",
        error_code: "not_submitted",
        error: "no engine that makes ray-3 takes elements",
      });
    expect(await start.store.generation(`${first}`)).toMatchObject({ status: "processing" });
    expect(await start.store.balance("local")).toBe(balance);
  });

  test("makes a generation whose images another process has fetched", async () => {
    const database = await server().createDatabase();
    const [busy, idle] = [1, 2].map(() => anEngine("ray-3", 2, { isSimulation: false })) as [Maker, Maker];
    const start = await openService([busy.engine], database);
    for (const _ of [1, 2]) await start("ray-3");
    await expect.poll(() => busy.begun.length).toBe(2);
    await start("ray-3", { imageUrl: "https://images.example/a.png" });
    const fetched =
      "SELECT FROM vidgen.generations WHERE image_fetch IS NOT NULL AND NOT is_fetched AND held_until IS NULL";
    await expect.poll(() => query(database, fetched)).toHaveLength(1);
    await openService([{ ...idle.engine, name: "another" }], database);
    await expect.poll(() => idle.begun.length).toBe(1);
  });

  test("stops a generation whose cancel request went to another process", async () => {
    const database = await server().createDatabase();
    const maker = anEngine("ray-3", 1);
    const start = await openService([maker.engine], database);
    const { api } = await openService([fakeEngine({ concurrency: 0 })], database);
    const { id } = (await readStart(await start("ray-3"))).data;
    while (maker.begun.length === 0) await systemClock.sleep(10);
    const init = { method: "POST", headers: bearer(apiKey) };
    const reply = await api(new Request(`${baseUrl}/api/cancel?id=${id}`, init));
    expect(await reply.json()).toMatchObject({ id, status: "failed", credits_returned: 10 });
    // Where it does not hear of it, it sees when it says that it goes on.
    for (let left = 1_000; maker.stopped.length === 0 && left > 0; left--) await systemClock.sleep(10);
    expect(maker.stopped).toHaveLength(1);
  });
});

describe("engines of processes that come and go", { skip: postgresPrograms === undefined }, () => {
  const patienceMs = 40_000;
  const cost = 10;

  /** An engine that makes a video until the test says so, and tells how many it had to make at once, at the most. */
  async function listen() {
    let most = 0;
    const { fake, flags, close } = await listenAsEngine("vllm-omni", {
      async fault({ route, serve }) {
        if (route !== "create") return undefined;
        const reply = await serve();
        most = Math.max(most, running().length);
        return reply;
      },
    });
    onTestFinished(close);
    const running = () => [...fake.jobs.values()].filter(({ end }) => !end);
    return { fake, flags, url: flags[1]?.split("=")[1], running, most: () => most };
  }

  const addAccount = async ({ base_url, api_key }: Announced, name: string) => {
    const headers = { ...bearer(String(api_key)), "Content-Type": "application/json" };
    const body = JSON.stringify({ name, credits: 10_000 });
    const reply = await fetch(`${base_url}/accounts`, { method: "POST", headers, body });
    return ((await reply.json()) as { api_key: string }).api_key;
  };

  /** What is polled was submitted: what is being submitted when its process is killed ends as unclear. */
  const arePolled = async ({ running }: Pick<Awaited<ReturnType<typeof listen>>, "running">) =>
    expect.poll(() => running().every(({ polls }) => polls > 0), { timeout: patienceMs }).toBe(true);

  const areCompleted = async ({ books }: Shared, count: number) => {
    const states = async () => [...(await books(cost)).states.values()];
    await expect.poll(states, { timeout: patienceMs }).toEqual(Array(count).fill("completed"));
  };

  test(
    "an engine always makes exactly its number of jobs, while one process joins, one is killed and one is suspended",
    { timeout: 4 * patienceMs },
    () =>
      whileSharing(createRandom("slots"), async (shared) => {
        const [jobs, count] = [4, 24];
        const { fake, flags: engine, running, most } = await listen();
        const complete = (ids: number) => {
          for (const { id } of running().slice(0, ids)) fake.complete(id);
        };
        /** It makes as many as ever, once so many were submitted. */
        const isFull = async (created: number) => {
          await expect.poll(() => fake.creates.length, { timeout: patienceMs }).toBe(created);
          await arePolled({ running });
          expect(running()).toHaveLength(jobs);
        };
        const flags = [...engine, "--jobs", `${jobs}`, "--credits", "1000"];
        const [first, second] = await shared.open(2, ...flags);
        if (!first || !second) throw new Error("two processes were to listen");
        const [client] = clientsOf([first], 4);
        for (let index = 0; index < count; index++) await client?.start({ prompt: `fox ${index}`, model: "wan-2.5" });
        client?.close();
        await isFull(jobs);
        const [third] = await shared.open(1, ...flags);
        complete(2);
        await isFull(jobs + 2);
        await second.end();
        complete(2);
        await isFull(jobs + 4);
        third?.signal("SIGSTOP");
        // Also what those two had submitted ends, and its slots are used again.
        complete(jobs);
        await isFull(2 * jobs + 4);
        third?.signal("SIGCONT");
        for (let created = 3 * jobs + 4; created <= count; created += jobs) {
          complete(jobs);
          await isFull(created);
        }
        complete(jobs);
        await areCompleted(shared, count);
        expect(fake.creates).toHaveLength(count);
        expect(most()).toBe(jobs);
      }),
  );

  test(
    "20 engines of one job and one of 16 are never idle while 200 generations of three accounts take turns, while a process is killed, and an engine is drained and another one added",
    { timeout: 4 * patienceMs },
    () =>
      whileSharing(createRandom("mixed"), async (shared) => {
        const engines = await Promise.all(Array.from({ length: 22 }, listen));
        const jobsOf = (index: number) => (index === 20 ? 16 : 1);
        const room = 36;
        const config = join(makeFolder(), "serve.json");
        let [drained, added] = [-1, 21];
        const isUsed = (index: number) => index !== drained && index !== added;
        const writeConfig = () => {
          const all = engines.map(({ url }, index) => ({ url, models: ["wan-2.5"], jobs: jobsOf(index) }));
          writeFileSync(config, JSON.stringify({ engines: all.filter((_, index) => isUsed(index)) }));
        };
        writeConfig();
        const processes = await shared.open(3, "--config", config, "--credits", "100000");
        const [first, second, third] = processes;
        if (!first || !second || !third) throw new Error("three processes were to listen");
        const counts = { local: 120, b: 50, c: 30 };
        for (const [name, count] of Object.entries(counts)) {
          const api_key = name === "local" ? first.announced.api_key : await addAccount(first.announced, name);
          const client = createClient({ ...first.announced, api_key }, 8);
          const start = async (index: number) =>
            startedId(await client.start({ prompt: `${name} ${index}`, model: "wan-2.5" }));
          await Promise.all(Array.from({ length: count }, (_, index) => start(index)));
          client.close();
        }
        const created = () => engines.flatMap(({ fake }) => fake.creates.map(({ fields }) => String(fields.prompt)));
        const createdOf = (name: string) => created().filter((prompt) => prompt.startsWith(`${name} `)).length;
        const isFull = async (count: number) => {
          await expect.poll(() => created().length, { timeout: patienceMs }).toBe(count);
          await Promise.all(engines.map(arePolled));
          const jobs = engines.map((_, index) => (isUsed(index) ? jobsOf(index) : 0));
          expect(engines.map(({ running }) => running().length)).toEqual(jobs);
        };
        const completeAll = () => {
          for (const { fake, running } of engines) for (const { id } of running()) fake.complete(id);
        };
        await isFull(room);
        const before = new Map(Object.keys(counts).map((name) => [name, createdOf(name)]));
        for (let [round, more] = [2, 0]; round * room + more <= 200; round++) {
          if (round === 3) await second.end();
          if (round === 4) {
            [drained, added] = [0, -1];
            writeConfig();
            for (const each of [first, third]) each.signal("SIGHUP");
            // The new engine takes one at once, beside the one that the other engine still makes.
            more = 1;
            await expect.poll(() => created().length, { timeout: patienceMs }).toBe(3 * room + more);
          }
          completeAll();
          await isFull(round * room + more);
          // Each process may be about to submit what it has claimed in an account's turn.
          const gained = Object.entries(counts)
            .filter(([name, count]) => createdOf(name) < count)
            .map(([name]) => createdOf(name) - (before.get(name) ?? 0));
          expect(Math.max(...gained) - Math.min(...gained)).toBeLessThanOrEqual(processes.length);
        }
        completeAll();
        await expect.poll(() => created().length, { timeout: patienceMs }).toBe(200);
        completeAll();
        await areCompleted(shared, 200);
        expect(new Set(created()).size).toBe(200);
        expect(engines.map(({ most }) => most())).toEqual(engines.map((_, index) => jobsOf(index)));
      }),
  );
});
