import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fileName } from "../../../src/client/naming.ts";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { type Finished, zipOf } from "../../../src/server/page/zip.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { makeFolder } from "../service.ts";
import { browserPath, isLive, launch, openTab, shows, type Tab } from "./browser.ts";
import { aVideo, openTestPage, type TestPage, type TestPageOptions } from "./harness.ts";

// Several videos at once: compared, starred, and downloaded.

let browser: Browser;

describe("several videos", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async (options: TestPageOptions = {}) => {
    const store = await openStore(":memory:");
    const video = await aVideo();
    const page = await openTestPage({ store, video, ...options });
    return { page, store, video, tab: await openTab(browser, page.link) };
  };
  const choose = (tab: Tab, prompt: string) => tab.getByRole("checkbox", { name: `Choose ${prompt}` }).check();
  const promptsOf = (tab: Tab) => tab.locator(".card .prompt").allInnerTexts();

  test("six play in step, from one button and one slider, and say in what they differ", async () => {
    const { page, tab } = await open();
    const ids: string[] = [];
    for (let seed = 1; seed <= 6; seed++) ids.push(await page.make({ prompt: "a fox", seed }));
    await page.make({ prompt: "a fox runs" });
    await tab.goto(`${page.url}/generations/${ids[0]}`);
    await tab.getByRole("link", { name: "Compare with others" }).click();
    await shows(tab.getByRole("heading", { level: 1 }), "a fox");
    expect(await tab.locator(".compared video").count()).toBe(6);
    expect(await tab.locator(".compared > li").first().locator(".differs dt").allInnerTexts()).toContain("seed");
    expect(await tab.locator(".compared > li").first().locator(".differs dt").allInnerTexts()).not.toContain("Model");
    const times = () =>
      tab.evaluate<number[]>("[...document.querySelectorAll('.compared video')].map((each) => each.currentTime)");
    await tab.getByLabel("Position").fill("1");
    await expect.poll(times).toEqual([1, 1, 1, 1, 1, 1]);
    await tab.getByLabel("Position").fill("0");
    await tab.getByRole("button", { name: "Play" }).click();
    await expect.poll(async () => Math.max(...(await times()))).toBeGreaterThan(0.3);
    // One is held up, as by a slow network.
    await tab.evaluate("document.querySelectorAll('.compared video')[3].pause()");
    await tab.evaluate("document.querySelectorAll('.compared video')[4].currentTime = 1.9");
    await tab.waitForTimeout(300);
    const at = await times();
    expect(Math.max(...at) - Math.min(...at)).toBeLessThan(0.1);
    await tab.getByRole("button", { name: "Pause" }).click();
    const paused = await times();
    await tab.waitForTimeout(200);
    expect(await times()).toEqual(paused);
    expect(tab.complaints).toEqual([]);
  });

  test("chosen cards are compared and downloaded; what is chosen stays while the list changes", async () => {
    const { page, tab, video } = await open();
    const ids: string[] = [];
    for (const prompt of ["one", "two", "three"]) ids.push(await page.make({ prompt }));
    await tab.reload();
    await isLive(tab);
    await choose(tab, "one");
    await choose(tab, "three");
    await tab.mouse.move(0, 0);
    await page.make({ prompt: "four" });
    await tab.getByRole("button", { name: "Choose none" }).focus();
    await expect.poll(() => promptsOf(tab), { timeout: 10_000 }).toContain("four");
    const [download] = await Promise.all([
      tab.waitForEvent("download"),
      tab.getByRole("button", { name: "Download .zip" }).click(),
    ]);
    const file = join(await makeFolder(), "chosen.zip");
    await download.saveAs(file);
    const [zip, bytes] = await Promise.all([readFile(file), readFile(video.file)]);
    const name = (prompt: string, index: number) => fileName({ id: ids[index] ?? "", prompt, model: "wan-2.5" });
    const places = ["one", "two", "three"].map((prompt, index) => zip.indexOf(name(prompt, index)));
    expect(places).toEqual([expect.any(Number), -1, expect.any(Number)]);
    // Videos are stored as they are, each behind its name.
    for (const place of [places[0], places[2]]) expect(zip.indexOf(bytes, place)).toBeLessThan((place ?? 0) + 300);
    expect(zip.indexOf(bytes, places[0])).toBeGreaterThan(0);
    await tab.getByRole("button", { name: "Compare" }).click();
    await shows(tab.getByRole("heading", { level: 1 }), "Compare 2 videos");
    expect(await tab.locator(".compared video").count()).toBe(2);
    const [again] = await Promise.all([
      tab.waitForEvent("download"),
      tab.getByRole("button", { name: "Download all as .zip" }).click(),
    ]);
    const same = join(await makeFolder(), "compared.zip");
    await again.saveAs(same);
    expect((await readFile(same)).length).toBe(zip.length);
  });

  test("a star stays, on the card and on the page of its generation, and the starred ones are found", async () => {
    const { page, tab } = await open();
    for (const prompt of ["one", "two"]) await page.make({ prompt });
    await tab.reload();
    await isLive(tab);
    const star = tab.locator(".card", { hasText: "one" }).getByRole("button", { name: "Star" });
    await star.click();
    await expect.poll(() => star.getAttribute("aria-pressed")).toBe("true");
    await tab.getByLabel("Starred").check();
    await expect.poll(() => promptsOf(tab)).toEqual(["one"]);
    expect(new URL(tab.url()).search).toBe("?starred=1");
    await tab.locator(".card a").click();
    await isLive(tab);
    const pressed = tab.getByRole("button", { name: "Star", pressed: true });
    await pressed.click();
    await expect.poll(() => tab.getByRole("button", { name: "Star", pressed: false }).count()).toBe(1);
    await tab.goto(`${page.url}/?starred=1`);
    await shows(tab.locator("main"), "No generation matches");
  });

  test("fewer than two, more than six, and those of others are not compared", async () => {
    const { page, tab } = await open();
    const ids: string[] = [];
    for (let seed = 0; seed < 7; seed++) ids.push(await page.make({ prompt: "a fox", seed }));
    const query = (all: readonly string[]) => all.map((id) => `id=${id}`).join("&");
    await tab.goto(`${page.url}/compare?${query(ids)}`);
    await shows(tab.locator("main"), "At most 6 videos are compared");
    await tab.goto(`${page.url}/compare?${query(ids.slice(0, 1))}&id=no-id`);
    await shows(tab.locator("main"), "There are not two videos to compare");
  });
});

