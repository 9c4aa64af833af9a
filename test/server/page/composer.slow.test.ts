import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { makeFolder } from "../../folder.ts";
import { browserPath } from "../../needs.ts";
import { aPng } from "../queue/pictures.ts";
import { isLive, launch, openTab, shows, type Tab } from "./browser.ts";
import { openTestPage, paid, type TestPage, type TestPageOptions } from "./harness.ts";

// The form that starts a generation: what is sent from it twice is paid once.

let browser: Browser;

describe("the form", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async (options: TestPageOptions = {}) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store, ...options });
    const tab = await openTab(browser, page.link);
    return { page, tab, store };
  };
  const compose = async (page: TestPage, tab: Tab, prompt: string) => {
    await tab.goto(`${page.url}/new`);
    await isLive(tab);
    await tab.getByLabel("Prompt").fill(prompt);
  };
  const generate = (tab: Tab) => tab.getByRole("button", { name: "Generate" });
  const isShown = (tab: Tab) => tab.waitForURL(/\/generations\//);

  test("a double click, a reload, and back: one charge; another prompt, or the form opened anew: another one", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await shows(tab.locator(".send"), "It costs 10 of 1,000,000 credits.");
    await generate(tab).dblclick();
    await isShown(tab);
    const address = tab.url();
    expect(await paid(store)).toEqual([-10]);
    await tab.goBack();
    await expect.poll(() => tab.getByLabel("Prompt").inputValue()).toBe("a fox at dusk");
    await generate(tab).click();
    await isShown(tab);
    expect([tab.url(), await paid(store)]).toEqual([address, [-10]]);
    await tab.goBack();
    await tab.reload();
    await isLive(tab);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a fox at dusk");
    await generate(tab).click();
    await isShown(tab);
    expect([tab.url(), await paid(store)]).toEqual([address, [-10]]);
    await tab.goBack();
    await tab.getByLabel("Prompt").fill("a bear at dusk");
    await tab.keyboard.press("Control+Enter");
    await isShown(tab);
    expect(await paid(store)).toEqual([-10, -10]);
    await compose(page, tab, "a fox at dusk");
    await generate(tab).click();
    await isShown(tab);
    expect(await paid(store)).toEqual([-10, -10, -10]);
    expect(tab.complaints).toEqual([]);
  });

  test("a start whose answer is lost says so, and is sent again with the same key, also after a reload", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await tab.route("**/generations", async (route) => {
      await route.fetch();
      await route.abort();
    });
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "is not charged twice");
    expect(await paid(store)).toEqual([-10]);
    await tab.unroute("**/generations");
    await tab.reload();
    await isLive(tab);
    await generate(tab).click();
    await isShown(tab);
    expect(await paid(store)).toEqual([-10]);
  });

  test("what the service refuses is said in its words, costs nothing, and what was typed stays", async () => {
    const findFault = async () => "takes 4 or 8 seconds, not 5";
    const { page, tab, store } = await open({ engine: { isSimulation: false, findFault, maxImages: 1 } });
    await compose(page, tab, "a fox at dusk");
    await tab.getByLabel("Ratio").fill("wide");
    await generate(tab).click();
    await shows(
      tab.getByRole("alert"),
      'Nothing was started: aspectRatio must be width:height, such as 16:9, not "wide".',
    );
    await tab.getByLabel("Ratio").fill("9:16");
    await tab.getByLabel("Length").fill("5");
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "Nothing was started: wan-2.5: takes 4 or 8 seconds, not 5.");
    await tab.locator("summary", { hasText: "More fields" }).click();
    await tab.getByLabel("Others, as JSON").fill("seed 7");
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "not a JSON object");
    expect([await tab.getByLabel("Prompt").inputValue(), await paid(store)]).toEqual(["a fox at dusk", []]);
  });

  test("what is typed stays while the page is brought up to date", async () => {
    const { page, tab } = await open();
    await compose(page, tab, "a fox at du");
    await tab.getByLabel("Length").fill("7");
    await page.restart();
    await isLive(tab);
    expect([await tab.getByLabel("Prompt").inputValue(), await tab.getByLabel("Length").inputValue()]).toEqual([
      "a fox at du",
      "7",
    ]);
  });

  test("edit and run again begins with all that was asked for: fields, extras and images", async () => {
    const { page, tab, store } = await open({ engine: { maxImages: 2 } });
    const image = `data:image/png;base64,${Buffer.from(aPng(2, 2)).toString("base64")}`;
    const { id, running } = await page.start({
      prompt: "a fox",
      duration: 7,
      aspectRatio: "9:16",
      seed: 7,
      imageUrls: [image, image],
    });
    running.fail("out of memory");
    await tab.goto(`${page.url}/generations/${id}`);
    await tab.getByRole("link", { name: "Edit and run again" }).click();
    await shows(tab.locator("#images"), "image 2");
    await tab.getByRole("button", { name: "Remove image 2" }).click();
    await tab.getByLabel("Prompt").fill("a red fox");
    await generate(tab).click();
    await isShown(tab);
    const again = await store.generation(tab.url().split("/").at(-1) ?? "");
    expect(again?.request).toMatchObject({
      prompt: "a red fox",
      model: "wan-2.5",
      duration: 7,
      aspectRatio: "9:16",
      extras: { seed: 7 },
    });
    expect(await store.images(again?.id ?? "")).toEqual({ images: [image] });
  });

  test("edit and run again keeps what is a last image, and what is a reference", async () => {
    const engine = { maxImages: 2, takesLastImage: true, maxReferences: 2 };
    const { page, tab, store } = await open({ engine });
    const image = `data:image/png;base64,${Buffer.from(aPng(2, 2)).toString("base64")}`;
    const rerun = async (fields: object, removed?: string) => {
      const { id, running } = await page.start({ prompt: "a fox", ...fields });
      running.fail("out of memory");
      await tab.goto(`${page.url}/generations/${id}`);
      await tab.getByRole("link", { name: "Edit and run again" }).click();
      await shows(tab.locator("#images"), " 1");
      if (removed) await tab.getByRole("button", { name: removed }).click();
      await generate(tab).click();
      await isShown(tab);
      return store.images(tab.url().split("/").at(-1) ?? "");
    };
    expect(await rerun({ imageUrl: image, lastImageUrl: image })).toEqual({ images: [image], lastImage: image });
    expect(await rerun({ referenceUrls: [image, image] }, "Remove reference 2")).toEqual({
      images: [],
      references: [image],
    });
  });

  test("images are chosen as files; after a reload they are asked for again, and nothing is sent without them", async () => {
    const { page, tab, store } = await open({ engine: { maxImages: 1 } });
    const file = join(makeFolder(), "fox.png");
    await writeFile(file, aPng(2, 2));
    await compose(page, tab, "a fox");
    await tab
      .getByLabel("Choose images")
      .setInputFiles({ name: "fox.gif", mimeType: "image/gif", buffer: Buffer.from("GIF") });
    await shows(tab.getByRole("alert"), "fox.gif is not a PNG, JPEG or WebP image.");
    await tab.getByLabel("Choose images").setInputFiles(file);
    await shows(tab.locator("#images"), "fox.png");
    await tab.reload();
    await isLive(tab);
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "choose fox.png again, or remove it");
    expect(await paid(store)).toEqual([]);
    await tab.getByLabel("Choose images").setInputFiles(file);
    await generate(tab).click();
    await isShown(tab);
    expect((await store.generation(tab.url().split("/").at(-1) ?? ""))?.request.images).toHaveLength(1);
  });

  test("the browser tells of the end of what was started here, also while the page is hidden, once", async () => {
    const { page, tab } = await open();
    await tab.addInitScript(`globalThis.told = [];
      globalThis.Notification = class {
        static permission = "granted";
        constructor(title, { body }) { told.push([title, body]); }
      };`);
    const running = page.running("a fox at dusk");
    await compose(page, tab, "a fox at dusk");
    await generate(tab).click();
    await isShown(tab);
    await isLive(tab);
    await tab.evaluate(`Object.defineProperty(document, "hidden", { value: true });
      document.dispatchEvent(new Event("visibilitychange"))`);
    const other = await page.make({ prompt: "of somebody else" });
    expect(other).toBeTruthy();
    (await running).complete();
    await expect.poll(() => tab.evaluate("told")).toEqual([["The video is there", "a fox at dusk"]]);
    await tab.reload();
    await isLive(tab);
    expect(await tab.evaluate("told")).toEqual([]);
  });

  test("the colours that are chosen stay, on every page, from its first moment", async () => {
    const { page, tab } = await open();
    const ground = () => tab.evaluate("getComputedStyle(document.body).backgroundColor");
    await tab.getByLabel("Colours").selectOption("Dark");
    await expect.poll(ground).toBe("rgb(16, 17, 19)");
    await tab.goto(`${page.url}/credits`);
    expect(await tab.locator("html").getAttribute("data-theme")).toBe("dark");
    expect(await ground()).toBe("rgb(16, 17, 19)");
    await tab.getByLabel("Colours").selectOption("As the system");
    await expect.poll(ground).toBe("rgb(246, 246, 244)");
    await tab.reload();
    expect(await ground()).toBe("rgb(246, 246, 244)");
  });
});
