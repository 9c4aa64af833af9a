import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { browserPath } from "../../needs.ts";
import { findFaults, findTouchedTexts, isLive, launch, openTab, shows, type Tab } from "./browser.ts";
import { openTestPage, receive, type TestPageOptions } from "./harness.ts";

// A generation, the callbacks, the credits and the engines in a real browser.

let browser: Browser;

describe("what the page tells", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  const open = async (options?: TestPageOptions) => {
    const page = await openTestPage(options);
    const tab = await openTab(browser, page.link, {
      permissions: ["clipboard-read", "clipboard-write"],
      timezoneId: "Asia/Tokyo",
    });
    return { page, tab };
  };
  const copied = (tab: Tab) => tab.evaluate("navigator.clipboard.readText()");

  test("a generation is called by its prompt, in its heading, its tab and the name of its file", async () => {
    const { page, tab } = await open();
    const prompt = `A red fox ${"runs ".repeat(40)}`.trim();
    const id = await page.make({ prompt, model: "veo-3.1" });
    await tab.goto(`${page.url}/generations/${id}`);
    expect(await tab.getByRole("heading", { level: 1 }).textContent()).toBe(prompt);
    expect(await tab.title()).toMatch(/^A red fox runs [runs ]*… · vidgen$/);
    const [download] = await Promise.all([
      tab.waitForEvent("download"),
      tab.getByRole("link", { name: "Download" }).click(),
    ]);
    expect(download.suggestedFilename()).toMatch(
      new RegExp(`^a-red-fox-runs-[runs-]*-veo-3\\.1-${id.slice(0, 8)}\\.mp4$`),
    );
  });

  test("j and k go to the next and the previous one, of the same filter where there is one, and ? says so", async () => {
    const { page, tab } = await open();
    const ids: string[] = [];
    for (const prompt of ["one fox", "two bears", "three foxes"]) ids.push(await page.make({ prompt }));
    const heading = tab.getByRole("heading", { level: 1 });
    await tab.goto(`${page.url}/generations/${ids[2]}`);
    await isLive(tab);
    expect(await tab.getByRole("link", { name: "Previous" }).count()).toBe(0);
    await tab.keyboard.press("j");
    await shows(heading, "two bears");
    await tab.keyboard.press("j");
    await shows(heading, "one fox");
    await tab.keyboard.press("k");
    await shows(heading, "two bears");
    await tab.goto(`${page.url}/generations/${ids[2]}?text=fox`);
    await isLive(tab);
    await tab.keyboard.press("j");
    await shows(heading, "one fox");
    await isLive(tab);
    await tab.keyboard.press("?");
    await shows(tab.getByRole("dialog", { name: "Keys" }), "Next");
    await tab.keyboard.press("k");
    await tab.keyboard.press("Escape");
    expect(await tab.getByRole("dialog").count()).toBe(0);
    expect(await heading.textContent()).toBe("one fox");
  });

  test("its timeline has the browser's clock, the time between two events, and a bar of queue, render and callback", async () => {
    const store = await openStore(":memory:");
    const { page, tab } = await open({ store });
    const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 14, 59, 30) + seconds * 1_000).toISOString();
    const { url: callback_url } = await receive({ status: 410, text: "" });
    const { id, running } = await page.start({ callback_url });
    await running.checkpoint({ state: "submitted", job: "video-7" });
    running.fail("no");
    await expect.poll(async () => (await store.deliveries({ limit: 1 }))[0]?.next_at).toBeNull();
    const { generation, deliveries } = store;
    const checkpoint = { state: "submitted", job: "video-7", engine: "http://gpu-1", at: at(60) } as const;
    store.generation = async (wanted) => {
      const found = await generation(wanted);
      return found && { ...found, created_at: at(0), checkpoint, completed_at: at(260) };
    };
    store.deliveries = async (query) =>
      (await deliveries(query)).map((each) => ({
        ...each,
        attempts: each.attempts.map((attempt) => ({ ...attempt, at: at(261), ms: 1_000 })),
      }));
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    const lines = await tab.locator(".timeline > li").allInnerTexts();
    // In Tokyo the next day has begun meanwhile.
    expect(lines.map((line) => line.replace(/\s+/g, " "))).toEqual([
      "Started 1 Jan 2026, 23:59:30",
      "Submitted to http://gpu-1 +1 min 00:00:30 video-7",
      "Failed +3 min 20 s 00:03:50",
      "Callback given up after attempt 1 +1 s 00:03:51 HTTP 410",
    ]);
    const phases = await tab.locator(".phases dl > div").allInnerTexts();
    expect(phases.map((line) => line.replace(/\s+/g, " "))).toEqual([
      "Queue 1 min",
      "Render 3 min 20 s",
      "Callback 2 s",
    ]);
    const widths = await tab
      .locator(".phases rect")
      .evaluateAll((bars) => bars.map((bar) => bar.getAttribute("width")));
    expect(widths.map((width) => Math.round(Number.parseFloat(width ?? "")))).toEqual([23, 76, 1]);
    expect(await tab.getByText("HTTP 410").count()).toBe(2);
    expect(await tab.locator(".attempts").isVisible()).toBe(false);
    await tab.getByText("One attempt").click();
    await shows(tab.locator(".attempts"), "HTTP 410 after 1 s");
  });

  test("one block tells how to make it again, in five ways by the arrow keys, and with the program's own name", async () => {
    const { page, tab } = await open();
    const id = await page.make({ prompt: "a fox" });
    await tab.goto(`${page.url}/generations/${id}`);
    const shown = () => tab.locator(".code pre:visible").allInnerTexts();
    expect(await shown()).toEqual(["vidgen generate 'a fox' -m wan-2.5 -a 16:9 -d 1 -r 480p --local"]);
    await tab.getByRole("radio", { name: "vidgen" }).focus();
    const starts = [
      /^vidgen generate "a fox"/,
      /^curl http/,
      /^{\n {2}"prompt"/,
      /^import { createClient } from "vidgen"/,
    ];
    for (const start of starts) {
      await tab.keyboard.press("ArrowRight");
      expect(await shown()).toEqual([expect.stringMatching(start)]);
    }
    expect(await tab.content()).not.toContain("npx");
    expect(tab.complaints).toEqual([]);
  });

  test("what was chosen and opened stays while the page follows its generation, and so does the browser's clock", async () => {
    const { page, tab } = await open();
    const { url: callback_url } = await receive({ status: 410, text: "" }, { status: 200, text: "" });
    const { id, running } = await page.start({ callback_url });
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    await tab.getByText("curl", { exact: true }).click();
    await tab.evaluate(`new MutationObserver(() => {
      for (const time of document.querySelectorAll("time[data-clock]")) if (time.textContent.includes("UTC")) sawUtc = true;
    }).observe(document.body, { subtree: true, childList: true, characterData: true }); sawUtc = false;`);
    running.complete();
    await shows(tab.locator(".timeline"), "Callback given up");
    expect(await tab.locator(".code pre:visible").innerText()).toMatch(/^curl /);
    await tab.getByText("One attempt").click();
    await tab.getByRole("button", { name: "Send again" }).click();
    await shows(tab.locator(".timeline"), "Callback delivered after attempt 2");
    await shows(tab.locator(".attempts"), "HTTP 200");
    expect(await tab.evaluate("sawUtc")).toBe(false);
  });

  test("where vidgen was called by npx, its page says npx, too", async () => {
    const { page, tab } = await open({ program: "npx vidgen" });
    await shows(tab.locator(".empty"), "npx vidgen generate");
    const id = await page.make();
    await tab.goto(`${page.url}/generations/${id}`);
    await shows(tab.locator("#code-vidgen"), "npx vidgen generate");
  });

  test("id, prompt, error, body and code are copied by their buttons", async () => {
    const { page, tab } = await open();
    const { url: callback_url, received } = await receive({ status: 200, text: "" });
    const prompt = "a fox\n  that runs";
    const { id, running } = await page.start({ prompt, callback_url });
    running.fail("the GPU ran out of memory");
    await expect.poll(() => received.length).toBe(1);
    await tab.goto(`${page.url}/generations/${id}`);
    await tab.getByText("Body").click();
    const copy = async (name: string) => {
      await tab.getByRole("button", { name: `Copy ${name}`, exact: true }).click();
      return copied(tab);
    };
    expect(await copy("the prompt")).toBe(prompt);
    expect(await copy("the id")).toBe(id);
    expect(await copy("the error")).toBe("the GPU ran out of memory");
    expect(JSON.parse(String(await copy("the body")))).toEqual(JSON.parse(received[0]?.body ?? ""));
    expect(await copy("for vidgen")).toContain("vidgen generate 'a fox\n  that runs'");
  });

  const refused = (fields: object) => ({
    render: async () => ({ kind: "refused" as const, error: "no foxes", ...fields }),
  });

  test.each<{ name: string; engine: Partial<Engine>; said: string[]; hasButton?: boolean }>([
    {
      name: "the engine broke",
      engine: { render: () => Promise.reject(new Error("the GPU is hot")) },
      said: [
        "This generation failed",
        "the GPU is hot",
        "The cost of 10 credits was returned.",
        "Another take starts it again.",
      ],
    },
    {
      name: "the model refused it",
      engine: refused({ failure: "refused" }),
      said: [
        "The engine refused this",
        "no foxes",
        "The cost of 10 credits was not returned.",
        "Try another prompt or model.",
      ],
    },
    {
      name: "it is unclear whether the engine makes it",
      engine: { render: async () => ({ kind: "unclear", reason: "HTTP 502" }) },
      said: [
        "It is unclear whether this was generated",
        "HTTP 502",
        "The cost of 10 credits was not returned.",
        "Its engine's provider may have charged for it: check your account there. It is not sent again.",
      ],
      hasButton: true,
    },
  ])(
    "a failure says what happened, whether the credits came back, and what to do: $name",
    async ({ engine, said, hasButton = false }) => {
      const store = await openStore(":memory:");
      const { page, tab } = await open({ store, engine });
      void page.start().catch(() => {});
      await expect.poll(async () => (await store.list({ state: "failed", limit: 1 })).length).toBe(1);
      const [{ id = "" } = {}] = await store.list({ limit: 1 });
      await tab.goto(`${page.url}/generations/${id}`);
      for (const text of said) await shows(tab.locator(".error"), text);
      const acknowledged = tab.getByRole("button", { name: "I have checked the charge: delete" });
      expect([await acknowledged.isVisible(), await acknowledged.count()]).toEqual(hasButton ? [true, 1] : [false, 0]);
      expect(await findFaults(tab)).toEqual([]);
      if (!hasButton) return;
      await acknowledged.focus();
      await tab.keyboard.press("Enter");
      await tab.getByRole("button", { name: "Delete generation" }).focus();
      await tab.keyboard.press("Enter");
      await expect.poll(async () => (await store.generation(id))?.removed_at).toBeTruthy();
    },
  );

  test("callbacks are rows with a pane: by outcome, by endpoint, with latency and a body to read, by the keyboard too", async () => {
    const { page, tab } = await open();
    const good = await receive({ status: 204, text: "" });
    const bad = await receive({ status: 410, text: "gone" });
    const hostOf = (url: string) => new URL(url).host;
    const delivered = await page.make({ prompt: "a good one", callback_url: good.url });
    await page.make({ prompt: "a bad one", callback_url: bad.url });
    await page.make({ prompt: "another bad one", callback_url: bad.url });
    await expect.poll(() => bad.received.length).toBe(2);
    await tab.goto(`${page.url}/callbacks`);
    await isLive(tab);
    const prompts = () => tab.locator(".rows summary > .about > [dir]").allInnerTexts();
    expect(await prompts()).toEqual(["another bad one", "a bad one", "a good one"]);
    expect(await tab.locator(".rows summary > .latency").first().innerText()).toMatch(/^\d+ ms$/);
    expect(await tab.getByRole("navigation", { name: "Outcome" }).innerText()).toMatch(
      /All\s*3\s*Waiting\s*0\s*Delivered\s*1\s*Given up\s*2/,
    );
    await tab.getByRole("link", { name: "Delivered" }).click();
    await expect.poll(prompts).toEqual(["a good one"]);
    await tab.getByRole("link", { name: /^All/ }).click();
    await expect.poll(async () => (await prompts()).length).toBe(3);
    await tab.getByLabel("Endpoint").selectOption(hostOf(bad.url));
    await expect.poll(prompts).toEqual(["another bad one", "a bad one"]);
    await tab.goto(`${page.url}/callbacks`);
    await isLive(tab);
    const pane = tab.locator(".rows .pane:visible");
    for (const text of ["another bad one", "a bad one", "a good one"]) {
      await tab.keyboard.press("j");
      await shows(pane, text);
      expect(await pane.count()).toBe(1);
    }
    await shows(pane, `"id": "${delivered}"`);
    await shows(pane, "HTTP 204 after");
    await tab.keyboard.press("k");
    await shows(pane, "gone");
    const [row, beside] = await Promise.all([tab.locator(".rows").boundingBox(), pane.boundingBox()]);
    expect(beside?.x).toBeGreaterThan((row?.x ?? 0) + (row?.width ?? 0));
    expect(tab.complaints).toEqual([]);
  });

  test("the row of a callback shows the end of its address, and how many attempts have failed", async () => {
    const { page, tab } = await open();
    const { url } = await receive({ status: 500, text: "" }, { status: 200, text: "" });
    const { url: gone } = await receive({ status: 410, text: "" });
    const base = "services/video-pipeline/production/customers/northern-studio/callbacks";
    const first = await page.make({ callback_url: `${url}/${base}/scene-1` });
    const second = await page.make({ callback_url: `${gone}/${base}/scene-2` });
    await tab.goto(`${page.url}/callbacks`);
    await isLive(tab);
    for (const [id, end, attempts] of [
      [first, "/callbacks/scene-1", "1 attempt failed"],
      [second, "/callbacks/scene-2", "1 attempt failed"],
    ] as const) {
      const row = tab.locator(`#callback-${id} summary`).first();
      await shows(row, attempts);
      const [shown, column] = await Promise.all([
        row.getByText(end, { exact: true }).boundingBox(),
        row.locator(".address").boundingBox(),
      ]);
      expect(shown && column && shown.height < 25 && shown.x + shown.width <= column.x + column.width + 1).toBe(true);
    }
  });

  test("all callbacks that failed are sent again at once, those of one endpoint where it is chosen", async () => {
    const { page, tab } = await open();
    const [one, other] = await Promise.all([
      receive({ status: 410, text: "" }, { status: 410, text: "" }, { status: 204, text: "" }),
      receive({ status: 410, text: "" }),
    ]);
    for (const { url: callback_url } of [one, one, other]) await page.make({ callback_url });
    await expect.poll(() => one.received.length + other.received.length).toBe(3);
    await tab.goto(`${page.url}/callbacks?host=${new URL(one.url).host}`);
    await isLive(tab);
    await tab.getByRole("button", { name: "Send all 2 failed callbacks again" }).click();
    await expect.poll(() => one.received.length).toBe(4);
    await shows(tab.locator(".rows"), "Delivered");
    expect(await tab.getByRole("button", { name: /failed callbacks? again/ }).count()).toBe(0);
    expect(new Set(one.received.map(({ id }) => id)).size).toBe(2);
    expect(other.received).toHaveLength(1);
    await tab.getByRole("link", { name: "Given up" }).click();
    await shows(tab.locator(".empty"), "No callback matches");
  });

  test("credits are added up by day and by model, with USD where an engine told it; each row has its time and its prompt", async () => {
    const render = async ({ request, file }: Parameters<Engine["render"]>[0]) => {
      const { writeFile } = await import("node:fs/promises");
      await writeFile(file, "a video");
      if (request.prompt === "a bear") throw new Error("no bears");
      return { kind: "made", hasThumbnail: false, cost: 0.25 } as const;
    };
    const store = await openStore(":memory:");
    const { page, tab } = await open({ store, engine: { render } });
    for (const prompt of ["a fox", "a bear", "a fox at night"]) void page.start({ prompt }).catch(() => {});
    const isEnded = async () => (await store.totals({})).counts;
    await expect.poll(isEnded).toEqual({ completed: 2, failed: 1 });
    await tab.goto(`${page.url}/credits`);
    const table = (name: string) =>
      tab.locator("section", { has: tab.getByRole("heading", { name }) }).locator("table");
    const day = new Date().toISOString().slice(0, 10);
    expect((await table("By day").locator("tbody").innerText()).replace(/\s+/g, " ")).toBe(`${day} 3 20 $0.50`);
    expect((await table("By model").locator("tbody").innerText()).replace(/\s+/g, " ")).toBe("wan-2.5 3 20 $0.50");
    const rows = (await tab.locator("[data-list] tr").allInnerTexts()).map((row) => row.replace(/\s+/g, " ").trim());
    expect(rows).toContain("now a fox −10 $0.25");
    expect(rows).toContain("now Returned: a bear +10");
    expect(rows.at(-1)).toMatch(/^(now|\d+ s ago) set by the service's owner \+1,000,000/);
    await tab.getByRole("link", { name: "a fox at night" }).click();
    await shows(tab.getByRole("heading", { level: 1 }), "a fox at night");
  });

  test("the engines: up, what waits, what failed; and out since when, and why", async () => {
    let mood: "fine" | "hot" = "fine";
    const store = await openStore(":memory:");
    const { page, tab } = await open({
      store,
      engine: {
        concurrency: 1,
        isSimulation: false,
        render: async () =>
          mood === "hot" ? { kind: "not submitted", reason: "the GPU is hot" } : { kind: "refused", error: "no foxes" },
        check: async () => {
          if (mood === "hot") throw new Error("connection refused");
          return "a video server";
        },
      },
    });
    void page.start().catch(() => {});
    await expect.poll(async () => (await store.totals({})).counts.failed).toBe(1);
    await tab.getByRole("button", { name: "Manage" }).click();
    await tab.getByRole("link", { name: "Engines" }).click();
    const engine = tab.locator(".engine");
    await shows(engine, "http://gpu-1:8091");
    await shows(engine, "Up");
    await shows(engine, "a video server");
    await shows(tab.getByRole("row", { name: /Refused by the model/ }), "1");
    await shows(tab.locator(".spending"), "No generation is waiting.");
    await isLive(tab);
    mood = "hot";
    void page.start({ prompt: "a second fox" }).catch(() => {});
    await shows(engine, "Unavailable since");
    await shows(engine, "the GPU is hot");
    await shows(engine, "1 accepted, 1 not accepted");
    await shows(tab.getByRole("row", { name: /wan-2\.5.*1/ }).first(), "wan-2.5");
    expect(tab.complaints).toEqual([]);
  });

  test.each([
    { width: 1280, height: 800 },
    { width: 390, height: 800 },
  ])(
    "at $width the controls have words, Clear and Takes are in view, and no focus ring touches a text",
    async (viewport) => {
      const { page, tab } = await open();
      const id = await page.make({ prompt: "a fox" });
      await tab.setViewportSize(viewport);
      for (const path of ["/", "/credits", "/engine-status", `/generations/${id}`, `/new?continue=${id}`]) {
        await tab.goto(`${page.url}${path}`);
        await isLive(tab);
        expect([path, await findTouchedTexts(tab)]).toEqual([path, []]);
        expect([path, await findFaults(tab)]).toEqual([path, []]);
      }
      for (const name of ["Clear", "Takes"]) {
        const box = await tab.getByText(name, { exact: true }).boundingBox();
        expect([name, box && box.y + box.height < viewport.height]).toEqual([name, true]);
      }
      await tab.goto(page.url);
      await tab.locator(".card > a").focus();
      const words = await tab.locator(".card .controls").innerText();
      expect(words.split(/\s+/)).toEqual(viewport.width > 400 ? ["Take", "Continue", "Download", "Star"] : ["Star"]);
    },
  );
});
