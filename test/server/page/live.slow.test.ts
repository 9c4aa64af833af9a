import type { Browser, Locator, Route } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { browserPath } from "../../needs.ts";
import { createDistant } from "../service.ts";
import { newGeneration } from "../store/records.ts";
import { findFaults, launch, openTab, type Tab } from "./browser.ts";
import { apiKey, aVideo, openTestPage, receive, type TestPage, type TestPageOptions } from "./harness.ts";

// What the page shows is what the service has, or it says that it is not.

let browser: Browser;

type Player = { currentTime: number; play(): Promise<void>; paused: boolean };

describe("the page stays true", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async (options?: TestPageOptions) => {
    const page = await openTestPage(options);
    return { page, tab: await openTab(browser, page.link) };
  };
  const shows = async (place: Locator, text: string) =>
    expect.poll(() => place.innerText({ timeout: 1_000 }).catch(() => "")).toContain(text);
  const isLive = (tab: Tab) => shows(tab.locator("#connection"), "Live");
  const promptsOf = (tab: Tab) => tab.locator(".card .prompt").allInnerTexts();
  const scrollOf = (tab: Tab) => tab.evaluate<number>("scrollY");

  /** A service that has kept many generations, the oldest called "take 1". */
  async function openFilled(count: number) {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store });
    const { request } = newGeneration();
    await Promise.all(
      Array.from({ length: count }, async (_, n) => {
        const generation = newGeneration({ request: { ...request, prompt: `take ${n + 1}` } });
        await store.start(generation, 1, undefined);
        const end = { completed_at: "2026-01-01T00:01:00.000Z", media: null, cost: null, error: "no" };
        await store.finish(generation.id, { ...end, status: "failed" });
      }),
    );
    return page;
  }

  test("a filter that is chosen while serve is down is shown once it is back, and nothing is called Live before", async () => {
    const { page, tab } = await open();
    for (const n of [1, 2, 3]) await page.make({ prompt: `good ${n}` });
    (await page.start({ prompt: "bad" })).running.fail("out of memory");
    await shows(tab.locator(".cards"), "out of memory");
    await page.stop();
    await shows(tab.locator("#notice"), "does not respond");
    await tab.locator("label", { hasText: "Failed" }).click();
    await tab.waitForTimeout(500);
    expect([new URL(tab.url()).search, await promptsOf(tab)]).toEqual(["", ["bad", "good 3", "good 2", "good 1"]]);
    expect(await tab.locator("main").getAttribute("aria-busy")).toBe("true");
    expect(await tab.locator("#connection").innerText()).toBe("Reconnecting");
    await page.restart();
    await isLive(tab);
    expect(await promptsOf(tab)).toEqual(["bad"]);
    expect(tab.url()).toMatch(/=failed$/);
  });

  test("behind a proxy that holds the events back, the page says so, and is up to date nevertheless", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    // Nobody answers: as behind a proxy that waits for the end of the stream.
    await tab.route("**/events*", () => {});
    await tab.reload();
    await page.start({ prompt: "held back" });
    await shows(tab.locator("#connection"), "No live updates");
    await shows(tab.locator(".cards"), "held back");
    await tab.unroute("**/events*");
    await isLive(tab);
  });

  test("while an account has too many streams, the page says so, and is up to date nevertheless", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    await tab.route("**/events*", (route) => route.fulfill({ status: 429 }));
    await tab.reload();
    await page.start({ prompt: "refused a stream" });
    await shows(tab.locator("#connection"), "No live updates");
    await shows(tab.locator(".cards"), "refused a stream");
    expect(await tab.locator("#notice").isHidden()).toBe(true);
    await tab.unroute("**/events*");
    await isLive(tab);
  });

  test("while the service has too many requests, the page says so, and continues", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    await tab.route(/\/(events)?$/, (route) => route.fulfill({ status: 429 }));
    await page.start({ prompt: "shown later" });
    await shows(tab.locator("#notice"), "too many requests");
    await tab.unroute(/\/(events)?$/);
    await isLive(tab);
    await shows(tab.locator(".cards"), "shown later");
  });

  /** Counts the documents that a tab loads from now on. */
  const countLoads = (tab: Tab) => {
    const loads: string[] = [];
    tab.on("request", (request) => request.isNavigationRequest() && loads.push(request.url()));
    return loads;
  };

  test("a page that has just loaded is not loaded a second time, but shows what has changed before it was connected", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "before" });
    await tab.goto("about:blank");
    const fetched: string[] = [];
    tab.on("request", (request) => {
      if (request.url() === `${page.url}/`) fetched.push(request.resourceType());
    });
    await tab.goto(page.url);
    await isLive(tab);
    await tab.waitForTimeout(1_500);
    expect(fetched).toEqual(["document"]);
    const makeFirst = async (route: Route) => {
      await page.make({ prompt: "in between" });
      await route.continue();
    };
    await tab.route("**/events*", makeFirst, { times: 1 });
    await tab.goto(page.url);
    await shows(tab.locator(".cards"), "in between");
  });

  test("an address that does not exist is a page that stays", async () => {
    const { page, tab } = await open();
    await tab.goto(`${page.url}/nothing`);
    const loads = countLoads(tab);
    await isLive(tab);
    await page.start({ prompt: "while it is open" });
    await tab.waitForTimeout(1_500);
    expect(loads).toEqual([]);
    expect(await tab.locator("h1").innerText()).toBe("There is no such page");
  });

  const proxyReplies = [
    { status: 200, contentType: "text/html", body: "<title>Sign in to the network</title><main>Sign in</main>" },
    { status: 401, contentType: "text/html", body: "<main>Sign in</main>" },
    { status: 404, contentType: "application/json", body: "{}" },
    { status: 503, contentType: "text/html", body: "<main>Maintenance</main>" },
  ];

  test.each(proxyReplies)("a proxy that answers by itself with $status changes nothing on the page", async (reply) => {
    const { page, tab } = await open();
    await page.make({ prompt: "a fox" });
    await shows(tab.locator(".cards"), "a fox");
    await tab.goto(`${page.url}/new`);
    await isLive(tab);
    await tab.getByLabel("Prompt").fill("half a pro");
    const loads = countLoads(tab);
    await tab.route(/\/(new|events)$/, (route) => route.fulfill(reply));
    await page.restart();
    await shows(tab.locator("#notice"), "a proxy answers in its place");
    await shows(tab.locator("#connection"), "No live updates");
    expect([loads, await tab.getByLabel("Prompt").inputValue()]).toEqual([[], "half a pro"]);
    await tab.unroute(/\/(new|events)$/);
    await isLive(tab);
    expect([loads, await tab.getByLabel("Prompt").inputValue()]).toEqual([[], "half a pro"]);
  });

  test("however often the page of another account arrives, it reloads once a minute at most", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    const loads = countLoads(tab);
    await tab.route(page.url + "/", async (route) => {
      if (route.request().isNavigationRequest()) return route.fallback();
      const response = await route.fetch();
      const body = (await response.text()).replace(/data-account="[^"]*"/, 'data-account="another"');
      return route.fulfill({ response, body });
    });
    for (const n of [1, 2, 3]) {
      await page.start({ prompt: `take ${n}` });
      await tab.waitForTimeout(1_500);
    }
    expect(loads).toHaveLength(1);
  });

  test("while many start, the list stays short and in order", async () => {
    const { page, tab } = await open();
    await isLive(tab);
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 30 }, () => page.start()));
    await page.start({ prompt: "the last" });
    await expect.poll(async () => (await promptsOf(tab))[0]).toBe("the last");
    const shown = await promptsOf(tab);
    await tab.reload();
    expect(shown).toEqual(await promptsOf(tab));
    expect(shown).toHaveLength(48);
  });

  test("however often older ones are asked for, no more than 500 are shown", async () => {
    const page = await openFilled(600);
    const tab = await openTab(browser, `${page.link}`);
    for (let clicks = 2; clicks <= 10; clicks++) {
      await tab.getByText("Show older").click();
      await expect.poll(() => tab.locator(".card").count()).toBe(48 * clicks);
    }
    await tab.getByText("Show older").click();
    await expect.poll(async () => (await promptsOf(tab))[0]).toBe("take 120");
    expect(await tab.locator(".card").count()).toBeLessThanOrEqual(500);
    await tab.getByText("Show the newest").click();
    await expect.poll(async () => (await promptsOf(tab))[0]).toBe("take 600");
  });

  test("Show older fetches and adds only those that are not shown yet, in every list", async () => {
    const page = await openFilled(500);
    const tab = await openTab(browser, page.link);
    const older = tab.getByRole("link", { name: "Show older" });
    for (const { path, entry } of [
      { path: "/", entry: ".card" },
      { path: "/credits", entry: "[data-list] > tr" },
    ]) {
      const sizes: number[] = [];
      await tab.goto(page.url + path);
      await tab.evaluate(`document.querySelector("${entry}").isSame = true`);
      const firstIds = await tab.locator(entry).evaluateAll((entries) => entries.map(({ id }) => id));
      for (let clicks = 2; clicks <= 9; clicks++) {
        const reply = tab.waitForResponse((response) => new URL(response.url()).searchParams.has("shown"));
        await older.click();
        sizes.push((await (await reply).body()).length);
        await expect.poll(() => tab.locator(entry).count()).toBe(48 * clicks);
      }
      expect(Math.max(...sizes)).toBeLessThan(1.3 * Math.min(...sizes));
      const ids = await tab.locator(entry).evaluateAll((entries) => entries.map(({ id }) => id));
      expect([new Set(ids).size, ids.slice(0, 48)]).toEqual([432, firstIds]);
      expect(await tab.evaluate(`document.querySelector("${entry}").isSame`)).toBe(true);
      expect(new URL(tab.url()).search).toBe("?shown=432");
      await tab.reload();
      expect(await tab.locator(entry).evaluateAll((entries) => entries.map(({ id }) => id))).toEqual(ids);
    }
  });

  test("nothing moves under the pointer: what is new waits until it is asked for", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "the first" });
    const second = await page.start({ prompt: "the second" });
    await shows(tab.locator(".cards"), "the second");
    await tab.locator(".card", { hasText: "the second" }).hover();
    for (const n of [1, 2, 3]) await page.start({ prompt: `new ${n}` });
    await shows(tab.getByText("3 new"), "3 new");
    expect(await promptsOf(tab)).toEqual(["the second", "the first"]);
    second.running.progress(50);
    await shows(tab.locator(".card", { hasText: "the second" }), "50 %");
    await tab.getByText("3 new").click();
    await expect.poll(() => promptsOf(tab)).toEqual(["new 3", "new 2", "new 1", "the second", "the first"]);
    expect(new URL(tab.url()).search).toBe("");
  });

  test("an update keeps what somebody has opened, focused, typed and is watching", async () => {
    const { page, tab } = await open({ video: await aVideo() });
    const { url: callback_url } = await receive({ status: 410, text: "gone" });
    const id = await page.make({ callback_url, prompt: "a fox" });
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    const video = tab.locator(".player video");
    await video.evaluate((element: Player) => element.play());
    await video.evaluate((element) => Object.assign(element, { isSame: true }));
    await tab.locator("details > summary").first().click();
    await tab.evaluate(`fetch("/callbacks/${id}/send", { method: "POST" })`);
    await shows(tab.locator(".timeline"), "attempt 2");
    expect(await tab.locator("details").first().getAttribute("open")).not.toBeNull();
    expect(await tab.evaluate("document.activeElement.localName")).toBe("summary");
    expect(await video.evaluate((element: Player & { isSame?: true }) => [element.isSame, element.paused])).toEqual([
      true,
      false,
    ]);
    await tab.goto(page.url);
    await isLive(tab);
    await tab.getByRole("searchbox").pressSequentially("f");
    await tab.getByRole("searchbox").pressSequentially("ox ");
    await page.start({ prompt: "a fox again" });
    await shows(tab.locator(".cards"), "a fox again");
    await tab.getByRole("searchbox").pressSequentially("again");
    await expect.poll(() => promptsOf(tab)).toEqual(["a fox again"]);
    expect(await tab.getByRole("searchbox").inputValue()).toBe("fox again");
  });

  test("back and Escape lead to the same place of the same list, whatever was started meanwhile", async () => {
    const page = await openFilled(100);
    const tab = await openTab(browser, page.link);
    await tab.getByText("Show older").click();
    await expect.poll(() => tab.locator(".card").count()).toBe(96);
    for (const leave of [() => tab.goBack(), () => tab.keyboard.press("Escape")]) {
      await tab.locator(".card .prompt", { hasText: /^take 20$/ }).scrollIntoViewIfNeeded();
      const at = await scrollOf(tab);
      expect(at).toBeGreaterThan(500);
      await tab.locator(".card .prompt", { hasText: /^take 20$/ }).click();
      await tab.waitForURL(/generations/);
      for (let n = 0; n < 6; n++) await page.start();
      await leave();
      await tab.waitForURL((url) => url.pathname === "/");
      await expect.poll(() => scrollOf(tab)).toBe(at);
      expect(await promptsOf(tab)).toHaveLength(96);
      expect((await promptsOf(tab))[0]).toBe("take 100");
      await shows(tab.locator("#newer"), "new");
    }
  });

  test("an outage can be seen wherever somebody has scrolled to, until it is over", async () => {
    const { page, tab } = await open();
    await Promise.all(Array.from({ length: 40 }, () => page.start()));
    await expect.poll(() => tab.locator(".card").count()).toBe(40);
    await tab.mouse.move(700, 500);
    await tab.mouse.wheel(0, 900);
    await expect.poll(() => scrollOf(tab)).toBeGreaterThan(300);
    await page.stop();
    await shows(tab.locator("#notice"), "does not respond");
    const box = await tab.locator("#notice").boundingBox();
    expect(box?.y).toBeGreaterThanOrEqual(0);
    expect(await tab.locator("#connection").getAttribute("data-live")).toBe("false");
    await page.restart();
    await isLive(tab);
    expect(await tab.locator("#notice").isVisible()).toBe(false);
  });

  test("a database that cannot be reached is called that", async () => {
    const distant = createDistant(await openStore(":memory:"));
    const { page, tab } = await open({ store: distant.store });
    await page.make({ prompt: "a fox" });
    await isLive(tab);
    await shows(tab.locator(".cards"), "a fox");
    distant.isAway = true;
    await tab.getByRole("searchbox").fill("f");
    await shows(tab.locator("#notice"), "The database cannot be reached");
    expect(await promptsOf(tab)).toEqual(["a fox"]);
    distant.isAway = false;
    await isLive(tab);
  });

  /** Opens the link as another tab of the browser does: the session is the context's. A second page that keeps running while it is closed sometimes hangs. */
  const signIn = (tab: Tab, { link, url }: TestPage) => {
    const form = { token: new URL(link).searchParams.get("token") ?? "" };
    return tab.context().request.post(url, { headers: { Origin: url }, form });
  };

  test("the page to sign in says so once, and continues by itself once the link was opened", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "a fox" });
    await tab.context().clearCookies();
    await tab.goto(`${page.url}/?text=fox`);
    await shows(tab.locator("h1"), "Sign in");
    await tab.waitForTimeout(500);
    expect(await tab.locator("#notice").isVisible()).toBe(false);
    await signIn(tab, page);
    await expect.poll(() => promptsOf(tab)).toEqual(["a fox"]);
    expect(await tab.locator("nav").isVisible()).toBe(true);
    expect(new URL(tab.url()).search).toBe("?text=fox");
  });

  test("a link that has expired says so, and how to get another", async () => {
    const { page, tab } = await open();
    await tab.context().clearCookies();
    await tab.goto(`${page.url}/?token=${page.expiredToken}`);
    await shows(tab.locator("h1"), "This link has expired");
    await shows(tab.locator("main"), "vidgen serve --link");
    await signIn(tab, page);
    await isLive(tab);
    expect(tab.url()).toBe(`${page.url}/`);
  });

  test("an API key signs in to its account, and one that is not known says so", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "a fox" });
    await tab.context().clearCookies();
    await tab.goto(page.url);
    await tab.getByLabel("API key").fill("a-wrong-key");
    await tab.keyboard.press("Enter");
    await shows(tab.locator("main"), "does not know that key");
    expect(await tab.getByLabel("API key").getAttribute("aria-describedby")).toBe("key-error");
    expect(await tab.getByLabel("API key").inputValue()).toBe("");
    expect(await findFaults(tab)).toEqual([]);
    await tab.getByLabel("API key").fill(apiKey);
    await tab.getByRole("button", { name: "Sign in" }).click();
    await isLive(tab);
    expect(await promptsOf(tab)).toEqual(["a fox"]);
    expect(tab.url()).toBe(`${page.url}/`);
  });

  test("who has signed in by a key sees the account's name and stays at the address, and signs out again", async () => {
    const store = await openStore(":memory:");
    await store.addAccount({ name: "studio-north", keyHash: hashKey("a-key-of-the-studio"), creditsOf: () => 100 });
    const { page, tab } = await open({ store });
    await tab.getByRole("link", { name: "New" }).click();
    await tab.getByLabel("Prompt").fill("of the owner");
    await tab.getByRole("button", { name: "Owner" }).click();
    await tab.getByRole("button", { name: "Sign out", exact: true }).click();
    await shows(tab.locator("h1"), "Sign in");
    await tab.goto(`${page.url}/callbacks?state=delivered&x=%22%3E`);
    await tab.getByLabel("API key").fill("a-wrong-key");
    await tab.keyboard.press("Enter");
    await shows(tab.locator("main"), "does not know that key");
    await tab.getByLabel("API key").fill("a-key-of-the-studio");
    await tab.keyboard.press("Enter");
    await isLive(tab);
    expect(tab.url()).toBe(`${page.url}/callbacks?state=delivered&x=%22%3E`);
    await shows(tab.locator("header"), "studio-north");
    await tab.getByRole("link", { name: "New" }).click();
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("");
    await tab.getByRole("button", { name: "studio-north" }).click();
    await tab.getByRole("button", { name: "Sign out", exact: true }).click();
    await shows(tab.locator("h1"), "Sign in");
    expect((await tab.context().cookies()).filter(({ name }) => name.startsWith("vidgen_page"))).toEqual([]);
    await tab.goto(page.url);
    await shows(tab.locator("h1"), "Sign in");
  });

  test("what moves while videos are made is moved as a whole, and stands still for those who ask for that", async () => {
    const { page, tab } = await open();
    await page.start();
    await shows(tab.locator(".card"), "Running");
    const moving = () =>
      tab.evaluate<string[]>(
        `document.getAnimations().flatMap(({ effect }) => effect.getKeyframes().flatMap(Object.keys))
           .filter((name) => !["offset", "computedOffset", "easing", "composite"].includes(name))`,
      );
    expect([...new Set(await moving())]).toEqual(["transform"]);
    await tab.emulateMedia({ reducedMotion: "reduce" });
    expect(await moving()).toEqual([]);
  });

  test("what waits says its place in the queue; what runs says for how long and how far; what is done is quiet", async () => {
    const { page, tab } = await open();
    const first = await page.start({ prompt: "one" });
    const second = await page.start({ prompt: "two" });
    for (const { running } of [first, second]) await running.checkpoint(null);
    const card = (prompt: string) => tab.locator(".card", { hasText: prompt });
    await shows(card("one"), "Next in the queue of wan-2.5");
    await shows(card("two"), "Number 2 in the queue of wan-2.5");
    await shows(tab.locator(".tabs"), "Queued");
    await first.running.checkpoint({ state: "rendering", tries: 2 });
    await shows(card("one"), "Running");
    first.running.progress(42.7);
    await shows(card("one"), "42 %");
    first.running.progress(undefined, "VAE Decode");
    await shows(card("one"), "VAE Decode");
    expect(await card("one").locator("progress").getAttribute("value")).toBe(null);
    first.running.progress(35, "KSampler");
    await shows(card("one"), "35 % of KSampler");
    await expect.poll(() => card("one").locator(".elapsed").innerText()).toMatch(/^[1-9] s$/);
    first.running.complete();
    await shows(card("one"), "rendered in");
    await shows(card("one"), "10 credits");
    expect(await card("one").locator(".state").count()).toBe(0);
    expect(await card("one").locator("> a > .facts").innerText()).toMatch(/^Completed\s+wan-2.5\s+(now|\d+ s ago)$/);
  });

  test("the numbers beside the states follow the filter", async () => {
    const { page, tab } = await open();
    await page.make({ prompt: "a red fox" });
    await page.make({ prompt: "a bear", model: "veo-3.1" });
    (await page.start({ prompt: "a fox in red" })).running.fail("GPU lost");
    await shows(tab.locator(".cards"), "GPU lost");
    const counts = () => tab.locator(".tabs .count").allInnerTexts();
    await expect.poll(counts).toEqual(["3", "0", "0", "2", "1"]);
    await tab.getByRole("searchbox").fill("fox red");
    await expect.poll(counts).toEqual(["2", "0", "0", "1", "1"]);
    await tab.getByRole("searchbox").fill("gpu fox");
    await expect.poll(() => promptsOf(tab)).toEqual(["a fox in red"]);
    await tab.getByRole("searchbox").fill("");
    await tab.getByLabel("Model").selectOption("veo-3.1");
    await expect.poll(counts).toEqual(["1", "0", "0", "1", "0"]);
  });
});
