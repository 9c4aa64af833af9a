import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Clock, systemClock } from "../../../../src/io.ts";
import type { Change } from "../../../../src/server/store/change.ts";
import type { Claim } from "../../../../src/server/store/claims.ts";
import type { Delivery } from "../../../../src/server/store/deliveries.ts";
import type { StoredGeneration } from "../../../../src/server/store/generations.ts";
import type { Store } from "../../../../src/server/store/store.ts";
import { postgresPrograms } from "../../../needs.ts";
import { query } from "../../../postgres.ts";
import { attempt, completed, cost, newDelivery, newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";

/** Lets a test wait for what is told elsewhere. */
function createMailbox<T>() {
  const all: T[] = [];
  const waiting = new Set<() => void>();
  return {
    all,
    put(letter: T) {
      all.push(letter);
      for (const wake of waiting) wake();
      waiting.clear();
    },
    /** Resolves with all letters once one of them is as wanted, or once there are so many. */
    async until(wanted: number | ((letter: T) => boolean)): Promise<T[]> {
      while (!(typeof wanted === "number" ? all.length >= wanted : all.some(wanted)))
        await new Promise<void>((resolve) => waiting.add(resolve));
      return all;
    },
  };
}

/** A clock that is ten times as fast, and by which a process does nothing while it is suspended. */
function createFastClock() {
  const steps = createMailbox<number>();
  let resume: () => void = () => {};
  let suspended = Promise.resolve();
  return {
    now: () => 10 * systemClock.now(),
    date: systemClock.date,
    async sleep(ms: number, signal?: AbortSignal) {
      await systemClock.sleep(ms / 10, signal);
      await suspended;
      steps.put(ms);
    },
    suspend() {
      suspended = new Promise((resolve) => {
        resume = resolve;
      });
      onTestFinished(() => resume());
    },
    resume: () => resume(),
    /** Resolves when the process has looked for work again, so many times. */
    async looks(count: number) {
      const goal = steps.all.filter((ms) => ms === 500).length + count;
      await steps.until(() => steps.all.filter((ms) => ms === 500).length >= goal);
    },
  };
}

/** As a clock has it by which a process does nothing more. */
const never = (_ms: number, signal?: AbortSignal) =>
  new Promise<void>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));

/** What a process claims besides what was submitted to its engine: any new generation. */
const wanted = {
  kind: "new",
  models: ["sora-2"],
  maxImages: 4,
  isSimulation: true,
  isFetched: false,
} as const;

type Workers = { room(): number; deliver(delivery: Delivery): Promise<void> };

/** A generation that a process makes until `end` is called, or the process stops. */
type Made = { process: string; claim: Claim; end(): void };

