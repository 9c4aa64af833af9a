import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encode } from "../../../src/server/engines/preview/encode.ts";
import type { Frame } from "../../../src/server/engines/preview/frame.ts";
import { renderPreview } from "../../../src/server/engines/preview/render.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { fileName } from "../../../src/video/naming.ts";
import { makeFolder } from "../../folder.ts";
import { browserPath } from "../../needs.ts";
import { aTask } from "../engines/preview/requests.ts";
import { holdScript, isLive, launch, openTab, shows, type Tab } from "./browser.ts";
import { aVideo, openTestPage, type TestPageOptions } from "./harness.ts";

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
  const choose = (tab: Tab, prompt: string) => tab.getByRole("checkbox", { name: `Select ${prompt}` }).check();
  const press = async (tab: Tab, ...names: string[]) => {
    for (const name of names) await tab.keyboard.press(name);
  };
  /** The number of the frame that each video shows, from 0, at so many a second. */
  const framesOf = async (tab: Tab, rate: number) => {
    const times = await tab.evaluate<number[]>(
      "[...document.querySelectorAll('.compared video')].map((each) => each.currentTime)",
    );
    return times.map((time) => Math.floor(time * rate));
  };
  const promptsOf = (tab: Tab) => tab.locator(".card .prompt").allInnerTexts();

  test("six play in step, from one button and one slider, and say in what they differ", async () => {
    const { page, tab } = await open();
    const ids: string[] = [];
    for (let seed = 1; seed <= 6; seed++) ids.push(await page.make({ prompt: "a fox", seed }));
    await page.make({ prompt: "a fox runs" });
    await tab.goto(`${page.url}/generations/${ids[0]}`);
    await tab.getByRole("button", { name: "More" }).click();
    await tab.getByRole("link", { name: "Compare takes of this prompt" }).click();
    await shows(tab.getByRole("heading", { level: 1 }), "a fox");
    expect(await tab.locator(".compared video").count()).toBe(6);
    const seeds = tab.getByRole("row", { name: "seed (differs)" });
    expect(await seeds.getByRole("cell").allInnerTexts()).toEqual(
      expect.arrayContaining(["1", "2", "3", "4", "5", "6"]),
    );
    expect(await tab.getByRole("row", { name: "Model" }).first().innerText()).not.toContain("differs");
    expect(await tab.getByRole("columnheader").allInnerTexts()).toEqual([
      "Fact",
      ...[1, 2, 3, 4, 5, 6].map((n) => `Video ${n}`),
    ]);
    const times = () =>
      tab.evaluate<number[]>("[...document.querySelectorAll('.compared video')].map((each) => each.currentTime)");
    await expect.poll(() => tab.locator("#position").getAttribute("max")).toBe("2");
    await tab.getByLabel("Position").fill("1");
    await expect.poll(times).toEqual([1, 1, 1, 1, 1, 1]);
    await tab.getByLabel("Position").fill("0");
    await tab.getByRole("button", { name: "Play" }).click();
    await expect.poll(async () => Math.max(...(await times()))).toBeGreaterThan(0.3);
    // One is held up, as by a slow network.
    await tab.evaluate("document.querySelectorAll('.compared video')[3].pause()");
    await tab.evaluate("document.querySelectorAll('.compared video')[4].currentTime = 1.9");
    const spread = async () => {
      const at = await times();
      return Math.max(...at) - Math.min(...at);
    };
    await expect.poll(spread).toBeLessThan(0.1);
    await tab.getByRole("button", { name: "Pause" }).click();
    const paused = await times();
    await tab.waitForTimeout(200);
    expect(await times()).toEqual(paused);
    expect(tab.complaints).toEqual([]);
  });

  test("a video that loads late goes to where the others are", async () => {
    const { page, tab } = await open();
    const ids = [await page.make({ prompt: "a fox" }), await page.make({ prompt: "a fox" })];
    const held: (() => void)[] = [];
    await tab.route(`**/*${ids[1]}*.mp4*`, (route) => held.push(() => void route.continue()));
    await tab.goto(`${page.url}/compare?of=${ids[0]}`, { waitUntil: "commit" });
    await expect.poll(() => tab.locator("#position").getAttribute("max")).toBe("2");
    await tab.getByLabel("Position").fill("1");
    expect(await framesOf(tab, 1)).toEqual([1, 0]);
    for (const load of held) load();
    await expect.poll(() => framesOf(tab, 1)).toEqual([1, 1]);
  });

  test("they step frame by frame, each video one of its own where all are alike, and play and pause by keys", async () => {
    const { page, tab } = await open();
    const ids = [await page.make({ prompt: "a fox" }), await page.make({ prompt: "a fox" })];
    await tab.goto(`${page.url}/compare?of=${ids[0]}`);
    await isLive(tab);
    // A preview has 12 frames a second.
    const frames = () => framesOf(tab, 12);
    await press(tab, ".");
    await expect.poll(frames).toEqual([1, 1]);
    await press(tab, ".", ".", ",", ".");
    await expect.poll(frames).toEqual([3, 3]);
    for (let times = 0; times < 5; times++) await tab.keyboard.down(",");
    await expect.poll(frames).toEqual([0, 0]);
    await tab.getByLabel("Position").fill("1");
    await press(tab, ".");
    await expect.poll(frames).toEqual([13, 13]);
    await tab.getByRole("button", { name: "One frame back" }).click();
    await expect.poll(frames).toEqual([12, 12]);
    for (const key of ["p", "Space"]) {
      await tab.getByLabel("Position").focus();
      await press(tab, key);
      await shows(tab.locator("#play"), "Pause");
      await press(tab, key);
      await shows(tab.locator("#play"), "Play");
    }
    // Space presses what has the focus, once.
    await tab.locator("#play").focus();
    await press(tab, "Space");
    await shows(tab.locator("#play"), "Pause");
    await press(tab, ".");
    await shows(tab.locator("#play"), "Play");
    expect(tab.complaints).toEqual([]);
  });

  test("videos of different rates stay at the same time, and the faster one skips no frame", async () => {
    const [slow, fast] = [await aVideo(), { ...(await aVideo()), file: join(makeFolder(), "fast.mp4") }];
    const paint = (frame: Frame, index: number) => void frame.bytes.fill(index);
    await writeFile(fast.file, await encode({ width: 64, height: 64, frameRate: 24, frameCount: 48, paint }));
    const { page, tab } = await open({ video: (prompt) => (prompt === "fast" ? fast : slow) });
    const ids = [await page.make({ prompt: "slow" }), await page.make({ prompt: "fast" })];
    await tab.goto(`${page.url}/compare?id=${ids[0]}&id=${ids[1]}`);
    await isLive(tab);
    for (let step = 1; step <= 4; step++) {
      await press(tab, ".");
      await expect.poll(() => framesOf(tab, 24)).toEqual([step, step]);
    }
  });

  test("each is in a frame of the same size, and is starred, downloaded and made again by the keys", async () => {
    const ratios = ["16:9", "9:16", "1:1"];
    const videos = ratios.map((aspectRatio) => aTask({ aspectRatio }));
    for (const task of videos) await renderPreview(task);
    const { page, store, tab } = await open({ video: (prompt) => videos[ratios.indexOf(prompt)] ?? aTask() });
    const ids: string[] = [];
    for (const aspectRatio of ratios) ids.push(await page.make({ prompt: aspectRatio, aspectRatio }));
    await tab.goto(`${page.url}/compare?${ids.map((id) => `id=${id}`).join("&")}`);
    await isLive(tab);
    const hasLoaded = "[...document.querySelectorAll('.compared video')].every(({ videoWidth }) => videoWidth > 0)";
    await expect.poll(() => tab.evaluate(hasLoaded)).toBe(true);
    for (const width of [360, 1280, 2560]) {
      await tab.setViewportSize({ width, height: 800 });
      const sizes = await tab.evaluate<string[]>(
        "[...document.querySelectorAll('.compared video')].map(({ offsetWidth, offsetHeight }) => [offsetWidth, offsetHeight].join(' x '))",
      );
      expect(new Set(sizes).size).toBe(1);
      expect(await tab.evaluate("document.documentElement.scrollWidth")).toBe(width);
    }
    await press(tab, "j", "ArrowRight", "s");
    await expect.poll(() => store.generation(ids[1] ?? "").then((each) => each?.isStarred)).toBe(true);
    expect((await store.generation(ids[0] ?? ""))?.isStarred).not.toBe(true);
    const [file] = await Promise.all([tab.waitForEvent("download"), press(tab, "d")]);
    expect(file.suggestedFilename()).toBe(fileName({ id: ids[1] ?? "", prompt: "9:16", model: "wan-2.5" }));
    await press(tab, "r");
    await tab.waitForURL(`${page.url}/new?from=${ids[1]}`);
  });

  test("selected cards are compared and downloaded; the selection stays while the list changes", async () => {
    const { page, tab, video } = await open();
    const ids: string[] = [];
    for (const prompt of ["one", "two", "three"]) ids.push(await page.make({ prompt }));
    await tab.reload();
    await isLive(tab);
    await choose(tab, "one");
    await choose(tab, "three");
    // While the pointer or the focus is in the list, what is new waits.
    await tab.mouse.move(0, 0);
    await tab.getByRole("button", { name: "Clear selection" }).focus();
    await page.make({ prompt: "four" });
    await expect.poll(() => promptsOf(tab)).toContain("four");
    const [download] = await Promise.all([
      tab.waitForEvent("download"),
      tab.getByRole("button", { name: "Download .zip" }).click(),
    ]);
    const file = join(makeFolder(), "chosen.zip");
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
    const same = join(makeFolder(), "compared.zip");
    await again.saveAs(same);
    expect((await readFile(same)).length).toBe(zip.length);
  });

  test("the first press of x that a page hears after a reload chooses, also on a slow machine", async () => {
    const { page, tab } = await open();
    for (const prompt of ["one fox", "two foxes"]) await page.make({ prompt });
    const debug = await tab.context().newCDPSession(tab);
    await debug.send("Emulation.setCPUThrottlingRate", { rate: 6 });
    await tab.addInitScript(`
      const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
      const timer = setInterval(() => {
        press("j");
        if (!document.activeElement?.closest(".card")) return;
        clearInterval(timer);
        press("x");
      }, 1);`);
    for (const count of [1, 0, 1]) {
      await tab.reload();
      await isLive(tab);
      await expect.poll(() => tab.locator(".controls > :checked").count()).toBe(count);
      expect(JSON.parse(await tab.evaluate("sessionStorage['vidgen selection']"))).toHaveLength(count);
    }
  });

  test("a box that is checked while the script still loads stays checked, and one that was cleared elsewhere is not checked by back", async () => {
    const { page, tab } = await open();
    const id = await page.make({ prompt: "one fox" });
    const releaseScript = await holdScript(tab);
    await tab.goto(page.url, { waitUntil: "commit" });
    await choose(tab, "one fox");
    releaseScript();
    await isLive(tab);
    await page.make({ prompt: "two foxes" });
    const selected = tab.getByRole("form", { name: "Selected videos" });
    await shows(selected, "1 selected");
    expect(await tab.getByLabel("Select one fox").isChecked()).toBe(true);
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    await selected.getByRole("button", { name: "Clear selection" }).click();
    await tab.goBack();
    await isLive(tab);
    expect(await tab.locator(".controls > :checked").count()).toBe(0);
  });

  test("what is selected stays selected through a search and a reload, with a count; Compare is offered for two to six", async () => {
    const { page, tab } = await open();
    const prompts = ["one fox", "two foxes", "an owl", "a bear", "a cat", "a dog", "a hen"];
    for (const prompt of prompts) await page.make({ prompt });
    await tab.reload();
    await isLive(tab);
    const bar = tab.getByRole("form", { name: "Selected videos" });
    const compare = bar.getByRole("button", { name: "Compare" });
    await choose(tab, "an owl");
    await shows(bar, "1 selected");
    expect(await compare.isDisabled()).toBe(true);
    await tab.getByRole("searchbox").fill("fox");
    await expect.poll(() => promptsOf(tab)).toHaveLength(2);
    await shows(bar, "1 selected");
    await choose(tab, "two foxes");
    await shows(bar, "2 selected");
    await tab.reload();
    await isLive(tab);
    await shows(bar, "2 selected");
    expect(await tab.locator(".controls > :checked").count()).toBe(1);
    await compare.click();
    await expect.poll(() => tab.locator(".compared video").count()).toBe(2);
    expect(new URL(tab.url()).searchParams.getAll("id")).toHaveLength(2);
    await tab.goBack();
    await isLive(tab);
    await tab.getByRole("searchbox").fill("");
    await expect.poll(() => promptsOf(tab)).toHaveLength(7);
    expect(await tab.locator(".controls > :checked").count()).toBe(2);
    for (const prompt of prompts) await choose(tab, prompt);
    await shows(bar, "7 selected");
    await shows(bar, "Compare takes 2 to 6");
    expect(await compare.isDisabled()).toBe(true);
    await bar.getByRole("button", { name: "Clear selection" }).click();
    expect([await tab.locator(".controls > :checked").count(), await bar.isVisible()]).toEqual([0, false]);
    expect(tab.complaints).toEqual([]);
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
    await tab.locator(".card > a").click();
    await isLive(tab);
    await tab.getByRole("button", { name: "More" }).click();
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
    await shows(tab.locator("main"), "Compare at most 6 videos");
    await tab.goto(`${page.url}/compare?${query(ids.slice(0, 1))}&id=no-id`);
    await shows(tab.locator("main"), "Fewer than two videos to compare");
  });
});
