import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { browserPath, isLive, launch, openTab, shows } from "./browser.ts";
import { openTestPage } from "./harness.ts";

// What `vidgen batch` has started, as one.

let browser: Browser;

const labelled = (name: string, size: number) => ({
  "Vidgen-Label": encodeURIComponent(name),
  "Vidgen-Label-Size": String(size),
});

describe("batches", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  test("a batch shows all its rows, what it has cost, what has failed first, and how to go on, while it happens", async () => {
    const page = await openTestPage();
    const tab = await openTab(browser, page.link);
    const batch = labelled("foxes & bears.csv", 5);
    await page.make({ prompt: "done" }, undefined, batch);
    (await page.start({ prompt: "bad" }, undefined, batch)).running.fail("out of memory");
    const { running } = await page.start({ prompt: "runs" }, undefined, batch);
    await page.make({ prompt: "of no batch" });
    await tab.getByRole("link", { name: "Batches" }).click();
    await shows(tab.locator(".batches"), "1 of 5 completed, 1 failed, 1 running, 2 to start");
    await tab.getByRole("link", { name: "foxes & bears.csv" }).click();
    await isLive(tab);
    await shows(tab.locator("main"), "1 of 5 completed, 1 failed, 1 running, 2 to start");
    await shows(tab.locator("main"), "20 credits spent");
    await shows(tab.locator("main"), "left");
    expect(await tab.locator("#go-on").innerText()).toBe("vidgen batch 'foxes & bears.csv' --local");
    const cells = () => tab.locator(".strip > i").evaluateAll((all) => all.map((each) => each.className));
    expect(await cells()).toEqual(["completed", "failed", "running", "", ""]);
    expect(await tab.locator(".card .prompt").allInnerTexts()).toEqual(["bad", "runs", "done"]);
    running.complete();
    await expect.poll(cells, { timeout: 10_000 }).toEqual(["completed", "failed", "completed", "", ""]);
    await page.make({ prompt: "four" }, undefined, batch);
    await page.make({ prompt: "five" }, undefined, batch);
    await shows(tab.locator("main"), "4 of 5 completed, 1 failed");
    await shows(tab.locator("#go-on"), "--retry-failed");
    await tab.getByRole("link", { name: "All in the list" }).click();
    await expect.poll(() => tab.locator(".card").count()).toBe(5);
    await tab.goto(`${page.url}/credits`);
    await shows(tab.locator(".spending"), "foxes & bears.csv");
    expect(tab.complaints).toEqual([]);
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

test("an account sees its own batches alone", async () => {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  await page.make({}, undefined, labelled("of the owner", 1));
  await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 100 });
  await page.make({}, "a-key-of-ci", labelled("of ci", 1));
  const form = new URLSearchParams({ key: "a-key-of-ci" });
  const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
  const headers = { Cookie: entered.headers.getSetCookie()[0]?.split(";")[0] ?? "" };
  const list = await (await fetch(`${page.url}/batches`, { headers })).text();
  expect([list.includes("of ci"), list.includes("of the owner")]).toEqual([true, false]);
  const statusOf = async (label: string) => (await fetch(`${page.url}/batches/${label}`, { headers })).status;
  expect([await statusOf("of%20ci"), await statusOf("of%20the%20owner")]).toEqual([200, 404]);
});
