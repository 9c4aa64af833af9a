import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { makeFolder } from "../../folder.ts";
import { browserPath } from "../../needs.ts";
import { aPng } from "../queue/pictures.ts";
import { holdScript, isLive, launch, loseAnswers, openTab, shows, type Tab } from "./browser.ts";
import { apiKey, openTestPage, paid, type TestPage, type TestPageOptions } from "./harness.ts";

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
  const chooseTakes = (tab: Tab, count: number) =>
    tab.getByRole("group", { name: "Takes" }).getByText(String(count), { exact: true }).click();
  const giveCredits = (store: Store, amount: number) =>
    store.addAccount({ name: "local", keyHash: hashKey(apiKey), creditsOf: (had = 0) => had + amount });
  const isStarted = (tab: Tab) => shows(tab.locator("#form-status"), "tarted.");
  const made = (tab: Tab) => tab.getByRole("list", { name: "From this form" }).getByRole("listitem");
  const newestMade = async (tab: Tab) => {
    const address = await made(tab).first().getByRole("link").first().getAttribute("href");
    return address?.slice(-36) ?? "";
  };

  test("the form stays: each press of Generate is paid once, whatever a double click, a held key, a reload and back do", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await shows(tab.locator("#balance"), "You have 1,000,000 credits.");
    await generate(tab).dblclick();
    await isStarted(tab);
    await shows(tab.locator("#balance"), "You have 999,990 credits.");
    expect([await paid(store), await made(tab).count()]).toEqual([[-10], 1]);
    expect([await tab.getByLabel("Prompt").inputValue(), new URL(tab.url()).pathname]).toEqual([
      "a fox at dusk",
      "/new",
    ]);
    // A second one is meant; the key is held for longer than the button rests.
    await expect.poll(() => generate(tab).getAttribute("aria-disabled")).toBe(null);
    await generate(tab).focus();
    for (let press = 0; press < 30; press++) {
      await tab.keyboard.down("Enter");
      await tab.waitForTimeout(50);
    }
    await tab.keyboard.up("Enter");
    await expect.poll(() => made(tab).count()).toBe(2);
    expect(await paid(store)).toEqual([-10, -10]);
    expect(await generate(tab).evaluate((button) => button.matches(":focus"))).toBe(true);
    await tab.reload();
    await isLive(tab);
    await expect.poll(() => made(tab).count()).toBe(2);
    await made(tab).first().getByRole("link").first().click();
    await tab.waitForURL(/generations/);
    await tab.goBack();
    await isLive(tab);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a fox at dusk");
    expect(await paid(store)).toEqual([-10, -10]);
    await tab.getByLabel("Prompt").press("Control+Enter");
    await expect.poll(() => made(tab).count()).toBe(3);
    expect(await paid(store)).toEqual([-10, -10, -10]);
    expect(tab.complaints).toEqual([]);
  });

  test("Enter on Another take, held, or pressed again as the form opens, starts nothing; a press after that is paid once", async () => {
    const { page, tab, store } = await open();
    await page.make({ prompt: "a fox" });
    const before = await paid(store);
    const openByEnter = async (presses: number) => {
      await tab.goto(page.url);
      await tab.locator('.card a[href*="/new?from"]').focus();
      for (let press = 0; press < presses; press++) {
        await tab.keyboard.down("Enter");
        await tab.waitForTimeout(30);
      }
      await tab.keyboard.up("Enter");
      await expect.poll(() => generate(tab).evaluate((button) => button.matches(":focus"))).toBe(true);
      await expect.poll(() => generate(tab).getAttribute("aria-disabled")).toBe(null);
      expect([new URL(tab.url()).pathname, await paid(store)]).toEqual(["/new", before]);
    };
    await openByEnter(100);
    await tab.addInitScript('addEventListener("load", () => document.querySelector("button.main")?.click())');
    await openByEnter(1);
    await tab.keyboard.press("Enter");
    await isStarted(tab);
    expect(await paid(store)).toEqual([...before, -10]);
  });

  test("a press of Generate before the script has loaded starts nothing, and the form stays as it is", async () => {
    const { page, tab, store } = await open();
    const id = await page.make({ prompt: "a fox" });
    const before = await paid(store);
    const releaseScript = await holdScript(tab);
    const address = `${page.url}/new?from=${id}`;
    await tab.goto(address, { waitUntil: "commit" });
    await generate(tab).press("Enter");
    releaseScript();
    await isLive(tab);
    expect([tab.url(), await tab.getByLabel("Prompt").inputValue(), await paid(store)]).toEqual([
      address,
      "a fox",
      before,
    ]);
  });

  test("what is typed while a start is sent is kept for the next one, and if its answer is lost, the form says that it has changed", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox");
    await tab.route("**/generations", async (route) => {
      await tab.getByLabel("Prompt").fill("a bear");
      await route.continue();
    });
    await generate(tab).click();
    await isStarted(tab);
    await tab.unroute("**/generations");
    await tab.getByRole("link", { name: "Generations" }).click();
    await tab.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "New" }).click();
    await isLive(tab);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a bear");
    await loseAnswers(tab, () => tab.getByLabel("Prompt").fill("an owl"));
    await generate(tab).click();
    await shows(tab.locator("#form-error"), "The form has changed since then");
    expect(await paid(store)).toEqual([-10, -10]);
  });

  test("a draft that is sent from two tabs is paid once, and the second one says so", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    const draft = await tab.evaluate("[JSON.stringify(sessionStorage), JSON.stringify(history.state)]");
    await generate(tab).click();
    await isStarted(tab);
    // As a browser's "Duplicate tab" does.
    await tab.evaluate(`Object.assign(sessionStorage, JSON.parse(${JSON.stringify((draft as string[])[0])}));
      history.replaceState(JSON.parse(${JSON.stringify((draft as string[])[1])}), "")`);
    await tab.reload();
    await isLive(tab);
    await generate(tab).click();
    await shows(tab.locator("#form-status"), "already started, and nothing was charged now");
    expect(await paid(store)).toEqual([-10]);
    await generate(tab).click();
    await isStarted(tab);
    expect(await paid(store)).toEqual([-10, -10]);
  });

  test("several takes are started with their sum, each with the next seed; what is lost on the way is not paid again", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await tab.locator("summary", { hasText: "More" }).click();
    await tab.getByRole("textbox", { name: "Seed" }).fill("7");
    await chooseTakes(tab, 4);
    expect(await generate(tab).innerText()).toBe("Generate 4, 40 credits");
    let count = 0;
    await tab.route("**/generations", async (route) => {
      count += 1;
      if (count < 3) return route.continue();
      await route.fetch();
      await route.abort();
    });
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "2 of 4 were started. No usable response arrived");
    expect(await paid(store)).toEqual([-10, -10, -10]);
    await tab.unroute("**/generations");
    await tab.reload();
    await isLive(tab);
    expect(await generate(tab).innerText()).toBe("Generate 4, 40 credits");
    await generate(tab).click();
    await shows(tab.locator("#form-status"), "4 takes were started.");
    await expect.poll(() => made(tab).count()).toBe(4);
    expect(await paid(store)).toEqual([-10, -10, -10, -10]);
    const seeds = (await store.generations({ account: "local", limit: 9 })).map(({ request }) => request.extras.seed);
    expect(seeds).toEqual([10, 9, 8, 7]);
  });

  test("takes that the credits do not suffice for are not started, and those before them are not paid again", async () => {
    const { page, tab, store } = await open();
    await giveCredits(store, -999_975);
    await compose(page, tab, "a fox at dusk");
    await chooseTakes(tab, 3);
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "the account has fewer. 2 of 3 were started.");
    await giveCredits(store, 10);
    await generate(tab).click();
    await shows(tab.locator("#form-status"), "3 takes were started.");
    expect(await paid(store)).toEqual([-10, -10, -10]);
  });

  test("buttons offer what the chosen model takes, and other values can be typed", async () => {
    const findFault: Engine["findFault"] = async ({ model, unset = [], duration }) =>
      model === "sora-2" && !unset.includes("duration") && duration !== 8 ? "takes 8 seconds" : undefined;
    const { page, tab, store } = await open({
      engine: { isSimulation: false, models: ["wan-2.5", "sora-2"], findFault },
    });
    const offered = (name: string) => tab.getByRole("button", { name }).filter({ visible: true }).allInnerTexts();
    await compose(page, tab, "a fox at dusk");
    expect(await tab.getByLabel("Model").locator("option:checked").innerText()).toBe(
      "wan-2.5 · ultra-realistic, best value · 10 credits",
    );
    expect(await offered("Length")).toEqual(["Default", "4 s", "5 s", "6 s", "8 s", "10 s", "12 s"]);
    await tab.getByLabel("Model").selectOption("sora-2");
    expect(await offered("Length")).toEqual(["Default", "8 s"]);
    expect(await offered("Ratio")).toHaveLength(7);
    await tab.getByRole("button", { name: "Length 8 s" }).click();
    await tab.getByRole("button", { name: "Ratio 9:16" }).click();
    await tab.getByRole("textbox", { name: "Resolution" }).fill("480p");
    const pressed = tab.locator("[aria-pressed=true]");
    expect(await pressed.allInnerTexts()).toEqual(["9:16", "8 s", "480p"]);
    await tab.getByRole("button", { name: "Ratio Default" }).click();
    await tab.reload();
    await isLive(tab);
    expect(await pressed.allInnerTexts()).toEqual(["Default", "8 s", "480p"]);
    await generate(tab).click();
    await isStarted(tab);
    const { request } = (await store.generation(await newestMade(tab))) ?? {};
    expect(request).toMatchObject({ model: "sora-2", duration: 8, resolution: "480p", unset: ["aspectRatio"] });
  });

  test("the button says what the provider lists for the length and all takes, and nothing of it where the price is unknown", async () => {
    const listPrices: Engine["listPrices"] = async (model) =>
      model === "sora-2" ? { source: "OpenRouter", prices: { "per-video-second": "0.40" } } : undefined;
    const engine = { isSimulation: false, models: ["wan-2.5", "sora-2"], listPrices };
    const { page, tab } = await open({ engine });
    await compose(page, tab, "a fox at dusk");
    expect(await generate(tab).innerText()).toBe("Generate, 10 credits");
    await tab.getByLabel("Model").selectOption("sora-2");
    expect(await generate(tab).innerText()).toBe("Generate, 10 credits");
    await tab.getByRole("button", { name: "Length 8 s" }).click();
    expect(await generate(tab).innerText()).toBe("Generate, 10 credits, about $3.20 by OpenRouter's list");
    await chooseTakes(tab, 3);
    expect(await generate(tab).innerText()).toBe("Generate 3, 30 credits, about $9.60 by OpenRouter's list");
    await tab.getByLabel("Model").selectOption("wan-2.5");
    expect(await generate(tab).innerText()).toBe("Generate 3, 30 credits");
  });

  test("New shows an empty form after a start, beside what was started, and an unsent draft again", async () => {
    const { page, tab } = await open();
    const clickNew = async () => {
      await tab.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "New" }).click();
      await isLive(tab);
    };
    const typed = async () => [
      await tab.getByLabel("Prompt").inputValue(),
      await tab.getByLabel("Others, as JSON").inputValue(),
    ];
    await compose(page, tab, "a fox at dusk");
    await tab.locator("summary", { hasText: "More" }).click();
    await tab.getByLabel("Others, as JSON").fill('{"fps": 24}');
    await generate(tab).click();
    await isStarted(tab);
    expect(await typed()).toEqual(["a fox at dusk", '{"fps": 24}']);
    await clickNew();
    expect(await typed()).toEqual(["", ""]);
    await expect.poll(() => made(tab).count()).toBe(1);
    await tab.getByLabel("Prompt").fill("a bear at d");
    await tab.getByRole("link", { name: "Generations" }).click();
    await clickNew();
    expect(await typed()).toEqual(["a bear at d", ""]);
    await tab.getByRole("button", { name: "Clear" }).click();
    expect(await typed()).toEqual(["", ""]);
    await clickNew();
    expect(await typed()).toEqual(["", ""]);
  });

  test("a check that fails within the closed further fields opens them, also after a reload", async () => {
    const { page, tab, store } = await open();
    const further = tab.getByLabel("Callback");
    await compose(page, tab, "a fox at dusk");
    await tab.locator("summary", { hasText: "More" }).click();
    await further.fill("no address");
    await tab.locator("summary", { hasText: "More" }).click();
    await generate(tab).click();
    await expect.poll(() => further.evaluate((field) => field.matches(":focus"))).toBe(true);
    await tab.reload();
    await isLive(tab);
    expect(await further.isVisible()).toBe(true);
    expect(await paid(store)).toEqual([]);
  });

  test("a start whose answer is lost says so, and is sent again with the same key, also after a reload", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await loseAnswers(tab);
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "is not charged twice");
    expect(await paid(store)).toEqual([-10]);
    await tab.unroute("**/generations");
    await tab.reload();
    await isLive(tab);
    await generate(tab).click();
    await isStarted(tab);
    expect(await paid(store)).toEqual([-10]);
  });

  test.each([409, 422])(
    "a draft whose key the service knows from another body (%i) counts as started",
    async (status) => {
      const { page, tab, store } = await open();
      await compose(page, tab, "a fox at dusk");
      const body = JSON.stringify({ error: { code: "idempotency_key_reused", message: "used" } });
      await tab.route("**/generations", (route) => route.fulfill({ status, contentType: "application/json", body }));
      await generate(tab).click();
      await shows(tab.locator("#form-status"), "already started");
      expect(await paid(store)).toEqual([]);
    },
  );

  test("a draft is found after a reload also where the browser has lost the state of its place in the history", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await loseAnswers(tab);
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "is not charged twice");
    await tab.unroute("**/generations");
    await tab.evaluate("history.replaceState(null, '')");
    await tab.reload();
    await isLive(tab);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a fox at dusk");
    await generate(tab).click();
    await isStarted(tab);
    expect(await paid(store)).toEqual([-10]);
  });

  test("another take whose answer is lost is sent again with the same key, also when its form is opened again, and is not what the form that continues it shows", async () => {
    const { page, tab, store } = await open();
    const { id, running } = await page.start({ prompt: "a fox" });
    running.fail("out of memory");
    const openWith = async (field: "from" | "continue") => {
      await tab.goto(`${page.url}/new?${field}=${id}`);
      await isLive(tab);
    };
    await openWith("from");
    await loseAnswers(tab);
    await generate(tab).click();
    await shows(tab.locator("#form-error"), "No usable response arrived");
    await tab.unroute("**/generations");
    await openWith("continue");
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("");
    await openWith("from");
    await shows(tab.locator("#form-error"), "may have been started");
    await tab.getByLabel("Prompt").pressSequentially("x");
    await tab.getByLabel("Prompt").press("Backspace");
    await openWith("from");
    await generate(tab).click();
    await isStarted(tab);
    expect(await paid(store)).toEqual([-10, -10]);
  });

  test.each(["seed", "model"])("what has a field of its own, as %s, is no further field", async (name) => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await tab.locator("summary", { hasText: "More" }).click();
    await tab.getByLabel("Others, as JSON").fill(`{"${name}": "7"}`);
    await generate(tab).click();
    await shows(tab.locator(".fault"), `${name} has its own field in the form`);
    expect(await paid(store)).toEqual([]);
  });

  test("a form whose answer was lost is cleared only if one says so, and not while it is being sent", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    const prompt = () => tab.getByLabel("Prompt").inputValue();
    const clear = tab.getByRole("button", { name: "Clear" });
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await loseAnswers(tab, () => answered);
    await generate(tab).click();
    await clear.click();
    expect([await prompt(), tab.complaints]).toEqual(["a fox at dusk", []]);
    answer();
    await shows(tab.locator("#form-error"), "No usable response arrived");
    await tab.unroute("**/generations");
    await clear.click();
    expect(tab.complaints.splice(0).slice(1)).toEqual([
      expect.stringContaining("The same request would then be charged again"),
    ]);
    await generate(tab).click();
    await isStarted(tab);
    expect([await prompt(), await paid(store)]).toEqual(["a fox at dusk", [-10]]);
    await clear.click();
    await expect.poll(prompt).toBe("");
  });

  test("while a start is being sent, and once it is known, nothing says that a press is not charged twice", async () => {
    const { page, tab } = await open();
    await compose(page, tab, "a fox at dusk");
    await tab.route("**/generations", async (route) => {
      await tab.evaluate("document.dispatchEvent(new Event('live'))");
      expect(await tab.locator("#form-error").isVisible()).toBe(false);
      await route.continue();
    });
    await generate(tab).click();
    await isStarted(tab);
    expect(await tab.locator("#form-error").isVisible()).toBe(false);
  });

  test("a draft is not shown to another account that signs in, in the same tab, after the session has ended by itself", async () => {
    const { page, tab, store } = await open();
    const key = "canary-key-of-a-guest";
    await store.addAccount({ name: "guest", keyHash: hashKey(key), creditsOf: () => 100 });
    await compose(page, tab, "a secret fox");
    const signIn = async (key: string) => {
      await tab.context().clearCookies();
      await tab.goto(`${page.url}/new`);
      await tab.getByRole("textbox").fill(key);
      await tab.getByRole("button", { name: "Sign in" }).click();
      await isLive(tab);
    };
    await signIn(apiKey);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("a secret fox");
    await signIn(key);
    expect(await tab.getByLabel("Prompt").inputValue()).toBe("");
    expect(await tab.evaluate("JSON.stringify(sessionStorage)")).not.toContain("secret");
    // The same when they sign in in another tab, and this one is brought up to date.
    await tab.getByLabel("Prompt").fill("another secret");
    const other = await tab.context().newPage();
    await tab.context().clearCookies();
    await other.goto(`${page.url}/new`);
    await other.getByRole("textbox").fill(apiKey);
    await other.getByRole("button", { name: "Sign in" }).click();
    // As when the connection was lost, and is there again.
    await tab.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
    await expect.poll(() => tab.locator("body").getAttribute("data-account")).toBe("local");
    await expect.poll(() => tab.getByLabel("Prompt").inputValue()).toBe("");
  });

  test("a browser that allows few changes of the history is no hindrance to typing", async () => {
    const { page, tab, store } = await open();
    await tab.addInitScript(
      "{ let left = 5; const { replaceState } = History.prototype; History.prototype.replaceState = function (...all) { if (left-- === 0) throw new DOMException('too many', 'SecurityError'); replaceState.apply(this, all); }; }",
    );
    await compose(page, tab, "a fox");
    await tab.getByLabel("Prompt").pressSequentially(" at dusk");
    await generate(tab).click();
    await isStarted(tab);
    expect([await paid(store), tab.complaints]).toEqual([[-10], []]);
  });

  test("another take of a model that is no longer available says which one is selected", async () => {
    const models = ["wan-2.5", "ray-3"];
    const { page, tab } = await open({ engine: { models } });
    const id = await page.make({ model: "ray-3" });
    models.pop();
    await tab.goto(`${page.url}/new?from=${id}`);
    await shows(tab.locator("#composer"), "ray-3 is no longer available, so wan-2.5 is selected.");
  });

  test("what the service refuses is shown under its field, in the form's words; it costs nothing, and what was typed stays", async () => {
    const findFault = async () => "takes 4 or 8 seconds, not 5";
    const { page, tab, store } = await open({ engine: { isSimulation: false, findFault, maxImages: 1 } });
    const isMarked = async (name: string, text: string) => {
      const field = tab.getByRole("textbox", { name });
      await expect.poll(() => field.getAttribute("aria-invalid")).toBe("true");
      expect(await field.evaluate((each) => each.matches(":focus"))).toBe(true);
      const fault = tab.locator(`#${await field.getAttribute("aria-describedby")}`);
      expect(await fault.innerText()).toBe(text);
      const [below, above] = [await fault.boundingBox(), await field.boundingBox()];
      expect((below?.y ?? 0) - (above?.y ?? 0) - (above?.height ?? 0)).toBeLessThan(20);
      expect(await tab.locator("[aria-invalid=true]").count()).toBe(1);
    };
    await compose(page, tab, "a fox at dusk");
    await tab.getByRole("textbox", { name: "Ratio" }).fill("tall");
    await generate(tab).click();
    await isMarked("Ratio", 'Ratio must be width:height, such as 16:9, not "tall". Nothing was started.');
    await tab.getByRole("textbox", { name: "Ratio" }).fill("9:16");
    expect(await tab.locator("[aria-invalid=true]").count()).toBe(0);
    await tab.getByRole("textbox", { name: "Length" }).fill("99");
    await generate(tab).click();
    await isMarked("Length", "Length must be more than 0 and at most 60 seconds. Nothing was started.");
    await tab.getByRole("textbox", { name: "Length" }).fill("5");
    await generate(tab).click();
    await shows(tab.getByRole("alert"), "wan-2.5: takes 4 or 8 seconds, not 5. Nothing was started.");
    await tab.locator("summary", { hasText: "More" }).click();
    await tab.getByLabel("Others, as JSON").fill("fps 24");
    await tab.locator("summary", { hasText: "More" }).click();
    await generate(tab).click();
    await isMarked("Others, as JSON", 'The other fields are not a JSON object, such as {"fps": 24}.');
    await tab.getByLabel("Others, as JSON").fill('{"fps": [24]}');
    await generate(tab).click();
    await isMarked("Others, as JSON", "fps must be a number or a text. Nothing was started.");
    expect([await tab.getByLabel("Prompt").inputValue(), await paid(store)]).toEqual(["a fox at dusk", []]);
  });

  test("in a low window what was started stays in view, and so does the field with a fault, below the head of the page", async () => {
    const { page, tab } = await open();
    await tab.setViewportSize({ width: 1280, height: 500 });
    const id = await page.make({ prompt: "a fox" });
    await tab.goto(`${page.url}/new?started=${id}`);
    await isLive(tab);
    await tab.getByLabel("Prompt").fill("a bear");
    await tab.getByRole("textbox", { name: "Ratio" }).fill("9:99:9");
    await tab.evaluate("scrollTo(0, 9999)");
    const yOf = async (place: Locator) => (await place.boundingBox())?.y ?? 0;
    expect(await yOf(tab.getByLabel("Prompt"))).toBeLessThan(0);
    expect(await yOf(made(tab).first())).toBeGreaterThan(0);
    await generate(tab).click();
    await shows(tab.locator(".fault"), "Ratio must be width:height");
    const head = await tab.locator(".top").boundingBox();
    expect(await yOf(tab.getByText("Ratio", { exact: true }))).toBeGreaterThan(head?.height ?? 0);
  });

  test("after an outage the form no longer says that no response arrived, and what was meant once is paid once", async () => {
    const { page, tab, store } = await open();
    await compose(page, tab, "a fox at dusk");
    await loseAnswers(tab, () => page.stop());
    await generate(tab).click();
    await shows(tab.locator("#form-error"), "No usable response arrived");
    await shows(tab.locator("#notice"), "does not respond");
    await tab.unroute("**/generations");
    await page.restart();
    await isLive(tab);
    await shows(tab.locator("#form-error"), "The service responds");
    expect(await tab.locator("#form-error").innerText()).not.toContain("No response");
    await generate(tab).click();
    await isStarted(tab);
    expect(await paid(store)).toEqual([-10]);
  });

  test("a picture that is dropped beside the form is an image of it, and replaces no page", async () => {
    const { page, tab } = await open({ engine: { maxImages: 2 } });
    await compose(page, tab, "a fox");
    const drop = (selector: string, name: string) =>
      tab.evaluate(
        `(() => {
          const bytes = Uint8Array.from(atob("${Buffer.from(aPng(2, 2)).toString("base64")}"), (each) => each.charCodeAt(0));
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([bytes], "${name}", { type: "image/png" }));
          return ["dragover", "drop"].map((type) => {
            const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
            document.querySelector("${selector}").dispatchEvent(event);
            return event.defaultPrevented;
          });
        })()`,
      );
    expect(await drop("header", "fox.png")).toEqual([true, true]);
    expect(await drop("#composer", "owl.png")).toEqual([true, true]);
    await shows(tab.locator("#images"), "owl.png");
    expect(await tab.locator("#images li").count()).toBe(2);
  });

  test("what is typed stays while the page is brought up to date", async () => {
    const { page, tab } = await open();
    await compose(page, tab, "a fox at du");
    await tab.getByRole("textbox", { name: "Length" }).fill("7");
    await page.restart();
    await isLive(tab);
    expect([
      await tab.getByLabel("Prompt").inputValue(),
      await tab.getByRole("textbox", { name: "Length" }).inputValue(),
    ]).toEqual(["a fox at du", "7"]);
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
    await tab.getByRole("link", { name: "Another take" }).click();
    await shows(tab.locator("#images"), "Image 2");
    await tab.getByRole("button", { name: "Remove Image 2" }).click();
    await tab.getByLabel("Prompt").fill("a red fox");
    await generate(tab).click();
    await isStarted(tab);
    const again = await store.generation(await newestMade(tab));
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
      await tab.getByRole("link", { name: "Another take" }).click();
      await shows(tab.locator("#images"), " 1");
      if (removed) await tab.getByRole("button", { name: removed }).click();
      await generate(tab).click();
      await isStarted(tab);
      const [newest] = await store.list({ limit: 1 });
      return store.images(newest?.id ?? "");
    };
    expect(await rerun({ imageUrl: image, lastImageUrl: image })).toEqual({ images: [image], lastImage: image });
    expect(await rerun({ referenceUrls: [image, image] }, "Remove Reference 2")).toEqual({
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
    await shows(tab.locator(".images"), "fox.gif is not a PNG, JPEG or WebP image.");
    await tab.getByLabel("Choose images").setInputFiles(file);
    await shows(tab.locator("#images"), "fox.png");
    await tab.reload();
    await isLive(tab);
    await generate(tab).click();
    await shows(tab.locator(".images"), "fox.png: choose it again, or remove it.");
    expect(await paid(store)).toEqual([]);
    await tab.getByLabel("Choose images").setInputFiles(file);
    await generate(tab).click();
    await isStarted(tab);
    expect((await store.generation(await newestMade(tab)))?.request.images).toHaveLength(1);
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
    await isStarted(tab);
    await isLive(tab);
    await tab.evaluate(`Object.defineProperty(document, "hidden", { value: true });
      document.dispatchEvent(new Event("visibilitychange"))`);
    const other = await page.make({ prompt: "of somebody else" });
    expect(other).toBeTruthy();
    (await running).complete();
    await expect.poll(() => tab.evaluate("told")).toEqual([["The video is ready", "a fox at dusk"]]);
    await tab.reload();
    await isLive(tab);
    expect(await tab.evaluate("told")).toEqual([]);
  });

  test("the colours that are chosen stay, on every page, from its first moment", async () => {
    const { page, tab } = await open();
    const ground = () => tab.evaluate("getComputedStyle(document.body).backgroundColor");
    const choose = async (theme: string) => {
      await tab.getByRole("button", { name: "Owner" }).click();
      await tab.getByLabel("Colours").selectOption(theme);
    };
    await choose("Dark");
    await expect.poll(ground).toBe("rgb(16, 17, 19)");
    await tab.goto(`${page.url}/credits`);
    expect(await tab.locator("html").getAttribute("data-theme")).toBe("dark");
    expect(await ground()).toBe("rgb(16, 17, 19)");
    await choose("System");
    await expect.poll(ground).toBe("rgb(246, 246, 244)");
    await tab.reload();
    expect(await ground()).toBe("rgb(246, 246, 244)");
  });
});
