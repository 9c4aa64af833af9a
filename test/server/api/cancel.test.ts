import { readdirSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { VidgenError } from "../../../src/errors.ts";
import { type Engine, failed } from "../../../src/server/engines/engine.ts";
import { tinyMp4 } from "../../mp4.ts";
import {
  createTestService,
  fakeEngine,
  otherKey,
  readError,
  type ServiceOptions,
  type TestService,
} from "../service.ts";

const unknownId = "00000000-0000-4000-8000-000000000000";
const callback_url = "https://hook.example/";

const creditsOf = ({ store }: TestService) => store.balance("local");
const readStatus = async (service: TestService, id: string) =>
  (await (await service.status(id)).json()) as { status: string; error?: string };

/** A service with one engine of real models, whose job never ends; `cancel` is what the engine does when it is asked to stop one. */
function createUpstream(cancel: Engine["cancel"], options: ServiceOptions = {}) {
  const stopped: unknown[] = [];
  const engine = (clock: TestService["clock"]) =>
    fakeEngine({
      name: "http://gpu.test",
      isSimulation: false,
      cancel,
      async render({ file }, { checkpoint, signal }) {
        await checkpoint({ state: "submitting" });
        await clock.sleep(5_000, signal);
        await checkpoint({ state: "submitted", job: "job-1" });
        await clock.sleep(3_600_000, signal).catch((reason) => stopped.push(reason.message));
        signal.throwIfAborted();
        writeFileSync(file, tinyMp4("a fox"));
        return { kind: "made", hasThumbnail: false };
      },
    });
  const service = createTestService({ engines: (clock) => [engine(clock)], ...options });
  return service.then((service) => ({ service, stopped }));
}

test("a cancelled generation in the queue fails, its credits are returned, and its callback is sent", async () => {
  const service = await createTestService();
  await service.startId({ prompt: "the first" });
  const id = await service.startId({ callback_url });
  await service.clock.sleep(1_000);
  expect(await creditsOf(service)).toBe(980);
  const response = await service.cancel(id);
  expect([response.status, await response.json()]).toMatchObject([
    200,
    { id, status: "failed", error: "cancelled", video_url: null, credits_returned: 10 },
  ]);
  expect(await creditsOf(service)).toBe(990);
  await service.rest(3);
  expect(service.rendered.map(({ request }) => request.prompt)).toEqual(["the first"]);
  expect(await readStatus(service, id)).toMatchObject({ status: "failed", error: "cancelled" });
  expect(service.deliveries).toEqual([expect.stringContaining(id)]);
  expect(service.troubles).toEqual([]);
});

test("a preview that is being rendered is stopped, makes room for the next one, and leaves no file", async () => {
  const service = await createTestService();
  const id = await service.startId();
  await service.clock.sleep(10_000);
  expect(service.rendered).toHaveLength(1);
  expect((await service.cancel(id)).status).toBe(200);
  const next = await service.startId({ prompt: "the next" });
  await service.rest();
  expect((await readStatus(service, next)).status).toBe("completed");
  expect((await readStatus(service, id)).status).toBe("failed");
  expect(service.ended).not.toContain(id);
  expect(readdirSync(service.folder, { recursive: true }).filter((name) => String(name).includes(id))).toEqual([]);
});

test("a rendered video that waits for the end of its simulated time does not complete, and is deleted", async () => {
  const service = await createTestService({ pace: "realistic" });
  const id = await service.startId();
  await service.rest();
  expect((await service.cancel(id)).status).toBe(200);
  await service.clock.sleep(600_000);
  expect((await readStatus(service, id)).status).toBe("failed");
  expect(readdirSync(service.folder, { recursive: true }).filter((name) => String(name).includes(id))).toEqual([]);
});

test("several cancel requests for one generation get the same reply, and the credits are returned once", async () => {
  const service = await createTestService();
  const id = await service.startId({ callback_url });
  const responses = await Promise.all([service.cancel(id), service.cancel(id)]);
  for (const response of [...responses, await service.cancel(id)])
    expect(await response.json()).toMatchObject({ status: "failed", error: "cancelled", credits_returned: 10 });
  expect(await creditsOf(service)).toBe(1_000);
  expect((await service.store.deliveries({ limit: 9 })).length).toBe(1);
});

test.each([
  { prompt: "a fox", says: "not cancelled: it has completed", status: "completed" },
  { prompt: "a fox [fail:too red]", says: "not cancelled: it has failed: too red", status: "failed" },
])("what has ended stays as it is: $status", async ({ prompt, says, status }) => {
  const service = await createTestService({ hasDirectives: true });
  const id = await service.startId({ prompt });
  await service.rest();
  const response = await service.cancel(id);
  expect([response.status, await readError(response)]).toEqual([409, { code: "already_ended", message: says }]);
  expect((await readStatus(service, id)).status).toBe(status);
  expect(await creditsOf(service)).toBe(990);
});

test("an unknown id, or the id of another account, gets a 404, and nothing is cancelled", async () => {
  const service = await createTestService();
  const id = await service.startId();
  for (const [asked, key] of [[unknownId], ["x"], [id, otherKey]] as const) {
    const response = await service.cancel(asked, key);
    expect([response.status, (await readError(response)).code]).toEqual([404, "not_found"]);
  }
  expect((await service.cancel("")).status).toBe(400);
  expect((await service.cancel(id, "wrong")).status).toBe(401);
  await service.rest();
  expect((await readStatus(service, id)).status).toBe("completed");
});

test("a job at an engine is stopped there, and no longer followed", async () => {
  const jobs: string[] = [];
  const { service, stopped } = await createUpstream(async (job) => jobs.push(job) > 0);
  const id = await service.startId();
  await service.clock.sleep(10_000);
  expect(await (await service.cancel(id)).json()).toMatchObject({ status: "failed", error: "cancelled" });
  await service.clock.sleep(1_000);
  expect(jobs).toEqual(["job-1"]);
  expect(stopped).toEqual(["the generation was cancelled"]);
  expect(await creditsOf(service)).toBe(1_000);
});

test("a job that is followed to its cancelled end, before the cancel itself is answered, is cancelled all the same", async () => {
  const stop = new AbortController();
  const service = await createTestService({
    engines: (clock) => [
      fakeEngine({
        name: "http://gpu.test",
        isSimulation: false,
        async cancel() {
          stop.abort();
          await clock.sleep(1_000);
          return true;
        },
        async render(_, { checkpoint, signal }) {
          await checkpoint({ state: "submitted", job: "job-1" });
          await clock.sleep(3_600_000, AbortSignal.any([signal, stop.signal])).catch(() => signal.throwIfAborted());
          throw failed(new Error("cancelled at http://gpu.test"), { failure: "stopped" });
        },
      }),
    ],
  });
  const id = await service.startId();
  await service.clock.sleep(10_000);
  for (const _ of [1, 2]) {
    const reply = await service.cancel(id);
    const cancelled = { status: "failed", error: "cancelled at http://gpu.test", credits_returned: 10 };
    expect([reply.status, await reply.json()]).toEqual([200, expect.objectContaining(cancelled)]);
  }
  expect(await creditsOf(service)).toBe(1_000);
});

test.each<{ how: string; cancel: Engine["cancel"]; says: string }>([
  { how: "has no way to", cancel: undefined, says: "http://gpu.test cannot stop it" },
  { how: "does not", cancel: async () => false, says: "http://gpu.test cannot stop it" },
  {
    how: "does not answer",
    cancel: () => Promise.reject(new Error("socket hang up")),
    says: "http://gpu.test could not be asked to stop it (socket hang up)",
  },
])("a job whose engine $how stop it goes on, and stays paid", async ({ cancel, says }) => {
  const { service, stopped } = await createUpstream(cancel);
  const id = await service.startId();
  await service.clock.sleep(10_000);
  const response = await service.cancel(id);
  const message = `not cancelled: ${says}; the generation continues`;
  expect([response.status, await readError(response)]).toEqual([409, { code: "not_cancellable", message }]);
  expect((await readStatus(service, id)).status).toBe("processing");
  expect(stopped).toEqual([]);
  expect(await creditsOf(service)).toBe(990);
});

test("a generation that is being submitted is not cancelled, because its job is not known yet", async () => {
  const { service } = await createUpstream(async () => true);
  const id = await service.startId();
  await service.clock.sleep(2_000);
  const response = await service.cancel(id);
  expect((await readError(response)).message).toContain("it is being submitted to http://gpu.test");
  await service.clock.sleep(8_000);
  expect((await service.cancel(id)).status).toBe(200);
});

test("a generation that completes while its engine is asked to stop it stays completed and charged", async () => {
  const { service } = await createUpstream(async () => {
    await service.clock.sleep(3_600_000);
    return true;
  });
  const id = await service.startId();
  await service.clock.sleep(10_000);
  const response = await service.cancel(id);
  expect((await readError(response)).message).toBe("not cancelled: it has completed");
  expect((await readStatus(service, id)).status).toBe("completed");
  expect(await creditsOf(service)).toBe(990);
});

test("an engine may take 80 s to prove that it has stopped a job", async () => {
  const clocks: TestService["clock"][] = [];
  const { service } = await createUpstream(async (_job, signal) => {
    await clocks[0]?.sleep(80_000, signal);
    return true;
  });
  clocks.push(service.clock);
  const id = await service.startId();
  await service.clock.sleep(10_000);
  expect(await (await service.cancel(id)).json()).toMatchObject({ error: "cancelled", credits_returned: 10 });
});

test("a job that is not proved to have stopped continues, and no credits are returned", async () => {
  const { service } = await createUpstream(async () => {
    throw new VidgenError("pending", "it has accepted the request to stop, but has not confirmed it yet");
  });
  const id = await service.startId();
  await service.clock.sleep(10_000);
  const before = await creditsOf(service);
  const response = await service.cancel(id);
  const says =
    "not cancelled: http://gpu.test: it has accepted the request to stop, but has not confirmed it yet; the generation continues";
  expect([response.status, (await readError(response)).message]).toEqual([409, says]);
  expect([await creditsOf(service), (await readStatus(service, id)).status]).toEqual([before, "processing"]);
});
