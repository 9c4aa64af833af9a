import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import sqlite from "node-sqlite3-wasm";
import { chromium } from "playwright-core";
import { median } from "./measure.mjs";

const generations = 10_000;
const pages = 50;
const readMs = 3_000;
/** As in the page: changes are collected for so long, and fetched so often. */
const collectMs = 200;
const restMs = 1_000;
/** What is started while one page is open, and how many of these starts are on their way at once. */
const starts = 10_000;
const startsAtOnce = 8;

/** The page of 10,000 generations: until something is seen of it, and what a start costs an open one; what 50 open pages leave to those who poll. */
export async function measurePage({ bin, env, folder, print }) {
  const home = { ...env, VIDGEN_HOME: join(folder, "page") };
  await (await serve(bin, home)).stop();
  fill(join(home.VIDGEN_HOME, "service/service.db"));
  const service = await serve(bin, home);
  try {
    await measureBrowser(service, print).catch((error) => print("page in Chromium", String(error).split("\n")[0]));
    print(`search in ${generations} generations`, `${(await measureSearch(service)).toFixed(0)} ms`);
    const alone = await countReads(service);
    const stop = await openPages(service);
    print(`status reads with ${pages} pages / none`, `${await countReads(service)} / s   ${alone} / s`);
    stop();
  } finally {
    await service.stop();
  }
}

async function serve(bin, env) {
  const args = [bin, "serve", "--port", "0", "--media-port", "0", "--credits", "1000000", "--json", "--quiet"];
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const [json] = await once(child.stdout, "data");
  const stop = async () => {
    child.kill();
    await once(child, "exit");
  };
  return { ...JSON.parse(json), stop };
}

/** Adds completed generations, as the service would have kept them. */
function fill(file) {
  const database = new sqlite.Database(file);
  // Without shared memory, a write-ahead log needs an exclusive lock.
  database.exec(`PRAGMA locking_mode = EXCLUSIVE;
    INSERT INTO generations (id, account, status, created_at, completed_at, asked, model, result, state)
    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${generations})
    SELECT printf('%08d-0000-4000-8000-000000000000', i), 'local', iif(i % 50, 'completed', 'failed'),
      '2026-01-01T00:00:00.000Z', '2026-01-01T00:01:00.000Z',
      json_object('callback_url', null, 'request', json_object('prompt', 'a red fox runs through snow, take ' || i,
        'model', iif(i % 3, 'wan-2.5', 'veo-3.1'), 'aspectRatio', '16:9', 'duration', 5, 'resolution', '480p', 'images', json('[]'), 'extras', json('{}'),
        'hasDirectives', json('false'), 'isReal', json('false'))), iif(i % 3, 'wan-2.5', 'veo-3.1'),
      iif(i % 50, json_object('error', null, 'media', json_object('file', i || '.mp4', 'size', 1, 'etag', '"1"', 'thumbnail', i || '.png'), 'cost', null),
        json_object('error', 'out of memory', 'media', null, 'cost', null)),
      iif(i % 50, 'completed', 'failed')
    FROM n;
    INSERT INTO search (generation, text)
    SELECT number, lower(concat_ws(char(10), asked ->> '$.request.prompt', id, model)) FROM generations;`);
  database.close();
}

