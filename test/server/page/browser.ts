import { readFileSync } from "node:fs";
import process from "node:process";
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { browserPath } from "../../needs.ts";
import { slowness } from "../../slowness.ts";

export async function launch(): Promise<Browser> {
  // As root, as in a container, Chromium has no sandbox.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: browserPath ?? "", args });
}

/** A tab with what must stay empty: what the browser complains about, such as a violation of the page's CSP, and what a script alerts. */
export type Tab = Page & { complaints: string[] };

/** Opens an address in a window of its own, which is closed with the test; a link to the page signs in. */
export async function openTab(browser: Browser, link: string, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(30_000 * slowness);
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on(
    "console",
    (message) => message.type() === "error" && complaints.push(`${message.text()} ${message.location().url}`),
  );
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  if (new URL(link).searchParams.has("token")) await openLink(page, link);
  else await page.goto(link);
  return Object.assign(page, { complaints });
}

/** Signs in by the link to the page. */
export async function openLink(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}

/** Waits until an element shows a text. */
export async function shows(place: Locator, text: string): Promise<void> {
  await expect.poll(() => place.innerText({ timeout: 1_000 }).catch(() => "")).toContain(text);
}

/** Waits until the page hears of changes. */
export async function isLive(tab: Tab): Promise<void> {
  await shows(tab.locator("#connection"), "Live");
}

/** From now on pages load without their script, as over a slow network, until the returned function is called. */
export async function holdScript(tab: Tab): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await tab.route("**/assets/*.js", async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

/** From now on each start reaches the service, and its answer is lost, after `meanwhile`; until the route is taken away. */
export async function loseAnswers(tab: Tab, meanwhile?: () => Promise<unknown>): Promise<void> {
  await tab.route("**/generations", async (route) => {
    await route.fetch();
    await meanwhile?.();
    await route.abort();
  });
}

/** The texts that the focus ring of another element touches, each with that element; a text that something covers does not count. */
export async function findTouchedTexts(tab: Tab): Promise<string[]> {
  return (await tab.evaluate(`(() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) {
      const range = document.createRange();
      const { data } = walker.currentNode;
      range.setStart(walker.currentNode, data.length - data.trimStart().length);
      range.setEnd(walker.currentNode, Math.max(range.startOffset, data.trimEnd().length));
      for (const { left, right, top, bottom, height } of range.getClientRects()) {
        const [x, y, parent] = [(left + right) / 2, (top + bottom) / 2, walker.currentNode.parentElement];
        const shown = document.elementFromPoint(x, y);
        // Without the room above and below the letters.
        const room = height / 5;
        if (shown && (shown.contains(parent) || parent.contains(shown)) && data.trim())
          texts.push({ node: walker.currentNode, left, right, top: top + room, bottom: bottom - room });
      }
    }
    const touched = [];
    for (const element of document.querySelectorAll("a, button, input, select, textarea, summary")) {
      element.focus({ focusVisible: true, preventScroll: true });
      if (document.activeElement !== element) continue;
      const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(element);
      const ring = Number.parseFloat(outlineWidth) + Number.parseFloat(outlineOffset);
      if (outlineStyle === "none" || ring <= 0) continue;
      for (const box of element.getClientRects()) {
        const shown = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
        if (!shown || !(element.contains(shown) || shown.contains(element))) continue;
        for (const { node, left, right, top, bottom } of texts)
          if (!element.contains(node) && !element.closest("label, .skip") && !node.parentElement.closest("select") &&
            left < box.right + ring && right > box.left - ring && top < box.bottom + ring && bottom > box.top - ring &&
            !(left > box.left && right < box.right && top > box.top && bottom < box.bottom))
            touched.push(element.outerHTML.slice(0, 80) + " touches " + node.data.trim().slice(0, 40));
      }
    }
    return touched;
  })()`)) as string[];
}

const axe = readFileSync(new URL("../../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

type Violation = { id: string; impact: string; nodes: { html: string }[] };

/** What axe finds to be serious, with all that can be opened. The debugger runs it: the page's CSP lets no other script in. */
export async function findFaults(tab: Tab): Promise<string[]> {
  await tab.evaluate(`
    for (const each of document.querySelectorAll("details")) each.open = true;
    for (const each of document.querySelectorAll("[popover]")) {
      each.popover = "manual";
      each.showPopover();
    }`);
  await tab.evaluate(axe);
  const { violations } = (await tab.evaluate("axe.run({ resultTypes: ['violations'] })")) as {
    violations: Violation[];
  };
  await tab.evaluate(`
    for (const each of document.querySelectorAll("[popover]")) {
      each.hidePopover();
      each.popover = "auto";
    }`);
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}
