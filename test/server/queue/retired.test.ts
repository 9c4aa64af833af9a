import { expect, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import type { Checkpoint } from "../../../src/server/store/generations.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { apiKey, baseUrl, bearer, createTestService, fakeEngine, otherKey, type TestService } from "../service.ts";

const minutes = 60_000;
const origin = { url: "http://gpu-1", key_env: "GPU_1" };

/** An engine of real videos whose jobs run until they are told to end. */
function createGpu(name: string, changes: Partial<Engine> = {}) {
  const rendered: string[] = [];
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const render: Engine["render"] = async ({ id, file }, { resume, checkpoint, signal }) => {
    rendered.push(`${resume ? "resumed" : "submitted"} ${id}`);
    if (!resume) await checkpoint({ state: "submitted", job: id } satisfies Checkpoint);
    await Promise.race([ended, new Promise((_, reject) => signal.addEventListener("abort", reject, { once: true }))]);
    signal.throwIfAborted();
    (await import("node:fs")).writeFileSync(file, "a video");
    return { kind: "made", hasThumbnail: false };
  };
  const engine = fakeEngine({ name, isSimulation: false, origin, render, ...changes });
  return { engine, rendered, end: () => end() };
}

async function statusOf(service: TestService, id: string) {
  return (await service.status(id)).json() as Promise<{ status: string; error?: string; error_code?: string }>;
}

/** What GET /engines says of those that are no longer used. */
async function retired(service: TestService) {
  const reply = await service.api(new Request(`${baseUrl}/engines`, { headers: bearer(apiKey) }));
  const { engines } = (await reply.json()) as {
    engines: { engine: string; error: string | null; draining: number | null }[];
  };
  return engines
    .filter(({ draining }) => draining !== null)
    .map(({ engine, error, draining }) => [engine, draining, error]);
}

test("a new engine gets work, more jobs count immediately, and a removed engine finishes its jobs and gets no others", async () => {
  const [one, two] = [createGpu("http://gpu-1"), createGpu("http://gpu-2")];
  const engines = [one.engine];
  const service = await createTestService({ engines });
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await service.startId());
  await service.clock.sleep(1_000);
  expect(one.rendered).toEqual([`submitted ${ids[0]}`]);

  engines.splice(0, 1, { ...one.engine, concurrency: 2 });
  service.queue.updateEngines();
  await service.clock.sleep(1_000);
  expect(one.rendered).toEqual([`submitted ${ids[0]}`, `submitted ${ids[1]}`]);

  engines.splice(0, 1, two.engine);
  service.queue.updateEngines();
  await service.clock.sleep(2 * minutes);
  expect(two.rendered).toEqual([`submitted ${ids[2]}`]);
  expect(await retired(service)).toEqual([["http://gpu-1", 2, null]]);
  one.end();
  await service.clock.sleep(2 * minutes);
  expect(one.rendered).toHaveLength(2);
  expect(await statusOf(service, ids[0] ?? "")).toMatchObject({ status: "completed" });
  expect(await statusOf(service, ids[1] ?? "")).toMatchObject({ status: "completed" });
  expect(await retired(service)).toEqual([]);
  expect(service.notes).toContain("http://gpu-1 has finished what was submitted to it, and is no longer used.");
});

test("an engine that is added again while it drains gets work again", async () => {
  const [one, two] = [createGpu("http://gpu-1"), createGpu("http://gpu-2", { models: ["ray-3"] })];
  const engines = [one.engine, two.engine];
  const service = await createTestService({ engines });
  await service.startId();
  await service.clock.sleep(1_000);
  engines.splice(0, 1);
  service.queue.updateEngines();
  const id = await service.startId({ model: "ray-3" });
  engines.push({ ...one.engine, concurrency: 2 });
  service.queue.updateEngines();
  const again = await service.startId();
  await service.clock.sleep(1_000);
  expect([one.rendered[1], two.rendered]).toEqual([`submitted ${again}`, [`submitted ${id}`]]);
});