async function measureBrowser(service, print) {
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  try {
    const page = await browser.newPage({ bypassCSP: true });
    await page.goto(service.page_url);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForSelector(".card");
    print(`first paint of ${generations} generations`, `${median(await measurePaints(page)).toFixed(0)} ms`);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable");
    const read = async () => {
      const { metrics } = await cdp.send("Performance.getMetrics");
      return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
    };
    await cdp.send("HeapProfiler.collectGarbage");
    const sizes =
      "performance.getEntries().map(({ decodedBodySize = 0, name }) => /videos/.test(name) ? 0 : decodedBodySize)";
    const bytes = (await page.evaluate(sizes)).reduce((sum, size) => sum + size, 0);
    const before = await read();
    print("bytes and heap of the page", `${kilo(bytes)} kB   ${(before.JSHeapUsedSize / 1e6).toFixed(1)} MB`);
    const begin = performance.now();
    await startMany(service);
    const seconds = (performance.now() - begin) / 1_000;
    const busy = (await read()).TaskDuration - before.TaskDuration;
    await page.waitForTimeout(2 * restMs);
    const cards = await page.locator(".card").count();
    print(
      `${starts} starts with the page open`,
      `${((100 * busy) / seconds).toFixed(0)} % of its main thread for ${seconds.toFixed(0)} s   ${cards} cards`,
    );
  } finally {
    await browser.close();
  }
}

const kilo = (bytes) => (bytes / 1_000).toFixed(0);

async function measurePaints(page) {
  const paints = [];
  for (let round = 0; round < 7; round++) {
    await page.reload();
    await page.waitForFunction("performance.getEntriesByName('first-contentful-paint').length > 0");
    paints.push(await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"));
  }
  return paints;
}

/** Starts generations that fail at once, so that only the page and the service have something to do. */
async function startMany({ base_url, api_key }) {
  const body = JSON.stringify({ prompt: "a fox [fail]", model: "wan-2.5", duration: 1 });
  const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
  let left = starts;
  const work = async () => {
    while (left-- > 0) await (await fetch(`${base_url}/api/generate`, { method: "POST", headers, body })).text();
  };
  await Promise.all(Array.from({ length: startsAtOnce }, work));
}

/** Words of which few generations have all, so that the whole list is looked at. */
async function measureSearch(service) {
  const Cookie = await signIn(service);
  const times = [];
  for (let round = 0; round < 7; round++) {
    const begin = performance.now();
    await (await fetch(`${service.base_url}/?text=snow+977${round}+fox`, { headers: { Cookie } })).text();
    times.push(performance.now() - begin);
  }
  return median(times);
}

/** Signs in with the key, because a link works once. */
async function signIn({ base_url, api_key }) {
  const body = new URLSearchParams({ key: api_key });
  const reply = await fetch(base_url, { method: "POST", headers: { Origin: base_url }, body, redirect: "manual" });
  return reply.headers.get("Set-Cookie").split(";")[0];
}

/** Asks for a status in a row for some seconds, over one connection. */
async function countReads({ base_url, api_key }) {
  const url = `${base_url}/api/generation-status?id=00000001-0000-4000-8000-000000000000`;
  const end = performance.now() + readMs;
  let count = 0;
  for (; performance.now() < end; count++)
    await (await fetch(url, { headers: { Authorization: `Bearer ${api_key}` } })).text();
  return Math.round((count / readMs) * 1_000);
}

/** Opens what an open page opens, which fetches itself when something changes; two generations are started each second. */
async function openPages(service) {
  const { base_url, api_key } = service;
  const Cookie = await signIn(service);
  const end = new AbortController();
  const { signal } = end;
  const get = (path) => fetch(base_url + path, { headers: { Cookie }, signal });
  const open = async () => {
    let isStale = false;
    const refresh = async () => {
      await setTimeout(collectMs);
      await (await get("/")).text();
      await setTimeout(restMs - collectMs);
      isStale = false;
    };
    for await (const chunk of (await get("/events")).body.pipeThrough(new TextDecoderStream())) {
      if (!chunk.includes('"generation"')) continue;
      if (!isStale) refresh().catch(() => {});
      isStale = true;
    }
  };
  for (let page = 0; page < pages; page++) open().catch(() => {});
  const body = JSON.stringify({ prompt: "a fox [slow: 60s]", model: "wan-2.5", duration: 1 });
  const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
  const timer = setInterval(
    () => fetch(`${base_url}/api/generate`, { method: "POST", headers, body }).catch(() => {}),
    500,
  );
  return () => {
    clearInterval(timer);
    end.abort();
  };
}
