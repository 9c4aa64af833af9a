import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { colorsOf, makeClip, nameOf } from "../../client/film/clips.ts";
import { makeFolder } from "../../folder.ts";
import { browserPath, hasFfmpeg } from "../../needs.ts";
import { aTask } from "../engines/preview/requests.ts";
import { aPng, squaresJpeg } from "../queue/pictures.ts";
import { isLive, launch, loseAnswers, openTab, shows, type Tab } from "./browser.ts";
import { openTestPage, paid, type TestPage, type TestPageOptions } from "./harness.ts";

// The images that a video begins with: in the form, beside the video, and out of the last frame of another video.

let browser: Browser;

const dataOf = (bytes: Uint8Array) => `data:image/png;base64,${Buffer.from(bytes).toString("base64")}`;
const wide = aPng(40, 20);

/** Another service that has an image. */
async function serveImage(): Promise<string> {
  const server = createServer((_, response) => response.end(wide));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/fox.png`;
}

describe("images", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async (options: TestPageOptions = {}) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store, ...options });
    const tab = await openTab(browser, page.link, { permissions: ["clipboard-read", "clipboard-write"] });
    const asked: string[] = [];
    tab.on("request", (request) => void (request.url().startsWith(page.url) || asked.push(request.url())));
    return { page, tab, store, asked };
  };
  const openForm = async (page: TestPage, tab: Tab) => {
    await tab.goto(`${page.url}/new`);
    await isLive(tab);
    await tab.getByLabel("Prompt").fill("a fox");
  };
  const choose = (tab: Tab, name: string, bytes: Uint8Array) =>
    tab.getByLabel("Choose images").setInputFiles({ name, mimeType: "image/png", buffer: Buffer.from(bytes) });
  const items = (tab: Tab) => tab.locator("#images li > span").allInnerTexts();
  const valueIn = (tab: Tab, name: string) => tab.locator(`[name=${name}]`).inputValue();
  const generate = (tab: Tab) => tab.getByRole("button", { name: "Generate" });
  /** The id of what was started last. */
  const started = async (tab: Tab) => {
    await shows(tab.locator("#form-status"), "tarted.");
    const made = tab.getByRole("list", { name: "From this form" }).getByRole("link").first();
    return (await made.getAttribute("href"))?.slice(-36) ?? "";
  };
  const thumbnails = (tab: Tab, within: string) =>
    tab.locator(`${within} .thumbnail`).evaluateAll((all) =>
      all.map((each) => {
        const { width, height } = each.getBoundingClientRect();
        return [Math.round(width), Math.round(height)];
      }),
    );

  test("a file shows as its thumbnail, in its ratio; a file that is no image is not added, and says so", async () => {
    const { page, tab } = await open();
    await openForm(page, tab);
    await choose(tab, "fox.png", wide);
    await choose(tab, "fox.jpg", squaresJpeg);
    await shows(tab.locator("#images"), "fox.jpg, ");
    expect(await thumbnails(tab, "#images")).toEqual([
      [192, 96],
      [96, 96],
    ]);
    await choose(tab, "notes.png", Buffer.from("no picture"));
    await shows(tab.locator(".images .fault"), "notes.png cannot be read as an image");
    await tab.getByRole("button", { name: "Remove fox.png" }).click();
    expect([await items(tab), await thumbnails(tab, "#images")]).toEqual([
      [expect.stringMatching(/^fox\.jpg, \d+ B$/)],
      [[96, 96]],
    ]);
    expect(tab.complaints).toEqual([]);
  });

  test("nothing is sent while an image is being read", async () => {
    const { page, tab, store } = await open();
    await openForm(page, tab);
    await tab.evaluate(
      "{ const { createImageBitmap: real } = globalThis; globalThis.createImageBitmap = async (...all) => (await new Promise((go) => { globalThis.go = go; }), real(...all)); }",
    );
    await choose(tab, "fox.png", wide);
    await shows(tab.locator("#images"), "fox.png: still loading.");
    await generate(tab).click();
    await shows(tab.locator(".images .fault"), "fox.png: still loading.");
    expect(await paid(store)).toEqual([]);
    await tab.evaluate("go()");
    await shows(tab.locator("#images"), "fox.png, ");
    await generate(tab).click();
    expect((await store.images(await started(tab))).images).toEqual([dataOf(wide)]);
  });

  test("no image of an earlier generation is lost by a reload while they load, and nothing is sent without them", async () => {
    const { page, tab, store } = await open({ engine: { maxImages: 2 } });
    const id = await page.make({ prompt: "a fox", imageUrls: [dataOf(wide), dataOf(wide)] });
    const sent = await paid(store);
    const earlier = "Images of the earlier generation";
    await tab.route("**/request", (route) => route.abort());
    await tab.goto(`${page.url}/new?from=${id}`);
    await isLive(tab);
    await shows(tab.locator("#images"), `${earlier}: could not be loaded.`);
    await tab.getByLabel("Prompt").fill("a red fox");
    await generate(tab).click();
    await shows(tab.locator(".images .fault"), `${earlier}: could not be loaded.`);
    expect(await paid(store)).toEqual(sent);
    await tab.unroute("**/request");
    await tab.reload();
    await shows(tab.locator("#images"), "Image 2, ");
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a red fox");
    await generate(tab).click();
    expect((await store.images(await started(tab))).images).toEqual([dataOf(wide), dataOf(wide)]);
  });

  test("a picture is pasted, wherever the focus is; a text that is pasted into a field stays a text", async () => {
    const { page, tab } = await open();
    await openForm(page, tab);
    const copy = (text?: string) =>
      tab.evaluate(`(async () => {
        const blob = new Blob([Uint8Array.from(atob("${Buffer.from(wide).toString("base64")}"), (each) => each.charCodeAt(0))], { type: "image/png" });
        const text = ${JSON.stringify(text ?? null)};
        const item = { "image/png": blob, ...(text && { "text/plain": new Blob([text], { type: "text/plain" }) }) };
        await navigator.clipboard.write([new ClipboardItem(item)]);
      })()`);
    await copy(" runs");
    await tab.getByLabel("Prompt").press("Control+V");
    await expect.poll(() => tab.getByLabel("Prompt").inputValue()).toBe("a fox runs");
    expect(await items(tab)).toEqual([]);
    await copy();
    await tab.getByLabel("Prompt").press("Control+V");
    await shows(tab.locator("#images"), "image.png, ");
    await tab.keyboard.press("Escape");
    await tab.keyboard.press("Control+V");
    await expect.poll(() => tab.locator("#images .thumbnail").count()).toBe(2);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a fox runs");
  });

  test("those of an earlier generation say which is the last image, and which a reference; no other service is asked", async () => {
    const engine = { maxImages: 2, takesLastImage: true, maxReferences: 2 };
    const { page, tab, asked } = await open({ engine });
    const address = await serveImage();
    const first = await page.make({ imageUrl: address, lastImageUrl: dataOf(wide) });
    await tab.goto(`${page.url}/new?from=${first}`);
    await expect.poll(() => items(tab)).toEqual([address, expect.stringMatching(/^Last image 1, /)]);
    await expect.poll(() => thumbnails(tab, "#images")).toEqual([[40, 20]]);
    const second = await page.make({ referenceUrls: [dataOf(wide), address] });
    await tab.goto(`${page.url}/new?from=${second}`);
    await expect.poll(() => items(tab)).toEqual([expect.stringMatching(/^Reference 1, /), `Reference ${address}`]);
    expect([asked, tab.complaints]).toEqual([[], []]);
  });

  test("a generation shows what it was made from, by its role, and each image whole; of another service the address", async () => {
    const { page, tab, asked } = await open({ engine: { takesLastImage: true, maxReferences: 2 } });
    const address = await serveImage();
    const id = await page.make({ imageUrl: address, lastImageUrl: dataOf(wide) });
    await tab.goto(`${page.url}/generations/${id}`);
    const fact = (name: string) => tab.locator(".facts-table > div").filter({ hasText: name });
    await shows(fact("First image"), address);
    expect(await fact("First image").getByRole("link").getAttribute("href")).toBe(address);
    await expect.poll(() => thumbnails(tab, ".sources")).toEqual([[40, 20]]);
    await fact("Last image").getByRole("link").click();
    await tab.waitForURL(`${page.url}/generations/${id}/images/1`);
    expect(await tab.evaluate("document.images[0].naturalWidth")).toBe(40);
    expect(asked).toEqual([]);
  });

  describe("continue from the end", { skip: !hasFfmpeg }, () => {
    /** A service whose videos are red, but for a blue last frame; the sound goes on after it. */
    const openWithClips = async (options: TestPageOptions = {}) => {
      const task = aTask({ duration: 2, prompt: "a fox" });
      const sound = { hz: 440, seconds: 3 };
      makeClip(task.file, {
        colors: [
          ["red", 47],
          ["blue", 1],
        ],
        sound,
        size: "320x180",
      });
      await writeFile(task.thumbnail, wide);
      return open({ video: task, ...options });
    };
    const continueFrom = async (page: TestPage, tab: Tab, id: string) => {
      await tab.goto(`${page.url}/generations/${id}`);
      await tab.getByRole("link", { name: "Continue" }).click();
      await isLive(tab);
    };
    const isTaken = (tab: Tab) => shows(tab.locator("#images"), "Last frame, ");
    const colorOf = async (image = "") => {
      const file = join(makeFolder(), "frame.png");
      await writeFile(file, Buffer.from(image.slice(image.indexOf(",")), "base64"));
      return colorsOf(file).map(nameOf);
    };

    test("a new form has the last frame as its first image, the look of the video, and an empty prompt", async () => {
      const { page, tab, store } = await openWithClips();
      const look = { model: "ray-3", aspectRatio: "9:16", resolution: "720p", seed: 7 };
      const id = await page.make({ prompt: "a fox runs", ...look });
      await continueFrom(page, tab, id);
      await shows(tab.getByRole("heading", { level: 1 }), "Continue from the end");
      expect(await tab.getByRole("link", { name: "a fox runs" }).getAttribute("href")).toBe(`/generations/${id}`);
      expect(await tab.getByLabel("Prompt").evaluate((field) => field.matches(":focus"))).toBe(true);
      const names = ["prompt", "model", "aspectRatio", "duration", "resolution", "seed"];
      expect(await Promise.all(names.map((name) => valueIn(tab, name)))).toEqual(["", "ray-3", "9:16", "", "720p", ""]);
      await isTaken(tab);
      expect(await thumbnails(tab, "#images")).toEqual([[171, 96]]);
      await choose(tab, "owl.png", wide);
      await shows(tab.locator("#images"), "owl.png, ");
      await tab.keyboard.press("Escape");
      await tab.getByLabel("Prompt").fill("it jumps");
      await generate(tab).click();
      const { images } = await store.images(await started(tab));
      expect([images.length, await colorOf(images[0])]).toEqual([2, ["blue"]]);
      expect(tab.complaints).toEqual([]);
    });

    test("nothing is sent before the frame is there; after a reload it is taken again, and paid once", async () => {
      const { page, tab, store } = await openWithClips();
      const id = await page.make({ prompt: "a fox runs" });
      let go = () => {};
      const held = new Promise<void>((resolve) => {
        go = resolve;
      });
      await tab.route("**/videos/*.mp4", async (route) => {
        await held;
        await route.continue();
      });
      await tab.goto(`${page.url}/new?continue=${id}`);
      await isLive(tab);
      await tab.getByLabel("Prompt").fill("it jumps");
      await shows(tab.locator("#images"), "Last frame: still loading.");
      await tab.getByLabel("Prompt").press("Control+Enter");
      await shows(tab.locator(".images .fault"), "Last frame: still loading.");
      go();
      await isTaken(tab);
      expect(await paid(store)).toEqual([-10]);
      await loseAnswers(tab);
      await generate(tab).click();
      await shows(tab.getByRole("alert"), "is not charged twice");
      await tab.unroute("**/generations");
      await tab.reload();
      await isTaken(tab);
      expect(await tab.getByLabel("Prompt").inputValue()).toBe("it jumps");
      await generate(tab).click();
      const { images } = await store.images(await started(tab));
      expect([await colorOf(images[0]), await paid(store)]).toEqual([["blue"], [-10, -10]]);
    });

    test("where the browser adds noise to what a page draws, a start whose answer is lost is not paid again after a reload", async () => {
      const { page, tab, store } = await openWithClips();
      const id = await page.make({ prompt: "a fox runs" });
      await tab.addInitScript(
        "{ const { toBlob } = HTMLCanvasElement.prototype; HTMLCanvasElement.prototype.toBlob = function (...all) { this.getContext('2d').fillRect(Math.random() * 99, Math.random() * 99, 1, 1); return toBlob.apply(this, all); }; }",
      );
      await continueFrom(page, tab, id);
      await isTaken(tab);
      await tab.getByLabel("Prompt").fill("it jumps");
      await loseAnswers(tab);
      await generate(tab).click();
      await shows(tab.getByRole("alert"), "is not charged twice");
      await tab.unroute("**/generations");
      await tab.reload();
      await isTaken(tab);
      await generate(tab).click();
      await shows(tab.locator("#form-status"), "Started.");
      expect(await paid(store)).toEqual([-10, -10]);
    });

    test("a frame that was removed stays away after a reload", async () => {
      const { page, tab } = await openWithClips();
      await continueFrom(page, tab, await page.make());
      await isTaken(tab);
      await tab.getByRole("button", { name: "Remove Last frame" }).click();
      await tab.reload();
      await isLive(tab);
      await expect.poll(() => generate(tab).isEnabled()).toBe(true);
      expect(await items(tab)).toEqual([]);
    });

    test("of a file whose length is known only at its end, too", async () => {
      const { page, tab, store } = await openWithClips({
        video: (prompt) => {
          const task = aTask({ duration: 2, prompt });
          const more = ["-movflags", "frag_keyframe+empty_moov"];
          makeClip(task.file, {
            colors: [
              ["red", 47],
              ["blue", 1],
            ],
            more,
          });
          return task;
        },
        hasThumbnail: false,
      });
      await continueFrom(page, tab, await page.make());
      await isTaken(tab);
      await tab.getByLabel("Prompt").fill("it jumps");
      await generate(tab).click();
      const { images } = await store.images(await started(tab));
      expect(await colorOf(images[0])).toEqual(["blue"]);
    });

    test("where the frame cannot be taken, the form says so, and sends nothing until that is removed", async () => {
      const { page, tab, store } = await open();
      await continueFrom(page, tab, await page.make());
      await shows(tab.locator("#images"), "Last frame: the browser could not take it from the video.");
      await tab.getByLabel("Prompt").fill("it jumps");
      await generate(tab).click();
      await shows(tab.locator(".images .fault"), "Last frame: the browser could not take it from the video.");
      expect(await paid(store)).toEqual([-10]);
      await tab.getByRole("button", { name: "Remove Last frame" }).click();
      await generate(tab).click();
      expect((await store.images(await started(tab))).images).toEqual([]);
    });

    test("a model that cannot begin with one image gives way to one that can", async () => {
      const { page, tab } = await openWithClips();
      const id = await page.make({ model: "kling-1.6-elements", imageUrls: [dataOf(wide), dataOf(wide)] });
      await continueFrom(page, tab, id);
      const chosen = await valueIn(tab, "model");
      expect(chosen).not.toBe("kling-1.6-elements");
      await shows(
        tab.locator("#composer"),
        `kling-1.6-elements cannot begin with one image here, so ${chosen} is selected.`,
      );
    });
  });

  test("where no model takes an image, the form that would continue says so", async () => {
    const { page, tab } = await open({ engine: { maxImages: 0 } });
    const id = await page.make();
    await tab.goto(`${page.url}/new?continue=${id}`);
    await shows(tab.locator("main"), "No model of this service can begin with an image.");
  });
});