test("an account's key gets no video, no star and no .zip of another account", async () => {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  const id = await page.make();
  await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 100 });
  const own = await page.make({ prompt: "own" }, "a-key-of-ci");
  const form = new URLSearchParams({ key: "a-key-of-ci" });
  const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
  const headers = { Cookie: entered.headers.getSetCookie()[0]?.split(";")[0] ?? "", Origin: page.url };
  const status = async (path: string, method = "GET") => (await fetch(page.url + path, { method, headers })).status;
  const zip = (...ids: string[]) => fetch(`${page.url}/zip`, { method: "POST", headers, body: idForm(ids) });
  expect((await zip(id)).status).toBe(404);
  expect(await status(`/generations/${id}/star`, "PUT")).toBe(404);
  expect(await status(`/generations/${own}/star`, "PUT")).toBe(204);
  expect(await status(`/compare?id=${id}&id=${own}`)).toBe(400);
  const text = await (await zip(id, own)).text();
  expect([text.includes(own.slice(0, 8)), text.includes(id.slice(0, 8))]).toEqual([true, false]);
  const away = { ...headers, Origin: "https://evil.example" };
  const forged = await fetch(`${page.url}/generations/${own}/star`, { method: "DELETE", headers: away });
  expect([forged.status, (await store.generation(own))?.isStarred]).toEqual([403, true]);
  expect((await store.generation(id))?.isStarred).toBeUndefined();
});

/** The body of a form with these ids. */
function idForm(ids: readonly string[]) {
  return new URLSearchParams(ids.map((id): [string, string] => ["id", id]));
}

/** Asks for the .zip of these as the page's form does. */
async function zipFrom(page: TestPage) {
  const signedIn = await fetch(page.link, { redirect: "manual" });
  const headers = { Cookie: signedIn.headers.getSetCookie()[0]?.split(";")[0] ?? "", Origin: page.url };
  return (ids: readonly string[]) => fetch(`${page.url}/zip`, { method: "POST", headers, body: idForm(ids) });
}

test("a .zip has its size from the beginning, and breaks off where a video has been removed meanwhile", async () => {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  const ids = [await page.make(), await page.make()];
  const zip = await zipFrom(page);
  const reply = await zip(ids);
  expect((await reply.arrayBuffer()).byteLength).toBe(Number(reply.headers.get("Content-Length")));
  const media = (await store.generation(ids[1] ?? ""))?.media;
  await rm(join(page.folder, media?.file ?? ""));
  await expect(zip(ids).then((each) => each.arrayBuffer())).rejects.toThrow();
});

test("a .zip takes as many videos as a list can have, whose ids are too long for an address", async () => {
  const page = await openTestPage();
  const id = await page.make();
  const zip = await zipFrom(page);
  const missing = Array.from({ length: 499 }, () => randomUUID());
  expect((await zip([...missing, id])).status).toBe(200);
});

describe("a .zip that is broken off leaves no video open", () => {
  const videos = async (count: number) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store });
    const all: Finished[] = [];
    for (let index = 0; index < count; index++) all.push((await store.generation(await page.make())) as Finished);
    return all;
  };
  const endless = () =>
    Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536);
      })(),
    );

  test("while a video is read", async () => {
    const opened: Readable[] = [];
    const read = async () => {
      const video = endless();
      opened.push(video);
      return video;
    };
    const { body } = zipOf(await videos(2), { read });
    for await (const _ of body) if (opened.length > 0) break;
    await finished(body).catch(() => {});
    expect(opened.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  test("while a video is opened", async () => {
    const video = endless();
    const opening = new EventEmitter();
    const read = async () => {
      setImmediate(() => opening.emit("asked"));
      await once(opening, "answered");
      return video;
    };
    const { body } = zipOf(await videos(1), { read });
    body.resume();
    await once(opening, "asked");
    body.destroy();
    opening.emit("answered");
    await once(body, "close");
    expect(video.destroyed).toBe(true);
  });

  test("before anything is read", async () => {
    let count = 0;
    const read = async () => {
      count++;
      return endless();
    };
    const { body } = zipOf(await videos(1), { read });
    body.destroy();
    await once(body, "close");
    expect(count).toBe(0);
  });
});
