import { readFileSync, readlinkSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Get } from "../../../src/server/outbound/outbound.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { lacks } from "../../needs.ts";
import { createTestService, fakeEngine, renderMs, type TestService } from "../service.ts";
import { findUnfinished, newGeneration } from "../store/records.ts";
import { aPng } from "./pictures.ts";

async function look(service: TestService, id: string): Promise<unknown> {
  return (await service.status(id)).json();
}

test("generations end one after the other, in the order in which they were started", async () => {
  const service = await createTestService();
  const ids = [await service.startId(), await service.startId(), await service.startId()];
  await service.rest();
  expect(service.ended).toEqual(ids.slice(0, 1));
  expect(await look(service, ids[1] ?? "")).toMatchObject({ status: "processing" });
  await service.clock.sleep(2 * renderMs);
  expect(service.ended).toEqual(ids);
});

test("many generations of one account do not delay those of others", async () => {
  const service = await createTestService();
  await service.store.addAccount({ name: "b", keyHash: "b", creditsOf: () => 1_000 });
  const starts = ["local", "local", "local", "local", "b", "b"].map((account) => newGeneration({ account }));
  for (const each of starts) await service.store.start(each, 10, undefined);
  await service.rest(6);
  const [a1, a2, a3, a4, b1, b2] = starts.map(({ id }) => id);
  expect(service.ended).toEqual([a1, b1, a2, b2, a3, a4]);
});

test("a generation with images keeps its account's turn among those without images", async () => {
  const service = await createTestService();
  await service.store.addAccount({ name: "b", keyHash: "b", creditsOf: () => 1_000 });
  const { request } = newGeneration();
  const images = ["https://images.example/a.png"];
  const starts = [
    ...Array.from({ length: 4 }, () => newGeneration()),
    newGeneration({ account: "b", request: { ...request, images } }),
  ];
  for (const each of starts) await service.store.start(each, 10, undefined);
  await service.rest(5);
  const [a1, a2, , , b] = starts.map(({ id }) => id);
  expect(service.ended.slice(0, 3)).toEqual([a1, b, a2]);
});

test("an account whose image addresses never respond does not hold up the images of another", async () => {
  const get: Get = async (address, { signal }) => {
    if (address.includes("silent.example")) await untilAborted(signal);
    return { status: 200, body: aPng(1, 1) };
  };
  const service = await createTestService({ get, concurrency: 2 });
  await service.store.addAccount({ name: "b", keyHash: "b", creditsOf: () => 1_000 });
  const { request } = newGeneration();
  const withImage = (account: string, host: string) =>
    newGeneration({ account, request: { ...request, images: [`https://${host}.example/a.png`] } });
  const silent = Array.from({ length: 6 }, () => withImage("local", "silent"));
  const prompt = [withImage("b", "images"), withImage("b", "images")];
  for (const each of [...silent, ...prompt]) await service.store.start(each, 10, undefined);
  await service.rest(2);
  // Their images are fetched at the same time: either may end first.
  expect(new Set(service.ended)).toEqual(new Set(prompt.map(({ id }) => id)));
});

test("a generation that was started under a clock an hour ahead ends as soon as its video is made", async () => {
  const service = await createTestService();
  const created_at = new Date(service.clock.date().getTime() + 3_600_000).toISOString();
  const generation = newGeneration({ created_at });
  await service.store.start(generation, 10, undefined);
  await service.rest();
  expect(service.ended).toEqual([generation.id]);
});

test("a failed generation does not stop the next", async () => {
  // Its place is free before its files are removed: the next one must take longer than that to end after it.
  const render = async (): Promise<never> => {
    await service.clock.sleep(renderMs);
    throw new Error("out of memory");
  };
  const service = await createTestService({ render });
  const ids = [await service.startId(), await service.startId()];
  await service.rest(2);
  expect(service.ended).toEqual(ids);
  expect(await look(service, ids[0] ?? "")).toMatchObject({ status: "failed", error: "out of memory" });
});

test.each([
  { thrown: "a text", error: "a text" },
  { thrown: 42, error: "the model run did not succeed" },
  { thrown: undefined, error: "the model run did not succeed" },
  { thrown: Object.create(null), error: "the model run did not succeed" },
  { thrown: new Error(), error: "the model run did not succeed" },
])("whatever an engine throws, there is a text: $error", async ({ thrown, error }) => {
  const service = await createTestService({ render: () => Promise.reject(thrown) });
  const id = await service.startId();
  await service.rest();
  expect(await look(service, id)).toMatchObject({ status: "failed", error });
});

test("an engine that writes no file fails", async () => {
  const service = await createTestService({ render: async () => ({ kind: "made", hasThumbnail: false }) });
  const id = await service.startId();
  await service.rest();
  expect(await look(service, id)).toMatchObject({ status: "failed", error: expect.any(String) });
});

test("close stops the generation that is being rendered and begins no other", async () => {
  const service = await createTestService();
  const ids = [await service.startId(), await service.startId()];
  await service.clock.sleep(renderMs / 2);
  await service.queue.close();
  expect(service.clock.now()).toBe(renderMs / 2);
  await service.rest(3);
  expect(service.rendered).toHaveLength(1);
  expect(service.ended).toEqual([]);
  for (const id of ids) expect(await look(service, id)).toMatchObject({ status: "processing" });
});

test("a generation that is added after close does not begin", async () => {
  const service = await createTestService();
  await service.queue.close();
  await service.start();
  await service.rest();
  expect(service.rendered).toEqual([]);
});

