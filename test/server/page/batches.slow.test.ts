import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browserPath } from "../../needs.ts";
import { isLive, launch, openTab, shows } from "./browser.ts";
import { apiKey, labelled, openTestPage } from "./harness.ts";

// What `vidgen batch` has started, as one.

let browser: Browser;

describe("batches", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  test("a batch shows all its rows, what it has cost, what has failed first, and how to continue, while it happens", async () => {
    const page = await openTestPage();
    const tab = await openTab(browser, page.link);
    const batch = labelled("foxes & bears.csv", 5);
    await page.make({ prompt: "done" }, undefined, batch);
    (await page.start({ prompt: "bad" }, undefined, batch)).running.fail("out of memory");
    const { running } = await page.start({ prompt: "runs" }, undefined, batch);
    await page.make({ prompt: "of no batch" });
    await tab.getByRole("button", { name: "Manage" }).click();
    await tab.getByRole("link", { name: "Batches" }).click();
    await shows(tab.locator(".batches"), "1 of 5 completed, 1 failed, 1 running, 2 to start");
    await tab.getByRole("link", { name: "foxes & bears.csv" }).click();
    await isLive(tab);
    await shows(tab.locator("main"), "1 of 5 completed, 1 failed, 1 running, 2 to start");
    await shows(tab.locator("main"), "20 credits spent");
    await shows(tab.locator("main"), "left");
    expect(await tab.locator("#continue-command").innerText()).toBe("vidgen batch 'foxes & bears.csv' --local");
    const cells = () => tab.locator(".strip > i").evaluateAll((all) => all.map((each) => each.className));
    expect(await cells()).toEqual(["completed", "failed", "running", "", ""]);
    expect(await tab.locator(".card .prompt").allInnerTexts()).toEqual(["bad", "runs", "done"]);
    running.complete();
    await expect.poll(cells).toEqual(["completed", "failed", "completed", "", ""]);
    await page.make({ prompt: "four" }, undefined, batch);
    await page.make({ prompt: "five" }, undefined, batch);
    await shows(tab.locator("main"), "4 of 5 completed, 1 failed");
    await shows(tab.locator("#continue-command"), "--retry-failed");
    await tab.getByRole("link", { name: "Show all in the list" }).click();
    await expect.poll(() => tab.locator(".card").count()).toBe(5);
    await tab.goto(`${page.url}/credits`);
    await shows(tab.locator(".spending"), "foxes & bears.csv");
    expect(tab.complaints).toEqual([]);
  });

  test("rows whose outcome is unclear are started again by --retry-unknown, after a look at the account", async () => {
    const page = await openTestPage({ engine: { render: async () => ({ kind: "unclear", reason: "HTTP 502" }) } });
    const tab = await openTab(browser, page.link);
    const reply = await fetch(`${page.url}/api/generate`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${apiKey}`,
        "Content-Type": "application/json",
        ...labelled("foxes.csv", 1),
      },
      body: JSON.stringify({ prompt: "a fox", model: "sora-2" }),
    });
    expect(reply.status).toBe(200);
    await tab.goto(`${page.url}/batches/foxes.csv`);
    await shows(tab.locator("main"), "0 of 1 completed, 1 failed");
    expect(await tab.locator("#continue-command").innerText()).toBe("vidgen batch foxes.csv --local --retry-unknown");
    await shows(tab.locator("main"), "check your account there before you add --retry-unknown");
    expect(tab.complaints).toEqual([]);
    await tab.goto(`${page.url}/credits`);
    await shows(tab.locator(".spending"), "Unknown cost");
  });

  test("a label is shown as it is, whatever is in it", async () => {
    const page = await openTestPage();
    const tab = await openTab(browser, page.link);
    const name = `<img src=x onerror=alert(1)> ../%2f?#"' 🦊`;
    await page.make({ prompt: "a fox" }, undefined, labelled(name, 1));
    await tab.goto(`${page.url}/batches`);
    await tab.locator(".batches a").click();
    await shows(tab.getByRole("heading", { level: 1 }), name);
    expect(tab.complaints).toEqual([]);
  });
});
