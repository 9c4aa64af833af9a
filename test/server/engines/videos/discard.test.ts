import { expect, test } from "vitest";
import { createVideosEngine } from "../../../../src/server/engines/videos/videos.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../../src/server/store/store.ts";
import { createTestService } from "../../service.ts";
import { type FakeOptions, ioFetch, json } from "./fakes/fake.ts";
import { createSglang } from "./fakes/sglang.ts";
import { createTestEngine, engineUrl, fakes, kindIds, timeoutMs } from "./run.ts";

/** A service with one server of SGLang, whose videos take a minute; `createNext` makes the service of the next process. */
async function start({ keepUpstream, ...fakeOptions }: FakeOptions & { keepUpstream?: boolean } = {}) {
  const store = await openStore(":memory:");
  const fake = createSglang({ completeAfterMs: 0, ...fakeOptions });
  const create = async (changes: Partial<Store> = {}, folder?: string) => {
    const service = await createTestService({
      store: { ...store, ...changes },
      ...(folder && { folder }),
      engines: (clock) => [
        createVideosEngine(
          {
            url: engineUrl,
            upstreamModel: undefined,
            kind: undefined,
            key: undefined,
            timeoutMs,
            keepUpstream,
            models: ["sora-2"],
            concurrency: 16,
            onNote: () => {},
          },
          { ...clock, fetch: ioFetch(fake), open: () => Promise.reject(new Error("no other host")) },
        ),
      ],
    });
    return service;
  };
  return { fake, create };
}

test("a job is deleted on its server when its video is saved here and the generation has ended", async () => {
  const { fake, create } = await start();
  const service = await create();
  const id = await service.startId();
  await service.rest();
  expect(await (await service.status(id)).json()).toMatchObject({ status: "completed" });
  expect([fake.creates.length, fake.deleted]).toEqual([1, [...fake.jobs.keys()]]);
});

test("a process that is killed between saving the video and recording it leaves the job for the next process", async () => {
  const { fake, create } = await start();
  const first = await create({ finish: () => new Promise(() => {}) });
  const id = await first.startId();
  await first.rest();
  expect([fake.creates.length, fake.deleted]).toEqual([1, []]);
  first.kill();
  const second = await create({}, first.folder);
  await second.status(id);
  await second.rest();
  expect(await (await second.status(id)).json()).toMatchObject({ status: "completed" });
  expect([fake.creates.length, fake.deleted.length]).toEqual([1, 1]);
});

test("a generation that another process has taken over keeps its job, because that process needs it", async () => {
  const { fake, create } = await start();
  const service = await create({ finish: async () => false });
  await service.startId();
  await service.rest();
  expect([fake.creates.length, fake.deleted]).toEqual([1, []]);
});

test("with --keep-upstream the job stays", async () => {
  const { fake, create } = await start({ keepUpstream: true });
  const service = await create();
  const id = await service.startId();
  await service.rest();
  expect(await (await service.status(id)).json()).toMatchObject({ status: "completed" });
  expect([fake.creates.length, fake.deleted]).toEqual([1, []]);
});

test.each<[string, NonNullable<FakeOptions["fault"]>]>([
  ["refuses", ({ request }) => (request.method === "DELETE" ? json(405, { detail: "Method Not Allowed" }) : undefined)],
  ["breaks off", ({ request }) => (request.method === "DELETE" ? "drop" : undefined)],
  ["does not answer", ({ request }) => (request.method === "DELETE" ? new Promise(() => {}) : undefined)],
])("a server that %s a deletion fails no generation", async (_name, fault) => {
  const { create } = await start({ fault });
  const service = await create();
  const id = await service.startId();
  await service.rest();
  expect(await (await service.status(id)).json()).toMatchObject({ status: "completed" });
  expect(service.troubles).toEqual([]);
});

test.each(kindIds)("a job of %s that failed or whose video could not be saved is not deleted", async (kind) => {
  const fault: FakeOptions["fault"] = ({ route }) => (route === "content" ? new Response("<p>no</p>") : undefined);
  const fake = fakes[kind]({ completeAfterMs: 0, fault });
  const { make } = await createTestEngine(ioFetch(fake), { kind });
  expect((await make()).outcome).toMatch(/could not be downloaded/);
  expect([fake.creates.length, fake.deleted]).toEqual([1, []]);
});
