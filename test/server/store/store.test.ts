import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store, StoredGeneration } from "../../../src/server/store/store.ts";
import { postgresPrograms } from "../../postgres.ts";
import { makeFolder } from "../service.ts";
import { open as openPostgres, useServer } from "./postgres/open.ts";
import { attempt, completed, cost, failed, newDelivery, newGeneration, odd, setCredits } from "./records.ts";

const server = useServer();

/** Each makes an empty database, and returns what opens it. */
const databases = {
  async SQLite() {
    const file = join(await makeFolder(), "service.db");
    return async () => {
      const store = await openStore(file);
      onTestFinished(() => store.close().catch(() => {}));
      return store;
    };
  },
  async PostgreSQL() {
    const url = await server().createDatabase();
    return async () => (await openPostgres(url)).store;
  },
};

describe.each(Object.entries(databases))("the contract of a store: %s", (name, create) => {
  const it = test.skipIf(name === "PostgreSQL" && postgresPrograms === undefined);

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
      unfinished: (await told.list({ status: "processing", limit: 9 })).map(({ id }) => id),
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
        { ...newDelivery("c", c.id), attempts: [] },
        { ...unattempted, attempts: [attempt("HTTP 500")] },
      ],
    });
    await store.close();
    expect(await tell(await open())).toStrictEqual(before);
  });

  it("texts come back as they were, whatever is in them", async () => {
    const store = await openWith(100);
    const generation = newGeneration({ callback_url: odd, request: { ...newGeneration().request, prompt: odd } });
    await store.start(generation, cost, undefined);
    expect(await store.generation(generation.id)).toStrictEqual(generation);
    const delivery = { ...newDelivery("1", generation.id), url: odd, body: odd };
    await store.finish(generation.id, { ...failed, error: odd }, delivery);
    expect(await store.generation(generation.id)).toMatchObject({ error: odd });
    await store.recordAttempt("1", attempt(odd, { reply: odd }), "2026-01-01T00:03:00.000Z");
    expect(await store.deliveries({ limit: 1 })).toMatchObject([
      { url: odd, body: odd, attempts: [{ outcome: odd, reply: odd }] },
    ]);
  });

  it("a look at a generation has the beginning of an image that came with it, and a maker the whole", async () => {
    const store = await openWith(100);
    const large = `data:image/png;base64,${"A".repeat(20_000_000)}`;
    const images = ["https://a.example/1.png", large, "data:image/png;base64,AA", `data:image/png,${odd.repeat(9)}`];
    const generation = newGeneration({ request: { ...newGeneration().request, images } });
    const key = { key: "attempt", body: "{}" };
    await store.start(generation, cost, key);
    const shown = images.map((image) => image.slice(0, 64));
    expect((await store.generation(generation.id))?.request.images).toEqual(shown);
    expect(await store.images(generation.id)).toEqual(images);
    const replayed = await store.start(newGeneration(), cost, key);
    expect(replayed).toMatchObject({ replayed: true, generation: { id: generation.id, request: { images: shown } } });
    await expect(store.images("unknown")).rejects.toThrow("no generation unknown");
  });

  it("what is not there is undefined, or an error that names it", async () => {
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

  it("what somebody asks for may have odd characters, and is not found then", async () => {
    const store = await openWith(100);
    await store.start(newGeneration(), cost, undefined);
    expect(await store.generation(odd)).toBeUndefined();
    expect(await store.resend(odd, "2026-01-01T00:03:00.000Z")).toBeUndefined();
    for (const field of ["status", "model", "text", "before"])
      expect(await store.list({ [field]: odd, limit: 9 })).toEqual([]);
    expect(await store.list({ ids: [odd], limit: 9 })).toEqual([]);
    expect(await store.deliveries({ generations: [odd], before: odd, limit: 9 })).toEqual([]);
    expect(await store.ledger({ generation: odd, limit: 9 })).toEqual([]);
  });

  it("an account may have several keys, a key one account", async () => {
    const store = await openWith(100);
    await store.addAccount({ name: "local", keyHash: "second" });
    await store.addAccount({ name: "local", keyHash: "second" });
    await store.addAccount({ name: "other", keyHash: "theirs" });
    expect([await store.account("hash"), await store.account("second")]).toEqual(["local", "local"]);
    expect([await store.balance("local"), await store.balance("other")]).toEqual([100, 0]);
    await expect(store.addAccount({ name: "other", keyHash: "hash" })).rejects.toThrow("belongs to the account local");
    expect(await store.account("hash")).toBe("local");
    await expect(store.addAccount({ name: "third", keyHash: "hash" })).rejects.toThrow("belongs to the account local");
    expect(await store.balances()).toEqual([
      { account: "local", credits: 100 },
      { account: "other", credits: 0 },
    ]);
  });

  it("an account, its key and its credits are one change, and two first ones at once make one account", async () => {
    const store = await openWith(100);
    const had: (number | undefined)[] = [];
    const add = (keyHash: string) =>
      store.addAccount({ name: "new", keyHash, creditsOf: (before) => had.push(before) && (before ?? 1_000) });
    expect(await Promise.all([add("first"), add("second")])).toEqual([1_000, 1_000]);
    expect(had).toEqual([undefined, 1_000]);
    const ledger = await store.ledger({ limit: 9 });
    expect(ledger.filter(({ account }) => account === "new").map(({ amount }) => amount)).toEqual([1_000]);
    const refused = () => {
      throw new Error("no");
    };
    await expect(store.addAccount({ name: "none", keyHash: "none", creditsOf: refused })).rejects.toThrow("no");
    expect(await store.account("none")).toBeUndefined();
    expect((await store.balances()).map(({ account }) => account)).toEqual(["local", "new"]);
  });

  it("keys are removed: one, or those of an account but for one", async () => {
    const store = await openWith(100);
    for (const keyHash of ["second", "third"]) await store.addAccount({ name: "local", keyHash });
    await store.addAccount({ name: "other", keyHash: "theirs" });
    const accounts = () => Promise.all(["hash", "second", "third", "theirs"].map((hash) => store.account(hash)));
    expect(await store.removeKeys({ keyHash: "second" })).toBe(1);
    expect(await store.removeKeys({ keyHash: "second" })).toBe(0);
    expect(await accounts()).toEqual(["local", undefined, "local", "other"]);
    expect(await store.removeKeys({ account: "local", except: "third" })).toBe(1);
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

  it("a balance is set to whole numbers from 0, also while generations are started", async () => {
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

  it("of a hundred starts at once as many as the credits pay for", async () => {
    const store = await openWith(305);
    const starts = Array.from({ length: 100 }, () => store.start(newGeneration(), cost, undefined));
    const outcomes = await Promise.all(starts);
    const remaining = outcomes.flatMap((each) => (each.kind === "started" ? [each.remaining_credits] : []));
    expect(remaining.sort((a, b) => b - a)).toEqual(Array.from({ length: 30 }, (_, i) => 295 - i * cost));
    expect(outcomes.filter(({ kind }) => kind === "no credits")).toHaveLength(70);
    expect(await store.balance("local")).toBe(5);
    expect(await store.totals()).toMatchObject({ counts: { processing: 30 } });
  });

  it("starts at once of several accounts, some with too few credits and some with the same key, charge each once", async () => {
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
    expect(await store.balances()).toEqual([
      { account: "local", credits: 800 },
      { account: "other", credits: 980 },
      { account: "poor", credits: 5 },
    ]);
    const debits = (await store.ledger({ limit: 99 })).filter(({ amount }) => amount < 0);
    const ids = paid.map((each) => each.kind === "started" && each.generation.id);
    expect(debits.map(({ generation }) => generation).sort()).toEqual(ids.sort());
    expect((await store.list({ limit: 99 })).map(({ id }) => id).sort()).toEqual(ids);
  });

  it("of starts at once with the same key and another body one is executed, and the others are told of the key", async () => {
    const store = await openWith(100);
    const bodies = ["{}", "[]", "{}"];
    const outcomes = await Promise.all(bodies.map((body) => store.start(newGeneration(), cost, { key: "same", body })));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["started", "key reused", "started"]);
    expect(outcomes[2]).toStrictEqual({ ...outcomes[0], replayed: true });
    expect(await store.balance("local")).toBe(90);
  });

  it("one change that fails undoes itself and nothing of those that are made at the same time", async () => {
    const store = await openWith(100);
    const twice = newGeneration();
    const all = [newGeneration(), twice, twice, newGeneration()];
    const outcomes = await Promise.allSettled(all.map((each) => store.start(each, cost, undefined)));
    expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(1);
    expect(await store.balance("local")).toBe(70);
    await store.start(newGeneration(), cost, undefined);
    expect(await store.balance("local")).toBe(60);
  });

  it("a generation whose delivery cannot be kept has not ended", async () => {
    const store = await openWith(100);
    const [a, b] = [newGeneration(), newGeneration()];
    for (const each of [a, b]) await store.start(each, cost, undefined);
    await store.finish(a.id, completed, newDelivery("1", a.id));
    await expect(store.finish(b.id, completed, newDelivery("1", b.id))).rejects.toThrow();
    expect(await store.generation(b.id)).toStrictEqual(b);
  });

  it("an idempotency key starts one generation, also at once and after the database was opened again", async () => {
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

  it("an idempotency key is its account's own, and replays also without credits", async () => {
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

  it("a checkpoint replaces the last one, also by none, and stays when its generation ends", async () => {
    const open = await createWith(100);
    const store = await open();
    const [generation, other] = [newGeneration(), newGeneration()];
    const { id } = generation;
    for (const each of [generation, other]) await store.start(each, cost, undefined);
    const kept = { engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" };
    const checkpoints = [
      { state: "submitting", ...kept },
      null,
      { state: "unconfirmed", job: odd, ...kept },
      { state: "submitted", job: odd, ...kept },
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

  it("a generation that has ended stays as it is, with one delivery", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    await store.start(generation, cost, undefined);
    expect(await store.finish(generation.id, completed, newDelivery("first", generation.id))).toBe(true);
    expect(await store.generation(generation.id)).toStrictEqual({ ...generation, ...completed });
    expect(await store.finish(generation.id, failed, newDelivery("second", generation.id))).toBe(false);
    expect(await store.generation(generation.id)).toStrictEqual({ ...generation, ...completed });
    expect((await store.deliveries({ limit: 9 })).map(({ id }) => id)).toEqual(["first"]);
  });

  it("the lists of the service's owner: newest first, a page at a time, whatever is in a text", async () => {
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
      error: odd,
      model: "sora-2",
      prompt: "x".repeat(300),
    });
    const idsOf = async (query: object) => (await store.list({ limit: 9, ...query })).map(({ id }) => id);
    expect(await idsOf({ limit: 2, before: second.id })).toEqual([first.id]);
    for (const text of ["0%", "100% FOX", second.id.slice(0, 13)]) expect(await idsOf({ text })).toEqual([second.id]);
    expect(await idsOf({ text: "nul" })).toEqual([first.id]);
    expect(await idsOf({ text: "_" })).toEqual([]);
    expect(await idsOf({ ids: [first.id, third.id, "unknown"] })).toEqual([third.id, first.id]);
    expect(await idsOf({ ids: [] })).toEqual([]);
    expect(await idsOf({ model: "sora-2", status: "failed", before: third.id, limit: 1 })).toEqual([second.id]);
    expect(await idsOf({ model: "veo-3.1" })).toEqual([]);
    expect(await idsOf({ status: "processing" })).toEqual([]);
    const other = newGeneration({ request: { ...newGeneration().request, model: "kling-1.6" } });
    await store.start(other, cost, undefined);
    expect(await idsOf({ status: "processing" })).toEqual([other.id]);
    expect(await store.totals()).toEqual({ counts: { failed: 3, processing: 1 }, models: ["kling-1.6", "sora-2"] });
  });

  it("the lists of callbacks and credits: newest first, a page at a time", async () => {
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
    const { id, created_at } = second;
    const paid = { account: "local", amount: -cost, reason: "start", generation: id, created_at };
    expect(entries[1]).toStrictEqual({ number: entries[1]?.number, ...paid });
    const set = { account: "local", amount: 100, reason: "set by the service's owner" };
    expect(entries[3]).toStrictEqual({ number: entries[3]?.number, ...set, generation: null, created_at: null });
    expect(await store.ledger({ limit: 1, before: entries[1]?.number ?? 0 })).toEqual([entries[2]]);
    expect(await store.ledger({ limit: 9, generation: id })).toEqual([entries[1]]);
    expect(await store.balances()).toEqual([
      { account: "Other", credits: 0 },
      { account: "local", credits: 70 },
    ]);
  });

  it("a delivery that was given up is due again once it is to be sent again, with its attempts", async () => {
    const store = await openWith(100);
    const generation = newGeneration();
    const later = "2026-01-01T00:07:00.000Z";
    await store.start(generation, cost, undefined);
    expect(await store.resend(generation.id, later)).toBeUndefined();
    await store.finish(generation.id, completed, newDelivery("1", generation.id));
    const given = attempt(odd, { reply: odd });
    await store.recordAttempt("1", given, null);
    expect(await store.deliveries({ limit: 1 })).toMatchObject([{ next_at: null }]);
    const due = { ...newDelivery("1", generation.id, later), attempts: 1 };
    expect(await store.resend(generation.id, later)).toEqual(due);
    const records = await store.deliveries({ limit: 1, generations: [generation.id] });
    expect(records).toStrictEqual([{ ...due, attempts: [given] }]);
  });

  it("a delivery has its attempts in order, and the time of the next one until none is planned", async () => {
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

  const wanted = { kind: "new", models: ["sora-2"], maxImages: 1, isSimulation: false, isFetched: false } as const;
  const among = { limit: 9, except: [] };
  const idsOf = (claims: { id: string }[]) => claims.map(({ id }) => id);

  it("what an engine can make is claimed oldest first, and what is claimed already is not", async () => {
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
    expect(first).toMatchObject({ id: a, model: "sora-2", images: 0, isReal: false, isFetched: false, engine: null });
    expect(first?.lost.aborted).toBe(false);
    expect(idsOf(await store.claim({ ...wanted, before: 0 }, { ...among, except: [a] }))).toEqual([]);
    expect(idsOf(await store.claim(wanted, { ...among, except: [a], ids: [real] }))).toEqual([real]);
    await store.release(real);
    expect(idsOf(await store.claim(wanted, { ...among, except: [a] }))).toEqual([b, real]);
    expect(await store.claim({ ...wanted, isFetched: true }, among)).toMatchObject([{ id: fetched, isFetched: true }]);
    for (const id of [b, real]) await store.release(id);
    const preview = { ...wanted, models: ["sora-2", "ray-3"], maxImages: 4, isSimulation: true };
    expect(idsOf(await store.claim(preview, { ...among, except: [a] }))).toEqual([other, b, two]);
    await store.finish(b, completed);
    await store.release(b);
    expect(idsOf(await store.claim(wanted, { ...among, except: [a] }))).toEqual([real]);
  });

  it("what was submitted, or can be asked for, is claimed for its engine alone, what is unclear for any, and none as new", async () => {
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

  it("what waits is counted by its needs, and claimed by them", async () => {
    const store = await openWith(100);
    const [old, late] = [newGeneration(), newGeneration({ created_at: "2026-01-01T00:10:00.000Z" })];
    const gone = newGeneration({ request: { ...old.request, model: "ray-3" } });
    for (const each of [old, late, gone]) await store.start(each, cost, undefined);
    const kept = { engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" };
    await store.keepCheckpoint(gone.id, { state: "submitted", job: "1", ...kept });
    const needs = { model: "sora-2", images: 0, isReal: false, engine: null };
    const submitted = { ...needs, model: "ray-3", engine: "http://gpu-1" };
    const waiting = await store.waiting({ except: [] });
    expect(waiting.sort((a, b) => b.count - a.count)).toEqual([
      { ...needs, count: 2, held: 0 },
      { ...submitted, count: 1, held: 0 },
    ]);
    expect(await store.waiting({ except: [gone.id, old.id] })).toEqual([{ ...needs, count: 1, held: 0 }]);
    const same = { kind: "same", startedBefore: "2026-01-01T00:05:00.000Z" } as const;
    expect(idsOf(await store.claim({ ...needs, ...same }, among))).toEqual([old.id]);
    expect(idsOf(await store.claim({ ...submitted, ...same }, among))).toEqual([gone.id]);
  });

  it("what is due goes to each receiver up to its number, those first that have waited for longest", async () => {
    const store = await openWith(1_000);
    const hosts = ["a.example", "a.example", "a.example", "b.example:8443", "[::1]:1"];
    for (const [index, host] of hosts.entries()) {
      const generation = newGeneration();
      await store.start(generation, cost, undefined);
      const delivery = newDelivery(String(index), generation.id, `2026-01-01T00:01:0${9 - index}.000Z`);
      await store.finish(generation.id, completed, { ...delivery, url: `https://${host}/hook` });
    }
    const query = { now: "2026-01-01T00:02:00.000Z", limit: 9, perHost: 2, except: [], busy: {} };
    const few = await store.due({ ...query, limit: 1, busy: { "b.example:8443": 2, "[::1]:1": 2, "a.example": 1 } });
    expect(few.deliveries).toMatchObject([{ url: "https://a.example/hook", attempts: 0 }]);
    const [first] = few.deliveries;
    const next = await store.due({ ...query, except: [first?.id ?? ""], busy: { "a.example": 1 } });
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

  it("a refund is a line of the ledger, once, with the end of its generation", async () => {
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

  it("what is cancelled ends once, whichever process makes it, with its callback and refund", async () => {
    const open = await createWith(100);
    const [store, other] = [await open(), name === "PostgreSQL" ? await open() : undefined];
    const generation = newGeneration();
    const { id } = generation;
    await store.start(generation, cost, undefined);
    const wanted = { kind: "new", isFetched: false, models: ["sora-2"], maxImages: 1, isSimulation: true } as const;
    expect(await store.claim(wanted, { except: [], limit: 9 })).toHaveLength(1);
    const told: unknown[] = [];
    store.listen((change) => told.push(change.kind));
    while (told.length === 0) {
      store.publish({ kind: "progress", id, percent: 7 });
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

  it("only what is submitted as the caller knows can be cancelled", async () => {
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

  it("a refund that an account has no room for does not keep its generation from ending", async () => {
    const store = await openWith(Number.MAX_SAFE_INTEGER);
    const generation = newGeneration();
    await store.start(generation, cost, undefined);
    await setCredits(store, "local", Number.MAX_SAFE_INTEGER);
    expect(await store.finish(generation.id, { ...failed, isRefunded: true })).toBe(true);
    expect(await store.balance("local")).toBe(Number.MAX_SAFE_INTEGER);
  });

  it("tells of its changes, once they are durable", async () => {
    const store = await openWith(100);
    const told: unknown[] = [];
    const stop = store.listen((change) => told.push(change));
    const { id } = newGeneration();
    // What is told before a process listens is missed.
    while (told.length === 0) {
      store.publish({ kind: "progress", id, percent: 7 });
      await systemClock.sleep(20);
    }
    const until = async (change: object) => {
      while (!told.some((each) => JSON.stringify(each) === JSON.stringify(change))) await systemClock.sleep(5);
    };
    await until({ kind: "progress", id, percent: 7 });
    await store.start(newGeneration({ id }), cost, undefined);
    await until({ kind: "generation", id });
    await until({ kind: "credits" });
    told.length = 0;
    await store.finish(id, { ...failed, isRefunded: true }, newDelivery("1", id));
    for (const change of [{ kind: "generation", id }, { kind: "callback", id }, { kind: "credits" }])
      await until(change);
    stop();
  });

  it("close waits for what is under way; later changes are rejected", async () => {
    const open = await createWith(100);
    const store = await open();
    const starts = Array.from({ length: 5 }, () => store.start(newGeneration(), cost, undefined));
    await store.close();
    await expect(store.start(newGeneration(), cost, undefined)).rejects.toThrow();
    await expect(Promise.all(starts)).resolves.toHaveLength(5);
    expect(await (await open()).balance("local")).toBe(50);
  });
});
