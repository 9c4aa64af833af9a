import { describe, expect, test } from "vitest";
import type { Clock } from "../../../src/io.ts";
import { RequestError } from "../../../src/io.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import { createBreaker } from "../../../src/server/queue/breaker.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { createVirtualClock } from "../../clock.ts";
import type { Call, FakeOptions } from "../engines/videos/fakes/fake.ts";
import { ioFetch } from "../engines/videos/fakes/fake.ts";
import { createSglang } from "../engines/videos/fakes/sglang.ts";
import { apiKey, baseUrl, bearer, createTestService, fakeEngine, readStart, type TestService } from "../service.ts";

const minute = 60_000;
const model = "wan-2.5";

type Fault = NonNullable<FakeOptions["fault"]>;

/** An engine over a server that makes a video in 10 s, if the fault lets it. */
function anEngine(name: string, clock: Clock, { fault, jobs = 4 }: { fault?: Fault; jobs?: number } = {}): Engine {
  const fake = createSglang({ now: clock.now, completeAfterMs: 10_000, ...(fault && { fault }) });
  const noOpen = () => Promise.reject(new Error("there is no other host"));
  return createVideosEngine(
    {
      url: `http://${name}.test`,
      upstreamModel: undefined,
      key: undefined,
      kind: undefined,
      models: [model],
      concurrency: jobs,
      timeoutMs: 30 * minute,
      onNote: () => {},
    },
    { ...clock, sleep: (clock as { doze?: Clock["sleep"] }).doze ?? clock.sleep, fetch: ioFetch(fake), open: noOpen },
  );
}

const refuse = () => {
  throw new RequestError(Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }), { sent: false });
};
const broken: Fault = ({ route }: Call) =>
  route === "create" ? new Response("bad gateway", { status: 502 }) : undefined;

async function startAll(service: TestService, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) ids.push(await service.startId({ model }));
  return ids;
}

/** How the generations have ended, and how many did so. */
async function endsOf({ store }: TestService, ids: string[]): Promise<Record<string, number>> {
  const ends: Record<string, number> = {};
  for (const id of ids) {
    const { status = "lost", error } = (await store.generation(id)) ?? {};
    const end = error ? error.replace(/\(.*\)/, "") : status;
    ends[end] = (ends[end] ?? 0) + 1;
  }
  return ends;
}

describe("with a good engine of the same model", () => {
  test("an engine that does not exist fails no generation", async () => {
    const engines = (clock: Clock) => [anEngine("dead", clock, { fault: refuse }), anEngine("good", clock)];
    const service = await createTestService({ engines });
    const ids = await startAll(service, 12);
    await service.clock.sleep(2 * minute);
    expect(await endsOf(service, ids)).toEqual({ completed: 12 });
  });

  test("an engine that answers 502 leaves at most 3 of 40 generations unclear", async () => {
    const engines = (clock: Clock) => [anEngine("broken", clock, { fault: broken, jobs: 16 }), anEngine("good", clock)];
    const service = await createTestService({ engines });
    const ids = await startAll(service, 40);
    await service.clock.sleep(2 * minute);
    const { completed = 0, ...others } = await endsOf(service, ids);
    expect(completed).toBeGreaterThanOrEqual(37);
    expect(Object.keys(others)).toEqual([expect.stringMatching(/^it is unclear whether http:\/\/broken\.test/)]);
  });
});

