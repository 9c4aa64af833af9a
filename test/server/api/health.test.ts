import { Hono } from "hono";
import { expect, test } from "vitest";
import { createHealth, type HealthOptions } from "../../../src/server/api/health.ts";
import type { ApiEnv } from "../../../src/server/http/message.ts";
import { createVirtualClock } from "../../clock.ts";
import { fakeEngine } from "../service.ts";

const refuse = () => Promise.reject(new Error("postgres://user:canary@10.0.0.1 is away"));
const works = { check: async () => {} };
const broken = { check: refuse };

/** What the service's health is, and how often its parts were asked. */
function createTestHealth(changes: Partial<HealthOptions> = {}) {
  const clock = createVirtualClock();
  const { paths, stop } = createHealth({
    store: works,
    videos: { check: async () => {} },
    engines: [fakeEngine()],
    clock,
    ...changes,
  });
  const app = new Hono<ApiEnv>();
  for (const [path, { GET }] of Object.entries(paths)) if (GET) app.get(path, GET.handle);
  const ask = (path: string, method = "GET") => Promise.resolve(app.request(path, { method }, {}));
  const look = async () => {
    const reply = await ask("/readyz");
    return [reply.status, await reply.json()];
  };
  return { ask, look, stop, clock };
}

const allOk = { status: "ok", database: "ok", media: "ok", engines: "ok" };
const away = (part: object) => [503, { ...allOk, status: "unavailable", ...part }];

test("a service is ready when all its parts work", async () => {
  const { ask, look } = createTestHealth();
  expect(await look()).toEqual([200, allOk]);
  const head = await ask("/readyz", "HEAD");
  expect([head.status, await head.text()]).toEqual([200, ""]);
});

test.each([
  { name: "database", changes: { store: broken }, part: { database: "unavailable" } },
  { name: "place of the videos", changes: { videos: { check: refuse } }, part: { media: "unavailable" } },
  { name: "only engine", changes: { engines: [fakeEngine({ check: refuse })] }, part: { engines: "unavailable" } },
])("without its $name it is not, and says no more than that", async ({ changes, part }) => {
  const { ask, look } = createTestHealth(changes);
  expect(await look()).toEqual(away(part));
  expect((await ask("/readyz")).headers.get("Retry-After")).toBe("5");
});

test("an engine whose address knows a job and does not know it in turn is reported, and the service is ready", async () => {
  const engines = [fakeEngine(), fakeEngine({ isInconsistent: () => true })];
  expect(await createTestHealth({ engines }).look()).toEqual([200, { ...allOk, engines: "inconsistent" }]);
  const dead = [fakeEngine({ check: refuse, isInconsistent: () => true })];
  expect(await createTestHealth({ engines: dead }).look()).toEqual(away({ engines: "unavailable" }));
});

test("one usable engine of several is enough, and a process that makes no videos checks none", async () => {
  const engines = [fakeEngine({ check: refuse }), fakeEngine()];
  expect(await createTestHealth({ engines }).look()).toEqual([200, allOk]);
  const unused = [fakeEngine({ concurrency: 0, check: refuse })];
  expect(await createTestHealth({ engines: unused }).look()).toEqual([200, { ...allOk, engines: "unused" }]);
});

test("a part that does not answer within 3 seconds counts as unavailable", async () => {
  const { look, clock } = createTestHealth({ store: { check: () => new Promise(() => {}) } });
  const looked = look();
  await clock.sleep(3_000);
  expect(await looked).toEqual(away({ database: "unavailable" }));
});

test("an engine is checked at most every 5 seconds", async () => {
  let looks = 0;
  const check = async () => `look ${++looks}`;
  const { look, clock } = createTestHealth({ engines: [fakeEngine({ check })] });
  await Promise.all([look(), look(), look()]);
  await clock.sleep(4_999);
  await look();
  expect(looks).toBe(1);
  await clock.sleep(1);
  await look();
  expect(looks).toBe(2);
});

test("a service that is stopping is no longer ready, but alive", async () => {
  const { ask, look, stop } = createTestHealth();
  stop();
  expect(await look()).toEqual([503, { ...allOk, status: "stopping" }]);
  expect([(await ask("/healthz")).status, await (await ask("/healthz")).json()]).toEqual([200, { status: "ok" }]);
});

test("/healthz answers without checking anything", async () => {
  const { ask } = createTestHealth({ store: broken, videos: { check: refuse } });
  expect((await ask("/healthz")).status).toBe(200);
});

test("of a shared database, the difference of the clocks is reported", async () => {
  const { look } = createTestHealth({ store: { ...works, clockDifferenceMs: () => -300_040 } });
  expect(await look()).toEqual([200, { ...allOk, clock_difference_seconds: -300 }]);
});
