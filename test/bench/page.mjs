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
/** As in the page. */
const collectMs = 200;

/** The page: until something is seen of 10,000 generations; and what 50 open pages leave to those who poll. */
export async function measurePage({ bin, env, folder, print }) {
  const home = { ...env, VIDGEN_HOME: join(folder, "page") };
  await (await serve(bin, home)).stop();
  fill(join(home.VIDGEN_HOME, "service/service.db"));
  const service = await serve(bin, home);
  try {
    const paints = await measurePaint(service).catch((error) => [String(error).split("\n")[0]]);
    print(
      `first paint of ${generations} generations`,
      `${paints.length > 1 ? `${median(paints).toFixed(0)} ms` : paints}`,
    );
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
    INSERT INTO generations (id, account, status, created_at, completed_at, asked, result)
    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${generations})
    SELECT printf('%08d-0000-4000-8000-000000000000', i), 'local', iif(i % 50, 'completed', 'failed'),
      '2026-01-01T00:00:00.000Z', '2026-01-01T00:01:00.000Z',
      json_object('callback_url', null, 'request', json_object('prompt', 'a red fox runs through snow, take ' || i,
        'model', iif(i % 3, 'wan-2.5', 'veo-3.1'), 'aspectRatio', '16:9', 'duration', 5, 'resolution', '480p', 'images', json('[]'))),
      iif(i % 50, json_object('error', null, 'media', json_object('file', i || '.mp4', 'size', 1, 'etag', '"1"', 'thumbnail', i || '.png')),
        json_object('error', 'out of memory', 'media', null))
    FROM n;`);
  database.close();
}

async function measurePaint({ page_url }) {
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  const page = await browser.newPage({ bypassCSP: true });
  await page.goto(page_url);
  await page.waitForSelector(".card");
  const paints = [];
  for (let round = 0; round < 7; round++) {
    await page.reload();
    await page.waitForFunction("performance.getEntriesByName('first-contentful-paint').length > 0");
    paints.push(await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"));
  }
  await browser.close();
  return paints;
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

/** Opens what an open page opens, which fetches each card that changes; two generations are started each second. */
async function openPages({ page_url, base_url, api_key }) {
  const Cookie = (await fetch(page_url)).headers.get("Set-Cookie").split(";")[0];
  const end = new AbortController();
  const { signal } = end;
  const get = (path) => fetch(base_url + path, { headers: { Cookie }, signal });
  const open = async () => {
    const changed = new Set();
    for await (const chunk of (await get("/events")).body.pipeThrough(new TextDecoderStream())) {
      for (const [, id] of chunk.matchAll(/"generation","id":"([^"]+)"/g)) changed.add(id);
      if (changed.size === 0) continue;
      await setTimeout(collectMs);
      await (await get(`/?ids=${[...changed]}`)).text();
      changed.clear();
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
