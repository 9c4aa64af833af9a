import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { createSecret } from "../../../src/server/callbacks/signature.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import { createService } from "../../../src/server/service.ts";
import { makeFolder } from "../../folder.ts";
import { postgresPrograms } from "../../needs.ts";
import { slowness } from "../../slowness.ts";
import { apiKey, baseUrl, bearer, fakeEngine, readStart, startRequest } from "../service.ts";
import { open, useServer } from "../store/postgres/open.ts";

describe("a process of a shared database", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** A service with these engines, and what starts a generation of a model. */
  async function openService(engines: Engine[], database?: string) {
    const opened = await open(database ?? (await server().createDatabase()));
    await opened.store.addAccount({ name: "local", keyHash: hashKey(apiKey), creditsOf: () => 1_000 });
    const nobody = () => Promise.reject(new Error("nobody is there"));
    const service = createService({
      store: opened.store,
      engines,
      videos: await openFolder({ folder: makeFolder() }),
      clock: systemClock,
      pace: "fast",
      hasRefunds: true,
      onNote: () => {},
      creditsPer: new Map(),
      hasPaidPreviews: true,
      hasDirectives: false,
      webhookSecret: createSecret(),
      outbound: { post: nobody, get: nobody, open: nobody },
      baseUrl: () => "http://api.test",
      mediaUrl: () => "http://media.test",
      onDelivery: () => {},
      onTrouble: () => {},
    });
    await service.start("all");
    onTestFinished(service.close);
    const start = (model: string) => service.api(startRequest({ prompt: "a fox", model }));
    return Object.assign(start, { api: service.api, close: service.close });
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

  test("feeds an idle engine within a second beside a model that has more to make than its engine can", async () => {
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

  test("makes its part of what an engine makes at once, and all of it once it is alone", async () => {
    const database = await server().createDatabase();
    const [first, second] = [1, 2].map(() => anEngine("ray-3", 5, { isSimulation: false })) as [Maker, Maker];
    const start = await openService([first.engine], database);
    const { close } = await openService([second.engine], database);
    const begun = () => first.begun.length + second.begun.length;
    // Then the first one has seen the other.
    await systemClock.sleep(1_500 * slowness);
    for (let index = 0; index < 12; index++) await start("ray-3");
    await expect.poll(begun).toBe(5);
    await systemClock.sleep(1_500 * slowness);
    expect([first, second].map(({ begun }) => begun.length).sort()).toEqual([2, 3]);
    await close();
    await expect.poll(() => first.begun.length).toBe(5);
  });

  test("stops what another process was asked to cancel", async () => {
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
