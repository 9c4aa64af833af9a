import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { openTestPage } from "./harness.ts";
import { cookieOf, useLink } from "./sign-in.ts";

const guestKey = "canary-key-of-a-guest";

async function openWithGuest(engine: Partial<Engine> = {}) {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store, engine });
  await store.addAccount({ name: "guest", keyHash: hashKey(guestKey), creditsOf: () => 1_000 });
  const owner = cookieOf(await useLink(page.link));
  const signIn = await fetch(page.url, {
    method: "POST",
    headers: { Origin: page.url },
    body: new URLSearchParams({ key: guestKey }),
  });
  const guest = cookieOf(signIn);
  const post = async (
    path: string,
    ids: readonly string[],
    { Cookie = owner, Origin = page.url, acknowledged = "" } = {},
  ) => {
    const body = new URLSearchParams(ids.map((id): [string, string] => ["id", id]));
    if (acknowledged !== "") body.set("acknowledged", acknowledged);
    const reply = await fetch(page.url + path, { method: "POST", headers: { Cookie, Origin }, body });
    return { status: reply.status, html: (await reply.text()).replaceAll(/<!--.*?-->/g, "") };
  };
  const show = async (id: string, Cookie = owner) => {
    const html = await (await fetch(`${page.url}/generations/${id}`, { headers: { Cookie } })).text();
    return /<article.*<\/article>/s.exec(html)?.[0] ?? "";
  };
  return { ...page, store, guest, post, show };
}

test("the question names how many generations, and whose, and what is left out", async () => {
  const { make, start, post } = await openWithGuest();
  const own = await make();
  const others = [await make({}, guestKey), await make({}, guestKey)];
  const { id: running } = await start();
  const { html } = await post("/delete/confirm", [own, ...others, running]);
  expect(html).toContain("Delete 1 generation of yours and 2 of the account guest?");
  expect(html).toContain("1: not ended yet; cancel it first");
  const cancel = await post("/cancel/confirm", [own, running]);
  expect(cancel.html).toContain("Cancel this generation?");
  expect(cancel.html).toContain("1: already completed");
  expect((await post("/cancel/confirm", [own])).html).toContain("Nothing to cancel");
});

test("Delete removes the video and its thumbnail; the record and what was paid stay", async () => {
  const { make, post, show, store, folder } = await openWithGuest();
  const id = await make();
  const kept = await make();
  const before = await store.ledger({ limit: 9 });
  expect(readdirSync(folder).filter((name) => name.startsWith(id))).toHaveLength(2);
  expect((await post("/delete", [id])).html).toContain("Deleted 1 generation");
  expect(readdirSync(folder).filter((name) => name.startsWith(id))).toEqual([]);
  expect(readdirSync(folder).filter((name) => name.startsWith(kept))).toHaveLength(2);
  expect(await store.ledger({ limit: 9 })).toEqual(before);
  expect(await show(id)).toContain("This generation was deleted");
  expect((await post("/delete", [id])).html).toContain("1: already deleted");
});

test("Delete leaves alone what still runs, and what may have been charged", async () => {
  const { start, post, store } = await openWithGuest();
  const { id, running } = await start();
  expect((await post("/delete", [id])).html).toContain("Nothing was deleted");
  expect((await store.generation(id))?.status).toBe("processing");
  running.complete();
  const unclear = await openWithGuest({ render: async () => ({ kind: "unclear", reason: "HTTP 502" }) });
  const other = await fetch(`${unclear.url}/api/generate`, {
    method: "POST",
    headers: { Authorization: `Bearer ${guestKey}`, "Content-Type": "application/json" },
    body: JSON.stringify({ prompt: "a fox", model: "sora-2" }),
  });
  const { data } = (await other.json()) as { data: { id: string } };
  await expect.poll(async () => (await unclear.store.generation(data.id))?.error_code).toBe("unclear");
  expect((await unclear.post("/delete", [data.id])).html).toContain("it stays on record");
  expect((await unclear.store.generation(data.id))?.removed_at).toBeUndefined();
  const shown = await unclear.show(data.id);
  expect(shown).toContain("I have checked the charge: delete");
  expect(shown).toContain('name="acknowledged" value="unclear"');
  const question = await unclear.post("/delete/confirm", [data.id], { acknowledged: "unclear" });
  expect(question.html).toContain("may have charged for it");
  expect(question.html).toContain('name="acknowledged" value="unclear"');
  expect((await unclear.post("/delete", [data.id], { acknowledged: "unclear" })).html).toContain(
    "Deleted 1 generation",
  );
});

test("Cancel ends what waits or runs, and returns its credits", async () => {
  const { start, post, show, store } = await openWithGuest();
  const { id } = await start({}, guestKey);
  expect(await show(id)).toContain("/cancel/confirm");
  const balance = await store.balance("guest");
  expect((await post("/cancel", [id])).html).toContain("Cancelled 1 generation");
  expect(await store.generation(id)).toMatchObject({ status: "failed", error: "cancelled" });
  expect(await store.balance("guest")).toBeGreaterThan(balance);
});

test("where its engine cannot cancel, there is no button, and the reason", async () => {
  const { start, post, show, store } = await openWithGuest({
    async render(_task, { checkpoint, signal }) {
      await checkpoint({ state: "submitted", job: "job-1" });
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  });
  // This engine never says that it runs.
  void start();
  await expect.poll(async () => (await store.list({ state: "running", limit: 1 })).length).toBe(1);
  const [running] = await store.list({ limit: 1 });
  const id = String(running?.id);
  const html = await show(id);
  expect(html).not.toContain("/cancel/confirm");
  expect(html).toContain("It cannot be cancelled: http://gpu-1:8091 cannot stop it.");
  expect((await post("/cancel", [id])).html).toContain("1: http://gpu-1:8091 cannot stop it");
  expect((await store.generation(id))?.status).toBe("processing");
});

test("an account reaches only its own generations, and another site none", async () => {
  const { make, post, guest, url, store } = await openWithGuest();
  const [own, others] = [await make({}, guestKey), await make()];
  const asked = await post("/delete/confirm", [own, others], { Cookie: guest });
  expect(asked.html).toContain("Delete this video?");
  await post("/delete", [others], { Cookie: guest });
  await post("/cancel", [others], { Cookie: guest });
  expect((await store.generation(others))?.removed_at).toBeUndefined();
  expect(await post("/delete/confirm", [others], { Cookie: guest })).toMatchObject({ status: 404 });
  for (const path of ["/delete", "/delete/confirm", "/cancel", "/cancel/confirm"]) {
    expect(await post(path, [own], { Origin: "https://evil.example" })).toMatchObject({ status: 403 });
    expect((await fetch(url + path, { method: "POST", body: "" })).status).toBe(401);
  }
  expect((await store.generation(own))?.removed_at).toBeUndefined();
});
