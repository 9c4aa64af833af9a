import { readFileSync, rmSync } from "node:fs";
import { expect, test } from "vitest";
import { readPage } from "../../src/docs.ts";
import { open } from "./api/wire.ts";
import { createCounted } from "./counted.ts";
import { apiKey, baseUrl, bearer, otherKey, readError } from "./service.ts";

test("starts, credits and failures are counted by model and reason; a repeated start counts once", async () => {
  const { start, rest, figures } = await createCounted({ concurrency: 100 });
  const key = { "Idempotency-Key": "1" };
  for (const headers of [key, key]) await start("a fox", { model: "ray-3" }, headers);
  await rest(1);
  for (const prompt of ["refused", "credits", "failed"]) await start(prompt);
  await rest(4);
  await start("unclear");
  await rest(5);
  expect(await figures("starts", "credits", "generation_failures", "engine_creates")).toEqual({
    'vidgen_starts_total{model="ray-3"}': 1,
    'vidgen_starts_total{model="sora-2"}': 4,
    vidgen_credits_charged_total: 90,
    // What the model refused stays paid, and so does what an engine may be making.
    vidgen_credits_returned_total: 20,
    'vidgen_generation_failures_total{model="sora-2",reason="refused"}': 1,
    'vidgen_generation_failures_total{model="sora-2",reason="credits"}': 1,
    'vidgen_generation_failures_total{model="sora-2",reason="failed"}': 1,
    'vidgen_generation_failures_total{model="sora-2",reason="unclear"}': 1,
    'vidgen_engine_creates_total{engine="fake",outcome="taken"}': 2,
    'vidgen_engine_creates_total{engine="fake",outcome="unclear"}': 1,
  });
});

test("the time from start to end is a histogram by model and status", async () => {
  const { start, rest, figures } = await createCounted();
  await start("a fox");
  await start("a second fox");
  await rest(2);
  const seconds = await figures("generation_duration_seconds");
  const labels = 'model="sora-2",status="completed"';
  expect(seconds).toMatchObject({
    [`vidgen_generation_duration_seconds_bucket{le="30",${labels}}`]: 1,
    [`vidgen_generation_duration_seconds_bucket{le="60",${labels}}`]: 2,
    [`vidgen_generation_duration_seconds_count{${labels}}`]: 2,
  });
  expect(seconds[`vidgen_generation_duration_seconds_bucket{le="15",${labels}}`]).toBeUndefined();
});

test("the time until an engine accepts a generation is a histogram by model, and is recorded at once", async () => {
  const { start, clock, rest, figures } = await createCounted();
  await start("a fox");
  await start("it waits");
  await clock.sleep(1_000);
  const count = 'vidgen_queue_wait_seconds_count{model="sora-2"}';
  await rest(1);
  expect(await figures("queue_wait_seconds_count")).toEqual({ [count]: 1 });
  await rest(2);
  await start("not submitted");
  await clock.sleep(1_000);
  expect(await figures("queue_wait_seconds")).toMatchObject({
    'vidgen_queue_wait_seconds_bucket{le="1",model="sora-2"}': 1,
    'vidgen_queue_wait_seconds_bucket{le="60",model="sora-2"}': 2,
    'vidgen_queue_wait_seconds_sum{model="sora-2"}': expect.closeTo(30, 0),
    [count]: 2,
  });
});

test("an engine has the number of its jobs and of its free slots", async () => {
  const { start, clock, rest, figures } = await createCounted({ concurrency: 3 });
  await start("a fox");
  await clock.sleep(1_000);
  const [running, free] = ['vidgen_engine_running{engine="fake"}', 'vidgen_engine_free{engine="fake"}'];
  expect(await figures("engine_running", "engine_free")).toEqual({ [running]: 1, [free]: 2 });
  await rest(1);
  expect(await figures("engine_running", "engine_free")).toEqual({ [free]: 3 });
});