test("a result that the store cannot save is reported and written later; polls do not render it again, and the next generation continues", async () => {
  const memory = await openStore(":memory:");
  let failures = 3;
  const store: Store = {
    ...memory,
    finish: async (id, end) => (failures-- > 0 ? Promise.reject(new Error("disk full")) : memory.finish(id, end)),
  };
  const service = await createTestService({ store });
  const [first = "", second] = [await service.startId(), await service.startId()];
  for (let polls = 0; polls < 10; polls++) {
    await service.clock.sleep(renderMs / 4);
    await service.status(first);
  }
  expect(service.troubles).toEqual(
    [1, 2, 4].map((seconds) => `The database cannot be used; retrying in ${seconds} s: Error: disk full`),
  );
  expect([service.ended, service.rendered.length]).toEqual([[first, second], 2]);
});

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

test.skipIf(lacks("/proc"))(
  "the video, its thumbnail and their names are on the disk before the store records them",
  async () => {
    const synced: string[] = [];
    const probe = await open("/dev/null");
    const handles = Object.getPrototypeOf(probe);
    const { sync } = handles;
    await probe.close();
    handles.sync = function (this: { fd: number }) {
      synced.push(readlinkSync(`/proc/self/fd/${this.fd}`));
      return sync.call(this);
    };
    onTestFinished(() => Object.assign(handles, { sync }));
    const service = await createTestService();
    const id = await service.startId();
    await service.rest();
    const file = (name: string) => join(service.folder, name);
    expect(synced).toEqual([file(`${id}.png`), file(`${id}.mp4`), service.folder]);
  },
);

const url = "https://images.example/a.png";

test("the engine gets the bytes of the images in order, and where to put the video and the thumbnail", async () => {
  const tasks: unknown[] = [];
  const service = await createTestService({
    get: async (asked) => ({ status: 200, body: aPng(asked === url ? 1 : 2, 1) }),
    render: async (task) => {
      tasks.push({ ...task, images: task.images.map(({ path }) => new Uint8Array(readFileSync(path))) });
      return { kind: "made", hasThumbnail: false };
    },
  });
  const id = await service.startId({ imageUrls: [url, `${url}?2`] });
  await service.rest();
  expect(tasks).toMatchObject([
    {
      images: [aPng(1, 1), aPng(2, 1)],
      file: expect.stringMatching(new RegExp(`${id}\\.mp4$`)),
      thumbnail: expect.stringMatching(new RegExp(`${id}\\.png$`)),
    },
  ]);
});

test("an image that does not exist fails the generation with that reason, and nothing is rendered", async () => {
  const service = await createTestService({ get: async () => ({ status: 404, body: new Uint8Array() }) });
  const id = await service.startId({ imageUrl: url });
  await service.rest();
  expect(await look(service, id)).toMatchObject({
    status: "failed",
    error: `the image at ${url} responded with HTTP 404`,
  });
  expect(service.rendered).toEqual([]);
});

test("an image server that does not answer delays no generation without images", async () => {
  const service = await createTestService({ get: (_, { signal }) => untilAborted(signal) });
  for (let stuck = 0; stuck < 8; stuck++) await service.startId({ imageUrl: url });
  const ids = [await service.startId(), await service.startId()];
  await service.rest(2);
  expect(service.ended).toEqual(ids);
});

test("as many generations are rendered at once as there are slots", async () => {
  const service = await createTestService({ concurrency: 2 });
  const ids = [await service.startId(), await service.startId(), await service.startId()];
  await service.rest();
  expect(new Set(service.ended)).toEqual(new Set(ids.slice(0, 2)));
  await service.rest();
  expect(service.ended[2]).toBe(ids[2]);
});

test("[slow: 90s] takes that long from its start, and delays no other generation", async () => {
  const service = await createTestService();
  const slow = await service.startId({ prompt: "a fox [slow: 90s]" });
  const quick = await service.startId({ prompt: "an owl" });
  await service.rest(2);
  expect(service.ended).toEqual([quick]);
  await service.clock.sleep(85_000 - 2 * renderMs - 1_000);
  expect(service.ended).toEqual([quick]);
  await service.clock.sleep(6_000);
  expect(service.ended).toEqual([quick, slow]);
});

test.each([
  ["sora-2", 60, 80],
  ["minimax", 160, 180],
  ["my-own", 60, 80],
])("at a realistic pace a simulation of %s takes %i to %i seconds", async (model, least, most) => {
  const service = await createTestService({ pace: "realistic", engines: [fakeEngine({ models: [model] })] });
  await service.startId({ model });
  await service.clock.sleep((least - 1) * 1_000);
  expect(service.ended).toEqual([]);
  await service.clock.sleep((most - least + 2) * 1_000);
  expect(service.ended).toHaveLength(1);
});

test("progress is remembered for the last ten thousand generations, even if their end is never reported", async () => {
  const { queue } = await createTestService();
  const made = (id: string, percent: number) => queue.onChange({ kind: "progress", id, percent, account: null });
  for (let index = 0; index <= 10_000; index++) made(`${index}`, 1);
  made("1", 2);
  made("another", 3);
  expect(["0", "1", "2", "3", "another"].map((id) => queue.progressOf(id)?.percent)).toEqual([
    undefined,
    2,
    undefined,
    1,
    3,
  ]);
});

test("a generation that an earlier process left continues once when its status is requested", async () => {
  const store = await openStore(":memory:");
  const first = await createTestService({ store });
  const ids = [await first.startId(), await first.startId()];
  await first.queue.close();
  expect((await findUnfinished(store)).map(({ id }) => id)).toEqual(ids);
  const second = await createTestService({ store });
  await second.status(ids[1] ?? "");
  await second.status(ids[1] ?? "");
  await second.rest(2);
  expect([second.ended, second.rendered.length]).toEqual([[ids[1]], 1]);
});