describe("the only engine of a model", () => {
  test("gets each generation once after it was unavailable for a while, and is reported once", async () => {
    let isAway = true;
    const fault: Fault = (call) => (isAway && call.route === "create" ? refuse() : undefined);
    const service = await createTestService({ engines: (clock) => [anEngine("gpu", clock, { fault, jobs: 16 })] });
    const ids = await startAll(service, 16);
    await service.clock.sleep(10 * minute);
    expect(await endsOf(service, ids)).toEqual({ processing: 16 });
    isAway = false;
    await service.clock.sleep(minute);
    expect(await endsOf(service, ids)).toEqual({ completed: 16 });
    expect(service.notes).toEqual([
      "http://gpu.test has accepted no generations since 2026-01-01T00:00:00.000Z: it refuses connections. New ones go to other engines that serve their model, or wait.",
      "http://gpu.test accepts generations again.",
    ]);
  });

  test("fails the waiting generations after it was unavailable for its time limit, and their credits are returned", async () => {
    const service = await createTestService({ engines: (clock) => [anEngine("gpu", clock, { fault: refuse })] });
    const ids = await startAll(service, 20);
    await service.clock.sleep(20 * minute);
    const late = await startAll(service, 1);
    await service.clock.sleep(12 * minute);
    const error = "http://gpu.test accepted no request for 30 min: it refuses connections; nothing was submitted";
    expect(await endsOf(service, ids)).toEqual({ [error]: 20 });
    expect(await endsOf(service, late)).toEqual({ processing: 1 });
    expect(await service.store.balance("local")).toBe(990);
    await service.clock.sleep(20 * minute);
    expect(await endsOf(service, late)).toEqual({ [error]: 1 });
    expect((await service.store.generation(late[0] ?? ""))?.error_code).toBe("not_submitted");
    expect(await service.store.balance("local")).toBe(1_000);
  });

  test("gets no second request within half a minute, and no third within 4 minutes, if the first ones are unclear", async () => {
    const at: number[] = [];
    const engines = (clock: Clock) => {
      const fault: Fault = (call) => {
        if (call.route === "create") at.push(clock.now());
        return broken(call);
      };
      return [anEngine("gpu", clock, { fault })];
    };
    const service = await createTestService({ engines });
    await startAll(service, 8);
    await service.clock.sleep(40 * minute);
    expect(at.map((ms) => Math.round(ms / 1_000))).toEqual([0, 30, 270]);
  });

  test("counts as down since its first failure, as the message to the owner says", async () => {
    const service = await createTestService({ engines: (clock) => [anEngine("gpu", clock, { fault: refuse })] });
    await service.clock.sleep(5_000);
    await startAll(service, 1);
    await service.clock.sleep(10 * minute);
    const asked = service.api(new Request(`${baseUrl}/engines`, { headers: bearer(apiKey) }));
    expect(await (await asked).json()).toMatchObject({
      engines: [
        { engine: "http://gpu.test", out_since: "2026-01-01T00:00:05.000Z", out_reason: "it refuses connections" },
      ],
    });
  });
});

/** Answers the creates of one prompt, and notes which ones came. */
const answering =
  (bad: string, answer: () => Response, seen: string[]): Fault =>
  async ({ route, request }) => {
    if (route !== "create") return undefined;
    const isBad = (await request.clone().text()).includes(bad);
    seen.push(isBad ? bad : "good");
    return isBad ? answer() : undefined;
  };
const denied = () => Response.json({ error: "This model is not available here." }, { status: 403 });

describe("a submission that is answered with 401 or 403", () => {
  test("is followed by another generation, so that one prompt does not block the others", async () => {
    const seen: string[] = [];
    const fault = answering("forbidden", denied, seen);
    const service = await createTestService({ engines: (clock) => [anEngine("gpu", clock, { fault })] });
    const bad = await service.startId({ model, prompt: "a forbidden fox" });
    const good = await startAll(service, 5);
    await service.clock.sleep(minute);
    expect(await endsOf(service, good)).toEqual({ completed: 5 });
    expect(seen.slice(0, 2)).toEqual(["forbidden", "good"]);
    // The engine took others with the same key before and after: it is this one that it refuses, and nothing was paid.
    expect(await service.store.generation(bad)).toMatchObject({ status: "failed", error_code: "auth" });
    expect(seen.filter((prompt) => prompt === "forbidden")).toHaveLength(2);
    expect(await service.store.balance("local")).toBe(950);
  });

  test("is tried again if there is no other", async () => {
    let isWrong = true;
    const fault: Fault = ({ route }) => (route === "create" && isWrong ? denied() : undefined);
    const service = await createTestService({ engines: (clock) => [anEngine("gpu", clock, { fault })] });
    const ids = await startAll(service, 1);
    await service.clock.sleep(10_000);
    isWrong = false;
    await service.clock.sleep(minute);
    expect(await endsOf(service, ids)).toEqual({ completed: 1 });
  });

  test("is sent again after a minute at the earliest if a proxy's web page refused it", async () => {
    const at: number[] = [];
    const engines = (clock: Clock) => {
      const fault: Fault = ({ route }) => {
        if (route !== "create") return undefined;
        at.push(Math.round(clock.now() / 1_000));
        return new Response("<html><title>Just a moment...</title></html>", { status: 403 });
      };
      return [anEngine("gpu", clock, { fault })];
    };
    const service = await createTestService({ engines });
    await startAll(service, 2);
    await service.clock.sleep(150_000);
    expect(at).toEqual([0, 60, 120]);
  });
});

