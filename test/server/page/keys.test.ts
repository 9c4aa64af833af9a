import { expect, test } from "vitest";
import { findKey, type Key, type KeyName, keys, shortcutOf } from "../../../src/server/page/keys.ts";
import { openTestPage } from "./harness.ts";
import { useLink } from "./sign-in.ts";

const entries = Object.entries(keys) as [KeyName, Key][];

test("each key has one meaning, and the help shows each", () => {
  const all = entries.flatMap(([, { keys }]) => keys);
  expect(new Set(all).size).toBe(all.length);
  for (const [name, { keys, shown }] of entries) {
    expect(keys.map((key) => findKey(key))).toEqual(keys.map(() => name));
    expect(shown).not.toEqual([]);
  }
  expect([findKey("R"), findKey("Control+r")]).toEqual([undefined, undefined]);
});

test("each key that presses a control has one, which names it; and no control names another key", async () => {
  const page = await openTestPage();
  const signedIn = await useLink(page.link);
  const Cookie = signedIn.headers.get("Set-Cookie")?.split(";")[0] ?? "";
  const ids = [await page.make({ prompt: "a fox" }), await page.make({ prompt: "a fox" })];
  const paths = ["/", `/generations/${ids[0]}`, `/compare?of=${ids[0]}`];
  const views = await Promise.all(
    paths.map(async (path) => (await fetch(page.url + path, { headers: { Cookie } })).text()),
  );
  const named = views.map((html) => [...html.matchAll(/aria-keyshortcuts="([^"]*)"/g)].map(([, name]) => name));
  const clicking = entries.filter(([, { clicks }]) => clicks).map(([name]) => name);
  expect(new Set(named.flat())).toEqual(
    new Set([...clicking, "search" as const, "previous" as const].map((name) => shortcutOf(name))),
  );
  const [list, own = [], compared] = named;
  expect(new Set(list)).toEqual(new Set(["/", "Delete", "c", "d", "e", "r", "s", "x"]));
  expect(new Set(compared)).toEqual(new Set(["p Space", ",", ".", "d", "e", "r", "s"]));
  // A key could not choose between two controls of one generation.
  expect(own.toSorted()).toEqual(["Delete", "c", "d", "e", "k", "r", "s", "x"]);
});
