import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { browserPath } from "../../needs.ts";
import { findFaults, isLive, launch, openLink, openTab, shows, type Tab } from "./browser.ts";
import { aVideo, openTestPage, receive, type TestPage, type TestPageOptions } from "./harness.ts";

// The page in a real browser, over a real socket. Nothing here reloads a page, but where a test says so.

let browser: Browser;

/** The part of a video element that is used; Node has no types of a browser. */
type Player = { currentTime: number; play(): Promise<void> };

const hostile = [
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(2)>',
  "\u202egnp.exe مرحبا بالعالم",
  "👩‍👩‍👧‍👦 🏔️ a family climbs",
  `a fox ${"runs ".repeat(2_000)}`,
];

describe("the page", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async (options?: TestPageOptions) => {
    const page = await openTestPage(options);
    return { page, tab: await openTab(browser, page.link) };
  };
  const card = (tab: Tab, id: string) => tab.locator(`#generation-${id}, #callback-${id}`);
  const setHidden = (tab: Tab, isHidden: boolean) =>
    tab.evaluate((hidden) => {
      const { document } = globalThis as unknown as { document: EventTarget };
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  const promptsOf = (tab: Tab) => tab.locator(".card .prompt").allInnerTexts();

  test("a generation appears, moves, and completes by itself", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    await shows(tab.locator(".empty"), "No generations yet");
    const { id, running } = await page.start({ prompt: "a fox at dusk" });
    await shows(card(tab, id), "Running");
    running.progress(42);
    const bar = card(tab, id).locator("progress");
    await expect.poll(() => bar.getAttribute("value").then(Number)).toBe(42);
    running.complete();
    await shows(card(tab, id), "Completed");
    await shows(tab.locator("#count-completed"), "1");
    expect(await tab.locator(".empty").isVisible()).toBe(false);
    expect(tab.complaints).toEqual([]);
  });

  test("one that fails says why, on its card and in full", async () => {
    const { page, tab } = await open();
    const { id, running } = await page.start();
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    running.fail("the GPU ran out of memory");
    await shows(tab.locator(".error"), "the GPU ran out of memory");
    await tab.goto(page.url);
    await shows(card(tab, id), "the GPU ran out of memory");
  });

  test.each([true, false])(
    "the video plays on hover, with the keyboard, and in the detail view (thumbnail: %s)",
    async (hasThumbnail) => {
      const { page, tab } = await open({ hasThumbnail, video: await aVideo() });
      const id = await page.make();
      await shows(card(tab, id), "Completed");
      const moves = async (video: Locator) =>
        expect.poll(() => video.evaluate((element: Player) => element.currentTime)).toBeGreaterThan(0);
      const preview = card(tab, id).locator("video").last();
      await card(tab, id).hover();
      await moves(preview);
      await tab.mouse.move(0, 0);
      await expect.poll(() => card(tab, id).locator("video").count()).toBe(hasThumbnail ? 0 : 1);
      await card(tab, id).locator("> a").focus();
      await moves(preview);
      await card(tab, id).locator("> a").click();
      const player = tab.locator(".player video");
      await player.evaluate((element: Player) => element.play());
      await moves(player);
      const [download] = await Promise.all([
        tab.waitForEvent("download"),
        tab.getByRole("link", { name: "Download" }).click(),
      ]);
      expect(download.suggestedFilename()).toBe(`a-fox-take-1-wan-2.5-${id.slice(0, 8)}.mp4`);
      expect(tab.complaints).toEqual([]);
    },
  );

  test("the detail view shows the job of the engine, the callback's attempts and the cost as they come", async () => {
    const { page, tab } = await open();
    const { url: callback_url } = await receive(
      { status: 500, text: "database down" },
      { status: 200, text: "thanks" },
    );
    const { id, running } = await page.start({ callback_url });
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    await running.checkpoint({ state: "submitted", job: "video-7" });
    const timeline = tab.locator(".timeline");
    await shows(timeline, "Submitted to http://gpu-1:8091");
    await shows(timeline, "video-7");
    running.complete();
    await shows(timeline, "Completed");
    await shows(timeline, "Callback delivered after attempt 2");
    await shows(tab.locator("main .facts-table").first(), "10 credits");
    await tab.getByText("2 attempts").click();
    await shows(tab.locator(".delivery"), "database down");
  });

  test("a callback is sent again by its button, and the page shows it", async () => {
    const { page, tab } = await open();
    const { url: callback_url, received } = await receive({ status: 410, text: "" }, { status: 204, text: "" });
    const id = await page.make({ callback_url });
    await tab.goto(`${page.url}/callbacks`);
    await isLive(tab);
    await shows(card(tab, id), "Given up");
    await card(tab, id).locator("summary").first().click();
    await tab.getByRole("button", { name: "Send again" }).click();
    await shows(card(tab, id), "Delivered");
    expect(received.map((callback) => callback.id)).toEqual([received[0]?.id, received[0]?.id]);
    await card(tab, id).getByText("Signed headers").last().click();
    await shows(card(tab, id), `webhook-id: ${received[0]?.id}`);
  });

  test("the ledger grows by itself", async () => {
    const { page, tab } = await open();
    await tab.goto(`${page.url}/credits`);
    await isLive(tab);
    await page.start();
    await shows(tab.locator(".balances"), "999,990");
    await shows(tab.locator(".ledger").last(), "−10");
  });

  test("the filter works without a reload, and what no longer fits it goes", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "a fox", model: "veo-3.1" });
    const { running } = await page.start({ prompt: "a bear" });
    await shows(tab.locator(".cards"), "a bear");
    await tab.evaluate("isSamePage = true");
    await tab.getByRole("searchbox").fill("FOX");
    await expect.poll(() => promptsOf(tab)).toEqual(["a fox"]);
    await tab.getByRole("searchbox").fill("");
    await tab.locator("label", { hasText: "Running" }).click();
    await expect.poll(() => promptsOf(tab)).toEqual(["a bear"]);
    await expect.poll(() => tab.url()).toBe(`${page.url}/?state=running`);
    running.complete();
    await expect.poll(() => promptsOf(tab)).toEqual([]);
    await shows(tab.locator(".empty"), "No generation matches");
    await tab.locator("label", { hasText: "All" }).click();
    await tab.getByLabel("Model").selectOption("veo-3.1");
    await expect.poll(() => promptsOf(tab)).toEqual(["a fox"]);
    expect(await tab.evaluate("isSamePage")).toBe(true);
  });

  test("older ones come a page at a time", async () => {
    const page = await openTestPage();
    for (let n = 0; n < 50; n++) await page.start({ prompt: `take ${n}` });
    const tab = await openTab(browser, page.link);
    expect(await promptsOf(tab)).toHaveLength(48);
    await tab.getByText("Show older").click();
    await expect.poll(async () => (await promptsOf(tab)).at(-1)).toBe("take 0");
    expect(await promptsOf(tab)).toHaveLength(50);
  });

  test("what was started while the tab was hidden is all there, however much", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "the first" });
    await shows(tab.locator(".card"), "Completed");
    await setHidden(tab, true);
    await Promise.all(Array.from({ length: 60 }, () => page.start()));
    await setHidden(tab, false);
    await expect.poll(() => tab.locator(".card").count()).toBe(48);
    await tab.getByText("Show older").click();
    await expect.poll(() => tab.locator(".card").count()).toBe(61);
  });

  test("while the server's answer about the old filter is on its way, another filter keeps its own list", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    const answers: (() => void)[] = [];
    await tab.route(`${page.url}/`, (route) => answers.push(() => void route.continue()));
    await page.start({ prompt: "a fox" });
    await expect.poll(() => answers.length).toBe(1);
    await tab.getByRole("searchbox").fill("owl");
    await shows(tab.locator(".empty"), "No generation matches");
    answers[0]?.();
    await tab.waitForRequest((request) => request.url().includes("text=owl"), { timeout: 1_500 }).catch(() => {});
    expect(await promptsOf(tab)).toEqual([]);
  });

  test("a generation that does not exist is no reason to say that serve does not answer", async () => {
    const { page, tab } = await open();
    await tab.goto(`${page.url}/generations/none`);
    await isLive(tab);
    expect(await tab.locator("#notice").isVisible()).toBe(false);
  });

  test("a session that expires while events come continues after the link was opened again", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    await tab.context().clearCookies();
    await page.start();
    await shows(tab.locator("#notice"), "Sign in again in this browser");
    await openLink(await tab.context().newPage(), page.link);
    await isLive(tab);
  });

  test("by keyboard alone: search, go from card to card, open, and back", async () => {
    const { page, tab } = await open();
    for (const prompt of ["one", "two", "three"]) await page.make({ prompt });
    await shows(tab.locator(".cards"), "three");
    const focused = () => tab.evaluate("document.activeElement.textContent");
    await tab.keyboard.press("/");
    expect(await tab.evaluate("document.activeElement.type")).toBe("search");
    await tab.keyboard.press("Tab");
    expect(await focused()).toContain("three");
    const outline = await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle");
    expect(outline).toBe("solid");
    await tab.keyboard.press("ArrowRight");
    expect(await focused()).toContain("two");
    await tab.keyboard.press("End");
    expect(await focused()).toContain("one");
    await tab.keyboard.press("Enter");
    await tab.waitForURL(/generations/);
    await shows(tab.locator(".whole-prompt"), "one");
    await tab.keyboard.press("Escape");
    await tab.waitForURL(`${page.url}/`);
  });

  test("hostile prompts are shown as text, and nothing of them runs", async () => {
    const { page, tab } = await open();
    const ids: string[] = [];
    for (const prompt of hostile) ids.push(await page.make({ prompt }));
    await shows(tab.locator(".cards"), "<script>alert(1)</script>");
    for (const [index, id] of ids.entries()) {
      await tab.goto(`${page.url}/generations/${id}`);
      expect(await tab.locator("h1").textContent()).toBe(hostile[index]);
      expect(JSON.parse((await tab.locator("#code-json").textContent()) ?? "").prompt).toBe(hostile[index]);
    }
    expect(tab.complaints).toEqual([]);
  });

  test("a restart of serve is survived, and what happened meanwhile is shown", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    await page.stop();
    await shows(tab.locator("#notice"), "does not respond");
    await page.restart();
    await isLive(tab);
    expect(await tab.locator("#notice").isVisible()).toBe(false);
    const { id } = await page.start();
    await shows(card(tab, id), "Running");
  });

  test("where server-sent events fail, the page polls", async () => {
    const page = await openTestPage();
    const context = await browser.newContext();
    onTestFinished(() => context.close());
    await context.route("**/events*", (route) => route.abort());
    const tab = (await context.newPage()) as Tab;
    await openLink(tab, page.link);
    await shows(tab.locator(".empty"), "No generations yet");
    const { id } = await page.start();
    await shows(card(tab, id), "Running");
  });

  test("a session that has ended says what to do, and continues after the link was opened again", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    await tab.context().clearCookies();
    await page.restart();
    await shows(tab.locator("#notice"), "Sign in again in this browser");
    await openLink(await tab.context().newPage(), page.link);
    await isLive(tab);
  });

  test("another site's form and fetch reach nothing, though the visitor is signed in", async () => {
    const { page, tab } = await open();
    const { url: callback_url, received } = await receive({ status: 200, text: "" });
    const id = await page.make({ callback_url });
    await expect.poll(() => received.length).toBe(1);
    const send = `${page.url}/callbacks/${id}/send`;
    const evil = createServer((_, response) =>
      response.setHeader("Content-Type", "text/html").end(`<form method="post" action="${send}"></form>`),
    );
    await new Promise<void>((resolve) => evil.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void evil.close());
    await tab.goto(`http://127.0.0.1:${(evil.address() as AddressInfo).port}`);
    const fetched = await tab.evaluate(
      async ([read = "", write = ""]) => [
        await fetch(read, { credentials: "include" }).catch(() => "refused"),
        await fetch(write, { method: "POST", credentials: "include" }).catch(() => "refused"),
      ],
      [`${page.url}/`, send],
    );
    expect(fetched).toEqual(["refused", "refused"]);
    const [reply] = await Promise.all([
      tab.waitForResponse(send),
      tab.evaluate("document.querySelector('form').submit()"),
    ]);
    expect(reply.status()).toBe(403);
    expect(received).toHaveLength(1);
  });

  test.each([true, false])(
    "a portrait video is shown whole in the frame of all cards, on a copy that fills it (thumbnail: %s)",
    async (hasThumbnail) => {
      const [wide, tall] = [await aVideo(), await aVideo({ aspectRatio: "9:16" })];
      const video = (prompt: string) => (prompt === "tall" ? tall : wide);
      const { page, tab } = await open({ hasThumbnail, video });
      const ids = [await page.make({ prompt: "tall", aspectRatio: "9:16" }), await page.make({ prompt: "wide" })];
      const [first, second] = ids.map((id) => card(tab, id).locator(".stage"));
      await expect.poll(() => first?.locator(".backdrop").count()).toBe(1);
      await second?.locator(hasThumbnail ? "img" : "video").waitFor();
      expect(await second?.locator(".backdrop").count()).toBe(0);
      const picture = first?.locator(hasThumbnail ? "img" : "video");
      expect(
        await picture?.evaluate("getComputedStyle(document.querySelector('.stage > :not(canvas)')).objectFit"),
      ).toBe("contain");
      const [box, other] = [await first?.boundingBox(), await second?.boundingBox()];
      expect([box?.width, box?.height]).toEqual([other?.width, other?.height]);
    },
  );

  test("a menu closes by Escape, which then leaves nothing else, and by a click elsewhere", async () => {
    const { page, tab } = await open();
    const id = await page.make();
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    const signOut = tab.getByRole("button", { name: "Sign out", exact: true });
    for (const close of [() => tab.keyboard.press("Escape"), () => tab.mouse.click(700, 700)]) {
      await tab.getByRole("button", { name: "Owner" }).click();
      expect(await signOut.isVisible()).toBe(true);
      await close();
      expect([await signOut.isVisible(), tab.url()]).toEqual([false, `${page.url}/generations/${id}`]);
    }
  });

  test("on a low window the head of the page takes less than a seventh", async () => {
    const page = await openTestPage();
    const tab = await openTab(browser, page.link, { viewport: { width: 640, height: 400 } });
    await isLive(tab);
    for (const width of [640, 700, 800]) {
      await tab.setViewportSize({ width, height: 400 });
      expect((await tab.locator("header").boundingBox())?.height).toBeLessThan(400 / 7);
      for (const name of ["Live", "Owner"]) expect(await tab.locator("header").getByText(name).isVisible()).toBe(true);
    }
  });

  test("on paper the page is dark on light, whatever was chosen, and without what only works on a screen", async () => {
    const page = await openTestPage();
    const id = await page.make();
    const tab = await openTab(browser, page.link, { colorScheme: "dark" });
    const colours = () =>
      tab.evaluate("[document.body, document.querySelector('h1')].map((each) => getComputedStyle(each).color)");
    for (const theme of ["System", "Dark"]) {
      await tab.getByRole("button", { name: "Owner" }).click();
      await tab.getByLabel("Colours").selectOption(theme);
      await tab.goto(`${page.url}/generations/${id}`);
      await tab.emulateMedia({ media: "print", colorScheme: "dark" });
      expect([theme, await colours()]).toEqual([theme, ["rgb(26, 27, 30)", "rgb(26, 27, 30)"]]);
      expect(await tab.locator("header").first().isVisible()).toBe(false);
      await tab.emulateMedia({ media: "screen", colorScheme: "dark" });
    }
  });

  const looks = [
    { name: "360 px, dark", viewport: { width: 360, height: 780 }, colorScheme: "dark" },
    { name: "1280 px, light", viewport: { width: 1280, height: 800 }, colorScheme: "light" },
    { name: "2560 px, dark", viewport: { width: 2560, height: 1440 }, colorScheme: "dark" },
  ] as const;

  test.each(looks)("at $name every view fits, and axe finds nothing serious", async (look) => {
    const page = await openTestPage();
    const id = await fill(page);
    const tab = await openTab(browser, page.link, look);
    const views = ["/", `/generations/${id}`, "/callbacks", "/credits", "/engine-status"];
    const made = ["/new", `/new?from=${id}`, `/compare?of=${id}`, "/batches", "/batches/foxes%20%26%20bears.csv"];
    const check = async (path: string, colorScheme: "dark" | "light") => {
      await tab.emulateMedia({ colorScheme });
      await tab.goto(page.url + path);
      await isLive(tab);
      expect(await tab.evaluate("document.documentElement.scrollWidth")).toBe(look.viewport.width);
      const ground = await tab.evaluate("getComputedStyle(document.body).backgroundColor");
      expect(ground).toBe(colorScheme === "dark" ? "rgb(16, 17, 19)" : "rgb(246, 246, 244)");
      expect({ path, colorScheme, faults: await findFaults(tab) }).toEqual({ path, colorScheme, faults: [] });
    };
    for (const path of [...views, ...made]) await check(path, look.colorScheme);
    for (const colorScheme of ["dark", "light"] as const) await check(`/new?continue=${id}&started=${id}`, colorScheme);
  });

  /** One of each kind; resolves with the id of one that has completed. */
  async function fill(page: TestPage): Promise<string> {
    const { url: callback_url } = await receive({ status: 500, text: "no ".repeat(200) });
    const { running } = await page.start();
    running.progress(50);
    (await page.start({ prompt: hostile[4] })).running.fail("x".repeat(300));
    for (const prompt of hostile) await page.make({ prompt });
    const label = { "Vidgen-Label": encodeURIComponent("foxes & bears.csv"), "Vidgen-Label-Size": "40" };
    (await page.start({ prompt: "fails in a batch" }, undefined, label)).running.fail("out of memory");
    await page.start({ prompt: "runs in a batch" }, undefined, label);
    await page.make({ prompt: "a fox for all", seed: 7 }, undefined, label);
    return page.make({ callback_url, prompt: "a fox for all" });
  }
});