test("requests are a histogram by method, route and status, without event streams", async () => {
  const { service, figures } = await createCounted();
  const { url, close } = await open(service.api, { onRequest: service.onRequest });
  const get = (path: string, init?: RequestInit) => fetch(url + path, init);
  for (const id of [1, 2]) await get(`/v1/videos/${id}`, { headers: bearer(apiKey) });
  await get("/v1/videos/canary", { method: "PATCH" });
  await get("/canary");
  await close(0);
  service.onRequest({ method: "CANARY", status: undefined, ms: 20 });
  service.onRequest({ method: "GET", route: "page", isStream: true, status: 200, ms: 60_000 });
  const name = "vidgen_http_request_duration_seconds";
  expect(await figures("http_request_duration_seconds_count")).toEqual({
    [`${name}_count{method="GET",route="/v1/videos/:id",status="404"}`]: 2,
    [`${name}_count{method="other",route="/v1/videos/:id",status="405"}`]: 1,
    [`${name}_count{method="GET",route="other",status="404"}`]: 1,
    [`${name}_count{method="other",route="other",status="disconnected"}`]: 1,
  });
  expect(await figures(`http_request_duration_seconds_bucket{le="0.025",method="other",route="other"`)).toEqual({
    [`${name}_bucket{le="0.025",method="other",route="other",status="disconnected"}`]: 1,
  });
});

test("the queue counts waiting generations, not running ones, and its age is that of the oldest", async () => {
  const { start, clock, figures } = await createCounted();
  await start("a fox");
  await clock.sleep(5_000);
  await start("it waits");
  await start("so does this", { model: "ray-3" });
  await clock.sleep(10_000);
  expect(await figures("queue")).toEqual({
    'vidgen_queue_length{model="sora-2"}': 1,
    'vidgen_queue_length{model="ray-3"}': 1,
    'vidgen_queue_oldest_age_seconds{model="sora-2"}': 10,
    'vidgen_queue_oldest_age_seconds{model="ray-3"}': 10,
  });
});

test("a cancelled generation is counted, with its returned credits", async () => {
  const { start, rest, service, figures } = await createCounted();
  await start("a fox");
  const url = `${baseUrl}/api/cancel?id=${await start("it waits")}`;
  for (const _ of [1, 2]) await service.api(new Request(url, { method: "POST", headers: bearer(apiKey) }));
  await rest(1);
  expect(await figures("generation_failures", "credits_returned")).toEqual({
    'vidgen_generation_failures_total{model="sora-2",reason="cancelled"}': 1,
    vidgen_credits_returned_total: 10,
  });
});

test("callbacks are counted as waiting, delivered and given up", async () => {
  const { start, rest, figures } = await createCounted();
  for (const path of ["hook", "gone"]) await start("refused", { callback_url: `https://receiver.example/${path}` });
  await rest(2);
  expect(await figures("callback")).toEqual({
    'vidgen_callback_attempts_total{outcome="delivered"}': 1,
    'vidgen_callback_attempts_total{outcome="given_up"}': 1,
  });
});

test("an engine is up when it can be checked and accepts submissions", async () => {
  let isAway = false;
  const check = async () => (isAway ? Promise.reject(new Error("away")) : "a fake");
  const { start, clock, figures } = await createCounted({ check });
  const up = {
    'vidgen_engine_up{engine="fake",model="sora-2"}': 1,
    'vidgen_engine_up{engine="fake",model="ray-3"}': 1,
  };
  expect(await figures("engine_up")).toEqual(up);
  isAway = true;
  // Asked at most every 5 s.
  expect(await figures("engine_up")).toEqual(up);
  await clock.sleep(5_000);
  expect(await figures("engine_up")).toEqual({});
  isAway = false;
  await clock.sleep(5_000);
  expect(await figures("engine_up")).toEqual(up);
  await start("not submitted");
  await clock.sleep(100);
  expect(await figures("engine_up")).toEqual({});
});

