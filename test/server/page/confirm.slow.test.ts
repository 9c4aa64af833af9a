import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { browserPath } from "../../needs.ts";
import { findFaults, isLive, launch, openTab, shows } from "./browser.ts";
import { aVideo, openTestPage } from "./harness.ts";

// Cancel and Delete in a browser, each after a question in a dialog.

let browser: Browser;

describe("cancel and delete", { skip: browserPath === undefined }, () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  test("by keyboard: Delete asks, the safe answer has the focus, and no letter alone deletes", async () => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store });
    const id = await page.make({ prompt: "a fox" });
    const tab = await openTab(browser, page.link);
    await tab.goto(`${page.url}/generations/${id}`);
    await isLive(tab);
    for (const key of "abfghiklmnoqtuvwyz") await tab.keyboard.press(key);
    expect(await tab.locator("dialog[open]").count()).toBe(0);
    await tab.keyboard.press("Delete");
    const dialog = tab.getByRole("dialog", { name: "Delete this video?" });
    await dialog.waitFor();
    expect(await findFaults(tab)).toEqual([]);
    await tab.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    expect((await store.generation(id))?.removed_at).toBeUndefined();
    await tab.keyboard.press("Backspace");
    await dialog.waitFor();
    await tab.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await tab.keyboard.press("Delete");
    await dialog.waitFor();
    await tab.keyboard.press("Tab");
    await tab.keyboard.press("Enter");
    await shows(tab.locator("article"), "This generation was deleted");
    await dialog.waitFor({ state: "detached" });
    expect(tab.complaints).toEqual([]);
  });

  test("what is selected: whose it is, what is left out, and what stays selected", async () => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store, video: await aVideo({ aspectRatio: "9:16" }) });
    const guestKey = "canary-key-of-a-guest";
    await store.addAccount({ name: "guest", keyHash: hashKey(guestKey), creditsOf: () => 1_000 });
    await page.make({ prompt: "mine" });
    await page.make({ prompt: "theirs" }, guestKey);
    await page.start({ prompt: "runs" });
    const tab = await openTab(browser, page.link);
    await isLive(tab);
    await expect.poll(() => tab.locator(".backdrop").count()).toBe(2);
    const box = (prompt: string) => tab.getByRole("checkbox", { name: `Select ${prompt}` });
    const form = tab.getByRole("form", { name: "Selected videos" });
    await box("mine").check();
    await box("theirs").check();
    expect(await form.getByRole("button", { name: "Cancel…" }).isVisible()).toBe(false);
    await box("runs").check();
    expect(await form.getByRole("button", { name: "Cancel…" }).isVisible()).toBe(true);
    await tab.keyboard.press("Delete");
    const dialog = tab.getByRole("dialog", { name: "Delete 1 generation of yours and 1 of the account guest?" });
    await shows(dialog, "1: not ended yet; cancel it first");
    await dialog.getByRole("button", { name: "Delete 2 generations" }).click();
    await expect.poll(() => tab.locator(".stage.removed").count()).toBe(2);
    expect(await tab.locator(".stage.removed > *").count()).toBe(0);
    await shows(form.locator("output"), "1 selected");
    await form.getByRole("button", { name: "Cancel…" }).click();
    await tab.getByRole("button", { name: "Cancel generation" }).click();
    await shows(tab.locator(".stage.failed"), "cancelled");
    expect(tab.complaints).toEqual([]);
  });
});