test.each([
  ["120", 120],
  ["7200", 1_800],
])("a create that is not taken, with a Retry-After of %s, is sent again %i s later", async (header, seconds) => {
  const at: number[] = [];
  const engines = (clock: Clock) => {
    const fault: Fault = ({ route }) => {
      if (route !== "create") return undefined;
      at.push(Math.round(clock.now() / 1_000));
      return at.length === 1 ? new Response("{}", { status: 429, headers: { "Retry-After": header } }) : undefined;
    };
    return [anEngine("gpu", clock, { fault })];
  };
  const service = await createTestService({ engines });
  const ids = await startAll(service, 1);
  await service.clock.sleep((seconds - 60) * 1_000);
  expect(at).toEqual([0]);
  await service.clock.sleep(2 * minute);
  expect([at, await endsOf(service, ids)]).toEqual([[0, seconds], { completed: 1 }]);
});

describe("in a command", () => {
  const command = (engines: (clock: Clock) => Engine[]) =>
    createTestService({ engines, isCommand: true, hasRefunds: false });
  const look = async ({ store, clock }: TestService, id: string) => {
    const { status, error, error_code, created_at, completed_at } = (await store.generation(id)) ?? {};
    const end = completed_at ? new Date(completed_at) : clock.date();
    return { status, error, error_code, seconds: (end.getTime() - Date.parse(created_at ?? "")) / 1_000 };
  };
  const unknownName: Fault = () => {
    throw new RequestError(Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" }), { sent: false });
  };

  test.each<[string, Fault, string]>([
    ["refuses the connection", refuse, "it refuses connections"],
    ["has no address", unknownName, "no address was found for its name"],
  ])(
    "an engine that %s ends its generations within a minute, and what they cost comes back",
    async (_, fault, reason) => {
      const service = await command((clock) => [anEngine("gpu", clock, { fault })]);
      const ids = await startAll(service, 3);
      await service.clock.sleep(30_000);
      const late = await startAll(service, 1);
      await service.clock.sleep(29_000);
      for (const id of ids)
        expect(await look(service, id)).toMatchObject({
          error: `http://gpu.test cannot be used: ${reason}; nothing was submitted`,
          error_code: "not_submitted",
          seconds: expect.toSatisfy((seconds) => seconds >= 55 && seconds <= 57),
        });
      expect(await endsOf(service, late)).toEqual({ processing: 1 });
      expect(await service.store.balance("local")).toBe(990);
      expect(service.notes).toEqual([`Waiting for http://gpu.test: ${reason}. Nothing was submitted to it yet.`]);
      await service.clock.sleep(30_000);
      expect(await service.store.balance("local")).toBe(1_000);
    },
  );

  test("an engine that is available again within a minute makes the waiting generations", async () => {
    const service = await command((clock) => [
      anEngine("gpu", clock, { fault: () => (clock.now() < 45_000 ? refuse() : undefined) }),
    ]);
    const ids = await startAll(service, 3);
    await service.clock.sleep(2 * minute);
    expect(await endsOf(service, ids)).toEqual({ completed: 3 });
  });

  test("a generation that is started long after its engine went down gets its own attempts", async () => {
    let isAway = true;
    const fault: Fault = () => (isAway ? refuse() : undefined);
    const service = await command((clock) => [anEngine("gpu", clock, { fault })]);
    await startAll(service, 1);
    await service.clock.sleep(10 * minute);
    const [id = ""] = await startAll(service, 1);
    await service.clock.sleep(10_000);
    isAway = false;
    await service.clock.sleep(30_000);
    expect(await look(service, id)).toMatchObject({ status: "completed" });
  });

  test.each([401, 403])("an engine that refuses its key with %i ends the generations at once", async (status) => {
    let creates = 0;
    const fault: Fault = ({ route }) => {
      if (route !== "create") return undefined;
      creates++;
      return Response.json({ detail: "Invalid key" }, { status });
    };
    const service = await command((clock) => [anEngine("gpu", clock, { fault })]);
    const [id = ""] = await startAll(service, 1);
    await service.clock.sleep(5_000);
    expect(await look(service, id)).toMatchObject({
      error: `http://gpu.test cannot be used: HTTP ${status}: Invalid key; nothing was submitted`,
      error_code: "auth",
      seconds: expect.toSatisfy((seconds) => seconds <= 2),
    });
    expect(creates).toBeLessThanOrEqual(2);
    // A later one is tried, too.
    const before = creates;
    const [next = ""] = await startAll(service, 1);
    await service.clock.sleep(minute);
    expect([(await look(service, next)).error_code, creates > before]).toEqual(["auth", true]);
    expect(await service.store.balance("local")).toBe(1_000);
  });

  test.each<[string, Fault]>([
    ["full", ({ route }) => (route === "create" ? Response.json({ detail: "full" }, { status: 429 }) : undefined)],
    ["loading", ({ route }) => (route === "other" ? new Response("", { status: 503 }) : undefined)],
  ])("an engine that is %s is waited for", async (_, fault) => {
    let isReady = false;
    const service = await command((clock) => [
      anEngine("gpu", clock, { fault: (call) => (isReady ? undefined : fault(call)) }),
    ]);
    const ids = await startAll(service, 2);
    await service.clock.sleep(10 * minute);
    expect(await endsOf(service, ids)).toEqual({ processing: 2 });
    isReady = true;
    await service.clock.sleep(2 * minute);
    expect(await endsOf(service, ids)).toEqual({ completed: 2 });
  });

  test("an engine that accepts others with the same key fails only the denied generation", async () => {
    const seen: string[] = [];
    const fault = answering("forbidden", denied, seen);
    const service = await command((clock) => [anEngine("gpu", clock, { fault, jobs: 1 })]);
    const [first = ""] = await startAll(service, 1);
    const bad = await service.startId({ model, prompt: "a forbidden fox" });
    const others = await startAll(service, 3);
    await service.clock.sleep(2 * minute);
    expect(await endsOf(service, [first, ...others])).toEqual({ completed: 4 });
    expect(await look(service, bad)).toMatchObject({ status: "failed", error_code: "auth" });
    expect(seen.filter((prompt) => prompt === "forbidden")).toHaveLength(2);
  });

  test.each<[string, Fault]>([
    ["a create is unclear", broken],
    ["others were taken", answering("a fox", () => Response.json({}, { status: 429 }), [])],
  ])("nobody is told that nothing was submitted where %s", async (_, fault) => {
    const service = await command((clock) => [anEngine("gpu", clock, { fault, jobs: 1 })]);
    await service.startId({ model, prompt: "a bear" });
    await service.clock.sleep(minute);
    await service.startId({ model, prompt: "a fox" });
    await service.clock.sleep(minute);
    expect(service.notes.slice(0, 1)).toEqual([
      expect.stringMatching(/^Waiting for http:\/\/gpu\.test: HTTP \d+.*\.$/),
    ]);
    expect(service.notes.join()).not.toContain("Nothing was submitted");
  });

  test("another engine of the model that is only busy is given time", async () => {
    const busy: Fault = ({ route }) => (route === "create" ? Response.json({}, { status: 429 }) : undefined);
    const service = await command((clock) => [
      anEngine("dead", clock, { fault: refuse }),
      anEngine("busy", clock, { fault: busy }),
    ]);
    const ids = await startAll(service, 2);
    await service.clock.sleep(10 * minute);
    expect(await endsOf(service, ids)).toEqual({ processing: 2 });
  });
});

describe("the price of a generation", () => {
  const gpu = (render: Engine["render"]) => [fakeEngine({ name: "http://gpu", isSimulation: false, render })];
  const lost = () => Promise.reject(new Error("http://gpu no longer knows this video's job"));

  test.each<[string, Engine["render"], number]>([
    ["comes back when its engine has lost it", lost, 1_000],
    ["stays paid when it is unclear whether it is made", async () => ({ kind: "unclear", reason: "HTTP 502" }), 990],
    ["stays paid when the model refuses it", async () => ({ kind: "refused", error: "the prompt was blocked" }), 990],
  ])("%s", async (_, render, balance) => {
    const service = await createTestService({ engines: gpu(render) });
    const [id = ""] = await startAll(service, 1);
    await service.rest();
    expect((await service.store.generation(id))?.status).toBe("failed");
    expect(await service.store.balance("local")).toBe(balance);
    const { remaining_credits } = await readStart(await service.start({ model }));
    expect(remaining_credits).toBe(balance - 10);
  });

  test("stays charged with --no-refunds", async () => {
    const service = await createTestService({ engines: gpu(lost), hasRefunds: false });
    await startAll(service, 1);
    await service.rest();
    expect([service.ended.length, await service.store.balance("local")]).toEqual([1, 990]);
  });

  test("stays charged if a process ended during the submission", async () => {
    const store = await openStore(":memory:");
    const engines = gpu(async (_, { checkpoint, signal }) => {
      await checkpoint({ state: "submitting" });
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const first = await createTestService({ store, engines });
    const [id = ""] = await startAll(first, 1);
    await first.clock.sleep(1_000);
    first.kill();
    const second = await createTestService({ store, engines, credits: 990 });
    await second.status(id);
    await second.rest();
    expect(await store.generation(id)).toMatchObject({ status: "failed", error_code: "unclear" });
    expect(await store.balance("local")).toBe(990);
  });
});

test("a generation whose images are fetched does not wait here for an unavailable engine, because another process may have one", async () => {
  const memory = await openStore(":memory:");
  const released: string[] = [];
  const release: Store["release"] = async (id) => void released.push(id);
  const service = await createTestService({
    store: { ...memory, release },
    engines: (clock) => [anEngine("gpu", clock, { fault: refuse, jobs: 1 })],
  });
  const image = { model, imageUrl: "https://images.example/a.png" };
  const ids = [await service.startId(image), await service.startId(image)];
  await service.clock.sleep(500);
  expect(new Set(released)).toEqual(new Set(ids));
});

test("an engine with an unclear submission gets one at a time until it has accepted ten", async () => {
  const clock = createVirtualClock();
  const breaker = createBreaker({ clock, onChange: () => {} });
  breaker.onUnclear("HTTP 502");
  await clock.sleep(30_000);
  expect(breaker.room(0)).toBe(1);
  for (let taken = 1; taken < 10; taken++) {
    breaker.onTaken();
    expect([taken, breaker.room(0), breaker.room(1)]).toEqual([taken, 1, 0]);
  }
  breaker.onTaken();
  expect(breaker.room(1)).toBe(Number.POSITIVE_INFINITY);
  // The next one that is unclear is the first again.
  breaker.onUnclear("HTTP 502");
  expect(breaker.pauseMs()).toBe(30_000);
});
