import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../../src/io.ts";
import type { Change } from "../../../src/server/store/change.ts";
import type { StoredGeneration } from "../../../src/server/store/generations.ts";
import type { SpendingKey, Spent } from "../../../src/server/store/reports.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { createRandom } from "../../faults/random.ts";
import { apiKey, baseUrl, bearer, createTestService, otherKey } from "../service.ts";
import {
  attempt,
  completed,
  cost,
  failed,
  findUnfinished,
  kept,
  keptOdd,
  newDelivery,
  newGeneration,
  odd,
  setCredits,
} from "./records.ts";

/** What every store keeps to. `create` makes an empty database, and returns what opens it. */
export function testStore(name: "SQLite" | "PostgreSQL", create: () => Promise<() => Promise<Store>>): void {
  /** What opens a database that has the account "local" with these credits. */
  async function createWith(credits: number): Promise<() => Promise<Store>> {
    const open = await create();
    const store = await open();
    await store.addAccount({ name: "local", keyHash: "hash", creditsOf: () => credits });
    await store.close();
    return open;
  }
  const openWith = async (credits: number) => (await createWith(credits))();

  it("what was written is there for whoever opens the database next", async () => {
    const open = await createWith(100);
    const store = await open();
    const all = Array.from({ length: 4 }, (_, i) => newGeneration({ id: `id ${9 - i}` }));
    for (const each of all) await store.start(each, cost, undefined);
    const [a, b, c, d] = all as [StoredGeneration, StoredGeneration, StoredGeneration, StoredGeneration];
    await store.finish(b.id, completed, newDelivery("b", b.id, "2026-01-01T00:02:00.000Z"));
    await store.finish(c.id, failed, newDelivery("c", c.id));
    await store.recordAttempt("b", attempt("HTTP 500"), "2026-01-01T00:05:00.000Z");
    const tell = async (told: Store) => ({
      account: await told.account("hash"),
      balance: await told.balance("local"),
      generations: await Promise.all(all.map(({ id }) => told.generation(id))),
      unfinished: (await findUnfinished(told)).map(({ id }) => id).reverse(),
      deliveries: await told.deliveries({ limit: 9 }),
    });
    const before = await tell(store);
    const { attempts: _, ...unattempted } = newDelivery("b", b.id, "2026-01-01T00:05:00.000Z");
    expect(before).toStrictEqual({
      account: "local",
      balance: 60,
      generations: [a, { ...b, ...completed }, { ...c, ...failed }, d],
      unfinished: [d.id, a.id],
      deliveries: [
        { ...newDelivery("c", c.id), attempts: [], prompt: "a fox" },
        { ...unattempted, attempts: [attempt("HTTP 500")], prompt: "a fox" },
      ],
    });
    await store.close();
    expect(await tell(await open())).toStrictEqual(before);
  });

  it("a callback waits until it is delivered or given up, and keeps the trace of its start", async () => {
    const store = await openWith(100);
    const [one, two] = [newGeneration(), newGeneration()];
    for (const each of [one, two]) await store.start(each, cost, undefined);
    expect(await store.pendingCallbacks()).toBe(0);
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await store.finish(one.id, completed, { ...newDelivery("1", one.id), traceparent });
    await store.finish(two.id, completed, newDelivery("2", two.id));
    expect(await store.pendingCallbacks()).toBe(2);
    expect((await store.deliveries({ limit: 9 })).map((each) => each.traceparent)).toEqual([undefined, traceparent]);
    await store.recordAttempt("1", attempt("HTTP 500"), "2026-01-01T00:05:00.000Z");
    expect(await store.pendingCallbacks()).toBe(2);
    await store.recordAttempt("1", attempt("HTTP 204"), null);
    expect(await store.pendingCallbacks()).toBe(1);
  });

  it("an account's generations are listed newest or oldest first, in pages, without removed ones", async () => {
    const open = await createWith(100);
    const store = await open();
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const all = Array.from({ length: 4 }, (_, i) => newGeneration({ id: `id ${i}` }));
    for (const each of all) await store.start(each, cost, undefined);
    await store.start(newGeneration({ id: "theirs", account: "other" }), cost, undefined);
    const [first, second, third, last] = all as [
      StoredGeneration,
      StoredGeneration,
      StoredGeneration,
      StoredGeneration,
    ];
    await store.finish(second.id, completed);
    const at = "2026-01-01T00:03:00.000Z";
    await store.remove(second.id, at);
    await store.remove(second.id, "2026-01-01T00:09:00.000Z");
    // What runs cannot be removed.
    await store.remove(third.id, at);
    const page = { account: "local", limit: 2 };
    expect(await store.generations(page)).toStrictEqual([last, third]);
    expect(await store.generations({ ...page, after: third.id })).toStrictEqual([first]);
    expect(await store.generations({ ...page, after: second.id })).toStrictEqual([first]);
    const oldestFirst = { ...page, order: "asc" } as const;
    expect(await store.generations(oldestFirst)).toStrictEqual([first, third]);
    expect(await store.generations({ ...oldestFirst, after: second.id })).toStrictEqual([third, last]);
    expect(await store.generations({ ...oldestFirst, after: last.id })).toStrictEqual([]);
    expect(await store.generation(second.id)).toMatchObject({ status: "completed", removed_at: at });
    expect((await store.list({ limit: 9 })).filter((each) => each.removed_at).map(({ id }) => id)).toEqual([second.id]);
    expect(await store.balance("local")).toBe(60);
    await store.close();
  });

  it("strings are stored unchanged, except that U+FFFD replaces a NUL or an unpaired surrogate", async () => {
    const store = await openWith(100);
    const { request } = newGeneration();
    const extras = { style: { [odd]: [odd, "\\u0000 \\ud800 \\\\u0000"] } };
    const asked = { ...request, prompt: odd, extras };
    const generation = newGeneration({ callback_url: odd, request: asked });
    await store.start(generation, cost, undefined);
    const keptExtras = { style: { [keptOdd]: [keptOdd, extras.style[odd]?.[1]] } };
    expect(await store.generation(generation.id)).toStrictEqual({
      ...generation,
      callback_url: keptOdd,
      request: { ...asked, prompt: keptOdd, extras: keptExtras },
    });
    const delivery = { ...newDelivery("1", generation.id), url: odd, body: odd };
    await store.finish(generation.id, { ...failed, error: odd }, delivery);
    expect(await store.generation(generation.id)).toMatchObject({ error: keptOdd });
    await store.recordAttempt("1", attempt(odd, { reply: odd }), "2026-01-01T00:03:00.000Z");
    expect(await store.deliveries({ limit: 1 })).toMatchObject([
      { url: keptOdd, body: keptOdd, attempts: [{ outcome: keptOdd, reply: keptOdd }] },
    ]);
  });

  it("the body of a callback is stored byte for byte, because these bytes are signed", async () => {
    const store = await openWith(100);
    const { id } = newGeneration();
    await store.start(newGeneration({ id }), cost, undefined);
    const body = `{"b": 1.0,  "a":"${JSON.stringify(odd).slice(1, -1)}","a":2}`;
    await store.finish(id, completed, { ...newDelivery("1", id), body });
    expect(await store.deliveries({ limit: 1 })).toMatchObject([{ body }]);
  });

  it("reading a generation returns the beginning of a data: image; a claim returns the whole image", async () => {
    const store = await openWith(100);
    const large = `data:image/png;base64,${"A".repeat(20_000_000)}`;
    const images = ["https://a.example/1.png", large, "data:image/png;base64,AA", `data:image/png,${odd.repeat(9)}`];
    const [lastImage, references] = [`${large}B`, ["https://a.example/2.png", `${large}C`]];
    const generation = newGeneration({ request: { ...newGeneration().request, images, lastImage, references } });
    const key = { key: "attempt", body: "{}" };
    await store.start(generation, cost, key);
    const shown = images.map((image) => kept(image.slice(0, 64)));
    expect((await store.generation(generation.id))?.request).toMatchObject({
      images: shown,
      lastImage: lastImage.slice(0, 64),
      references: references.map((image) => image.slice(0, 64)),
    });
    expect(await store.images(generation.id)).toEqual({ images: images.map(kept), lastImage, references });
    const replayed = await store.start(newGeneration(), cost, key);
    expect(replayed).toMatchObject({ replayed: true, generation: { id: generation.id, request: { images: shown } } });
    await expect(store.images("unknown")).rejects.toThrow("no generation unknown");
  });

  it("a missing record is undefined, or an error with its id", async () => {
    const store = await openWith(100);
    expect(await store.account("unknown")).toBeUndefined();
    expect(await store.generation("unknown")).toBeUndefined();
    await expect(store.balance("nobody")).rejects.toThrow("no account nobody");
    const theirs = newGeneration({ account: "nobody" });
    await expect(store.start(theirs, cost, undefined)).rejects.toThrow("no account nobody");
    await expect(store.keepCheckpoint("none", null)).rejects.toThrow("no generation none");
    await expect(store.finish("unknown", failed)).rejects.toThrow("no generation unknown");
    await expect(store.recordAttempt("unknown", attempt("HTTP 200"), null)).rejects.toThrow("no delivery unknown");
    expect(await store.resend("unknown", "2026-01-01T00:03:00.000Z")).toBeUndefined();
  });

  it("an id with unusual characters is not found", async () => {
    const store = await openWith(100);
    await store.start(newGeneration(), cost, undefined);
    expect(await store.generation(odd)).toBeUndefined();
    expect(await store.resend(odd, "2026-01-01T00:03:00.000Z")).toBeUndefined();
    for (const field of ["state", "model", "text", "before", "from"])
      expect(await store.list({ [field]: odd, limit: 9 })).toEqual([]);
    expect(await store.deliveries({ generations: [odd], before: odd, limit: 9 })).toEqual([]);
    expect(await store.ledger({ generation: odd, limit: 9 })).toEqual([]);
  });

  it("an account name that continues after a NUL is not the account before the NUL", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "alice", keyHash: "hers", creditsOf: () => 50 });
    for (const account of ["alice\0", "alice\0x"]) {
      await expect(store.balance(account)).rejects.toThrow("no account");
      expect(await store.removeKeys({ account })).toBe(0);
      expect(await store.setLimits(account, { max_running: 1 })).toBeUndefined();
      expect(await store.addCredits({ account, amount: 5, key: "a" })).toEqual({ kind: "no account" });
      const theirs = { name: account, keyHash: `of ${account.length}`, replacesKeys: true, creditsOf: () => 7 };
      await expect(store.addAccount(theirs)).rejects.toThrow("this key belongs to the account");
    }
    expect(await store.account("hers\0")).toBeUndefined();
    expect(await store.account("hers")).toBe("alice");
    const alice = (await store.accounts()).find(({ account }) => account === "alice");
    expect(alice).toMatchObject({ credits: 50, max_running: null, keys: 1 });
  });

  it("an account may have several keys, but a key has one account", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "local", keyHash: "second" });
    await store.addAccount({ name: "local", keyHash: "second" });
    await store.addAccount({ name: "other", keyHash: "theirs" });
    expect([await store.account("hash"), await store.account("second")]).toEqual(["local", "local"]);
    expect([await store.balance("local"), await store.balance("other")]).toEqual([100, 0]);
    await expect(store.addAccount({ name: "other", keyHash: "hash" })).rejects.toThrow("belongs to the account local");
    expect(await store.account("hash")).toBe("local");
    await expect(store.addAccount({ name: "third", keyHash: "hash" })).rejects.toThrow("belongs to the account local");
    expect(await store.accounts()).toMatchObject([
      { account: "local", credits: 100 },
      { account: "other", credits: 0 },
    ]);
  });

  it("an account, its key and its credits are one change, and two simultaneous first ones make one account", async () => {
    const store = await openWith(100);
    const had: (number | undefined)[] = [];
    const add = (keyHash: string) =>
      store.addAccount({ name: "new", keyHash, creditsOf: (before) => had.push(before) && (before ?? 1_000) });
    const added = { credits: 1_000, removed: 0 };
    expect(await Promise.all([add("first"), add("second")])).toEqual([added, added]);
    expect(had).toEqual([undefined, 1_000]);
    const ledger = await store.ledger({ limit: 9 });
    expect(ledger.filter(({ account }) => account === "new").map(({ amount }) => amount)).toEqual([1_000]);
    const refused = () => {
      throw new Error("no");
    };
    await expect(store.addAccount({ name: "none", keyHash: "none", creditsOf: refused })).rejects.toThrow("no");
    expect(await store.account("none")).toBeUndefined();
    expect((await store.accounts()).map(({ account }) => account)).toEqual(["local", "new"]);
  });

  it("generations that ended long ago are found, the oldest first, until their videos are removed", async () => {
    const store = await openWith(100);
    const [old, older, tied, young, running] = Array.from({ length: 5 }, () => newGeneration());
    for (const each of [old, older, tied, young, running]) await store.start(each as StoredGeneration, cost, undefined);
    const end = (id: string | undefined, minute: number) =>
      store.finish(`${id}`, { ...completed, completed_at: `2026-01-01T00:0${minute}:00.000Z` });
    await end(old?.id, 2);
    await end(older?.id, 1);
    await end(young?.id, 3);
    const before = "2026-01-01T00:03:00.000Z";
    const look = async () =>
      (await store.completedBefore({ before, limit: 9 })).map(({ id, media }) => ({ id, media }));
    const [first, last] = [older, old].map((each) => ({ id: each?.id, media: completed.media }));
    expect(await look()).toEqual([first, last]);
    await end(tied?.id, 2);
    const found: (string | undefined)[] = [];
    for (let [one] = await store.completedBefore({ before, limit: 1 }); one; ) {
      found.push(one.id);
      [one] = await store.completedBefore({ before, limit: 1, after: one });
    }
    expect(found).toEqual([older?.id, ...[old?.id, tied?.id].sort()]);
    await store.remove(`${tied?.id}`, before);
    await store.remove(`${older?.id}`, before);
    expect(await look()).toEqual([last]);
  });

  it("removes ended generations without a video and a pending callback, and their keys, but not their prices", async () => {
    const store = await openWith(100);
    const names = ["removed", "failed", "kept", "calls back", "young", "running"] as const;
    const all = new Map(names.map((name) => [name, newGeneration()]));
    for (const [key, each] of all) await store.start(each, cost, { key, body: "{}" });
    const id = (name: (typeof names)[number]) => `${all.get(name)?.id}`;
    for (const name of ["removed", "kept", "calls back"] as const)
      await store.finish(id(name), completed, newDelivery(name, id(name)));
    await store.finish(id("young"), { ...failed, completed_at: "2026-02-01T00:00:00.000Z" });
    await store.finish(id("failed"), { ...failed, isRefunded: true });
    for (const name of ["removed", "calls back"] as const) await store.remove(id(name), "2026-01-01T00:05:00.000Z");
    for (const name of ["removed", "kept"]) await store.recordAttempt(name, attempt("HTTP 200"), null);
    const query = { before: "2026-01-02T00:00:00.000Z", limit: 9 };
    expect(await store.forget(query)).toBe(2);
    expect(await store.forget(query)).toBe(0);

    const left = await store.list({ limit: 9 });
    expect(left.map((each) => each.id)).toEqual(
      ["running", "young", "calls back", "kept"].map((name) => id(name as never)),
    );
    expect((await store.deliveries({ limit: 9 })).map((each) => each.id).sort()).toEqual(["calls back", "kept"]);
    expect(await store.balance("local")).toBe(50);
    const paid = (await store.ledger({ limit: 99 })).filter(({ generation }) => generation === null);
    const { created_at } = newGeneration();
    expect(paid.map(({ amount, at }) => [amount, at])).toEqual([
      [10, failed.completed_at],
      [-10, created_at],
      [-10, created_at],
      [100, paid[3]?.at],
    ]);
    // The key is another start's now.
    const again = newGeneration();
    const outcome = await store.start(again, cost, { key: "removed", body: "[]" });
    expect(outcome).toMatchObject({ kind: "started", replayed: false, generation: { id: again.id } });
    expect(await store.start(newGeneration(), cost, { key: "kept", body: "[]" })).toEqual({ kind: "key reused" });
  });

  it("one key, all keys of an account, or all except a new one can be removed", async () => {
    const store = await openWith(100);
    for (const keyHash of ["second", "third"]) await store.addAccount({ name: "local", keyHash });
    await store.addAccount({ name: "other", keyHash: "theirs" });
    const accounts = () => Promise.all(["hash", "second", "third", "theirs"].map((hash) => store.account(hash)));
    expect(await store.removeKeys({ keyHash: "second" })).toBe(1);
    expect(await store.removeKeys({ keyHash: "second" })).toBe(0);
    expect(await accounts()).toEqual(["local", undefined, "local", "other"]);
    const only = await store.addAccount({
      name: "local",
      keyHash: "third",
      creditsOf: (had) => had ?? 0,
      replacesKeys: true,
    });
    expect(only).toEqual({ credits: 100, removed: 1 });
    expect(await accounts()).toEqual([undefined, undefined, "local", "other"]);
    expect(await store.removeKeys({ account: "local" })).toBe(1);
    expect([await store.balance("local"), ...(await accounts())]).toEqual([
      100,
      undefined,
      undefined,
      undefined,
      "other",
    ]);
  });

  it("when two requests replace an account's keys at the same time, one of the two keys is left", async () => {
    const store = await openWith(100);
    for (let round = 0; round < 10; round++) {
      const hashes = [`a ${round}`, `b ${round}`];
      const added = hashes.map((keyHash) =>
        store.addAccount({ name: "local", keyHash, creditsOf: (had) => had ?? 0, replacesKeys: true }),
      );
      expect((await Promise.all(added)).map(({ removed }) => removed)).toEqual([1, 1]);
      const left = await Promise.all(hashes.map((hash) => store.account(hash)));
      expect(left.filter((account) => account === "local")).toHaveLength(1);
      expect(await store.accounts()).toMatchObject([{ account: "local", keys: 1, credits: 100 }]);
    }
  });

  it("a balance can be set to whole numbers from 0, even while generations are started", async () => {
    const store = await openWith(100);
    await expect(setCredits(store, "local", -1)).rejects.toThrow(/check/i);
    await expect(setCredits(store, "local", 0.5)).rejects.toThrow(/REAL|bigint/);
    expect(await store.balance("local")).toBe(100);
    await setCredits(store, "local", Number.MAX_SAFE_INTEGER);
    expect(await store.balance("local")).toBe(Number.MAX_SAFE_INTEGER);
    const start = () => store.start(newGeneration(), cost, undefined);
    await Promise.all([start(), start(), setCredits(store, "local", 500), start()]);
    const balance = await store.balance("local");
    expect([470, 480, 490, 500]).toContain(balance);
    const amounts = (await store.ledger({ limit: 9 })).map(({ amount }) => amount);
    expect(amounts.reduce((a, b) => a + b)).toBe(balance);
  });

  it("a hundred simultaneous starts succeed as far as the credits suffice", async () => {
    const store = await openWith(305);
    const starts = Array.from({ length: 100 }, () => store.start(newGeneration(), cost, undefined));
    const outcomes = await Promise.all(starts);
    const remaining = outcomes.flatMap((each) => (each.kind === "started" ? [each.remaining_credits] : []));
    expect(remaining.sort((a, b) => b - a)).toEqual(Array.from({ length: 30 }, (_, i) => 295 - i * cost));
    expect(outcomes.filter(({ kind }) => kind === "no credits")).toHaveLength(70);
    expect(await store.balance("local")).toBe(5);
    expect(await store.totals({})).toMatchObject({ counts: { queued: 30 } });
  });

  it("a deleted account has no key, cannot start generations, and its name cannot be used again; its ledger stays", async () => {
    const store = await openWith(1_000);
    await store.addAccount({ name: "ci", keyHash: "ci", creditsOf: () => 100 });
    const start = (key?: string) =>
      store.start(newGeneration({ account: "ci" }), cost, key === undefined ? undefined : { key, body: "{}" });
    expect(await start("a key")).toMatchObject({ kind: "started" });
    const at = "2026-01-01T00:00:00.000Z";
    // A start that has passed the check of its key at the same moment.
    const [deleted, outcome] = await Promise.all([store.deleteAccount("ci", at), start()]);
    expect(deleted).toBe(1);
    expect(["started", "no account"]).toContain(outcome.kind);
    expect([await start(), await start("a key")]).toEqual([{ kind: "no account" }, { kind: "no account" }]);
    expect([await store.account("ci"), (await store.accounts()).map(({ account }) => account)]).toEqual([
      undefined,
      ["local"],
    ]);
    const again = { name: "ci", keyHash: "second", creditsOf: () => 5 };
    await expect(store.addAccount(again)).rejects.toThrow("the account ci was deleted");
    expect([await store.account("second"), await store.setLimits("ci", { max_running: 1 })]).toEqual([
      undefined,
      undefined,
    ]);
    expect(await store.addCredits({ account: "ci", amount: 5, key: "k" })).toEqual({ kind: "no account" });
    expect((await store.ledger({ account: "ci", limit: 9 })).at(-1)).toMatchObject({ amount: 100 });
    expect([await store.deleteAccount("ci", at), await store.deleteAccount("nobody", at)]).toEqual([0, undefined]);
  });

  it("an account's keys are listed with their last use, written once a minute, and one can be removed by its beginning", async () => {
    const store = await openWith(100);
    const [first, second] = ["a".repeat(64), "b".repeat(64)];
    for (const keyHash of [first, second]) await store.addAccount({ name: "ci", keyHash });
    const used = async () => (await store.keys("ci"))?.map(({ key, used_at }) => [key, used_at]);
    expect(await used()).toEqual([
      ["aaaaaaaa", null],
      ["bbbbbbbb", null],
    ]);
    const [{ created_at } = { created_at: "" }] = (await store.keys("ci")) ?? [];
    expect(Math.abs(Date.parse(created_at) - Date.now())).toBeLessThan(60_000);
    const use = (seconds: number) => store.recordKeyUse(first, new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)));
    use(0);
    await expect.poll(used).toEqual([
      ["aaaaaaaa", "2026-01-01T00:00:00.000Z"],
      ["bbbbbbbb", null],
    ]);
    use(59);
    // Written after it, if it was.
    await store.addCredits({ account: "ci", amount: 5, key: "k" });
    expect(await used()).toContainEqual(["aaaaaaaa", "2026-01-01T00:00:00.000Z"]);
    use(60);
    await expect.poll(used).toContainEqual(["aaaaaaaa", "2026-01-01T00:01:00.000Z"]);
    expect(await store.removeKeys({ account: "local", key: "aaaaaaaa" })).toBe(0);
    expect(await store.removeKeys({ account: "ci", key: "aaaaaaaa" })).toBe(1);
    expect(await used()).toEqual([["bbbbbbbb", null]]);
    expect([await store.account(first), await store.account(second)]).toEqual([undefined, "ci"]);
    expect(await store.keys("nobody")).toBeUndefined();
  });

  it("a disabled account has no valid key and cannot start generations until it is enabled; its data stay", async () => {
    const store = await openWith(1_000);
    await store.addAccount({ name: "ci", keyHash: "ci", creditsOf: () => 100 });
    const start = (key: string) =>
      store.start(newGeneration({ account: "ci" }), cost, { key, body: "{}" }).then(({ kind }) => kind);
    expect(await start("first")).toBe("started");
    const at = "2026-01-01T00:00:00.000Z";
    const heard: Change[] = [];
    onTestFinished(store.listen((change) => heard.push(change)));
    // What is told before a process listens is missed.
    while (heard.length === 0) {
      store.publish({ kind: "progress", id: "a", percent: 7, account: "ci" });
      await systemClock.sleep(20);
    }
    expect(await store.setDisabled("ci", at)).toEqual({ disabled_at: at, isChanged: true });
    expect(await store.setDisabled("ci", "2026-02-02T00:00:00.000Z")).toEqual({ disabled_at: at, isChanged: false });
    const refused = () => heard.filter(({ kind }) => kind === "refused");
    await expect.poll(refused).toEqual([{ kind: "refused", account: "ci" }]);
    expect([await store.account("ci"), await store.keyOwner("ci"), await store.keyOwner("no key")]).toEqual([
      undefined,
      "ci",
      undefined,
    ]);
    expect([await start("first"), await start("second")]).toEqual(["disabled", "disabled"]);
    expect(await store.accounts()).toMatchObject([
      { account: "ci", credits: 90, keys: 1, disabled_at: at },
      { account: "local", disabled_at: null },
    ]);
    expect(await store.setDisabled("ci", null)).toEqual({ disabled_at: null, isChanged: true });
    expect([await store.account("ci"), await start("second")]).toEqual(["ci", "started"]);
    expect(await store.setDisabled("nobody", at)).toBeUndefined();
    await store.deleteAccount("ci", at);
    expect(await store.setDisabled("ci", null)).toBeUndefined();
  });

  it("a token can be ended once, even by two simultaneous calls, and is removed after it expires", async () => {
    const store = await openWith(0);
    const token = { hash: "a link", until: "2026-01-01T00:10:00.000Z" };
    const now = "2026-01-01T00:00:00.000Z";
    const another = { hash: "another", until: "2026-01-02T00:00:00.000Z" };
    const haveEnded = () => Promise.all([store.hasTokenEnded(token), store.hasTokenEnded(another)]);
    expect(await haveEnded()).toEqual([false, false]);
    const ended = await Promise.all([store.endToken(token, now), store.endToken(token, now)]);
    expect(ended.sort()).toEqual([false, true]);
    expect(await haveEnded()).toEqual([true, false]);
    await store.endToken(another, token.until);
    expect(await haveEnded()).toEqual([false, true]);
  });

  it("the sessions of an account end together, if they have begun, and no link and no other account's", async () => {
    const store = await openWith(0);
    const session = (until: string) => ({ hash: `until ${until}`, until: `2026-01-0${until}T00:00:00.000Z` });
    await store.endSessions("ci", session("8").until);
    await store.endSessions("ci", session("9").until);
    const has = (until: string, account?: string) => store.hasTokenEnded(session(until), account);
    expect(await Promise.all(["8", "9"].map((until) => has(until, "ci")))).toEqual([true, true]);
    expect(await has("9")).toBe(false);
    expect(await has("9", "local")).toBe(false);
    expect(await store.hasTokenEnded({ hash: "later", until: "2026-01-09T00:00:00.001Z" }, "ci")).toBe(false);
  });

  it("simultaneous starts of several accounts, some with too few credits and some with the same key, are charged once each", async () => {
    const store = await openWith(1_000);
    await store.addAccount({ name: "poor", keyHash: "poor", creditsOf: () => 3 * cost + 5 });
    await store.addAccount({ name: "other", keyHash: "other", creditsOf: () => 1_000 });
    const starts = Array.from({ length: 60 }, (_, index) => {
      const account = ["local", "poor", "other"][index % 3] ?? "";
      const same = account === "other" ? { key: `attempt ${index % 2}`, body: "{}" } : undefined;
      return store.start(newGeneration({ account }), cost, same);
    });
    const outcomes = await Promise.all(starts);
    const paid = outcomes.filter((each) => each.kind === "started" && !each.replayed);
    expect(outcomes.filter(({ kind }) => kind === "no credits")).toHaveLength(17);
    expect(paid).toHaveLength(20 + 3 + 2);
    expect(await store.accounts()).toMatchObject([
      { account: "local", credits: 800 },
      { account: "other", credits: 980 },
      { account: "poor", credits: 5 },
    ]);
    const debits = (await store.ledger({ limit: 99 })).filter(({ amount }) => amount < 0);
    const ids = paid.map((each) => each.kind === "started" && each.generation.id);
    expect(debits.map(({ generation }) => generation).sort()).toEqual(ids.sort());
    expect((await store.list({ limit: 99 })).map(({ id }) => id).sort()).toEqual(ids);
  });

  it("of simultaneous starts with the same key and different bodies, one is executed, and the others are refused because of the key", async () => {
    const store = await openWith(100);
    const bodies = ["{}", "[]", "{}"];
    const outcomes = await Promise.all(bodies.map((body) => store.start(newGeneration(), cost, { key: "same", body })));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["started", "key reused", "started"]);
    expect(outcomes[2]).toStrictEqual({ ...outcomes[0], replayed: true });
    expect(await store.balance("local")).toBe(90);
  });

  it("a failed change is undone, but not the other changes of its transaction", async () => {
    const store = await openWith(100);
    const twice = newGeneration();
    const all = [newGeneration(), twice, twice, newGeneration()];
    const outcomes = await Promise.allSettled(all.map((each) => store.start(each, cost, undefined)));
    expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(1);
    expect(await store.balance("local")).toBe(70);
    await store.start(newGeneration(), cost, undefined);
    expect(await store.balance("local")).toBe(60);
  });

  it("a generation whose callback cannot be stored does not end", async () => {
    const store = await openWith(100);
    const [a, b] = [newGeneration(), newGeneration()];
    for (const each of [a, b]) await store.start(each, cost, undefined);
    await store.finish(a.id, completed, newDelivery("1", a.id));
    await expect(store.finish(b.id, completed, newDelivery("1", b.id))).rejects.toThrow();
    expect(await store.generation(b.id)).toStrictEqual(b);
  });

  it("an idempotency key starts one generation, even with simultaneous requests or after the database was opened again", async () => {
    const open = await createWith(100);
    const store = await open();
    const same = { key: "attempt", body: "{}" };
    const starts = Array.from({ length: 50 }, () => store.start(newGeneration(), cost, same));
    const outcomes = await Promise.all(starts);
    const [first, ...others] = outcomes.filter((each) => each.kind === "started" && !each.replayed);
    expect(first).toMatchObject({ remaining_credits: 90 });
    expect(others).toEqual([]);
    for (const each of outcomes) if (each !== first) expect(each).toStrictEqual({ ...first, replayed: true });
    await store.start(newGeneration(), cost, undefined);
    await store.close();
    const again = await open();
    expect(await again.start(newGeneration(), cost, same)).toStrictEqual({ ...first, replayed: true });
    expect(await again.start(newGeneration(), cost, { ...same, body: "[]" })).toEqual({ kind: "key reused" });
    expect(await again.balance("local")).toBe(80);
  });

  it.each([
    ["k", '"k"'],
    ['"k"', "k"],
    ['"a \\"fox\\" \\\\"', 'a "fox" \\'],
    ['"k"; retry=2', '"k"'],
  ])("the keys %s and %s are one, for starts and for credits", async (first, second) => {
    const store = await openWith(100);
    const start = (key: string, body = "{}") => store.start(newGeneration(), cost, { key, body });
    const outcomes = await Promise.all([start(first), start(second), start(first)]);
    expect(outcomes).toMatchObject([{ replayed: false }, { replayed: true }, { replayed: true }]);
    expect(await start(second)).toStrictEqual({ ...outcomes[0], replayed: true });
    expect(await store.findStart("local", { key: second, body: "{}" })).toStrictEqual(outcomes[1]);
    expect(await start(second, "[]")).toEqual({ kind: "key reused" });
    expect(await store.balance("local")).toBe(90);
    const add = (key: string) => store.addCredits({ account: "local", amount: 5, key });
    expect(await add(first)).toMatchObject({ credits: 95, replayed: false });
    expect(await add(second)).toMatchObject({ credits: 95, replayed: true });
  });

  it.each([
    ["order and white space", '{"a":{"c":1,"b":[]},"d":2}', ' { "d" : 2,\n"a": {"b":[ ], "c":1} }', true],
    ["escapes", '{"caf\\u00e9":"\\u0061\\/"}', '{"café":"a/"}', true],
    ["the digits of a fraction", "[1.0,1.50,1e3]", "[1,1.5,1000]", true],
    ["the order of a list", "[1,2]", "[2,1]", false],
    ["null and nothing", '{"a":null}', "{}", false],
    ["a number and a text", '{"a":5}', '{"a":"5"}', false],
    ["a list and an object", '{"a":[]}', '{"a":{}}', false],
    ["whole numbers above 2^53", '{"a":9007199254740992}', '{"a":9007199254740993}', false],
    ["infinity and null", '{"a":1e400}', '{"a":null}', false],
    ["a text with a quote", '{"a":"b\\",\\"c"}', '{"a":"b","c":""}', false],
  ])("bodies that differ in %s", async (_, first, second, isSame) => {
    const store = await openWith(100);
    const start = (body: string) => store.start(newGeneration(), cost, { key: "k", body });
    const [outcome, again] = [await start(first), await start(second)];
    expect(again).toStrictEqual(isSame ? { ...outcome, replayed: true } : { kind: "key reused" });
    expect(await store.balance("local")).toBe(90);
  });

  /** Sends a request with an Idempotency-Key. Resolves with the status, the id or the code of the error, and the headers that the draft is about. */
  type Send = (key: string | undefined, body?: object, path?: string, apiKey?: string) => Promise<unknown[]>;
  const [fox, hare] = [
    { prompt: "a fox", model: "sora-2" },
    { model: "sora-2", prompt: "a hare" },
  ];
  const link = '</openapi.json>; rel="describedby"; type="application/json"';
  const [started, replayed] = [
    [200, "1", null, null],
    [200, "1", "true", null],
  ];
  const reused = [422, "idempotency_key_reused", null, link];

  // draft-ietf-httpapi-idempotency-key-header-07, by its sections: each MUST and SHOULD for a resource, and what the service does.
  it.each<[string, (send: Send) => Promise<unknown>, unknown]>([
    ["2.1: the value is a String", async (send) => [await send('"k"'), await send('"k"')], [started, replayed]],
    ["2.1: and so is one without quotes", async (send) => [await send("k"), await send('"k"')], [started, replayed]],
    [
      "2.2: it is not used for another payload",
      async (send) => [await send("k"), await send("k", hare)],
      [started, reused],
    ],
    [
      "2.3, 2.5.2: how long a key is valid is published",
      async (send) => String((await send(undefined, undefined, "/openapi.json"))[4]),
      expect.stringContaining("`Idempotency-Key-Lifetime` of each reply is the number of seconds"),
    ],
    [
      "2.6: a retry gets the result of the first request",
      async (send) => [await send("k"), await send("k", { model: "sora-2", prompt: "a fox" })],
      [started, replayed],
    ],
    [
      "2.6: a refused request has charged nothing, so it is decided again",
      async (send) => [await send("k", {}), await send("k")],
      [[400, "invalid_prompt", null, null], started],
    ],
    [
      "2.6: of two at the same time the second waits for the result of the first, and is no 409",
      async (send) => (await Promise.all([send("k"), send("k")])).sort(),
      [started, replayed],
    ],
    [
      "2.7: where a key is required, its absence is a 400 with a link",
      (send) => send(undefined, { account: "other", amount: 5 }, "/accounts/credits"),
      [400, "idempotency_key_required", null, link],
    ],
    [
      "2.7: a key of another request is a 422 with a link",
      async (send) => [await send("k"), await send("k", hare)],
      [started, reused],
    ],
    ["5: a key is checked", (send) => send('""'), [400, "invalid_idempotency_key", null, link]],
    [
      "5: a key is looked up with its account",
      async (send) => [await send("k"), await send("k", hare, "/api/generate", otherKey)],
      [started, [200, "2", null, null]],
    ],
  ])("the draft of the header, %s", async (_, ask, answers) => {
    const { api } = await createTestService({ store: await openWith(100) });
    const ids: string[] = [];
    const send: Send = async (key, body = fox, path = "/api/generate", as = apiKey) => {
      const headers = { ...bearer(as), "Content-Type": "application/json", ...(key && { "Idempotency-Key": key }) };
      const init = path.endsWith(".json") ? {} : { method: "POST", headers, body: JSON.stringify(body) };
      const reply = await api(new Request(`${baseUrl}${path}`, init));
      const text = await reply.text();
      const { data, error } = JSON.parse(text);
      if (data && !ids.includes(data.id)) ids.push(data.id);
      const told = data ? String(ids.indexOf(data.id) + 1) : error?.code;
      const [isReplayed, describedBy] = ["Idempotent-Replayed", "Link"].map((name) => reply.headers.get(name));
      return [reply.status, told, isReplayed, describedBy, ...(told === undefined ? [text] : [])];
    };
    expect(await ask(send)).toEqual(answers);
  });

  it("an idempotency key belongs to one account, and returns its first reply even without credits", async () => {
    const store = await openWith(cost);
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 2 * cost });
    const [same, theirs] = [{ key: "attempt", body: "{}" }, newGeneration({ account: "other" })];
    const first = await store.start(newGeneration(), cost, same);
    expect(await store.start(theirs, cost, same)).toMatchObject({ replayed: false, generation: theirs });
    expect(await store.start(newGeneration(), cost, same)).toStrictEqual({ ...first, replayed: true });
    expect(await store.start(newGeneration(), cost, { ...same, key: "next" })).toEqual({ kind: "no credits" });
    await setCredits(store, "local", cost);
    expect(await store.start(newGeneration(), cost, { ...same, key: "next" })).toMatchObject({ replayed: false });
  });

  it("an idempotency key may be long", async () => {
    const store = await openWith(100);
    const key = randomBytes(6_000).toString("base64");
    const first = await store.start(newGeneration(), cost, { key, body: "{}" });
    expect(first).toMatchObject({ replayed: false });
    expect(await store.start(newGeneration(), cost, { key, body: "{}" })).toStrictEqual({ ...first, replayed: true });
  });

  it("a checkpoint replaces or removes the last one, and stays when its generation ends", async () => {
    const open = await createWith(100);
    const store = await open();
    const [generation, other] = [newGeneration(), newGeneration()];
    const { id } = generation;
    for (const each of [generation, other]) await store.start(each, cost, undefined);
    const kept = { engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" };
    const checkpoints = [
      { state: "submitting", ...kept },
      null,
      { state: "unconfirmed", job: keptOdd, ...kept },
      { state: "submitted", job: keptOdd, ...kept },
    ] as const;
    for (const checkpoint of checkpoints) {
      await store.keepCheckpoint(id, checkpoint);
      expect((await store.generation(id))?.checkpoint).toStrictEqual(checkpoint);
    }
    await store.finish(id, completed, undefined);
    await store.close();
    const reopened = await open();
    expect((await reopened.generation(id))?.checkpoint).toStrictEqual(checkpoints[3]);
    expect(await reopened.generation(other.id)).toStrictEqual(other);
  });

  it("an ended generation does not change, and has one callback", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    await store.start(generation, cost, undefined);
    expect(await store.finish(generation.id, completed, newDelivery("first", generation.id))).toBe(true);
    expect(await store.generation(generation.id)).toStrictEqual({ ...generation, ...completed });
    expect(await store.finish(generation.id, failed, newDelivery("second", generation.id))).toBe(false);
    expect(await store.generation(generation.id)).toStrictEqual({ ...generation, ...completed });
    expect((await store.deliveries({ limit: 9 })).map(({ id }) => id)).toEqual(["first"]);
  });

  it("the owner's lists are newest first, in pages, whatever the strings contain", async () => {
    const store = await openWith(100);
    const texts = [odd, "a 100% fox", "x".repeat(1_000)];
    const all = texts.map((prompt) => newGeneration({ request: { ...newGeneration().request, prompt } }));
    for (const each of all) {
      await store.start(each, cost, undefined);
      await store.finish(each.id, { ...failed, error: odd }, newDelivery(`of ${each.id}`, each.id));
    }
    const [first, second, third] = all as [StoredGeneration, StoredGeneration, StoredGeneration];
    const page = await store.list({ limit: 2 });
    expect(page.map(({ id }) => id)).toEqual([third.id, second.id]);
    expect(page[0]).toStrictEqual({
      id: third.id,
      account: "local",
      created_at: third.created_at,
      ...failed,
      error: keptOdd,
      state: "failed",
      model: "sora-2",
      prompt: "x".repeat(300),
      aspectRatio: "16:9",
      duration: 5,
      begun_at: null,
      credits: 10,
      ahead: 0,
      engine: null,
      label: null,
    });
    const idsOf = async (query: object) => (await store.list({ limit: 9, ...query })).map(({ id }) => id);
    expect(await idsOf({ limit: 2, before: second.id })).toEqual([first.id]);
    for (const text of ["0%", "100% FOX", second.id.slice(0, 13)]) expect(await idsOf({ text })).toEqual([second.id]);
    expect(await idsOf({ text: "_" })).toEqual([]);
    expect(await idsOf({ from: second.id })).toEqual([second.id, first.id]);
    expect(await idsOf({ model: "sora-2", state: "failed", before: third.id, limit: 1 })).toEqual([second.id]);
    expect(await idsOf({ model: "veo-3.1" })).toEqual([]);
    expect(await idsOf({ state: "queued" })).toEqual([]);
    const other = newGeneration({ request: { ...newGeneration().request, model: "kling-1.6" } });
    await store.start(other, cost, undefined);
    expect(await idsOf({ state: "queued" })).toEqual([other.id]);
    expect(await store.totals({})).toEqual({
      counts: { failed: 3, queued: 1 },
      newer: 0,
      models: ["kling-1.6", "sora-2"],
    });
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const theirs = { account: "other", request: { ...newGeneration().request, model: "veo-3.1" } };
    for (let count = 0; count < 2; count++) await store.start(newGeneration(theirs), cost, undefined);
    expect((await store.totals({ account: "other" })).models).toEqual(["veo-3.1"]);
    expect((await store.totals({ account: "local", model: "sora-2" })).models).toEqual(["kling-1.6", "sora-2"]);
    expect((await store.totals({})).models).toEqual(["kling-1.6", "sora-2", "veo-3.1"]);
  });

  it("the search finds words in any order in the prompt, the model, the id and the error, and the counts follow it", async () => {
    const store = await openWith(100);
    const { request } = newGeneration();
    const add = async (prompt: string, model: string) => {
      const generation = newGeneration({ request: { ...request, prompt, model } });
      await store.start(generation, cost, undefined);
      return generation;
    };
    const fox = await add(`a red FOX runs, ${odd} ÄRGER`, "veo-3.1");
    const bear = await add("a bear runs", "wan-2.5");
    await store.finish(fox.id, { ...failed, error: `Out of memory ${odd}` });
    const find = async (text: string) => {
      const found = await store.list({ text, limit: 9 });
      const { counts } = await store.totals({ text });
      return [found.map(({ id }) => id), counts] as const;
    };
    for (const text of ["runs fox", "MEMORY veo", `${fox.id.slice(0, 8)} red`, "ärger", "out  of\tmemory"])
      expect([text, ...(await find(text))]).toEqual([text, [fox.id], { failed: 1 }]);
    expect(await find("a runs")).toEqual([[bear.id, fox.id], { failed: 1, queued: 1 }]);
    expect(await find("fox bear")).toEqual([[], {}]);
    expect((await store.totals({ state: "failed", model: "wan-2.5" })).counts).toEqual({ queued: 1 });
  });

  it("a generation that no engine has begun is queued behind the earlier ones of its model", async () => {
    const store = await openWith(100);
    const { request } = newGeneration();
    const add = async (model: string) => {
      const generation = newGeneration({ request: { ...request, model } });
      await store.start(generation, cost, undefined);
      return generation.id;
    };
    const ids = [await add("veo-3.1"), await add("wan-2.5"), await add("veo-3.1"), await add("veo-3.1")];
    const tell = async () =>
      (await store.list({ limit: 9 })).map(({ id, state, ahead, begun_at }) => [
        ids.indexOf(id),
        state,
        ahead,
        begun_at,
      ]);
    expect(await tell()).toEqual([
      [3, "queued", 2, null],
      [2, "queued", 1, null],
      [1, "queued", 0, null],
      [0, "queued", 0, null],
    ]);
    const at = "2026-01-01T00:00:30.000Z";
    await store.keepCheckpoint(ids[0] ?? "", { state: "rendering", tries: 1, engine: "preview", at });
    expect((await tell()).slice(2)).toEqual([
      [1, "queued", 0, null],
      [0, "running", 0, at],
    ]);
    expect((await tell())[0]).toEqual([3, "queued", 1, null]);
    const states = await store.states({ limit: 3 });
    expect(states.map(({ id, state }) => [ids.indexOf(id), state])).toEqual([3, 2, 1].map((id) => [id, "queued"]));
    expect((await store.states({ account: "local", limit: 9 })).at(-1)).toEqual({ id: ids[0], state: "running" });
    expect(await store.states({ label: "shots.csv", limit: 9 })).toEqual([]);
    expect(await store.totals({ state: "queued", from: ids[1] })).toMatchObject({
      counts: { queued: 3, running: 1 },
      newer: 2,
    });
  });

  it("the lists of callbacks and credits are newest first, in pages", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "Other", keyHash: "theirs" });
    const all = Array.from({ length: 3 }, () => newGeneration());
    for (const each of all) {
      await store.start(each, cost, undefined);
      await store.finish(each.id, failed, newDelivery(`of ${each.id}`, each.id));
    }
    const [first, second, third] = all as [StoredGeneration, StoredGeneration, StoredGeneration];
    const deliveriesOf = async (query: object) =>
      (await store.deliveries({ limit: 9, ...query })).map(({ generation }) => generation);
    expect((await store.deliveries({ limit: 1 })).map(({ id }) => id)).toEqual([`of ${third.id}`]);
    expect(await deliveriesOf({ before: `of ${second.id}` })).toEqual([first.id]);
    expect(await deliveriesOf({ generations: [first.id, third.id] })).toEqual([third.id, first.id]);
    expect(await deliveriesOf({ generations: [] })).toEqual([]);
    const entries = await store.ledger({ limit: 9 });
    expect(entries.map(({ amount }) => amount)).toEqual([-cost, -cost, -cost, 100]);
    const { id, created_at, request } = second;
    const paid = { account: "local", amount: -cost, reason: "start", at: created_at, generation: id };
    expect(entries[1]).toStrictEqual({ number: entries[1]?.number, ...paid, prompt: request.prompt, cost: null });
    const set = { account: "local", amount: 100, reason: "set by the service's owner" };
    const nothing = { generation: null, prompt: null, cost: null };
    const at = expect.stringMatching(/^20\d\d-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/);
    expect(entries[3]).toStrictEqual({ number: entries[3]?.number, ...set, at, ...nothing });
    expect(await store.ledger({ limit: 1, before: entries[1]?.number ?? 0 })).toEqual([entries[2]]);
    expect(await store.ledger({ limit: 9, generation: id })).toEqual([entries[1]]);
    expect(await store.accounts()).toMatchObject([
      { account: "Other", credits: 0 },
      { account: "local", credits: 70 },
    ]);
  });

  it("generations newer than a given one are listed nearest first, and only the account's own", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const all = ["local", "other", "local", "local"].map((account) => newGeneration({ account }));
    for (const each of all) await store.start(each, cost, undefined);
    const placesOf = async (query: object) =>
      (await store.list({ limit: 9, ...query })).map(({ id }) => all.findIndex((each) => each.id === id));
    expect(await placesOf({ after: all[0]?.id, limit: 2 })).toEqual([1, 2]);
    expect(await placesOf({ after: all[0]?.id, account: "local", limit: 1 })).toEqual([2]);
    expect(await placesOf({ before: all[3]?.id, account: "local", limit: 1 })).toEqual([2]);
    expect(await placesOf({ after: all[3]?.id })).toEqual([]);
    expect(await placesOf({ account: "other" })).toEqual([1]);
    expect((await store.ledger({ account: "other", limit: 9 })).map(({ amount }) => amount)).toEqual([-cost, 100]);
  });

  it("callbacks are counted by state, found by state, host and account, and sent again if they were given up", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const hosts = ["a.example", "a.example", "a.example", "b.example:81", "a.example"];
    const all = hosts.map((_, index) => newGeneration({ account: index === 4 ? "other" : "local" }));
    for (const [index, { id, account }] of all.entries()) {
      await store.start(newGeneration({ id, account }), cost, undefined);
      await store.finish(id, completed, {
        ...newDelivery(`${index}`, id),
        account,
        url: `http://${hosts[index]}/hook`,
      });
    }
    await store.recordAttempt("0", attempt("HTTP 500"), "2026-01-01T00:03:00.000Z");
    await store.recordAttempt("0", attempt("HTTP 204", { delivered: true }), null);
    for (const id of ["1", "3", "4"]) await store.recordAttempt(id, attempt("HTTP 410"), null);

    const idsOf = async (query: object) => (await store.deliveries({ limit: 9, ...query })).map(({ id }) => id);
    expect(await idsOf({ state: "delivered" })).toEqual(["0"]);
    expect(await idsOf({ state: "waiting" })).toEqual(["2"]);
    expect(await idsOf({ state: "given_up" })).toEqual(["4", "3", "1"]);
    expect(await idsOf({ state: "given_up", host: "a.example", account: "local" })).toEqual(["1"]);
    expect(await store.deliveryTotals({})).toEqual({
      counts: { waiting: 1, delivered: 1, given_up: 3 },
      hosts: ["a.example", "b.example:81"],
    });
    expect(await store.deliveryTotals({ account: "other" })).toEqual({ counts: { given_up: 1 }, hosts: ["a.example"] });
    expect(await store.deliveryTotals({ host: "b.example:81" })).toMatchObject({ counts: { given_up: 1 } });

    const at = "2026-01-01T00:07:00.000Z";
    expect(await store.resendGivenUp({ account: "local", host: "a.example" }, at)).toBe(1);
    expect(await idsOf({ state: "given_up" })).toEqual(["4", "3"]);
    expect(await store.resendGivenUp({}, at)).toBe(2);
    expect(await idsOf({ state: "given_up" })).toEqual([]);
    const due = await store.due({ now: at, limit: 9, perHost: 9, except: [], hosts: {} });
    expect(due.deliveries.map(({ id }) => id).sort()).toEqual(["1", "2", "3", "4"]);
    expect(await store.resendGivenUp({}, at)).toBe(0);
  });

  it("spent credits are summed by day, model and account, without refunds", async () => {
    const store = await openWith(1_000);
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const start = async (fields: Partial<StoredGeneration>, model: string, paid: number) => {
      const generation = newGeneration({ ...fields, request: { ...newGeneration().request, model } });
      await store.start(generation, paid, undefined);
      return generation.id;
    };
    const [first, second] = ["2026-01-01T23:59:59.000Z", "2026-01-02T00:00:00.000Z"];
    await store.finish(await start({ created_at: first }, "sora-2", 10), { ...completed, cost: 0.4 });
    await store.finish(await start({ created_at: first }, "sora-2", 10), { ...failed, error: odd, isRefunded: true });
    await store.finish(await start({ created_at: second }, "veo-3.1", 30), { ...completed, cost: 1.25e-7 });
    await start({ created_at: second, account: "other" }, "sora-2", 10);
    expect(await store.spending({ limit: 9 })).toEqual({
      day: [
        { key: "2026-01-02", generations: 2, credits: 40, usd: 1.25e-7, unclear: 0 },
        { key: "2026-01-01", generations: 2, credits: 10, usd: 0.4, unclear: 0 },
      ],
      model: [
        { key: "veo-3.1", generations: 1, credits: 30, usd: 1.25e-7, unclear: 0 },
        { key: "sora-2", generations: 3, credits: 20, usd: 0.4, unclear: 0 },
      ],
      label: [],
      account: [
        { key: "local", generations: 3, credits: 40, usd: 0.4 + 1.25e-7, unclear: 0 },
        { key: "other", generations: 1, credits: 10, usd: null, unclear: 0 },
      ],
    });
    const own = { generations: 1, credits: 10, usd: null, unclear: 0 };
    expect(await store.spending({ account: "other", limit: 9 })).toEqual({
      day: [{ key: "2026-01-02", ...own }],
      model: [{ key: "sora-2", ...own }],
      label: [],
      account: [{ key: "other", ...own }],
    });
    const short = await store.spending({ limit: 1 });
    expect([short.day.length, short.model.length]).toEqual([1, 1]);
    const [back] = await store
      .ledger({ account: "local", limit: 9 })
      .then((all) => all.filter((e) => e.reason === "refund"));
    expect(back).toMatchObject({ amount: 10, at: failed.completed_at });
  });

  it("generations with a label are counted, found and summed by it", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "other", keyHash: "other", creditsOf: () => 100 });
    const { request } = newGeneration();
    const start = async (label: StoredGeneration["request"]["label"], fields: Partial<StoredGeneration> = {}) => {
      const generation = newGeneration({ ...fields, request: { ...request, label } });
      await store.start(generation, cost, undefined);
      return generation.id;
    };
    const foxes = { name: "foxes.csv", size: 4 };
    const done = await start(foxes);
    const bad = await start(foxes, { created_at: "2026-01-01T00:00:30.000Z" });
    const unclear = await start(foxes);
    const queued = await start(foxes);
    const bears = await start({ name: "Ünïcode 🐻.csv", size: null }, { account: "other" });
    await start(undefined);
    await store.finish(done, completed);
    await store.finish(bad, { ...failed, isRefunded: true });
    // What an error says is not its code.
    const error = 'said {"error_code":"unclear"}';
    await store.finish(unclear, { ...failed, error, error_code: "unclear" });
    const ofFoxes = {
      label: "foxes.csv",
      account: "local",
      size: 4,
      counts: { queued: 1, running: 0, completed: 1, failed: 2 },
      unclear: 1,
      credits: 30,
      usd: 0.4,
      started_at: "2026-01-01T00:00:00.000Z",
      ended_at: failed.completed_at,
    };
    const ofBears = {
      label: "Ünïcode 🐻.csv",
      account: "other",
      size: null,
      counts: { queued: 1, running: 0, completed: 0, failed: 0 },
      unclear: 0,
      credits: 10,
      usd: null,
      started_at: "2026-01-01T00:00:00.000Z",
      ended_at: null,
    };
    expect(await store.labels({ limit: 9 })).toEqual([ofBears, ofFoxes]);
    expect(await store.labels({ limit: 1 })).toEqual([ofBears]);
    expect(await store.labels({ account: "local", limit: 9 })).toEqual([ofFoxes]);
    expect(await store.labels({ label: "foxes.csv", limit: 9 })).toEqual([ofFoxes]);
    expect(await store.labels({ account: "other", label: "foxes.csv", limit: 9 })).toEqual([]);
    const found = async (filter: object) => (await store.list({ ...filter, limit: 9 })).map(({ id }) => id);
    expect(await found({ label: "foxes.csv" })).toEqual([queued, unclear, bad, done]);
    expect(await found({ text: "FOXES.csv" })).toEqual([queued, unclear, bad, done]);
    expect(await found({ text: "ünïcode 🐻" })).toEqual([bears]);
    expect((await store.list({ limit: 9 })).map(({ label }) => label)).toEqual([
      null,
      ofBears.label,
      ...Array(4).fill("foxes.csv"),
    ]);
    expect((await store.totals({ label: "foxes.csv" })).counts).toEqual({ queued: 1, completed: 1, failed: 2 });
    await start(foxes, { account: "other" });
    const { label, account } = await store.spending({ limit: 9 });
    const one = { account: "other", generations: 1, credits: 10, usd: null, unclear: 0 };
    expect(label).toEqual([
      { key: "foxes.csv", account: "local", generations: 4, credits: 30, usd: 0.4, unclear: 1 },
      { ...one, key: "foxes.csv" },
      { ...one, key: ofBears.label },
    ]);
    expect(account).toEqual([
      { key: "local", generations: 5, credits: 40, usd: 0.4, unclear: 1 },
      { key: "other", generations: 2, credits: 20, usd: null, unclear: 0 },
    ]);
    expect((await store.generation(done))?.request.label).toEqual(foxes);
  });

  it("the sums equal the ledger and the generations after simultaneous changes by two processes", async () => {
    const open = await createWith(1_000_000);
    const stores = [await open(), ...(name === "PostgreSQL" ? [await open()] : [])];
    const [store] = stores as [Store];
    const accounts = ["local", "b", "c"];
    for (const account of accounts.slice(1))
      await store.addAccount({ name: account, keyHash: account, creditsOf: () => 1_000_000 });
    const random = createRandom("sums");
    const { request } = newGeneration();
    const started: { generation: StoredGeneration; paid: number; usd: number | null }[] = [];
    const unended = new Set<(typeof started)[0]>();
    const act = async (step: number) => {
      const one = random.pick(stores);
      const running = unended.size === 0 ? undefined : random.pick([...unended]);
      if (running === undefined || random.next() < 0.5) {
        const label = random.pick([undefined, { name: "foxes.csv", size: 9 }, { name: `of ${step % 2}`, size: null }]);
        const generation = newGeneration({
          account: random.pick(accounts),
          created_at: `2026-01-0${random.pick([1, 2, 3])}T00:00:00.000Z`,
          request: { ...request, model: random.pick(["sora-2", "veo-3.1"]), label },
        });
        const entry = { generation, paid: cost, usd: null };
        await one.start(generation, cost, { key: generation.id, body: "{}" });
        started.push(entry);
        unended.add(entry);
        return;
      }
      const { id } = running.generation;
      if (random.next() < 0.4) {
        const checkpoint = random.pick([
          null,
          { state: "rendering", tries: 1, engine: "preview", at: "2026-01-03T00:00:00.000Z" },
        ] as const);
        await one.keepCheckpoint(id, checkpoint).catch(() => {});
        return;
      }
      unended.delete(running);
      const end = random.pick([
        { ...completed, cost: random.pick([0.25, 0.5, null]) },
        { ...failed, cost: 0.125 },
        { ...failed, isRefunded: true },
        { ...failed, error_code: "unclear" as const },
      ]);
      const delivery =
        random.next() < 0.5 ? { ...newDelivery(`of ${id}`, id), account: running.generation.account } : undefined;
      const hasEnded =
        random.next() < 0.3
          ? await one.cancel(id, { end, engine: null, delivery })
          : await one.finish(id, end, delivery);
      if (hasEnded) {
        running.usd = end.cost;
        if ("isRefunded" in end) running.paid = 0;
      } else unended.add(running);
      if (hasEnded && delivery)
        await random
          .pick(stores)
          .recordAttempt(delivery.id, attempt("HTTP 200", { delivered: random.next() < 0.5 }), null);
    };
    for (let round = 0; round < 40; round++) {
      await Promise.all(Array.from({ length: 8 }, (_, index) => act(8 * round + index)));
      if (round % 10 === 9)
        await Promise.all(stores.map((each) => each.forget({ before: "2026-02-01T00:00:00.000Z", limit: 5 })));
    }

    for (const account of [undefined, ...accounts]) {
      const own = started.filter(({ generation }) => account === undefined || generation.account === account);
      const spent = (by: SpendingKey, { key, account }: Spent) => {
        const of = own.filter(({ generation }) => {
          const { created_at, request } = generation;
          const label = generation.account === account ? request.label?.name : undefined;
          const keys = { day: created_at.slice(0, 10), model: request.model, label, account: generation.account };
          return keys[by] === key;
        });
        const known = of.flatMap(({ usd }) => usd ?? []);
        return {
          key,
          generations: of.length,
          credits: of.reduce((sum, { paid }) => sum + paid, 0),
          usd: known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0),
        };
      };
      const spending = await store.spending({ account, limit: 9 });
      for (const by of ["day", "model", "label", "account"] as const)
        expect(spending[by]).toMatchObject(spending[by].map((each) => spent(by, each)));
      for (const by of ["day", "model", "account"] as const)
        expect(spending[by].reduce((sum, each) => sum + each.generations, 0)).toBe(own.length);
      const left = await store.list({ account, limit: 1_000 });
      const countsOf = (rows: typeof left) => {
        const counts: Record<string, number> = {};
        for (const { state } of rows) counts[state] = (counts[state] ?? 0) + 1;
        return counts;
      };
      expect((await store.totals({ account })).counts).toEqual(countsOf(left));
      for (const label of ["foxes.csv", "of 0", "of 1"]) {
        const rows = left.filter((row) => row.label === label);
        expect((await store.totals({ account, label })).counts).toEqual(countsOf(rows));
        const zero = { queued: 0, running: 0, completed: 0, failed: 0 };
        const found = await store.labels({ account, label, limit: 9 });
        const expected = [...new Set(rows.map((row) => row.account))].map((account) => {
          const own = rows.filter((row) => row.account === account);
          return [account, { ...zero, ...countsOf(own) }] as const;
        });
        expect(new Map(found.map(({ account, counts }) => [account, counts]))).toEqual(new Map(expected));
      }
    }
    const paid = started.reduce((sum, each) => sum + each.paid, 0);
    const left = await Promise.all(accounts.map((account) => store.balance(account)));
    expect(3_000_000 - paid).toBe(left.reduce((sum, each) => sum + each));
  });

  it("a star is stored, found, removed and announced", async () => {
    const store = await openWith(100);
    const [first, second] = [newGeneration(), newGeneration({ account: "local" })];
    for (const each of [first, second]) await store.start(each, cost, undefined);
    const heard: Change[] = [];
    onTestFinished(store.listen((change) => heard.push(change)));
    await expect
      .poll(() => store.star(first.id, true).then(() => heard))
      .toContainEqual({ kind: "generation", id: first.id, account: "local" });
    const starred = async () => (await store.list({ isStarred: true, limit: 9 })).map(({ id }) => id);
    expect(await starred()).toEqual([first.id]);
    expect((await store.generation(first.id))?.isStarred).toBe(true);
    expect((await store.generation(second.id))?.isStarred).toBeUndefined();
    expect((await store.list({ limit: 9 })).map(({ isStarred }) => isStarred)).toEqual([undefined, true]);
    expect((await store.totals({ isStarred: true })).counts).toEqual({ queued: 1 });
    const among = async (ids: string[], account?: string) => (await store.list({ ids, account, limit: 9 })).length;
    expect([await among([first.id, "none"]), await among([second.id], "another"), await among([])]).toEqual([1, 0, 0]);
    await store.finish(first.id, completed);
    expect(await starred()).toEqual([first.id]);
    await store.star(first.id, false);
    expect(await starred()).toEqual([]);
  });

  it("a callback that was given up is due again when it is resent, and keeps its attempts", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    const later = "2026-01-01T00:07:00.000Z";
    await store.start(generation, cost, undefined);
    expect(await store.resend(generation.id, later)).toBeUndefined();
    await store.finish(generation.id, completed, newDelivery("1", generation.id));
    const given = attempt(keptOdd, { reply: keptOdd });
    await store.recordAttempt("1", given, null);
    expect(await store.deliveries({ limit: 1 })).toMatchObject([{ next_at: null }]);
    const due = { ...newDelivery("1", generation.id, later), attempts: 1 };
    expect(await store.resend(generation.id, later)).toEqual(due);
    const records = await store.deliveries({ limit: 1, generations: [generation.id] });
    expect(records).toStrictEqual([{ ...due, attempts: [given], prompt: "a fox" }]);
  });

  it("a callback has its attempts in order, and the time of the next one while one is planned", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    await store.start(generation, cost, undefined);
    await store.finish(generation.id, completed, newDelivery("1", generation.id));
    const attempts = [attempt("HTTP 500"), attempt("no answer"), attempt("HTTP 204", { delivered: true })];
    const times = ["2026-01-01T00:03:00.000Z", "2026-01-01T00:09:00.000Z", null];
    for (const [i, each] of attempts.entries()) {
      await store.recordAttempt("1", each, times[i] ?? null);
      const [record] = await store.deliveries({ limit: 1 });
      expect(record).toMatchObject({ attempts: attempts.slice(0, i + 1), next_at: times[i] ?? null });
    }
  });

  const wanted = {
    kind: "new",
    models: ["sora-2"],
    maxImages: 1,
    isSimulation: false,
  } as const;
  const toFetch = { ...wanted, kind: "fetch" } as const;
  const among = { limit: 9, except: [] };
  const idsOf = (claims: { id: string }[]) => claims.map(({ id }) => id);

  it("the generations that an engine can make are claimed oldest first, and only once", async () => {
    const store = await openWith(1_000);
    const { request } = newGeneration();
    const start = async (fields: object) => {
      const generation = newGeneration({ request: { ...request, ...fields } });
      await store.start(generation, cost, undefined);
      return generation.id;
    };
    const data = "data:image/png;base64,AAAA";
    const a = await start({});
    const other = await start({ model: "ray-3" });
    const b = await start({ images: [data] });
    const two = await start({ images: [data, data] });
    const fetched = await start({ images: ["https://images.example/a.png"] });
    const real = await start({ isReal: true });
    const [first] = await store.claim(wanted, { ...among, limit: 1 });
    expect(first).toMatchObject({ id: a, model: "sora-2", images: 0, isReal: false, engine: null });
    expect(first?.lost.aborted).toBe(false);
    expect(idsOf(await store.claim(wanted, { ...among, except: [a], ids: [real] }))).toEqual([real]);
    await store.release(real);
    expect(idsOf(await store.claim(wanted, { ...among, except: [a] }))).toEqual([b, real]);
    expect(idsOf(await store.claim(toFetch, among))).toEqual([fetched]);
    for (const id of [b, real]) await store.release(id);
    const preview = { ...wanted, models: ["sora-2", "ray-3"], maxImages: 4, isSimulation: true };
    expect(idsOf(await store.claim(preview, { ...among, except: [a] }))).toEqual([other, b, two]);
    await store.finish(b, completed);
    await store.release(b);
    expect(idsOf(await store.claim(wanted, { ...among, except: [a] }))).toEqual([real]);
  });

  /** Starts a generation of an account, and returns its id. */
  const startOf = async (store: Store, account: string, fields: object = {}) => {
    const generation = newGeneration({ account, request: { ...newGeneration().request, ...fields } });
    await store.start(generation, cost, undefined);
    return generation.id;
  };
  /** As a service does: what it makes it does not claim again. */
  const claimer = (store: Store) => {
    const except: string[] = [];
    return async (limit: number, others: object = {}) => {
      const claimed = await store.claim({ ...wanted, ...others }, { limit, except });
      except.push(...idsOf(claimed));
      return idsOf(claimed);
    };
  };

  it("accounts take turns, each with its oldest generation", async () => {
    const store = await openWith(1_000);
    for (const name of ["b", "c"]) await store.addAccount({ name, keyHash: name, creditsOf: () => 1_000 });
    const start = (account: string) => startOf(store, account);
    const [a1, a2, a3] = [await start("local"), await start("local"), await start("local")];
    const [b1, b2] = [await start("b"), await start("b")];
    const claim = claimer(store);
    expect(await claim(1)).toEqual([a1]);
    expect(await claim(1)).toEqual([b1]);
    // Who had none is before those who had one.
    const c1 = await start("c");
    expect(await claim(1)).toEqual([c1]);
    expect(await claim(9, { exceptAccounts: ["local"] })).toEqual([b2]);
    const [b3, c2, c3] = [await start("b"), await start("c"), await start("c")];
    expect((await claim(3)).sort()).toEqual([a2, b3, c2].sort());
    expect(await claim(1)).toEqual([a3]);
    expect(await claim(9)).toEqual([c3]);
  });

  it("an account that got two claims at once has its next turn after those that got one", async () => {
    const store = await openWith(1_000);
    await store.addAccount({ name: "b", keyHash: "b", creditsOf: () => 1_000 });
    const all = [];
    for (const account of ["local", "local", "local", "b", "b"]) all.push(await startOf(store, account));
    const claim = claimer(store);
    expect((await claim(3)).sort()).toEqual([all[0], all[1], all[3]].sort());
    expect(await claim(1)).toEqual([all[4]]);
  });

  it("a generation with images at other machines is claimed for their fetching, and then as any other; both have turns of their own", async () => {
    const store = await openWith(1_000);
    await store.addAccount({ name: "b", keyHash: "b", creditsOf: () => 1_000 });
    const images = ["https://images.example/a.png"];
    const [a1, a2] = [await startOf(store, "local"), await startOf(store, "local")];
    const [b1, b2] = [await startOf(store, "b", { images }), await startOf(store, "b", { images })];
    expect(idsOf(await store.claim(toFetch, { limit: 2, except: [] }))).toEqual([b1, b2]);
    expect(idsOf(await store.claim(wanted, { limit: 1, except: [b1, b2] }))).toEqual([a1]);
    expect(await store.fetchedImages()).toEqual([]);
    await store.keepImageFetch(b1, { files: ["images/1"] });
    await store.release(b1);
    expect((await store.generation(b1))?.imageFetch).toEqual({ files: ["images/1"] });
    expect(idsOf(await store.claim(toFetch, { limit: 9, except: [b2] }))).toEqual([]);
    expect(idsOf(await store.claim(wanted, { limit: 1, except: [a1] }))).toEqual([b1]);
    expect(idsOf(await store.claim(wanted, { limit: 1, except: [a1, b1] }))).toEqual([a2]);
    // What is released without its images is fetched anew, at the earliest at its next try.
    await store.release(b2);
    expect(idsOf(await store.claim(toFetch, { limit: 9, except: [] }))).toEqual([b2]);
    const failing = { since: "2026-01-01T00:00:00.000Z", nextAt: "2026-01-01T00:00:05.000Z", problem: "HTTP 503" };
    await store.keepImageFetch(b2, failing);
    await store.release(b2);
    expect((await store.generation(b2))?.imageFetch).toEqual(failing);
    const fetchAt = async (at: string) => {
      const until = new Date(Date.parse(at) + 60_000).toISOString();
      return idsOf(await store.claim({ ...toFetch, times: { at, until } }, { limit: 9, except: [] }));
    };
    expect(await fetchAt("2026-01-01T00:00:04.999Z")).toEqual([]);
    expect(await fetchAt(failing.nextAt)).toEqual([b2]);
    await store.release(b2);
    // A process whose clock was ahead has planned the next try.
    expect(await fetchAt("2025-12-31T23:59:06.000Z")).toEqual([]);
    expect(await fetchAt("2025-12-31T23:59:04.000Z")).toEqual([b2]);
    expect(idsOf(await store.claim(wanted, { limit: 9, except: [a1, a2, b1] }))).toEqual([]);
    await store.keepImageFetch(b2, { files: [null, "images/2"] });
    expect((await store.fetchedImages()).sort()).toEqual(["images/1", "images/2"]);
    await store.finish(b1, completed);
    expect(await store.fetchedImages()).toEqual(["images/2"]);
    await expect(store.keepImageFetch(b1, { files: [] })).rejects.toThrow(`no generation ${b1}`);
  });

  it("ten thousand generations of one account do not delay another account", async () => {
    const store = await openWith(100_000);
    await store.addAccount({ name: "b", keyHash: "b", creditsOf: () => 10 });
    await Promise.all(Array.from({ length: 10_000 }, () => store.start(newGeneration(), cost, undefined)));
    const other = newGeneration({ account: "b" });
    await store.start(other, cost, undefined);
    const claim = claimer(store);
    expect(await claim(1)).toHaveLength(1);
    expect(await claim(1)).toEqual([other.id]);
  });

  it("an account starts no more than its limits allow, and a refused start changes nothing", async () => {
    const store = await openWith(1_000);
    expect(await store.setLimits("nobody", { max_running: 1 })).toBe(undefined);
    expect(await store.setLimits("local", { max_running: 2 })).toEqual({ max_running: 2, max_per_hour: null });
    const started = Array.from({ length: 5 }, () => newGeneration());
    const outcomes = await Promise.all(
      started.map((each, i) => store.start(each, cost, { key: `key ${i}`, body: "{}" })),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(["started", "started", "limited", "limited", "limited"]);
    expect(outcomes[2]).toMatchObject({ limit: "max_running", max: 2, retryAfterSeconds: 5 });
    expect(await store.balance("local")).toBe(980);
    expect(await store.start(newGeneration(), cost, { key: "key 0", body: "{}" })).toMatchObject({ replayed: true });
    const find = (key: string, body: string) => store.findStart("local", { key, body });
    expect(await find("key 0", "{}")).toMatchObject({
      kind: "started",
      generation: { id: started[0]?.id },
      remaining_credits: 990,
      replayed: true,
    });
    expect([await find("key 0", "[]"), await find("key 2", "{}")]).toEqual([{ kind: "key reused" }, undefined]);
    await store.finish(String(started[0]?.id), completed);
    expect(await store.start(newGeneration(), cost, { key: "key 2", body: "{}" })).toMatchObject({ kind: "started" });
    expect(await store.setLimits("local", { max_running: null, max_per_hour: 4 })).toEqual({
      max_running: null,
      max_per_hour: 4,
    });
    const at = (minute: string) =>
      store.start(newGeneration({ created_at: `2026-01-01T${minute}:00.000Z` }), cost, undefined);
    expect(await at("00:20")).toMatchObject({ kind: "started" });
    expect(await at("00:50")).toMatchObject({ kind: "limited", limit: "max_per_hour", max: 4, retryAfterSeconds: 600 });
    expect(await at("01:01")).toMatchObject({ kind: "started" });
    expect(await store.balance("local")).toBe(950);
    expect((await store.accounts())[0]).toEqual({
      ...{ account: "local", credits: 950, keys: 1, disabled_at: null, max_running: null, max_per_hour: 4 },
    });
  });

  it("credits are added once for a key, however often the request is sent", async () => {
    const store = await openWith(100);
    const add = (amount: number, key: string, account = "local") => store.addCredits({ account, amount, key });
    expect(await add(50, "1")).toEqual({ kind: "added", credits: 150, replayed: false });
    const again = await Promise.all([add(50, "1"), add(50, "1"), add(7, "2"), add(7, "2")]);
    expect(again.filter((each) => each.kind === "added" && !each.replayed)).toHaveLength(1);
    expect(await store.balance("local")).toBe(157);
    expect(await add(51, "1")).toEqual({ kind: "key reused" });
    expect(await add(-158, "3")).toEqual({ kind: "out of range", credits: 157 });
    expect(await add(Number.MAX_SAFE_INTEGER, "3")).toEqual({ kind: "out of range", credits: 157 });
    expect(await add(-57, "3")).toEqual({ kind: "added", credits: 100, replayed: false });
    expect(await add(1, "1", "nobody")).toEqual({ kind: "no account" });
    const entries = await store.ledger({ limit: 9 });
    expect(entries.map(({ amount }) => amount)).toEqual([-57, 7, 50, 100]);
  });

  it("a submitted generation is claimed only for its engine, an unclear one for any engine, and neither as new", async () => {
    const store = await openWith(100);
    const all = [newGeneration(), newGeneration(), newGeneration(), newGeneration()];
    for (const each of all) await store.start(each, cost, undefined);
    const [submitted = "", unconfirmed = "", unclear = "", taken = ""] = idsOf(all);
    const kept = { engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" };
    await store.keepCheckpoint(submitted, { state: "submitted", job: odd, ...kept });
    await store.keepCheckpoint(unconfirmed, { state: "unconfirmed", job: odd, ...kept });
    await store.keepCheckpoint(unclear, { state: "submitting", ...kept });
    await store.keepCheckpoint(taken, { state: "submitting", ...kept });
    await store.keepCheckpoint(taken, null);
    expect(await store.claim({ kind: "begun", engines: ["http://gpu-1"] }, among)).toMatchObject([
      { id: submitted, engine: "http://gpu-1", isSubmitting: false },
      { id: unconfirmed, engine: "http://gpu-1", isSubmitting: false },
      { id: unclear, engine: null, isSubmitting: true },
    ]);
    for (const id of [submitted, unconfirmed, unclear]) await store.release(id);
    expect(idsOf(await store.claim({ kind: "begun", engines: ["http://gpu-2"] }, among))).toEqual([unclear]);
    await store.release(unclear);
    expect(idsOf(await store.claim(wanted, among))).toEqual([taken]);
  });

  it("the engines with unfinished generations are listed with the newest submission of each; a generation at a missing engine does not count as running", async () => {
    const store = await openWith(100);
    await store.setLimits("local", { max_running: 2 });
    const [one, two, other] = [newGeneration(), newGeneration(), newGeneration()];
    for (const each of [one, two]) await store.start(each, cost, undefined);
    expect(await store.start(other, cost, undefined)).toMatchObject({ kind: "limited" });
    expect(await store.begun()).toEqual([]);
    const at = "2026-01-01T00:00:30.000Z";
    const last = {
      state: "submitted",
      job: odd,
      engine: "http://gpu-1",
      at,
      origin: { url: "http://gpu-1", key_env: "KEY" },
    } as const;
    await store.keepCheckpoint(one.id, { ...last, job: "1", origin: {} });
    await store.keepCheckpoint(two.id, last);
    expect(await store.begun()).toEqual([
      { engine: "http://gpu-1", count: 2, held: 0, checkpoint: { ...last, job: keptOdd } },
    ]);
    expect(await store.start(other, cost, undefined, ["http://gpu-2", odd])).toMatchObject({ kind: "limited" });
    expect(await store.start(other, cost, undefined, ["http://gpu-2", "http://gpu-1"])).toMatchObject({
      kind: "started",
    });
    await store.keepCheckpoint(other.id, { state: "submitting", engine: "http://gpu-3", at });
    await store.finish(one.id, failed);
    expect(await store.begun()).toMatchObject([{ engine: "http://gpu-1", count: 1 }]);
  });

  it("waiting generations are counted and claimed by their needs", async () => {
    const store = await openWith(100);
    const [old, late] = [newGeneration(), newGeneration({ created_at: "2026-01-01T00:10:00.000Z" })];
    const gone = newGeneration({ request: { ...old.request, model: "ray-3" } });
    for (const each of [old, late, gone]) await store.start(each, cost, undefined);
    const kept = { engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" };
    await store.keepCheckpoint(gone.id, { state: "submitted", job: "1", ...kept });
    const needs = { model: "sora-2", images: 0, isReal: false, names: [], engine: null };
    const submitted = { ...needs, model: "ray-3", engine: "http://gpu-1" };
    const waiting = await store.waiting({ except: [] });
    expect(waiting.sort((a, b) => b.count - a.count)).toEqual([
      { ...needs, count: 2, held: 0, oldest_at: old.created_at },
      { ...submitted, count: 1, held: 0, oldest_at: gone.created_at },
    ]);
    const rest = await store.waiting({ except: [gone.id, old.id] });
    expect(rest).toEqual([{ ...needs, count: 1, held: 0, oldest_at: late.created_at }]);
    const same = { kind: "same", startedBefore: "2026-01-01T00:05:00.000Z" } as const;
    expect(idsOf(await store.claim({ ...needs, ...same }, among))).toEqual([old.id]);
    expect(idsOf(await store.claim({ ...submitted, ...same }, among))).toEqual([gone.id]);
  });

  it("a generation that names fields is claimed only with its list of names, and is waited for and ended by that list", async () => {
    const store = await openWith(1_000);
    const plain = await startOf(store, "local");
    const named = await startOf(store, "local", { names: ['a "b"', "elements"] });
    const same = await startOf(store, "local", { names: ['a "b"', "elements"] });
    const other = await startOf(store, "local", { model: "ray-3", names: ["elements"] });
    const lists = [
      { model: "ray-3", names: ["elements"] },
      { model: "sora-2", names: ['a "b"', "elements"] },
    ];
    const byModel = (found: readonly { model: string }[]) => [...found].sort((a, b) => (a.model < b.model ? -1 : 1));
    expect(byModel(await store.named())).toEqual(lists);
    const [ray, sora] = lists;
    const models = { models: ["sora-2", "ray-3"] };
    const claim = async (named: typeof lists | undefined) => {
      const claimed = idsOf(await store.claim({ ...wanted, ...models, named }, among));
      for (const id of claimed) await store.release(id);
      return claimed;
    };
    expect(await claim([])).toEqual([plain]);
    expect(await claim([{ model: "sora-2", names: ["elements"] }])).toEqual([plain]);
    expect(await claim(ray && [ray])).toEqual([plain, other]);
    expect(await claim(sora && [sora])).toEqual([plain, named, same]);
    // A preview takes all fields.
    expect(await claim(undefined)).toEqual([plain, named, same, other]);
    const needs = { images: 0, isReal: false, engine: null };
    const waiting = (await store.waiting({ except: [plain, other] })).map(({ names, count }) => ({ names, count }));
    expect(waiting).toEqual([{ names: ['a "b"', "elements"], count: 2 }]);
    const end = { ...needs, kind: "same", startedBefore: "2027-01-01T00:00:00.000Z" } as const;
    expect(idsOf(await store.claim({ ...end, model: "sora-2", names: [] }, among))).toEqual([plain]);
    expect(idsOf(await store.claim({ ...end, model: "ray-3", names: ["elements"] }, among))).toEqual([other]);
    await store.finish(other, failed);
    await store.keepCheckpoint(named, { state: "submitted", job: "1", engine: "e", at: "2026-01-01T00:00:30.000Z" });
    expect(await store.named()).toEqual([sora]);
    await store.finish(same, failed);
    expect(await store.named()).toEqual([]);
  });

  it("secrets in fields that vidgen does not know are kept until the end, and read only by name", async () => {
    const store = await openWith(1_000);
    const extras = {
      hub_token: "canary \u{1f98a}",
      seed: 7,
      style: "noir",
      negative_prompt: "https://a.example/?canary",
    };
    const names = ["hub_token", "style/n"];
    const plain = await startOf(store, "local", { extras });
    const generation = newGeneration({ request: { ...newGeneration().request, extras, names } });
    const idempotency = { key: "a key", body: "{}" };
    await store.start(generation, cost, idempotency);
    expect((await store.generation(plain))?.request.extras).toEqual(extras);
    const shown = { ...extras, hub_token: expect.stringMatching(/^sha256:/) };
    expect((await store.generation(generation.id))?.request.extras).toEqual(shown);
    const repeated = await store.start(newGeneration(), cost, idempotency);
    expect(repeated).toMatchObject({ replayed: true, generation: { request: { extras: shown } } });
    expect(await store.secrets(plain)).toEqual({});
    expect(await store.secrets(generation.id)).toEqual({ hub_token: extras.hub_token });
    expect(JSON.stringify(await store.list({ limit: 9, text: "canary" }))).not.toContain("\u{1f98a}");
    await store.finish(generation.id, failed);
    expect(await store.secrets(generation.id)).toEqual({});
    expect((await store.generation(generation.id))?.request.extras).toEqual(shown);
  });

  it("due callbacks are claimed up to a number for each receiver, the longest waiting first", async () => {
    const store = await openWith(1_000);
    const hosts = ["a.example", "a.example", "a.example", "b.example:8443", "[::1]:1"];
    for (const [index, host] of hosts.entries()) {
      const generation = newGeneration();
      await store.start(generation, cost, undefined);
      const delivery = newDelivery(String(index), generation.id, `2026-01-01T00:01:0${9 - index}.000Z`);
      await store.finish(generation.id, completed, { ...delivery, url: `https://${host}/hook` });
    }
    const query = { now: "2026-01-01T00:02:00.000Z", limit: 9, perHost: 2, except: [], hosts: {} };
    const [none, one] = [
      { room: 0, beforeRetry: 0 },
      { room: 1, beforeRetry: 0 },
    ];
    const few = await store.due({
      ...query,
      limit: 1,
      hosts: { "b.example:8443": none, "[::1]:1": none, "a.example": one },
    });
    expect(few.deliveries).toMatchObject([{ url: "https://a.example/hook", attempts: 0 }]);
    const [first] = few.deliveries;
    const next = await store.due({ ...query, except: [first?.id ?? ""], hosts: { "a.example": one } });
    expect(next.deliveries.map(({ url }) => new URL(url).host).sort()).toEqual([
      "[::1]:1",
      "a.example",
      "b.example:8443",
    ]);
    for (const { id } of [...few.deliveries, ...next.deliveries])
      await store.recordAttempt(id, attempt("HTTP 204", { delivered: true }), null);
    const last = await store.due(query);
    expect(last.deliveries).toHaveLength(1);
    const later = new Date(Date.now() + 60_000).toISOString();
    await store.recordAttempt(last.deliveries[0]?.id ?? "", attempt("HTTP 500"), later);
    const { deliveries, nextMs } = await store.due({ ...query, now: new Date().toISOString() });
    expect(deliveries).toEqual([]);
    expect(nextMs).toBeGreaterThan(50_000);
    expect(nextMs).toBeLessThanOrEqual(60_000);
  });

  it("of four attempts at a receiver one is a retry, whichever has waited longer; either goes alone if only it is due", async () => {
    const store = await openWith(1_000);
    const add = async (id: string, minute: number, host = "a.example") => {
      const generation = newGeneration({ id });
      await store.start(generation, cost, undefined);
      const delivery = newDelivery(id, generation.id, `2026-01-01T00:0${minute}:00.000Z`);
      await store.finish(generation.id, completed, { ...delivery, url: `https://${host}/hook` });
    };
    const retries = ["alone", "r1", "r2", "r3"];
    for (const id of retries) await add(id, 1, id === "alone" ? "b.example" : "a.example");
    for (const id of retries) await store.recordAttempt(id, attempt("HTTP 503"), "2026-01-01T00:05:00.000Z");
    for (const id of ["f1", "f2", "f3", "f4", "f5"]) await add(id, 6);
    const taken: string[] = [];
    const take = async (room: number, beforeRetry: number) => {
      const query = { now: "2026-01-01T00:09:00.000Z", limit: 99, perHost: 1, except: taken };
      const { deliveries } = await store.due({ ...query, hosts: { "a.example": { room, beforeRetry } } });
      const ids = deliveries.map(({ id }) => id).sort();
      taken.push(...ids);
      return ids;
    };
    expect(await take(1, 0)).toEqual(["alone", "r1"]);
    expect(await take(2, 3)).toEqual(["f1", "f2"]);
    expect(await take(3, 1)).toEqual(["f3", "f4", "r2"]);
    await store.recordAttempt("r1", attempt("HTTP 204", { delivered: true }), null);
    await store.resend("r1", "2026-01-01T00:05:30.000Z");
    taken.splice(taken.indexOf("r1"), 1);
    expect(await take(4, 2)).toEqual(["f5", "r1", "r3"]);
  });

  it("a refund is one line of the ledger, written with the end of its generation", async () => {
    const store = await openWith(100);
    const [a, b] = [newGeneration(), newGeneration()];
    for (const each of [a, b]) await store.start(each, cost, undefined);
    expect(await store.finish(a.id, { ...failed, isRefunded: true })).toBe(true);
    expect(await store.finish(a.id, { ...failed, isRefunded: true })).toBe(false);
    await store.finish(b.id, failed);
    expect(await store.balance("local")).toBe(90);
    expect((await store.ledger({ limit: 9, generation: a.id })).map(({ amount, reason }) => [amount, reason])).toEqual([
      [cost, "refund"],
      [-cost, "start"],
    ]);
    expect((await store.start(newGeneration(), cost, undefined)) as object).toMatchObject({ remaining_credits: 80 });
  });

  it("an end with a refund returns nothing if nothing was charged", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    await store.start(generation, 0, undefined);
    expect(await store.finish(generation.id, { ...failed, isRefunded: true })).toBe(true);
    expect(await store.balance("local")).toBe(100);
    expect((await store.ledger({ limit: 9 })).map(({ amount }) => amount)).toEqual([100]);
  });

  it("a cancelled generation ends once, with its callback and refund, whichever process has it", async () => {
    const open = await createWith(100);
    const [store, other] = [await open(), name === "PostgreSQL" ? await open() : undefined];
    const generation = newGeneration();
    const { id } = generation;
    await store.start(generation, cost, undefined);
    const wanted = {
      kind: "new",
      isFetched: false,
      models: ["sora-2"],
      maxImages: 1,
      isSimulation: true,
    } as const;
    expect(await store.claim(wanted, { except: [], limit: 9 })).toHaveLength(1);
    const told: unknown[] = [];
    store.listen((change) => told.push(change.kind));
    while (told.length === 0) {
      store.publish({ kind: "progress", id, percent: 7, account: "local" });
      await systemClock.sleep(20);
    }
    const cancelled = { ...failed, error: "cancelled" };
    const cancellation = { end: { ...cancelled, isRefunded: true }, engine: null, delivery: newDelivery("1", id) };
    expect(await (other ?? store).cancel(id, cancellation)).toBe(true);
    expect(await store.cancel(id, { ...cancellation, delivery: newDelivery("2", id) })).toBe(false);
    expect(await store.finish(id, completed)).toBe(false);
    await expect(store.keepCheckpoint(id, null)).rejects.toThrow("no generation");
    expect(await store.generation(id)).toStrictEqual({ ...generation, ...cancelled });
    expect(await store.balance("local")).toBe(100);
    expect(await store.deliveries({ limit: 9 })).toHaveLength(1);
    while (!told.includes("cancelled")) await systemClock.sleep(5);
    await expect(store.cancel("unknown", cancellation)).rejects.toThrow("no generation unknown");
  });

  it("a generation can be cancelled only if its submission is the one that the caller knows", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    const { id } = generation;
    await store.start(generation, cost, undefined);
    const kept = { engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" };
    const cancel = (engine: string | null) =>
      store.cancel(id, { end: { ...failed, isRefunded: true }, engine, delivery: undefined });
    await store.keepCheckpoint(id, { state: "submitting", ...kept });
    expect([await cancel(null), await cancel("http://gpu-1")]).toEqual([false, false]);
    await store.keepCheckpoint(id, { state: "submitted", job: "1", ...kept });
    expect([await cancel(null), await cancel("http://gpu-2")]).toEqual([false, false]);
    expect(await store.balance("local")).toBe(90);
    expect(await cancel("http://gpu-1")).toBe(true);
    expect(await store.balance("local")).toBe(100);
  });

  it("a free preview has no row in the ledger, even if it fails; a real video at zero credits has one", async () => {
    const store = await openWith(0);
    const preview = newGeneration();
    const real = newGeneration({ request: { ...preview.request, isReal: true } });
    for (const each of [preview, real])
      expect(await store.start(each, 0, undefined)).toMatchObject({ kind: "started", remaining_credits: 0 });
    for (const { id } of [preview, real]) expect(await store.finish(id, { ...failed, isRefunded: true })).toBe(true);
    expect(await store.balance("local")).toBe(0);
    expect((await store.ledger({ limit: 9 })).map(({ amount, generation }) => [Math.abs(amount), generation])).toEqual([
      [0, real.id],
    ]);
  });

  it("a refund that would exceed the largest balance does not prevent its generation from ending", async () => {
    const store = await openWith(Number.MAX_SAFE_INTEGER);
    const generation = newGeneration();
    await store.start(generation, cost, undefined);
    await setCredits(store, "local", Number.MAX_SAFE_INTEGER);
    expect(await store.finish(generation.id, { ...failed, isRefunded: true })).toBe(true);
    expect(await store.balance("local")).toBe(Number.MAX_SAFE_INTEGER);
  });

  it("announces its changes when they are durable", async () => {
    const store = await openWith(100);
    const told: unknown[] = [];
    const stop = store.listen((change) => told.push(change));
    const { id } = newGeneration();
    // What is told before a process listens is missed.
    while (told.length === 0) {
      store.publish({ kind: "progress", id, percent: 7, account: "local" });
      await systemClock.sleep(20);
    }
    const until = async (change: object) => {
      while (!told.some((each) => isDeepStrictEqual(each, change))) await systemClock.sleep(5);
    };
    await until({ kind: "progress", id, percent: 7, account: "local" });
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 50 });
    await until({ kind: "credits", account: "other" });
    await store.addCredits({ account: "other", amount: 50, key: "a" });
    await store.start(newGeneration({ account: "other" }), cost, undefined);
    await store.start(newGeneration({ id }), cost, undefined);
    await until({ kind: "generation", id, account: "local" });
    await until({ kind: "credits", account: "local" });
    told.length = 0;
    await store.keepCheckpoint(id, null);
    await until({ kind: "generation", id, account: "local" });
    told.length = 0;
    await store.finish(id, { ...failed, isRefunded: true }, newDelivery("1", id));
    for (const change of [{ kind: "generation", id }, { kind: "callback", id }, { kind: "credits" }])
      await until({ ...change, account: "local" });
    told.length = 0;
    await store.resend(id, "2026-01-01T00:03:00.000Z");
    await until({ kind: "callback", id, account: "local" });
    await store.remove(id, "2026-01-01T00:03:00.000Z");
    await until({ kind: "generation", id, account: "local" });
    stop();
  });

  it("close waits for changes in progress; later changes are rejected", async () => {
    const open = await createWith(100);
    const store = await open();
    const starts = Array.from({ length: 5 }, () => store.start(newGeneration(), cost, undefined));
    await store.close();
    await expect(store.start(newGeneration(), cost, undefined)).rejects.toThrow();
    await expect(Promise.all(starts)).resolves.toHaveLength(5);
    expect(await (await open()).balance("local")).toBe(50);
  });
}