test("while the database is unavailable, only the metrics that do not need it are returned", async () => {
  const { start, clock, service, distant, text } = await createCounted();
  await start("a fox");
  expect(await text()).toMatch(/^vidgen_ready 1$/m);
  expect(await text()).toMatch(/^vidgen_queue_length\{/m);
  distant.isAway = true;
  await clock.sleep(1_000);
  const reply = await service.metrics?.(new Request(`${baseUrl}/metrics`));
  const away = await reply?.text();
  expect([reply?.status, away]).toEqual([200, expect.stringMatching(/^vidgen_ready 0$/m)]);
  expect(away).toMatch(/^vidgen_database_writable 0$/m);
  expect(away).toMatch(/^vidgen_media_writable 1$/m);
  expect(away).toMatch(/^vidgen_starts_total\{model="sora-2"\} 1$/m);
  expect(away).not.toMatch(/^vidgen_(queue|callbacks)/m);
  expect(away).not.toContain("canary");
});

test("a service states its version and its free disk space; without the folder of its videos it is not ready", async () => {
  const { clock, folder, text } = await createCounted();
  expect(await text()).toMatch(/^vidgen_media_writable 1$/m);
  expect(await text()).toMatch(/^vidgen_build_info\{version="\d+\.\d+\.\d+",node="\d+\.\d+\.\d+"\} 1$/m);
  expect(await text()).toMatch(/^vidgen_disk_free_bytes [1-9]/m);
  rmSync(folder, { recursive: true });
  await clock.sleep(15_000);
  const without = await text();
  expect(without).toMatch(/^vidgen_ready 0\n/m);
  expect(without).toMatch(/^vidgen_database_writable 1$/m);
  expect(without).toMatch(/^vidgen_media_writable 0$/m);
});

test("only the owner's key can read the metrics, and only with GET", async () => {
  const { get, service } = await createCounted();
  expect([(await get()).status, (await get("wrong")).status]).toEqual([401, 401]);
  expect(await readError(await get(otherKey))).toMatchObject({ code: "forbidden" });
  const reply = await get(apiKey);
  expect([reply.status, reply.headers.get("Content-Type")]).toEqual([
    200,
    expect.stringMatching(/^text\/plain; version=/),
  ]);
  for (const handler of [service.api, service.metrics]) {
    const post = await handler?.(new Request(`${baseUrl}/metrics`, { method: "POST", headers: bearer(apiKey) }));
    expect([post?.status, post?.headers.get("Allow")]).toEqual([405, "GET"]);
  }
  const other = await service.metrics?.(new Request(`${baseUrl}/api/generate`, { method: "POST" }));
  expect(other?.status).toBe(404);
});

test("labels are models, engines and fixed words; no id, prompt, account, key or error is in the text", async () => {
  const { start, rest, text } = await createCounted();
  const ids = [await start("canary-prompt", { callback_url: "https://canary.example/gone" }), await start("failed")];
  await rest(2);
  const told = await text();
  for (const secret of [...ids, "canary", "local"]) expect(told).not.toContain(secret);
  expect(told).toMatch(/^nodejs_eventloop_lag_p99_seconds /m);
  const helps = told.match(/^# HELP vidgen_.*$/gm) ?? [];
  expect(helps).toHaveLength(20);
  for (const help of helps)
    expect(help).toMatch(/this process|in the database; each process reports the same value\.$/);
});

const page = readPage("metrics").text;
const rules = readFileSync(new URL("../../src/docs/alerts.yml", import.meta.url), "utf8");

test("the alerts, the dashboard and the page use only existing metrics, and the page lists all of vidgen's", async () => {
  const { start, rest, text } = await createCounted();
  await start("a fox");
  await rest(1);
  const told = await text();
  const existing = new Set(told.match(/^\w+/gm));
  const types = (told.match(/^# TYPE \w+/gm) ?? []).map((line) => line.replace("# TYPE ", ""));
  const dashboard = readFileSync(new URL("../../.github/dashboard.json", import.meta.url), "utf8");
  const { panels } = JSON.parse(dashboard) as { panels: { targets?: { expr: string }[] }[] };
  const exprs = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(exprs.length).toBeGreaterThan(8);
  const named = (words: string) => words.match(/\b(vidgen|nodejs|process)_\w+/g) ?? [];
  for (const words of [rules, ...exprs]) {
    expect(named(words).length).toBeGreaterThan(0);
    expect(named(words).filter((name) => !existing.has(name))).toEqual([]);
  }
  const known = new Set([...existing, ...types]);
  expect(named(page).filter((name) => !known.has(name))).toEqual([]);
  for (const name of types.filter((type) => type.startsWith("vidgen_"))) expect(page).toContain(`| \`${name}\` |`);
});
