import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { fileName } from "../../../src/video/naming.ts";
import { browserPath } from "../../needs.ts";
import { isLive, launch, openTab, shows, type Tab } from "./browser.ts";
import { openTestPage, paid } from "./harness.ts";

// What is done with a generation by keys alone: real key events, in a real browser.

let browser: Browser;

describe("keys", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  /** A page with a generation of each prompt; the list has the last one first. */
  const open = async (prompts: readonly string[]) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store });
    const ids: string[] = [];
    for (const prompt of prompts) ids.push(await page.make({ prompt }));
    const tab = await openTab(browser, page.link);
    await isLive(tab);
    return { page, store, ids, tab };
  };
  const press = async (tab: Tab, ...names: string[]) => {
    for (const name of names) await tab.keyboard.press(name);
  };
  const bar = (tab: Tab) => tab.getByRole("form", { name: "Selected videos" });
  const download = async (tab: Tab) => {
    const [file] = await Promise.all([tab.waitForEvent("download"), press(tab, "d")]);
    return file.suggestedFilename();
  };
  const nameOf = (prompt: string, id = "") => fileName({ id, prompt, model: "wan-2.5" });

  test("on a card they choose, star, download, compare and lead to another take, and nothing is paid by them", async () => {
    const { page, store, ids, tab } = await open(["one", "two", "three"]);
    await press(tab, "j", "j", "x");
    await shows(bar(tab), "1 selected");
    expect(await tab.getByLabel("Select two").isChecked()).toBe(true);
    await press(tab, "s");
    await expect.poll(() => store.generation(ids[1] ?? "").then((each) => each?.isStarred)).toBe(true);
    expect(await download(tab)).toBe(nameOf("two", ids[1]));
    await press(tab, "ArrowRight", "x", "c");
    await tab.waitForURL(`${page.url}/compare?id=${ids[1]}&id=${ids[0]}`);
    await tab.goto(page.url);
    await isLive(tab);
    await press(tab, "j", "k", "j", "r");
    await tab.waitForURL(`${page.url}/new?from=${ids[1]}`);
    expect(await paid(store)).toHaveLength(3);
    expect(tab.complaints).toEqual([]);
  });

  test("on the page of a generation they act on it, also while its player has the focus", async () => {
    const { page, store, ids, tab } = await open(["a fox", "a fox"]);
    await tab.goto(`${page.url}/generations/${ids[0]}`);
    await isLive(tab);
    await press(tab, "x", "s");
    await shows(bar(tab), "1 selected");
    await expect.poll(() => store.generation(ids[0] ?? "").then((each) => each?.isStarred)).toBe(true);
    await tab.locator(".player video").focus();
    expect(await download(tab)).toBe(nameOf("a fox", ids[0]));
    await press(tab, "c");
    await tab.waitForURL(`${page.url}/compare?of=${ids[0]}`);
    await tab.goBack();
    await isLive(tab);
    await press(tab, "r");
    await tab.waitForURL(`${page.url}/new?from=${ids[0]}`);
    expect(await paid(store)).toHaveLength(2);
  });

  test("a key that is held down acts once; one that is typed, or pressed with Ctrl, or in a dialog, does nothing", async () => {
    const { tab } = await open(["one", "two"]);
    await press(tab, "j");
    for (let times = 0; times < 4; times++) await tab.keyboard.down("x");
    await tab.keyboard.up("x");
    await shows(bar(tab), "1 selected");
    await press(tab, "Control+x", "Alt+x", "?", "x", "s", "Escape");
    expect(await tab.locator(".controls > :checked").count()).toBe(1);
    await press(tab, "/", "x", "s");
    expect(await tab.getByRole("searchbox").inputValue()).toBe("xs");
    await press(tab, "Escape", "x");
    expect(await tab.locator(".controls > [aria-pressed=true]").count()).toBe(0);
    await shows(bar(tab), "1 selected");
  });

  test("c says why it compares nothing, until something else is selected", async () => {
    const { page, tab } = await open(["one", "two"]);
    const colour = () =>
      bar(tab).locator("output").evaluate("getComputedStyle(document.querySelector('#selection > output')).color");
    expect(await bar(tab).isVisible()).toBe(false);
    await press(tab, "c");
    await shows(bar(tab), "0 selected. Compare takes 2 to 6");
    expect(await colour()).toBe("rgb(179, 38, 30)");
    await press(tab, "j", "x");
    await shows(bar(tab), "1 selected. Compare takes 2 to 6");
    expect(await colour()).toBe("rgb(92, 96, 104)");
    await press(tab, "c");
    expect(await colour()).toBe("rgb(179, 38, 30)");
    expect(tab.url()).toBe(`${page.url}/`);
  });

  test("what is selected by x stays selected while the list grows, scrolls and is opened again, and its count stays in sight", async () => {
    const { tab } = await open(Array.from({ length: 50 }, (_, n) => `take ${n}`));
    await press(tab, "j", "x");
    await tab.getByText("Show older").click();
    await expect.poll(() => tab.locator(".card").count()).toBe(50);
    await press(tab, "j", "x");
    await shows(bar(tab), "2 selected");
    const isInSight = async () => {
      const box = await bar(tab).boundingBox();
      return box !== null && box.y >= 0 && box.y + box.height <= 900;
    };
    for (const y of [0, 1_500, 99_999]) {
      await tab.evaluate(`scrollTo(0, ${y})`);
      expect([y, await isInSight()]).toEqual([y, true]);
    }
    await tab.goto(new URL("/", tab.url()).href);
    await isLive(tab);
    await shows(bar(tab), "2 selected");
    expect(await tab.locator(".controls > :checked").count()).toBe(1);
  });

  test("what failed leads to another take, can be selected, and has neither a star nor a file", async () => {
    const { page, tab } = await open(["one"]);
    const { id, running } = await page.start({ prompt: "fails" });
    running.fail("out of memory");
    await shows(tab.locator(".cards"), "out of memory");
    await press(tab, "j", "d", "s");
    expect(await tab.locator(".card [aria-pressed=true]").count()).toBe(0);
    await press(tab, "x");
    expect(await bar(tab).isVisible()).toBe(true);
    await press(tab, "r");
    await tab.waitForURL(`${page.url}/new?from=${id}`);
  });

  test("each mark of a card is at least 24 px wide and high and lies on the picture; without a pointer that hovers, select and star are always there", async () => {
    const { page } = await open([]);
    await page.make({ prompt: "a tower ".repeat(40), aspectRatio: "9:16" });
    for (const options of [{ hasTouch: true, isMobile: true, viewport: { width: 360, height: 780 } }, {}]) {
      const tab = await openTab(browser, page.link, options);
      await isLive(tab);
      if (!("isMobile" in options)) await tab.locator(".card").hover();
      const marks = tab.locator(".card .controls > *").filter({ visible: true });
      expect(await marks.count()).toBe("isMobile" in options ? 2 : 5);
      const picture = (await tab.locator(".card .stage").boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
      for (const mark of await marks.all()) {
        const { x, y, width, height } = (await mark.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
        expect(Math.min(width, height)).toBeGreaterThanOrEqual(24);
        expect(x >= picture.x && x + width <= picture.x + picture.width).toBe(true);
        expect(y >= picture.y && y + height <= picture.y + picture.height).toBe(true);
        await mark.click({ trial: true });
        expect(
          await mark.evaluate(
            (element) =>
              (globalThis as unknown as { getComputedStyle: (of: unknown) => { opacity: string } }).getComputedStyle(
                element,
              ).opacity,
          ),
        ).toBe("1");
      }
    }
  });
});
