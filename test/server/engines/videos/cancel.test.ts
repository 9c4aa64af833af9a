import { describe, expect, test } from "vitest";
import { kinds } from "../../../../src/server/engines/videos/kinds.ts";
import { createVideosEngine } from "../../../../src/server/engines/videos/videos.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import { createVirtualClock } from "../../../clock.ts";
import { createTestService, type ServiceOptions } from "../../service.ts";
import { type Call, ioFetch, json, refusedConnection } from "./fakes/fake.ts";
import { createTestEngine, engineUrl, fakes, kindIds } from "./run.ts";

const minuteMs = 60_000;
const stopping = ["vllm-omni", "tensorrt-llm"];
const never = new AbortController().signal;

/** An engine of a kind with a job that runs, and what deletes are answered in its server's place. */
async function startJob(kind: keyof typeof fakes, onDelete?: () => Response) {
  const clock = createVirtualClock();
  const fault = ({ request }: Call) => (request.method === "DELETE" ? onDelete?.() : undefined);
  const fake = fakes[kind]({ now: clock.now, completeAfterMs: 10 * minuteMs, fault });
  const { engine, make } = await createTestEngine(ioFetch(fake), { kind, clock });
  const making = make();
  await clock.sleep(minuteMs);
  const [id = ""] = fake.jobs.keys();
  return { fake, clock, making, id, cancel: (job = id) => engine.cancel?.(job, never) };
}

describe.each(kindIds)("a job of %s", (kind) => {
  test("is stopped if a DELETE stops it there, and is not touched otherwise", async () => {
    const { fake, id, cancel } = await startJob(kind);
    const canStop = stopping.includes(kind);
    expect(await cancel()).toBe(canStop);
    expect(fake.deleted).toEqual(canStop ? [id] : []);
  });

  test("that has completed is not cancelled, and its video is not deleted", async () => {
    const { fake, id, cancel, making } = await startJob(kind);
    fake.complete(id);
    expect(await cancel()).toBe(false);
    expect((await making).outcome).toBe("made");
  });
});

test.each(stopping as (keyof typeof fakes)[])(
  "a job of %s that has failed by itself does not count as stopped, because it may be charged",
  async (kind) => {
    const clock = createVirtualClock();
    let deletes = 0;
    const fault = ({ route, request }: Call) => {
      if (request.method === "DELETE") deletes++;
      return route === "poll" ? json(200, { id: "1", object: "video", status: "failed", error: "nsfw" }) : undefined;
    };
    const fake = fakes[kind]({ now: clock.now, fault });
    const { engine } = await createTestEngine(ioFetch(fake), { kind, clock });
    expect([await engine.cancel?.("1", never), deletes]).toEqual([false, 0]);
  },
);

test.each(["cancelled", "deleted"])(
  "a job that its server says is %s fails for no fault of the request",
  async (status) => {
    const clock = createVirtualClock();
    const fault = ({ route }: Call) => (route === "poll" ? json(200, { id: "1", object: "video", status }) : undefined);
    const fake = fakes.sglang({ now: clock.now, fault });
    const { engine } = await createTestEngine(ioFetch(fake), { kind: "sglang", clock });
    const options = { checkpoint: async () => {}, confirm() {}, progress: () => {}, signal: never };
    const task = { id: "1", images: [], file: "/none/0.mp4", thumbnail: "/none/0.png" };
    const resume = { state: "submitted", job: "1" } as const;
    await expect(engine.render({ ...task, request: {} as never }, { ...options, resume })).rejects.toThrow(
      "cancelled at http://gpu.test:8091",
    );
  },
);

test.each([500, 404])("a completed job whose status request gets HTTP %i is not deleted", async (status) => {
  let isInTrouble = false;
  const clock = createVirtualClock();
  const fault = ({ route, request }: Call) =>
    isInTrouble && route === "poll" && request.method === "GET"
      ? json(status, { detail: status === 404 ? "Video not found" : "boom" })
      : undefined;
  const fake = fakes["vllm-omni"]({ now: clock.now, completeAfterMs: 10 * minuteMs, fault });
  const { engine, make } = await createTestEngine(ioFetch(fake), { kind: "vllm-omni", clock });
  const making = make();
  await clock.sleep(minuteMs);
  const [id = ""] = fake.jobs.keys();
  fake.complete(id);
  isInTrouble = true;
  const cancelled = await engine.cancel?.(id, never).catch((error: Error) => error.message);
  isInTrouble = false;
  expect([cancelled, fake.deleted]).toEqual([status === 404 ? false : "HTTP 500: boom", []]);
  const { outcome } = await making;
  // A 404 for all of the minute that the cancel takes is believed by whoever follows the job, too.
  if (status === 500) expect(outcome).toBe("made");
});

test("a server that does not know the job has not stopped it", async () => {
  const { cancel } = await startJob("tensorrt-llm");
  expect(await cancel("another")).toBe(false);
});

/** A job of vLLM-Omni whose DELETE is answered with 409, and whose looks since then are answered by `onLook`, by their count from 1. */
async function startStopping(onLook: (count: number) => Response | undefined) {
  const clock = createVirtualClock();
  let [isTold, looks] = [false, 0];
  const fault = ({ route, request }: Call) => {
    if (request.method === "DELETE") {
      isTold = true;
      return json(409, { detail: "it is being stopped" });
    }
    return isTold && route === "poll" ? onLook(++looks) : undefined;
  };
  const fake = fakes["vllm-omni"]({ now: clock.now, completeAfterMs: 60 * minuteMs, fault });
  const { engine } = await createTestEngine(ioFetch(fake), { kind: "vllm-omni", clock });
  const body = new FormData();
  body.append("prompt", "a fox");
  await fake.fetch(new Request(`${engineUrl}/v1/videos`, { method: "POST", body }));
  const [id = ""] = fake.jobs.keys();
  const limit = clock.limit(90_000, never, new Error("no response in time"));
  const cancel = () => engine.cancel?.(id, limit.signal).finally(limit.clear);
  return { clock, cancel };
}

