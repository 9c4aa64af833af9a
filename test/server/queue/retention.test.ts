import { readdirSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { openFolder } from "../../../src/server/media/folder.ts";
import { unavailable } from "../../../src/server/observe/problem.ts";
import { createRetention } from "../../../src/server/queue/retention.ts";
import type { ServiceParts } from "../../../src/server/service-parts.ts";
import type { createVirtualClock } from "../../clock.ts";
import { createTestService, type TestService } from "../service.ts";

const day = 86_400_000;

/** Begins to keep things for so long, and resolves with what says that a look has ended. */
async function keep(
  service: TestService,
  times: NonNullable<ServiceParts["keep"]>,
  remove?: (name: string) => Promise<void>,
) {
  const { store, clock, folder, troubles } = service;
  const videos = await openFolder({ folder });
  const retention = createRetention({
    keep: times,
    store,
    videos: { remove: remove ?? videos.remove },
    clock: { ...clock, sleep: (clock as ReturnType<typeof createVirtualClock>).doze },
    reportProblem: (what, error) => void troubles.push(`${what}: ${error}`),
  });
  onTestFinished(retention.close);
  return retention;
}

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

const files = ({ folder }: TestService) => readdirSync(folder).filter((name) => !name.startsWith("."));

test("a video is removed with its thumbnail after the time limit, not earlier, and the status says so", async () => {
  const service = await createTestService();
  const id = await service.startId();
  await service.rest();
  const retention = await keep(service, { videosMs: 30 * day });
  await service.clock.sleep(29 * day);
  await retention.wake();
  expect(files(service)).toHaveLength(2);
  expect((await service.status(id)).status).toBe(200);
  await service.clock.sleep(day);
  await retention.wake();
  expect(files(service)).toEqual([]);
  const reply = await service.status(id);
  expect(reply.status).toBe(404);
  expect(await reply.text()).toContain("this generation was removed at ");
});

test("a running generation stays, however long it takes", async () => {
  const service = await createTestService({ render: (_, { signal }) => untilAborted(signal) });
  const id = await service.startId();
  const retention = await keep(service, { videosMs: day, recordsMs: day });
  await service.clock.sleep(10 * day);
  await retention.wake();
  expect((await service.status(id)).status).toBe(200);
});

test("a removed record takes its video with it", async () => {
  const service = await createTestService();
  const id = await service.startId();
  await service.rest();
  const before = await service.store.balance("local");
  const retention = await keep(service, { recordsMs: 365 * day });
  await service.clock.sleep(364 * day);
  await retention.wake();
  expect(files(service)).toHaveLength(2);
  await service.clock.sleep(2 * day);
  await retention.wake();
  expect(files(service)).toEqual([]);
  expect(await service.store.generation(id)).toBeUndefined();
  expect(await (await service.status(id)).text()).toContain("not_found");
  expect(await service.store.balance("local")).toBe(before);
});

test("while the videos cannot be reached, their records stay, the owner is told once, and the removal is tried again", async () => {
  const service = await createTestService();
  const id = await service.startId();
  await service.rest();
  let isAway = true;
  const videos = await openFolder({ folder: service.folder });
  const remove = (name: string) =>
    isAway ? Promise.reject(unavailable(undefined, "the store is away")) : videos.remove(name);
  const retention = await keep(service, { videosMs: day, recordsMs: day }, remove);
  await service.clock.sleep(2 * day);
  await retention.wake();
  await retention.wake();
  expect(service.troubles).toEqual(["Generations older than --keep could not be removed: Error: the store is away"]);
  expect((await service.status(id)).status).toBe(200);
  isAway = false;
  await retention.wake();
  expect(await service.store.generation(id)).toBeUndefined();
});

test("videos that cannot be removed do not block others, the first is reported, and they are tried again an hour later", async () => {
  const service = await createTestService({ credits: 100_000 });
  const start = () => service.startId();
  // More than are removed at a time.
  const stuck = await Promise.all(Array.from({ length: 210 }, start));
  await service.rest();
  const fine = await start();
  await service.rest();
  const videos = await openFolder({ folder: service.folder });
  let isStuck = true;
  let tries = 0;
  const remove = async (name: string) => {
    if (!isStuck || !stuck.some((id) => name.startsWith(id))) return videos.remove(name);
    tries++;
    throw new Error("permission denied");
  };
  const retention = await keep(service, { videosMs: day, recordsMs: day }, remove);
  await service.clock.sleep(2 * day);
  await retention.wake();
  await service.clock.sleep(1_000);
  expect(await service.store.generation(fine)).toBeUndefined();
  expect(service.troubles).toHaveLength(1);
  expect(service.troubles[0]).toMatch(
    /^The video of the generation [-\w]{36} could not be removed; the service tries again every hour: Error: permission denied$/,
  );
  expect(tries).toBe(stuck.length);
  isStuck = false;
  await service.clock.sleep(3_700_000);
  expect(files(service)).toEqual([]);
  expect(service.troubles).toHaveLength(1);
});

test("more videos than one pass removes do not wait for the next hour", async () => {
  const service = await createTestService({ credits: 100_000 });
  const ids = await Promise.all(Array.from({ length: 450 }, () => service.startId()));
  for (const id of ids) await service.cancel(id);
  const retention = await keep(service, { recordsMs: day });
  await service.clock.sleep(2 * day);
  await retention.wake();
  await service.clock.sleep(1_000);
  expect((await service.store.totals({})).counts).toEqual({});
});
