import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { aPng } from "../jobs/pictures.ts";
import { makeFolder } from "../service.ts";
import { browserPath, isLive, launch, openTab, shows, type Tab } from "./browser.ts";
import { openTestPage, type TestPage, type TestPageOptions } from "./harness.ts";

// The form that starts a generation: what is sent from it twice is paid once.

/** What was paid, one entry for each start. */
const paid = async (store: Store) =>
  (await store.ledger({ limit: 99 })).filter(({ reason }) => reason === "start").map(({ amount }) => amount);

async function signIn(page: TestPage): Promise<string> {
  const reply = await fetch(page.link, { redirect: "manual" });
  return reply.headers.getSetCookie()[0]?.split(";")[0] ?? "";
}

describe("POST /generations", () => {
  const open = async (engine: Partial<Engine> = {}) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store, engine });
    const own = { Cookie: await signIn(page), Origin: page.url, "Content-Type": "application/json" };
    const post = (body: object, headers: Record<string, string> = {}) =>
      fetch(`${page.url}/generations`, { method: "POST", headers: { ...own, ...headers }, body: JSON.stringify(body) });
    return { store, page, post };
  };
  const fox = { prompt: "a fox", model: "wan-2.5" };

  test("needs an Idempotency-Key, by which it is paid once, and a session, and comes from the page itself", async () => {
    const { store, post } = await open();
    expect([(await post(fox)).status, await paid(store)]).toEqual([400, []]);
    const key = { "Idempotency-Key": "page-1" };
    expect((await post(fox, { ...key, Origin: "https://evil.example" })).status).toBe(403);
    expect((await post(fox, { ...key, Origin: "null" })).status).toBe(403);
    expect((await post(fox, { ...key, Cookie: "" })).status).toBe(401);
    expect(await paid(store)).toEqual([]);
    const replies = await Promise.all([post(fox, key), post(fox, key)]);
    const ids = await Promise.all(replies.map((reply) => reply.json()));
    expect(ids[0]).toEqual({ id: expect.any(String) });
    expect([ids[1], await paid(store)]).toEqual([ids[0], [-10]]);
    expect((await post({ ...fox, prompt: "a bear" }, key)).status).toBe(409);
  });

  test("sends nothing that the command line would not send", async () => {
    const { store, post } = await open();
    const refusal = async (fields: object, key: string) => {
      const reply = await post({ ...fox, ...fields }, { "Idempotency-Key": key });
      return [reply.status, ((await reply.json()) as { error: { message: string } }).error.message];
    };
    expect(await refusal({ aspectRatio: "wide" }, "1")).toEqual([
      400,
      'aspectRatio must be width:height, such as 16:9, not "wide"',
    ]);
    expect((await refusal({ callback_url: "ftp://x.example" }, "2"))[1]).toMatch(/^callback_url must be an http/);
    expect((await refusal({ prompt: " " }, "3"))[0]).toBe(400);
    expect(await paid(store)).toEqual([]);
  });

  test("of an unclear one is answered with that one, and a new form says that it pays for another", async () => {
    const { store, page, post } = await open({ render: async () => ({ kind: "unclear", reason: "HTTP 502" }) });
    const [first, second] = [await post(fox, { "Idempotency-Key": "1" }), await post(fox, { "Idempotency-Key": "1" })];
    const { id } = (await first.json()) as { id: string };
    await expect.poll(async () => (await store.generation(id))?.error_code).toBe("unclear");
    const third = await post(fox, { "Idempotency-Key": "1" });
    expect([await second.json(), await third.json(), await paid(store)]).toEqual([{ id }, { id }, [-10]]);
    const form = await fetch(`${page.url}/new?from=${id}`, { headers: { Cookie: await signIn(page) } });
    expect(await form.text()).toContain("The earlier one may have been charged");
    const other = await fetch(`${page.url}/new`, { headers: { Cookie: await signIn(page) } });
    expect(await other.text()).not.toContain("may have been charged");
  });

  test("charges the account whose key has signed in, which sees no other one's request", async () => {
    const { store, page } = await open();
    const id = await page.make();
    await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 15 });
    const form = new URLSearchParams({ key: "a-key-of-ci" });
    const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
    const Cookie = entered.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    const headers = { Cookie, Origin: page.url, "Content-Type": "application/json" };
    const start = (key: string) =>
      fetch(`${page.url}/generations`, {
        method: "POST",
        headers: { ...headers, "Idempotency-Key": key },
        body: JSON.stringify(fox),
      });
    expect([(await start("1")).status, await store.balance("ci"), (await start("2")).status]).toEqual([200, 5, 402]);
    const looks = [`/generations/${id}/request`, `/new?from=${id}`].map((path) => fetch(page.url + path, { headers }));
    expect((await Promise.all(looks)).map(({ status }) => status)).toEqual([404, 404]);
  });
});

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
    await shows(tab.getByRole("alert"), "is not paid twice");
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
    expect(await store.images(again?.id ?? "")).toEqual([image]);
  });

  test("images are chosen as files; after a reload they are asked for again, and nothing is sent without them", async () => {
    const { page, tab, store } = await open({ engine: { maxImages: 1 } });
    const file = join(await makeFolder(), "fox.png");
    await writeFile(file, aPng(2, 2));
    await compose(page, tab, "a fox");
    await tab
      .getByLabel("Choose images")
      .setInputFiles({ name: "fox.gif", mimeType: "image/gif", buffer: Buffer.from("GIF") });
    await shows(tab.getByRole("alert"), "fox.gif is no PNG, JPEG or WebP image.");
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
    await expect
      .poll(() => tab.evaluate("told"), { timeout: 10_000 })
      .toEqual([["The video is there", "a fox at dusk"]]);
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
