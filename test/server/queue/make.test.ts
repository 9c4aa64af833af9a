import fs, { existsSync, mkdirSync, writeFileSync } from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import type { Get } from "../../../src/server/outbound/outbound.ts";
import type { Checkpoint } from "../../../src/server/store/generations.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { tinyMp4 } from "../../mp4.ts";
import { apiKey, baseUrl, createTestService, fakeEngine, filesIn, renderMs, type TestService } from "../service.ts";
import { findUnfinished } from "../store/records.ts";
import { aPng } from "./pictures.ts";

const url = "https://images.example/a.png";

async function aStore(): Promise<Store> {
  const store = await openStore(":memory:");
  onTestFinished(store.close);
  return store;
}

async function look(service: TestService, id: string): Promise<unknown> {
  return (await service.status(id)).json();
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

/** An engine that keeps these checkpoints and is still at work when its process is killed. */
function stuckEngine(name: string, ...checkpoints: Checkpoint[]): Engine {
  return fakeEngine({
    name,
    isSimulation: false,
    async render(_, { checkpoint, signal }) {
      for (const state of checkpoints) await checkpoint(state);
      return untilAborted(signal);
    },
  });
}

/** An engine that is done at once, and writes down what it was given. */
function quickEngine(given: unknown[], changes: Partial<Engine> = {}): Engine {
  const engine: Engine = fakeEngine({
    isSimulation: false,
    async render({ images, file }, { resume }) {
      given.push({ by: engine.name, images: images.length, resume });
      writeFileSync(file, "a video");
      return { kind: "made", hasThumbnail: false };
    },
    ...changes,
  });
  return engine;
}

/** Starts a generation in a process that is killed: it neither ends nor closes. */
async function startAndDie(store: Store, engine: Engine, fields: object = {}) {
  const service = await createTestService({ store, engines: [engine] });
  await service.clock.sleep(5_000);
  const id = await service.startId(fields);
  await service.clock.sleep(1_000);
  service.kill();
  return { id, folder: service.folder };
}

const submitted = { state: "submitted", job: "job/1+2=" } as const;

describe("after a restart", () => {
  test("a job goes to the engine that has it, without images; a checkpoint has the engine's name and the time", async () => {
    const store = await aStore();
    const gpu = stuckEngine("http://gpu-1", { state: "submitting" }, submitted);
    const { id, folder } = await startAndDie(store, gpu, { imageUrl: url });
    const kept = { ...submitted, engine: "http://gpu-1", at: "2026-01-01T00:00:05.000Z" };
    expect((await store.generation(id))?.checkpoint).toEqual(kept);
    const given: unknown[] = [];
    const engines = [quickEngine(given), quickEngine(given, { name: "http://gpu-1", models: ["another"] })];
    const service = await createTestService({ store, folder, engines });
    await service.status(id);
    await service.rest();
    expect(given).toEqual([{ by: "http://gpu-1", images: 0, resume: kept }]);
    expect(await look(service, id)).toMatchObject({ status: "completed" });
    expect((await store.generation(id))?.checkpoint).toEqual(kept);
  });

  test("a job is followed under its provider's name of the model, even if several engines have its address", async () => {
    const store = await aStore();
    const first = { ...stuckEngine("@ai-sdk/fal", submitted), upstreamModel: "wan" };
    const { id } = await startAndDie(store, first);
    const kept = { ...submitted, engine: "@ai-sdk/fal", model: "wan", at: "2026-01-01T00:00:05.000Z" };
    expect((await store.generation(id))?.checkpoint).toEqual(kept);
    const given: unknown[] = [];
    const other = quickEngine(given, { name: "@ai-sdk/fal", upstreamModel: "kling", models: ["another"] });
    const service = await createTestService({ store, engines: [other] });
    await service.status(id);
    await service.rest();
    expect(given).toEqual([{ by: "@ai-sdk/fal", images: 0, resume: kept }]);
  });

  test("very many jobs at engines are all followed at once", async () => {
    const store = await aStore();
    const gpu = { ...stuckEngine("http://gpu-1", submitted), concurrency: 250 };
    const first = await createTestService({ store, engines: [gpu], credits: 10_000 });
    const ids = await Promise.all(Array.from({ length: 250 }, () => first.startId()));
    await first.clock.sleep(1_000);
    first.kill();
    const given: unknown[] = [];
    const render: Engine["render"] = (_, { resume, signal }) => {
      given.push(resume);
      return untilAborted(signal);
    };
    const service = await createTestService({ store, engines: [{ ...gpu, render }], resume: "all" });
    await service.clock.sleep(1_000);
    expect(given).toHaveLength(ids.length);
    await service.queue.close();
  });

  test("a job at an engine does not wait for the images of others", async () => {
    const store = await aStore();
    const { id } = await startAndDie(store, stuckEngine("http://gpu-1", submitted), { imageUrl: url });
    const get: Get = (_, { signal }) => untilAborted(signal);
    const service = await createTestService({ store, get, engines: [quickEngine([], { name: "http://gpu-1" })] });
    for (let stuck = 0; stuck < 8; stuck++) await service.start({ imageUrl: url });
    await service.status(id);
    await service.rest();
    expect(service.ended).toEqual([id]);
  });

  test("a generation that fails leaves no file of an earlier process", async () => {
    const store = await aStore();
    const gpu = fakeEngine({
      name: "http://gpu-1",
      isSimulation: false,
      async render({ file }, { checkpoint, signal }) {
        writeFileSync(file, "half a video");
        await checkpoint(submitted);
        return untilAborted(signal);
      },
    });
    const { id, folder } = await startAndDie(store, gpu);
    expect(filesIn(folder)).toEqual([`${id}.mp4`]);
    const render: Engine["render"] = () => Promise.reject(new Error("no such job"));
    const service = await createTestService({ store, folder, engines: [{ ...gpu, render }] });
    await service.status(id);
    await service.rest();
    expect(await look(service, id)).toMatchObject({ status: "failed", error: "no such job" });
    expect(filesIn(folder)).toEqual([]);
  });

  test("an engine does not get the checkpoint of another engine", async () => {
    const store = await aStore();
    const { id } = await startAndDie(store, stuckEngine("preview", { state: "rendering", tries: 1 }));
    const given: unknown[] = [];
    const service = await createTestService({ store, engines: [quickEngine(given)] });
    await service.status(id);
    await service.rest();
    expect(given).toEqual([{ by: "fake", images: 0, resume: undefined }]);
  });

  test.each([{ engines: "busy" }, { engines: "gone" }])(
    "one that was being submitted is unclear at once and is not submitted again, also when its engine is $engines",
    async ({ engines }) => {
      const store = await aStore();
      const { id } = await startAndDie(store, stuckEngine("http://gpu-1", { state: "submitting" }));
      const given: unknown[] = [];
      const busy = stuckEngine("http://gpu-1");
      const render: Engine["render"] = (task, options) => {
        given.push(task.request.prompt);
        return busy.render(task, options);
      };
      const service = await createTestService({ store, engines: engines === "busy" ? [{ ...busy, render }] : [] });
      await service.start({ prompt: "another" });
      await service.status(id);
      await service.rest();
      expect(await look(service, id)).toMatchObject({
        status: "failed",
        error_code: "unclear",
        error:
          "the local service ended while it submitted this video to http://gpu-1, which may be generating it; it was not submitted again",
      });
      expect([given, service.troubles]).toEqual([engines === "busy" ? ["another"] : [], []]);
    },
  );
});

test("an unclear submission has its code in the status, in the callback and in /v1/videos", async () => {
  const bodies: unknown[] = [];
  const render: Engine["render"] = async () => ({ kind: "unclear", reason: "HTTP 502" });
  const service = await createTestService({
    engines: [fakeEngine({ name: "http://gpu-1", isSimulation: false, render })],
    receive: async (_, { body }) => {
      bodies.push(JSON.parse(String(body)));
      return { status: 204 };
    },
  });
  const id = await service.startId({ callback_url: "https://hooks.example/done" });
  await service.rest();
  const error = "it is unclear whether http://gpu-1 generates this video (HTTP 502); it was not submitted again";
  const told = { id, status: "failed", error, error_code: "unclear" };
  expect(await look(service, id)).toMatchObject(told);
  expect(bodies).toMatchObject([told]);
  const headers = { Authorization: `Bearer ${apiKey}` };
  const video = await service.api(new Request(`${baseUrl}/v1/videos/${id}`, { headers }));
  expect(await video.json()).toMatchObject({ status: "failed", error: { code: "unclear", message: error } });
});

test("a video whose file cannot be opened at first is saved when it can be, and does not count as a failure", async () => {
  const { createReadStream } = fs;
  const replace = (value: typeof createReadStream) => {
    Object.assign(fs, { createReadStream: value });
    syncBuiltinESMExports();
  };
  onTestFinished(() => replace(createReadStream));
  const service = await createTestService({ content: "a video" });
  const id = await service.startId();
  const tooMany = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  replace(() => new Readable().destroy(tooMany) as fs.ReadStream);
  await service.clock.sleep(renderMs + 2_000);
  expect(await look(service, id)).toMatchObject({ status: "processing" });
  replace(createReadStream);
  await service.rest();
  expect(await look(service, id)).toMatchObject({ status: "completed" });
  expect(service.troubles[0]).toMatch(/^The video cannot be read; retrying in 1 s: Error: EMFILE/);
});

test("a generation whose file is lost fails without waiting", async () => {
  const service = await createTestService({ render: async () => ({ kind: "made", hasThumbnail: false }) });
  const id = await service.startId();
  await service.rest();
  expect(await look(service, id)).toMatchObject({
    status: "failed",
    error: "fake generated this video, but its file is gone",
  });
});

describe("a generation without an engine", () => {
  const minutes = 60_000;
  const submittedThere = {
    what: "whose job is at an engine that is gone",
    checkpoints: [submitted],
    models: ["sora-2"],
    isSimulation: false,
  };
  const cases = [
    {
      what: "of a model that is served no more",
      checkpoints: [],
      models: ["another"],
      isSimulation: false,
      reason: "no engine of the local service serves sora-2",
    },
    {
      what: "of a real model that only the preview serves now",
      checkpoints: [],
      models: ["sora-2"],
      isSimulation: true,
      reason: "no engine of the local service serves sora-2",
    },
  ];

  test.each(cases)(
    "$what waits, is reported once, and fails half an hour after the service was started without the engine",
    async ({ checkpoints, models, isSimulation, reason }) => {
      const store = await aStore();
      const { id, folder } = await startAndDie(store, stuckEngine("http://gpu-1", ...checkpoints));
      // Its process was killed before it could remove them.
      mkdirSync(join(folder, `${id}.images`));
      const given: unknown[] = [];
      const service = await createTestService({
        store,
        folder,
        engines: [quickEngine(given, { models, isSimulation })],
      });
      for (const wait of [1 * minutes, 28 * minutes]) {
        expect(await look(service, id)).toMatchObject({ status: "processing" });
        await service.clock.sleep(wait);
      }
      expect(await look(service, id)).toMatchObject({ status: "processing" });
      await service.clock.sleep(1 * minutes + 6_000);
      expect(await look(service, id)).toMatchObject({ status: "failed", error: reason });
      expect(service.troubles).toEqual([`Generations wait for an engine: Error: ${reason}`]);
      expect([given, filesIn(folder)]).toEqual([[], []]);
    },
  );

  test("whose job is at a missing engine waits without a limit, because it may be paid for, and is reported once", async () => {
    const store = await aStore();
    const { id } = await startAndDie(store, stuckEngine("http://gpu-1", submitted));
    const service = await createTestService({ store, engines: [quickEngine([])] });
    await service.status(id);
    await service.clock.sleep(100 * minutes);
    expect(await look(service, id)).toMatchObject({ status: "processing" });
    expect(service.notes).toEqual([
      "1 generation waits for http://gpu-1, which this service no longer uses: its configuration is not known. No other engine gets what was submitted, because it may be paid for. Start the service with this engine again, or cancel the generations.",
    ]);
  });

  test.each([submittedThere, ...cases])(
    "$what continues when a later process has the engine",
    async ({ checkpoints, models, isSimulation }) => {
      const store = await aStore();
      const { id } = await startAndDie(store, stuckEngine("http://gpu-1", ...checkpoints));
      const without = await createTestService({ store, engines: [quickEngine([], { models, isSimulation })] });
      await without.status(id);
      await without.clock.sleep(minutes);
      await without.queue.close();
      const service = await createTestService({ store, engines: [quickEngine([], { name: "http://gpu-1" })] });
      await service.status(id);
      await service.rest();
      expect(await look(service, id)).toMatchObject({ status: "completed" });
    },
  );
});

test("the least busy engine of a model, relative to its number of jobs, gets the next job", async () => {
  const given: string[] = [];
  const anEngine = (name: string, concurrency: number, model: string) =>
    fakeEngine({
      name,
      concurrency,
      models: [model],
      render: async (_, { signal }) => {
        given.push(name);
        return untilAborted(signal);
      },
    });
  const engines = [anEngine("small", 1, "sora-2"), anEngine("large", 3, "sora-2"), anEngine("other", 9, "ray-3")];
  const service = await createTestService({ engines });
  for (let start = 0; start < 4; start++) await service.startId();
  await service.clock.sleep(1_000);
  expect(given).toEqual(["small", "large", "large", "large"]);
});

test("the status has the progress only while the generation is processing", async () => {
  const render: Engine["render"] = async ({ file }, { progress }) => {
    progress(40);
    await service.clock.sleep(10_000);
    progress(80);
    await service.clock.sleep(10_000);
    writeFileSync(file, "a video");
    return { kind: "made", hasThumbnail: false };
  };
  const service = await createTestService({ engines: [fakeEngine({ render })] });
  const [id, next] = [await service.startId(), await service.startId()];
  const seen: unknown[] = [];
  for (let looks = 0; looks < 3; looks++) {
    await service.clock.sleep(8_000);
    seen.push(((await look(service, id)) as { progress?: number }).progress);
  }
  expect(seen).toEqual([40, 80, undefined]);
  expect(await look(service, id)).not.toHaveProperty("progress");
  expect(await look(service, next)).toMatchObject({ status: "processing", progress: 40 });
});

describe("the files of a generation's images", () => {
  const images = { imageUrls: [url, `${url}/2`] };

  test.each([
    ["the end", async () => ({ kind: "made" as const, hasThumbnail: false }), "completed", 1],
    ["a failure", () => Promise.reject(new Error("out of memory")), "failed", 0],
  ])("are there while it is rendered, and gone after %s", async (_, end, status, videos) => {
    const seen: boolean[] = [];
    const service = await createTestService({
      async render(task) {
        seen.push(...task.images.map(({ path }) => existsSync(path)));
        writeFileSync(task.file, "a video");
        return end();
      },
    });
    const id = await service.startId(images);
    await service.rest();
    expect(await look(service, id)).toMatchObject({ status });
    expect([seen, filesIn(service.folder)]).toEqual([[true, true], [`${id}.mp4`].slice(0, videos)]);
  });

  test("are not written after one of them was refused", async () => {
    const service: TestService = await createTestService({
      get: async (source) => {
        if (source === url) return { status: 404, body: new Uint8Array() };
        await service.clock.sleep(5_000);
        return { status: 200, body: aPng(1, 1) };
      },
    });
    await service.startId(images);
    await service.rest();
    expect([service.ended.length, filesIn(service.folder)]).toEqual([1, []]);
  });

  test("that cannot be removed are reported, and the video is kept", async () => {
    const { rm } = fsPromises;
    const replace = (value: typeof rm) => {
      Object.assign(fsPromises, { rm: value });
      syncBuiltinESMExports();
    };
    onTestFinished(() => replace(rm));
    const service = await createTestService();
    const id = await service.startId(images);
    replace(() => Promise.reject(new Error("not empty")));
    await service.rest();
    replace(rm);
    expect(await look(service, id)).toMatchObject({ status: "completed" });
    expect(service.troubles).toEqual([`The images of the generation ${id} could not be removed: Error: not empty`]);
  });

  test("that a killed process has left are removed when the next process finishes the generation", async () => {
    const store = await aStore();
    const { id, folder } = await startAndDie(store, stuckEngine("http://gpu-1", submitted), images);
    mkdirSync(join(folder, `${id}.images`), { recursive: true });
    writeFileSync(join(folder, `${id}.images`, "0.png"), aPng(1, 1));
    const service = await createTestService({ store, folder, engines: [quickEngine([], { name: "http://gpu-1" })] });
    await service.status(id);
    await service.rest();
    expect(filesIn(folder)).toEqual([`${id}.mp4`]);
  });

  test.each([
    ["from an address", 2, url],
    ["in the request", 4, `data:image/png;base64,${Buffer.from(aPng(1, 1)).toString("base64")}`],
  ])(
    "%s are loaded for %i generations of an account at a time, however many an engine makes at once",
    async (_, max, imageUrl) => {
      const memory = await aStore();
      let [loading, most] = [0, 0];
      const load = async <Result>(result: Result) => {
        most = Math.max(most, ++loading);
        await service.clock.sleep(1_000);
        loading--;
        return result;
      };
      const store: Store = { ...memory, images: async (id) => load(await memory.images(id)) };
      const get: Get = () => load({ status: 200, body: aPng(1, 1) });
      const isFetched = imageUrl === url;
      const service: TestService = await createTestService({ ...(isFetched ? { get } : { store }), concurrency: 64 });
      for (let starts = 0; starts < 10; starts++) await service.startId({ imageUrl });
      await service.clock.sleep(renderMs / 2);
      expect([most, service.rendered.length]).toEqual([max, 10]);
    },
  );
});

test("a generation that no engine of this process can make is left to other processes of a shared database, and reported once", async () => {
  const store = { ...(await aStore()), isShared: true };
  const first = await createTestService({ store, engines: [fakeEngine({ models: ["sora-2", "ray-3"] })] });
  await first.queue.close();
  for (const model of ["sora-2", "ray-3", "ray-3"]) await first.startId({ model });
  const service = await createTestService({ store, engines: [quickEngine([], { models: ["sora-2"] })] });
  for (const { id } of await findUnfinished(store)) await service.status(id);
  await service.clock.sleep(2 * 60_000);
  expect(service.ended).toHaveLength(1);
  expect(service.troubles).toEqual([
    "Generations are left to other processes: Error: no engine of the local service serves ray-3",
  ]);
});

test("a job that its engine has finished frees the slot once, while the video is still fetched", async () => {
  const begun: string[] = [];
  const service = await createTestService({
    concurrency: 1,
    async render({ request, file }, { releaseSlot, signal }) {
      begun.push(request.prompt);
      await service.clock.sleep(60_000, signal);
      for (let count = 0; count < 3; count++) releaseSlot?.();
      await service.clock.sleep(request.prompt === "slow" ? 600_000 : 1, signal);
      writeFileSync(file, tinyMp4(request.prompt));
      return { kind: "made", hasThumbnail: false };
    },
  });
  const slow = await service.startId({ prompt: "slow" });
  for (const prompt of ["second", "third"]) await service.startId({ prompt });
  await service.clock.sleep(30_000);
  expect(begun).toEqual(["slow"]);
  await service.clock.sleep(60_000);
  expect(begun).toEqual(["slow", "second"]);
  await service.clock.sleep(60_000);
  expect(begun).toEqual(["slow", "second", "third"]);
  await service.clock.sleep(900_000);
  expect(await (await service.status(slow)).json()).toMatchObject({ status: "completed" });
});