/** A store in which a generation was submitted to http://gpu-1 by a process that was killed. */
async function createLeft() {
  const store = await openStore(":memory:");
  const one = createGpu("http://gpu-1");
  const before = await createTestService({ store, engines: [one.engine] });
  const id = await before.startId();
  await before.clock.sleep(1_000);
  expect(one.rendered).toHaveLength(1);
  before.kill();
  return { store, id, folder: before.folder };
}

test("a later process without an engine lets it finish its submitted jobs, and gives it no others", async () => {
  const { id, ...left } = await createLeft();
  const [one, two] = [createGpu("http://gpu-1"), createGpu("http://gpu-2")];
  const reopened: unknown[] = [];
  const reopen = (given: unknown) => {
    reopened.push(given);
    return one.engine;
  };
  const service = await createTestService({ ...left, engines: [two.engine], reopen, resume: "all" });
  await service.clock.sleep(1_000);
  expect([reopened, one.rendered]).toEqual([[origin], [`resumed ${id}`]]);
  const other = await service.startId();
  await service.clock.sleep(minutes);
  expect([one.rendered, two.rendered]).toEqual([[`resumed ${id}`], [`submitted ${other}`]]);
  one.end();
  await service.clock.sleep(2 * minutes);
  expect(await statusOf(service, id)).toMatchObject({ status: "completed" });
  expect(service.notes).toEqual([
    "http://gpu-1 is no longer used: it finishes what was submitted to it, and gets nothing else.",
    "http://gpu-1 has finished what was submitted to it, and is no longer used.",
  ]);
});

test("a generation at an unusable engine waits, the service says why, and it continues when the engine can be used", async () => {
  const { id, ...left } = await createLeft();
  const one = createGpu("http://gpu-1");
  let hasKey = false;
  const reopen = () => {
    if (hasKey) return one.engine;
    throw new Error("its key is missing: GPU_1 is not set");
  };
  const service = await createTestService({
    ...left,
    engines: [createGpu("http://gpu-2").engine],
    reopen,
    resume: "all",
  });
  await service.clock.sleep(100 * minutes);
  expect(await statusOf(service, id)).toMatchObject({ status: "processing" });
  expect(await retired(service)).toEqual([["http://gpu-1", 1, "its key is missing: GPU_1 is not set"]]);
  expect(service.notes).toHaveLength(1);
  expect(service.notes[0]).toMatch(
    /^1 generation waits for http:\/\/gpu-1, .*: its key is missing: GPU_1 is not set\. /,
  );
  hasKey = true;
  one.end();
  await service.clock.sleep(2 * minutes);
  expect(await statusOf(service, id)).toMatchObject({ status: "completed" });
  expect(one.rendered).toEqual([`resumed ${id}`]);
});

test("a generation that waits for an engine that no process has does not count as running; a cancel ends it as unclear, without a refund", async () => {
  const { id, ...left } = await createLeft();
  const two = createGpu("http://gpu-2");
  const service = await createTestService({ ...left, engines: [two.engine], resume: "all" });
  await service.store.setLimits("local", { max_running: 1 });
  await service.clock.sleep(1_000);
  expect((await service.start()).status).toBe(200);
  expect((await service.start()).status).toBe(429);
  const balance = await service.store.balance("local");
  expect((await service.cancel(id, otherKey)).status).toBe(404);
  for (const _ of ["first", "repeated"]) {
    const reply = await service.cancel(id);
    expect([reply.status, await reply.json()]).toEqual([
      200,
      expect.objectContaining({
        status: "failed",
        error: "cancelled while it waited for http://gpu-1, which may have generated this video",
        error_code: "unclear",
        credits_returned: 0,
      }),
    ]);
  }
  expect(await service.store.balance("local")).toBe(balance);
  expect(two.rendered).toHaveLength(1);
});