describe("the work of processes that share a database", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** Processes of one database, and what they make. */
  async function createProcesses() {
    const url = await server().createDatabase();
    const made = createMailbox<Made>();
    const delivered = createMailbox<{ process: string; delivery: Delivery }>();
    const changes = createMailbox<{ process: string; change: Change }>();
    const troubles: string[] = [];

    /** Begins to take work with the clock; the fast one has seen the database for long enough to take what is not heard of. */
    async function begin(
      process: string,
      workers: Partial<Workers> = {},
      clock: Pick<Clock, "sleep" | "now" | "date"> = createFastClock(),
    ) {
      const opened = await open(url, {
        process,
        clock,
        reportProblem: (what, error) => void troubles.push(`${what}: ${error}`),
      });
      const { store } = opened;
      const stop = new AbortController();
      const held = new Set<string>();
      const deliver = async (delivery: Delivery) => {
        delivered.put({ process, delivery });
        await store.recordAttempt(delivery.id, attempt("HTTP 204", { delivered: true }), null);
      };
      const { room = () => 50, ...own } = workers;
      const look = async () => {
        const limit = Math.max(0, room());
        const begun = await store.claim({ kind: "begun", engines: ["http://gpu-1"] }, { limit, except: [...held] });
        for (const claim of [...begun, ...(await store.claim(wanted, { limit, except: [...held] }))]) {
          held.add(claim.id);
          made.put({ process, claim, end: () => held.delete(claim.id) });
        }
        const query = { now: "", limit: 32, perHost: 32, except: [], hosts: {} };
        for (const delivery of (await store.due(query)).deliveries) await (own.deliver ?? deliver)(delivery);
      };
      const taking = (async () => {
        while (!stop.signal.aborted) {
          await look().catch((error) => Object(error).isUnavailable || troubles.push(String(error)));
          await clock.sleep(500, stop.signal).catch(() => {});
        }
      })();
      store.listen((change) => changes.put({ process, change }));
      /** As a service does: what is made stops, and what has not ended is released. */
      const close = async () => {
        if (stop.signal.aborted) return;
        stop.abort();
        await taking;
        for (const id of held) await store.release(id).catch(() => {});
      };
      onTestFinished(close);
      return { ...opened, close };
    }

    const { store } = await open(url);
    await store.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 1_000 });
    const start = async () => {
      const generation = newGeneration();
      await store.start(generation, cost, undefined);
      return generation;
    };
    const finish = async (generation: StoredGeneration, next_at = new Date().toISOString()) => {
      const delivery = newDelivery(randomUUID(), generation.id, next_at);
      await store.finish(generation.id, completed, delivery);
      return delivery;
    };
    /** As if the holders had not been heard of for long. */
    const forget = () =>
      query(url, "UPDATE vidgen.generations SET held_until = now() - interval '1 s' WHERE held_until IS NOT NULL");
    onTestFinished(() => expect(troubles).toEqual([]));
    return { url, store, begin, start, finish, forget, made, delivered, changes, troubles };
  }

  test("each generation is made and ended by one process", async () => {
    const { store, begin, start, made, changes } = await createProcesses();
    const ids = (await Promise.all(Array.from({ length: 40 }, start))).map(({ id }) => id);
    const processes = await Promise.all([begin("a", { room: () => 3 }), begin("b", { room: () => 3 })]);
    const stores: Record<string, Store> = { a: processes[0].store, b: processes[1].store };
    for (let i = 0; i < 40; i++) {
      const { process, claim, end } = (await made.until(i + 1))[i] as Made;
      expect(await stores[process]?.finish(claim.id, completed)).toBe(true);
      end();
    }
    expect(made.all.map(({ claim }) => claim.id).sort()).toEqual(ids.sort());
    expect(new Set(made.all.map(({ process }) => process))).toEqual(new Set(["a", "b"]));
    expect(await store.totals({})).toMatchObject({ counts: { completed: 40 } });
    for (const process of ["a", "b"]) {
      const told = await changes.until((each) => each.process === process);
      expect(told.length).toBeGreaterThan(0);
    }
  });

  test("processes that claim at the same time get different generations, and as many as they asked for", async () => {
    const { url, store } = await createProcesses();
    const accounts = Array.from({ length: 40 }, (_, index) => `account-${index}`);
    for (const name of accounts) await store.addAccount({ name, keyHash: name, creditsOf: () => 1_000 });
    const starts = accounts.flatMap((account) => Array.from({ length: 5 }, () => newGeneration({ account })));
    await Promise.all(starts.map((generation) => store.start(generation, cost, undefined)));
    const stores = await Promise.all(["a", "b", "c", "d"].map(async (process) => (await open(url, { process })).store));
    const claimed = await Promise.all(
      stores.map(async (each) => {
        const claims: Claim[][] = [];
        for (let round = 0; round < 10; round++) claims.push(await each.claim(wanted, { limit: 5, except: [] }));
        return claims;
      }),
    );
    expect(claimed.flat().map((claims) => claims.length)).toEqual(Array.from({ length: 40 }, () => 5));
    expect(new Set(claimed.flat(2).map(({ id }) => id)).size).toBe(200);
  });

  const slot = { engine: "http://gpu-1", max: 5 };
  const ofSlot = { ...wanted, slot };
  const submitted = { state: "submitted", job: "1", engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" } as const;
  const submitting = { state: "submitting", engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" } as const;

  /** Stores of processes that have seen the database for long, and do not say that they go on; so many generations wait. */
  async function openWaiting(count: number, processes: readonly string[]) {
    const { url, start, forget } = await createProcesses();
    await Promise.all(Array.from({ length: count }, start));
    let aheadMs = 0;
    const clock = { now: () => systemClock.now() + aheadMs, date: systemClock.date, sleep: never };
    const stores = await Promise.all(processes.map(async (process) => (await open(url, { process, clock })).store));
    aheadMs = 60_000;
    const taken = async () => (await stores.at(-1)?.slots?.())?.get(slot.engine) ?? 0;
    return { url, stores, forget, taken };
  }

  test("simultaneous claims take exactly the slots that an engine has", async () => {
    const processes = ["a", "b", "c", "d"];
    const { stores, taken } = await openWaiting(60, processes);
    for (let round = 0; round < 6; round++) {
      const claimed = await Promise.all(stores.map((store) => store.claim(ofSlot, { limit: 4, except: [] })));
      expect(claimed.flat()).toHaveLength(slot.max);
      expect(await taken()).toBe(slot.max);
      // Another engine has slots of its own.
      const [other] = await (stores[round % 4] as Store).claim(
        { ...wanted, slot: { engine: "http://gpu-2", max: 1 } },
        { limit: 4, except: [] },
      );
      expect(other).toBeDefined();
      const ends = claimed.flatMap((claims, index) => claims.map(({ id }) => stores[index]?.finish(id, completed)));
      await Promise.all([...ends, stores[round % 4]?.finish(other?.id ?? "", completed)]);
    }
  });

  test("a generation that was or may be submitted keeps its slot when its process ends; another one frees its slot", async () => {
    const { stores, forget, taken } = await openWaiting(9, ["dead", "b"]);
    const [dead, b] = stores as [Store, Store];
    const claimed = await dead.claim(ofSlot, { limit: 9, except: [] });
    expect(claimed).toHaveLength(5);
    await dead.keepCheckpoint(claimed[0]?.id ?? "", submitted);
    await dead.keepCheckpoint(claimed[1]?.id ?? "", submitting);
    expect(await b.claim(ofSlot, { limit: 9, except: [] })).toEqual([]);
    await forget();
    expect(await taken()).toBe(2);
    // The slots of those that nobody submitted come back, for the same ones first.
    const again = await b.claim(ofSlot, { limit: 9, except: [] });
    expect(again.map(({ id }) => id)).toEqual(claimed.slice(2).map(({ id }) => id));
    expect(await taken()).toBe(5);
    const begun = await b.claim({ kind: "begun", engines: ["http://gpu-1"] }, { limit: 9, except: [] });
    expect(begun.map(({ id }) => id)).toEqual(claimed.slice(0, 2).map(({ id }) => id));
    expect(await taken()).toBe(5);
    for (const { id } of begun) await b.finish(id, completed);
    expect(await b.claim(ofSlot, { limit: 9, except: [] })).toHaveLength(2);
  });

  test("a process that lost the database for a while keeps its slots", async () => {
    const { url, stores, forget } = await openWaiting(9, ["a"]);
    const [a] = stores as [Store];
    expect(await a.claim(ofSlot, { limit: 9, except: [] })).toHaveLength(5);
    await forget();
    // It has just reached the database again, as the other one may have.
    const { store: b } = await open(url, { process: "b" });
    expect(await b.claim(ofSlot, { limit: 9, except: [] })).toEqual([]);
  });

  test("a freed slot goes to another generation, and a released generation frees its slot", async () => {
    const { stores, taken } = await openWaiting(9, ["a", "b"]);
    const [a, b] = stores as [Store, Store];
    const [first, second, third] = await a.claim(ofSlot, { limit: 5, except: [] });
    await a.keepCheckpoint(first?.id ?? "", submitted);
    await b.freeSlot(first?.id ?? "");
    expect(await taken()).toBe(5);
    await a.freeSlot(first?.id ?? "");
    await a.release(second?.id ?? "");
    expect(await taken()).toBe(3);
    await a.keepCheckpoint(third?.id ?? "", submitted);
    await a.release(third?.id ?? "");
    expect(await taken()).toBe(3);
    expect(await b.claim(ofSlot, { limit: 5, except: [] })).toHaveLength(2);
    expect(await taken()).toBe(5);
  });

  test("what one process has fetched any process may make, and nothing that another has claimed for fetching", async () => {
    const { url, store } = await createProcesses();
    const request = { ...newGeneration().request, images: ["https://images.example/a.png"] };
    const waiting = newGeneration({ request });
    await store.start(waiting, cost, undefined);
    const [a, b] = await Promise.all(["a", "b"].map(async (process) => (await open(url, { process })).store));
    const fetchFirst = { limit: 1, except: [] };
    const claims = await Promise.all([a, b].map((each) => each?.claim({ ...wanted, kind: "fetch" }, fetchFirst)));
    expect(claims.flatMap((found) => found?.map(({ id }) => id) ?? [])).toEqual([waiting.id]);
    const [holder, other] = claims[0]?.length ? [a, b] : [b, a];
    await expect(other?.keepImageFetch(waiting.id, { files: ["images/1"] })).rejects.toThrow(waiting.id);
    await holder?.keepImageFetch(waiting.id, { files: ["images/1"] });
    expect(await other?.claim(ofSlot, fetchFirst)).toEqual([]);
    await holder?.release(waiting.id);
    expect(await other?.claim(ofSlot, fetchFirst)).toMatchObject([{ id: waiting.id }]);
    expect((await other?.generation(waiting.id))?.imageFetch).toEqual({ files: ["images/1"] });
    await expect(holder?.keepCheckpoint(waiting.id, submitted)).rejects.toThrow(waiting.id);
  });

  test("the accounts take turns over all processes", async () => {
    const { url, store } = await createProcesses();
    const accounts = ["local", "b", "c"];
    for (const name of accounts.slice(1)) await store.addAccount({ name, keyHash: name, creditsOf: () => 1_000 });
    for (const account of ["local", "local", "local", "local", "local", "b", "b", "c", "c"])
      await store.start(newGeneration({ account }), cost, undefined);
    const stores = await Promise.all(["a", "b", "c"].map(async (process) => (await open(url, { process })).store));
    const turns: (string | undefined)[] = [];
    for (let index = 0; index < 9; index++) {
      const [claimed] =
        (await stores[index % 3]?.claim({ ...ofSlot, slot: { ...slot, max: 9 } }, { limit: 1, except: [] })) ?? [];
      turns.push(claimed?.account);
    }
    expect(turns).toEqual([...accounts, ...accounts, "local", "local", "local"]);
  });

  test("a process claims no more than it has room for, oldest first", async () => {
    const { begin, start, made } = await createProcesses();
    const all = [await start(), await start(), await start()];
    const clock = createFastClock();
    let room = 2;
    await begin("a", { room: () => room - made.all.length }, clock);
    await made.until(2);
    await clock.looks(3);
    expect(made.all.map(({ claim }) => claim.id)).toEqual(all.slice(0, 2).map(({ id }) => id));
    room = 3;
    expect((await made.until(3))[2]?.claim.id).toEqual(all[2]?.id);
  });

  test("a process keeps its generations as long as it renews them; when it closes, others get them", async () => {
    const { store, begin, start, made } = await createProcesses();
    const clock = createFastClock();
    const { id } = await start();
    const a = await begin("a");
    await made.until(1);
    await begin("b", {}, clock);
    const checkpoint = {
      state: "submitted",
      job: "1",
      engine: "http://gpu-1",
      at: "2026-01-01T00:00:30.000Z",
    } as const;
    await a.store.keepCheckpoint(id, checkpoint);
    await clock.looks(30);
    expect(made.all).toHaveLength(1);
    const before = performance.now();
    await a.close();
    const [, again] = await made.until(2);
    expect(performance.now() - before).toBeLessThan(3_000);
    expect(again).toMatchObject({ process: "b", claim: { id } });
    expect((await store.generation(id))?.checkpoint).toEqual(checkpoint);
    expect(again?.claim.lost.aborted).toBe(false);
    expect(await store.totals({})).toMatchObject({ counts: { running: 1 } });
  });

  test("a process that did not renew its claims has lost its generations: it is told, and its changes are refused", async () => {
    const { store, begin, start, forget, made } = await createProcesses();
    const generation = await start();
    const { id } = generation;
    const clock = createFastClock();
    const a = await begin("a", {}, clock);
    const [first] = await made.until(1);
    clock.suspend();
    const b = await begin("b", { room: () => 1 });
    await forget();
    const [, second] = await made.until(2);
    expect(second).toMatchObject({ process: "b", claim: { id } });
    await expect(a.store.keepCheckpoint(id, null)).rejects.toThrow(id);
    expect(await a.store.finish(id, completed, newDelivery("of a", id))).toBe(false);
    expect(await store.generation(id)).toStrictEqual(generation);
    expect(first?.claim.lost.aborted).toBe(false);
    const told = new Promise((resolve) => first?.claim.lost.addEventListener("abort", resolve));
    clock.resume();
    await told;
    expect(String(first?.claim.lost.reason)).toContain("another process");
    first?.end();
    await clock.looks(3);
    expect(await b.store.finish(id, completed, newDelivery("of b", id))).toBe(true);
    expect(second?.claim.lost.aborted).toBe(false);
    expect(await store.deliveries({ limit: 9 })).toMatchObject([{ id: "of b" }]);
    expect(made.all).toHaveLength(2);
  });

  test("a change that waits for a busy account delays no claim, neither of its own generation nor of others", async () => {
    const { url, store, begin, start, made } = await createProcesses();
    const { id } = await start();
    await start();
    const a = await begin("a");
    await made.until(2);
    const other = new pg.Client(url);
    await other.connect();
    onTestFinished(() => other.end());
    await other.query("BEGIN; SELECT FROM vidgen.accounts WHERE name = 'local' FOR UPDATE");
    const submitting = { state: "submitting", engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" } as const;
    const kept = a.store.keepCheckpoint(id, submitting);
    const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    await expect.poll(() => query(url, waiting)).not.toEqual([]);
    const [row] = await query(url, "SELECT now()::text AS at");
    const renewed = `SELECT FROM vidgen.generations WHERE held_until > '${row?.at}'::timestamptz + interval '12 s'`;
    await expect.poll(() => query(url, renewed), { timeout: 5_000 }).toHaveLength(2);
    await other.query("COMMIT");
    await kept;
    expect((await store.generation(id))?.checkpoint).toEqual(submitting);
  });

  test("a generation that another session has locked delays no other claim, and is not lost", async () => {
    const { url, begin, start, made } = await createProcesses();
    const { id } = await start();
    await start();
    await begin("a");
    await made.until(2);
    const other = new pg.Client(url);
    await other.connect();
    onTestFinished(() => other.end());
    await other.query(`BEGIN; SELECT FROM vidgen.generations WHERE id = '${id}' FOR UPDATE`);
    const [row] = await query(url, "SELECT now()::text AS at");
    const renewed = `SELECT FROM vidgen.generations WHERE held_until > '${row?.at}'::timestamptz + interval '12 s'`;
    await expect.poll(() => query(url, renewed), { timeout: 7_000 }).toHaveLength(1);
    await other.query("COMMIT");
    await expect.poll(() => query(url, renewed), { timeout: 7_000 }).toHaveLength(2);
    expect(made.all.map(({ claim }) => claim.lost.aborted)).toEqual([false, false]);
  });

  test("a claim is confirmed only while no other process can have it, so that a suspended process sends nothing", async () => {
    const { url, start } = await createProcesses();
    const { id } = await start();
    let pausedMs = 0;
    const clock = { now: () => systemClock.now() + pausedMs, date: systemClock.date, sleep: never };
    const { store } = await open(url, { process: "a", clock });
    const [claim] = await store.claim(wanted, { limit: 1, except: [] });
    expect(claim?.id).toBe(id);
    expect(claim?.confirm).not.toThrow();
    pausedMs = 10_000;
    expect(claim?.confirm).toThrow("another process may have taken over this generation");
  });

  test("a generation that another process has had since is not changed, even if that process has released it", async () => {
    const { store, begin, start, forget, made } = await createProcesses();
    const { id } = await start();
    const clock = createFastClock();
    const a = await begin("a", { room: () => 1 }, clock);
    await made.until(1);
    clock.suspend();
    const b = await begin("b", { room: () => 1 - made.all.filter(({ process }) => process === "b").length });
    await forget();
    await made.until(2);
    await b.store.release(id);
    const submitting = { state: "submitting", engine: "http://gpu-1", at: "2026-01-01T00:00:30.000Z" } as const;
    await expect(a.store.keepCheckpoint(id, submitting)).rejects.toThrow(id);
    expect((await store.generation(id))?.checkpoint).toBeNull();
  });

  test("the generations of a dead process are taken over within 30 s", async () => {
    const { begin, start, made } = await createProcesses();
    const dying = createFastClock();
    await begin("dead", {}, dying);
    const ids = (await Promise.all([start(), start(), start()])).map(({ id }) => id);
    await made.until(3);
    dying.suspend();
    const died = performance.now();
    await begin("b", {}, systemClock);
    const taken = (await made.until(6)).slice(3);
    expect(performance.now() - died).toBeLessThan(30_000);
    expect(taken.map(({ process }) => process)).toEqual(["b", "b", "b"]);
    expect(taken.map(({ claim }) => claim.id).sort()).toEqual(ids.sort());
  });

  test.each(["closed", "died"])("what a process made that has %s is made before what nobody has begun", async (how) => {
    const { begin, start, forget, made } = await createProcesses();
    const begun = await start();
    const clock = createFastClock();
    const a = await begin("a", { room: () => 1 - made.all.length }, clock);
    await made.until(1);
    await start();
    await start();
    let room = 0;
    const others = createFastClock();
    await begin("b", { room: () => room }, others);
    await others.looks(40);
    if (how === "closed") await a.close();
    else clock.suspend();
    if (how === "died") await forget();
    room = 1;
    expect((await made.until(2))[1]).toMatchObject({ process: "b", claim: { id: begun.id } });
  });

  test("a callback is delivered once", async () => {
    const { begin, start, finish, delivered } = await createProcesses();
    const [a, b] = [createFastClock(), createFastClock()];
    await Promise.all([begin("a", { room: () => 0 }, a), begin("b", { room: () => 0 }, b)]);
    const due = await Promise.all(Array.from({ length: 20 }, async () => finish(await start())));
    const sent = await delivered.until(20);
    await Promise.all([a.looks(3), b.looks(3)]);
    expect(sent.map(({ delivery }) => delivery.id).sort()).toEqual(due.map(({ id }) => id).sort());
    expect(sent[0]?.delivery).toMatchObject({ url: "https://hook.example/", attempts: 0 });
  });

  const hourMs = 3_600_000;
  test.each([0, -hourMs, hourMs])(
    "a failed callback is attempted again when due, and when it is resent, under a clock that is %i ms ahead",
    async (aheadMs) => {
      const { begin, start, finish } = await createProcesses();
      const attempts = createMailbox<{ at: number; delivery: Delivery }>();
      const generation = await start();
      const { id } = await finish(generation);
      const date = () => new Date(Date.now() + aheadMs);
      // The service's times are those of the database, whose clock is right here.
      let next_at: string | null = new Date(Date.now() + 1_500).toISOString();
      const deliver = async (delivery: Delivery) => {
        attempts.put({ at: Date.now(), delivery });
        const { store } = await opened;
        await store.recordAttempt(id, attempt("HTTP 500"), next_at);
      };
      const clock = { ...createFastClock(), date };
      const opened = begin("a", { deliver }, clock);
      await attempts.until(1);
      const dueAt = next_at;
      next_at = null;
      const [, second] = await attempts.until(2);
      expect(second?.delivery).toMatchObject({ id, attempts: 1, next_at: dueAt });
      // The difference is measured to a few milliseconds.
      expect(second?.at).toBeGreaterThanOrEqual(Date.parse(dueAt) - 100);
      await clock.looks(3);
      expect(attempts.all).toHaveLength(2);
      const { store } = await opened;
      await store.resend(generation.id, new Date().toISOString());
      expect((await attempts.until(3))[2]?.delivery).toMatchObject({ id, attempts: 2 });
    },
  );

  test("a callback whose process ended during the attempt is attempted by another process after 20 s", async () => {
    const { url, begin, start, finish, delivered } = await createProcesses();
    const attempts = createMailbox<string>();
    const { id } = await finish(await start());
    const dying = createFastClock();
    await begin("dead", { deliver: async (delivery) => attempts.put(delivery.id) }, dying);
    await attempts.until(1);
    dying.suspend();
    const [row] = await query(url, "SELECT due_at - now() > interval '15 s' AS is_held FROM vidgen.deliveries");
    expect(row).toEqual({ is_held: true });
    await query(url, "UPDATE vidgen.deliveries SET due_at = now()");
    await begin("b");
    expect((await delivered.until(1))[0]).toMatchObject({ process: "b", delivery: { id, attempts: 0 } });
  });

  test("every process is told of every change, even of changes that are not in the database", async () => {
    const { begin, start, finish, changes } = await createProcesses();
    const [a] = [await begin("a", { room: () => 0 }), await begin("b", { room: () => 0 })];
    // What is told before a process listens is missed.
    const isListening = (process: string) => changes.until((each) => each.process === process);
    const progress = { kind: "progress", id: "1", percent: 7, account: "local" } as const;
    const ring = new AbortController();
    onTestFinished(() => ring.abort());
    void (async () => {
      while (!ring.signal.aborted) {
        a.store.publish(progress);
        await systemClock.sleep(50);
      }
    })();
    await Promise.all([isListening("a"), isListening("b")]);
    ring.abort();
    const generation = await start();
    await finish(generation);
    for (const process of ["a", "b"])
      for (const change of [
        progress,
        { kind: "credits", account: "local" },
        { kind: "generation", id: generation.id, account: "local" },
      ])
        await changes.until((each) => each.process === process && isDeepStrictEqual(each.change, change));
  });

  test.each(["SIGINT", "SIGKILL"] as const)(
    "after a %s of PostgreSQL all goes on: what a live process makes stays its own, and what was asked for meanwhile was refused",
    async (signal) => {
      const { store, begin, start, forget, made, delivered, troubles } = await createProcesses();
      const generation = await start();
      const a = await begin("a", {}, systemClock);
      await made.until(1);
      // The other one has seen the database for long, until it is away.
      let ahead = 0;
      const clock = { ...createFastClock(), now: () => systemClock.now() + ahead };
      await begin("b", {}, clock);
      ahead = 60_000;
      await server().stop(signal);
      await clock.looks(2);
      const refused = newGeneration();
      await expect(store.start(refused, cost, undefined)).rejects.toMatchObject({ isUnavailable: true });
      await expect(store.generation(generation.id)).rejects.toMatchObject({ isUnavailable: true });
      await server().start();
      await forget();
      expect(await store.generation(refused.id)).toBeUndefined();
      expect(await store.balance("local")).toBe(990);
      await clock.looks(10);
      expect(made.all).toHaveLength(1);
      expect(made.all[0]?.claim.lost.aborted).toBe(false);
      expect(await a.store.finish(generation.id, completed, newDelivery("1", generation.id))).toBe(true);
      await start();
      expect((await delivered.until(1))[0]?.delivery.id).toBe("1");
      await made.until(2);
      // The other process has looked for work meanwhile; this one may not have.
      const told = troubles.splice(0).map((text) => text.split(":")[0]);
      expect(new Set(told)).toEqual(new Set(["The database cannot be reached"]));
      expect(told.length).toBeLessThanOrEqual(2);
    },
  );
});