describe("a job that was told to stop", () => {
  const missing = () => json(404, { detail: "Video not found" });

  test("is not stopped by one 404", async () => {
    const { cancel } = await startStopping((count) => (count === 1 ? missing() : undefined));
    await expect(cancel()).rejects.toMatchObject({
      code: "pending",
      message: "it has accepted the request to stop, but has not confirmed it yet",
    });
  });

  test("is stopped when it has not been known for a minute", async () => {
    const { cancel, clock } = await startStopping(missing);
    const start = clock.now();
    expect(await cancel()).toBe(true);
    expect(clock.now() - start).toBeGreaterThanOrEqual(minuteMs);
  });

  test("is stopped when its status says so", async () => {
    const { cancel } = await startStopping(() => json(200, { id: "1", object: "video", status: "cancelled" }));
    expect(await cancel()).toBe(true);
  });
});

test.each([
  {
    how: "is behind a proxy that answers with a page",
    onDelete: () => new Response("<html>Sign in</html>"),
    says: "HTTP 200",
  },
  { how: "answers with an error", onDelete: () => json(500, { detail: "boom" }), says: "HTTP 500: boom" },
  {
    how: "is away",
    onDelete: () => {
      throw refusedConnection();
    },
    says: "ECONNREFUSED",
  },
])("whether a server that $how has stopped it is unclear", async ({ onDelete, says }) => {
  const { cancel } = await startJob("vllm-omni", onDelete);
  await expect(cancel()).rejects.toThrow(says);
});

/** The service with a TensorRT-LLM server behind it; `onDelete` is called once that has deleted a job, `answer` may answer in its place. */
function createBehind(onDelete = () => {}, answer: (call: Call) => Response | undefined = () => undefined) {
  const fault = async (call: Call) => {
    if (call.request.method !== "DELETE") return answer(call);
    const reply = await call.serve();
    onDelete();
    return reply;
  };
  const clocks: { now(): number }[] = [];
  const fake = fakes["tensorrt-llm"]({ now: () => clocks.at(-1)?.now() ?? 0, fault });
  const open = async (options: ServiceOptions = {}) =>
    createTestService({
      ...options,
      engines(clock) {
        clocks.push(clock);
        const io = { ...clock, fetch: ioFetch(fake), open: () => Promise.reject(new Error("nobody is there")) };
        const kind = kinds.find(({ id }) => id === "tensorrt-llm");
        const server = { url: engineUrl, upstreamModel: undefined, key: undefined, kind, timeoutMs: 30 * minuteMs };
        return [createVideosEngine({ ...server, models: ["wan-2.5"], concurrency: 4, onNote: () => {} }, io)];
      },
    });
  return { fake, open };
}

const isReal = { model: "wan-2.5" };

test("a cancelled generation is stopped upstream, and its credits are returned", async () => {
  const { fake, open } = createBehind();
  const service = await open();
  const id = await service.startId(isReal);
  await service.clock.sleep(minuteMs);
  expect(await (await service.cancel(id)).json()).toMatchObject({ error: "cancelled", credits_returned: 10 });
  await service.clock.sleep(10 * minuteMs);
  expect([fake.creates.length, fake.deleted.length]).toEqual([1, 1]);
  expect(await (await service.status(id)).json()).toMatchObject({ status: "failed", error: "cancelled" });
});

const refusal = { route: "create", reply: [400, { error: "fps must be an integer" }], hasRefunds: true } as const;
const failure = {
  route: "poll",
  reply: [200, { id: "1", status: "failed", error: "CUDA error" }],
  hasRefunds: true,
} as const;

test.each([
  { what: "a create that its server refuses", ...refusal, balance: 1_000 },
  // It is no failure of the service, which --no-refunds is about.
  { what: "a create that its server refuses, without refunds", ...refusal, hasRefunds: false, balance: 1_000 },
  { what: "a run that fails after its create was accepted", ...failure, balance: 990 },
])("$what leaves $balance of 1000 credits", async ({ route, reply: [status, body], balance, hasRefunds }) => {
  const { open } = createBehind(undefined, (call) => (call.route === route ? json(status, body) : undefined));
  const service = await open({ hasRefunds });
  const id = await service.startId(isReal);
  await service.clock.sleep(minuteMs);
  expect(await (await service.status(id)).json()).toMatchObject({
    status: "failed",
    error: expect.stringMatching(/fps|CUDA/),
  });
  expect(await service.store.balance("local")).toBe(balance);
});

test("after a kill when the server has stopped the job, the next process returns the credits once and starts no other job", async () => {
  const store = await openStore(":memory:");
  let kill = () => {};
  const { fake, open } = createBehind(() => kill());
  const first = await open({ store });
  kill = first.kill;
  const id = await first.startId(isReal);
  await first.clock.sleep(minuteMs);
  void first.cancel(id);
  await first.clock.sleep(minuteMs);
  expect(fake.deleted).toHaveLength(1);
  expect((await store.generation(id))?.status).toBe("processing");
  const next = await open({ store });
  await next.status(id);
  await next.clock.sleep(2 * minuteMs);
  expect(await (await next.status(id)).json()).toMatchObject({ status: "failed" });
  expect((await store.ledger({ generation: id, limit: 9 })).map(({ reason }) => reason)).toEqual(["refund", "start"]);
  expect(fake.creates).toHaveLength(1);
});
