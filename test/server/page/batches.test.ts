import { expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { labelled, openTestPage } from "./harness.ts";
import { cookieOf, useLink } from "./sign-in.ts";

const guestKey = "canary-key-of-a-guest";

async function openWithGuest() {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  await store.addAccount({ name: "guest", keyHash: hashKey(guestKey), creditsOf: () => 1_000 });
  const Cookie = cookieOf(await useLink(page.link));
  const get = async (path: string) => {
    const html = await (await fetch(page.url + path, { headers: { Cookie } })).text();
    return /<main.*<\/main>/s.exec(html)?.[0] ?? "";
  };
  return { ...page, get };
}

test("a batch whose rows are all completed shows its videos, and no command that starts something again", async () => {
  const { make, get } = await openWithGuest();
  const batch = labelled("shots.csv", 2);
  for (const prompt of ["one", "two"]) await make({ prompt }, undefined, batch);
  const html = await get("/batches/shots.csv");
  expect(html).toContain("2 of 2 completed");
  expect([...html.matchAll(/<h2>(.*?)<\/h2>/g)].map(([, heading]) => heading)).toEqual(["Videos"]);
  expect(html).not.toContain("vidgen batch");
});

test("batches of two accounts with the same label are two; only the owner's own has a command", async () => {
  const { make, start, get } = await openWithGuest();
  await make({ prompt: "mine" }, undefined, labelled("shots.csv", 2));
  await make({ prompt: "theirs" }, guestKey, labelled("shots.csv", 3));
  (await start({ prompt: "broken" }, guestKey, labelled("shots.csv", 3))).running.fail("out of memory");
  const list = await get("/batches");
  expect([...list.matchAll(/href="(.*?)"/g)].map(([, address]) => address)).toEqual([
    "/batches/shots.csv?account=guest",
    "/batches/shots.csv?account=local",
  ]);
  expect(list).toContain("of guest");
  const own = await get("/batches/shots.csv");
  expect(own).toContain("1 of 2 completed");
  expect(own).toContain("Continue this batch");
  expect(own).not.toContain("theirs");
  const others = await get("/batches/shots.csv?account=guest");
  expect(others).toContain("1 of 3 completed");
  expect(others).toContain("of guest");
  expect(others).not.toContain("mine");
  expect(others).not.toContain("vidgen batch");
});

test("the owner's credits show what each account has cost, and link each batch to its account", async () => {
  const { make, get } = await openWithGuest();
  await make({ prompt: "mine" }, undefined, labelled("shots.csv", 1));
  await make({ prompt: "theirs" }, guestKey, labelled("shots.csv", 1));
  await make({ prompt: "theirs" }, guestKey);
  const html = await get("/credits");
  const table = /<h2>By account<\/h2>.*?<\/table>/s.exec(html)?.[0] ?? "";
  const rows = [...table.matchAll(/<th scope="row"[^>]*>(\w+).*?<\/tr>/gs)];
  const numbers = rows.map(([row, account]) => [account, ...[...row.matchAll(/<td.*?>(.*?)<\/td>/g)].map((m) => m[1])]);
  expect(numbers).toEqual([
    ["guest", "2", "20"],
    ["local", "1", "10"],
  ]);
  const links = [...html.matchAll(/href="(\/batches.*?)"[^>]*>.*?<\/a>(.*?)<svg/gs)];
  expect(links.map(([, address, after]) => [address, after?.includes("of guest")])).toEqual([
    ["/batches/shots.csv?account=guest", true],
    ["/batches/shots.csv?account=local", false],
  ]);
});
