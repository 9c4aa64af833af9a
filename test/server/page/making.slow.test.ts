import { copyFile } from "node:fs/promises";
import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { browserPath } from "../../needs.ts";
import { isLive, launch, loseAnswers, openTab, shows, type Tab } from "./browser.ts";
import { aVideo, openTestPage, paid } from "./harness.ts";

// Four takes of a prompt, the best one kept, continued from its end, compared and downloaded, without leaving the page; each Generate is paid once.

let browser: Browser;

describe("making videos", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async () => {
    const store = await openStore(":memory:");
    const video = await aVideo();
    const page = await openTestPage({
      store,
      engine: {
        maxImages: 1,
        async render({ file, thumbnail }) {
          await copyFile(video.file, file);
          await copyFile(video.thumbnail, thumbnail);
          return { kind: "made", hasThumbnail: true };
        },
      },
    });
    const tab = await openTab(browser, page.link, { acceptDownloads: true });
    return { page, tab, store };
  };
  const cards = (tab: Tab) =>
    tab.getByRole("list", { name: "From this form" }).locator(".card", { hasText: "Completed" });
  const areMade = (tab: Tab, count: number) => expect.poll(() => cards(tab).count()).toBe(count);
  const focused = (tab: Tab, selector: string) => tab.locator(`${selector}:focus`);
  /** Goes on with Tab until an element has the focus. */
  const tabTo = async (tab: Tab, selector: string) => {
    for (let press = 0; press < 60 && (await focused(tab, selector).count()) === 0; press++)
      await tab.keyboard.press("Tab");
    expect(await focused(tab, selector).count()).toBe(1);
  };

  test("by keyboard alone, with a key pressed twice, a reload, back and an outage in between", async () => {
    const { page, tab, store } = await open();
    const { keyboard } = tab;
    await isLive(tab);
    await tabTo(tab, 'nav a[href="/new"]');
    await keyboard.press("Enter");
    await focused(tab, "[name=prompt]").waitFor();
    await isLive(tab);
    await keyboard.type("a fox at dusk");
    await tabTo(tab, "[name=takes]");
    for (const _ of "123") await keyboard.press("ArrowRight");
    await shows(tab.locator("button.main"), "Generate 4, 40 credits");
    await keyboard.press("Control+Enter");
    await keyboard.press("Control+Enter");
    await areMade(tab, 4);
    expect(await paid(store)).toHaveLength(4);
    await tab.reload();
    await areMade(tab, 4);
    await isLive(tab);

    await tabTo(tab, ".started .card > a");
    await keyboard.press("s");
    await keyboard.press("x");
    await keyboard.press("j");
    await keyboard.press("x");
    await shows(tab.locator("#selection output"), "2 selected");
    await keyboard.press("c");
    await tab.waitForURL(/compare/);
    await expect.poll(() => tab.locator(".compared video").count()).toBe(2);
    await isLive(tab);
    await keyboard.press(".");
    await expect.poll(() => tab.locator("#time").innerText()).not.toContain("0.00 of");
    await tab.goBack();
    await areMade(tab, 4);
    await isLive(tab);

    await tabTo(tab, ".started .card > a");
    await keyboard.press("Enter");
    await tab.waitForURL(/generations\//);
    const [downloading] = await Promise.all([tab.waitForEvent("download"), keyboard.press("d")]);
    expect(downloading.suggestedFilename()).toMatch(/^a-fox-at-dusk.*\.mp4$/);
    await keyboard.press("e");
    await focused(tab, "[name=prompt]").waitFor();
    await keyboard.type("the fox looks up");
    await tab.locator("#images canvas").waitFor();
    await isLive(tab);
    await loseAnswers(tab, () => page.stop());
    await keyboard.press("Control+Enter");
    await shows(tab.locator("#form-error"), "No usable response arrived");
    await tab.unroute("**/generations");
    await page.restart();
    await shows(tab.locator("#form-error"), "The service responds");
    await keyboard.press("Control+Enter");
    await areMade(tab, 5);
    expect(await paid(store)).toHaveLength(5);
    const [newest] = await store.generations({ account: "local", limit: 1 });
    expect(newest?.request).toMatchObject({ prompt: "the fox looks up", model: "wan-2.5" });
    expect(newest?.request.images).toHaveLength(1);
    expect(tab.complaints.filter((each) => !each.includes("ERR_"))).toEqual([]);
  });

  test("by mouse, with double clicks", async () => {
    const { tab, store } = await open();
    const press = (place: Locator) => place.dblclick();
    const mark = async (index: number, name: RegExp | string) => {
      const card = tab.locator(".started .card").nth(index);
      await card.hover();
      return card
        .getByRole("link", { name })
        .or(card.getByRole("checkbox", { name }))
        .or(card.getByRole("button", { name }));
    };
    await tab.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "New" }).click();
    await isLive(tab);
    await tab.getByLabel("Prompt").fill("a fox at dusk");
    await tab.getByRole("button", { name: "Ratio 9:16" }).click();
    await press(tab.locator("button.main"));
    await areMade(tab, 1);
    await (await mark(0, /^Another take/)).click();
    await shows(tab.locator(".composer"), "Another take of a fox at dusk");
    await isLive(tab);
    expect(await tab.getByRole("textbox", { name: "Ratio" }).inputValue()).toBe("9:16");
    await press(tab.locator("button.main"));
    await areMade(tab, 2);
    await (await mark(0, "Star")).click();
    for (const index of [0, 1]) await (await mark(index, /^Select/)).click();
    await tab.getByRole("button", { name: "Compare" }).click();
    await tab.waitForURL(/compare/);
    await expect.poll(() => tab.getByRole("table").getByRole("row").count()).toBeGreaterThan(3);
    await tab.goBack();
    await areMade(tab, 2);
    const [downloading] = await Promise.all([
      tab.waitForEvent("download"),
      mark(0, /^Download/).then((link) => link.click()),
    ]);
    expect(downloading.suggestedFilename()).toMatch(/\.mp4$/);
    await (await mark(0, /^Continue/)).click();
    await tab.locator("#images canvas").waitFor();
    await isLive(tab);
    await tab.getByLabel("Prompt").fill("the fox looks up");
    await press(tab.locator("button.main"));
    await areMade(tab, 3);
    expect(await paid(store)).toHaveLength(3);
    const starred = await store.list({ isStarred: true, limit: 9 });
    expect(starred).toHaveLength(1);
    expect(tab.complaints).toEqual([]);
  });
});
