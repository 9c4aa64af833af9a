import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import fs, {
  chmodSync,
  closeSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import sqlite from "node-sqlite3-wasm";
import { expect, onTestFinished, test } from "vitest";
import type { ReportProblem } from "../../../../src/server/observe/problem.ts";
import type { StoredGeneration } from "../../../../src/server/store/generations.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../../src/server/store/store.ts";
import { compile } from "../../../compiled.ts";
import { makeFolder } from "../../../folder.ts";
import { lacks } from "../../../needs.ts";
import {
  attempt,
  completed,
  cost,
  failed,
  findPending,
  findUnfinished,
  newDelivery,
  newGeneration,
  setCredits,
} from "../records.ts";

async function open(file = ":memory:", reportProblem?: ReportProblem): Promise<Store> {
  const store = await openStore(file, reportProblem && { reportProblem });
  onTestFinished(() => store.close().catch(() => {}));
  return store;
}

/** A store with the account "local", which has these credits. */
async function openWith(credits: number, file?: string, reportProblem?: ReportProblem): Promise<Store> {
  const store = await open(file, reportProblem);
  await store.addAccount({ name: "local", keyHash: "hash", creditsOf: () => credits });
  return store;
}

const newFile = async () => join(makeFolder(), "service.db");

/** The file as another program sees it. */
function inspect<T>(file: string, use: (database: InstanceType<typeof sqlite.Database>) => T): T {
  const database = new sqlite.Database(file);
  try {
    database.exec("PRAGMA locking_mode = EXCLUSIVE");
    return use(database);
  } finally {
    database.close();
  }
}

const edit = (file: string, sql: string) => inspect(file, (database) => database.exec(sql));

/** Everything that a store tells. */
async function tell(store: Store, ids: string[]) {
  return {
    account: await store.account("hash"),
    balance: await store.balance("local"),
    generations: await Promise.all(ids.map((id) => store.generation(id))),
    unfinished: await findUnfinished(store),
    deliveries: await findPending(store),
  };
}

test("what was written is there for whoever opens the file next", async () => {
  const file = await newFile();
  const store = await openWith(100, file);
  const all = Array.from({ length: 4 }, (_, i) => newGeneration({ id: `id ${9 - i}` }));
  for (const each of all) await store.start(each, cost, undefined);
  const [a, b, c, d] = all as [StoredGeneration, StoredGeneration, StoredGeneration, StoredGeneration];
  await store.finish(b.id, completed, newDelivery("b", b.id, "2026-01-01T00:02:00.000Z"));
  await store.finish(c.id, failed, newDelivery("c", c.id));
  await store.recordAttempt("b", attempt("HTTP 500"), "2026-01-01T00:05:00.000Z");
  const ids = all.map(({ id }) => id);
  const before = await tell(store, ids);
  expect(before).toStrictEqual({
    account: "local",
    balance: 60,
    generations: [a, { ...b, ...completed }, { ...c, ...failed }, d],
    unfinished: [a, d],
    deliveries: [newDelivery("c", c.id), { ...newDelivery("b", b.id, "2026-01-01T00:05:00.000Z"), attempts: 1 }],
  });
  await store.close();
  expect(await tell(await open(file), ids)).toStrictEqual(before);
});

test("simultaneous changes are made in the order of their calls", async () => {
  const store = await openWith(100);
  const twice = newGeneration();
  const start = (generation = newGeneration()) => store.start(generation, cost, undefined);
  const outcomes = await Promise.allSettled([start(), start(twice), start(twice), start()]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  const values = outcomes.map((each) => each.status === "fulfilled" && each.value);
  expect(values).toMatchObject([
    { remaining_credits: 90 },
    { remaining_credits: 80 },
    false,
    { remaining_credits: 70 },
  ]);
  await Promise.all([start(), start(), setCredits(store, "local", 500), start()]);
  expect(await store.balance("local")).toBe(490);
});

test("a callback is pending until no attempt is planned, and again when it is resent", async () => {
  const store = await openWith(100);
  const generation = newGeneration();
  await store.start(generation, cost, undefined);
  const delivery = newDelivery("1", generation.id);
  await store.finish(generation.id, completed, delivery);
  await store.recordAttempt("1", attempt("HTTP 500"), "2026-01-01T00:03:00.000Z");
  const next_at = "2026-01-01T00:09:00.000Z";
  await store.recordAttempt("1", attempt("HTTP 503"), next_at);
  expect(await findPending(store)).toEqual([{ ...delivery, attempts: 2, next_at }]);
  await store.recordAttempt("1", attempt("HTTP 204", { delivered: true }), null);
  expect(await findPending(store)).toEqual([]);
  const due = { ...delivery, attempts: 3, next_at };
  expect(await store.resend(generation.id, next_at)).toEqual(due);
  expect(await findPending(store)).toEqual([due]);
});

test("a callback is also due when the clock was set back", async () => {
  const store = await openWith(100);
  const generation = newGeneration();
  await store.start(generation, cost, undefined);
  await store.finish(generation.id, completed, newDelivery("1", generation.id, "2026-01-01T12:00:00.000Z"));
  const dueAt = async (now: string) => {
    const { deliveries } = await store.due({ now, limit: 9, perHost: 9, except: [], hosts: {} });
    return deliveries.length;
  };
  const setBack = "2026-01-01T11:00:00.000Z";
  expect(await dueAt(setBack)).toBe(1);
  const failed = attempt("HTTP 500", { at: "2026-01-01T12:00:00.000Z" });
  await store.recordAttempt("1", failed, "2026-01-01T13:00:00.000Z");
  expect([await dueAt("2026-01-01T12:59:59.000Z"), await dueAt(setBack)]).toEqual([0, 1]);
  await store.recordAttempt("1", { ...failed, at: setBack }, null);
  expect(await dueAt(setBack)).toBe(0);
});

// The file.

test.skipIf(lacks("file modes")).each([
  ["a new file is for the owner's eyes alone", undefined, 0o600],
  ["a file that was there keeps its mode", 0o644, 0o644],
])("%s, and what is written beside it is for the owner's", async (_, before, after) => {
  const file = await newFile();
  if (before !== undefined) writeFileSync(file, "");
  if (before !== undefined) chmodSync(file, before);
  await openWith(100, file);
  const files = readdirSync(join(file, "..")).filter((name) => !name.endsWith(".lock"));
  expect(files.map((name) => [name, statSync(join(file, "..", name)).mode & 0o777])).toEqual([
    ["service.db", after],
    ["service.db-wal", 0o600],
  ]);
});

/** What SQLite leaves beside the file when its process is killed. */
const leaveLock = (file: string) => mkdirSync(`${file}.lock`);

test("the lock of a killed process does not prevent opening", async () => {
  const file = await newFile();
  await (await openWith(100, file)).close();
  leaveLock(file);
  expect(await (await open(file)).balance("local")).toBe(100);
});

test("the log does not grow without limit while reads continue between the starts", async () => {
  const file = await newFile();
  const store = await openWith(10_000, file);
  for (let i = 0; i < 300; i++) {
    const generation = newGeneration();
    await store.start(generation, cost, { key: generation.id, body: "{}" });
    await store.generation(generation.id);
    await store.account("hash");
  }
  expect(statSync(`${file}-wal`).size).toBeLessThan(6_000_000);
});

/** Changes a file and expects that it is refused as it is. */
async function expectRefusal(file: string, said: string | RegExp): Promise<void> {
  const bytes = readFileSync(file);
  await expect(openStore(file)).rejects.toThrow(said);
  await expect(openStore(file)).rejects.toThrow(file);
  expect(readFileSync(file).equals(bytes)).toBe(true);
}

async function closedFile(): Promise<string> {
  const file = await newFile();
  const store = await openWith(1_000, file);
  await Promise.all(Array.from({ length: 50 }, () => store.start(newGeneration(), cost, undefined)));
  await store.close();
  return file;
}

test("the file has the hash of an idempotency key, not the key", async () => {
  const file = await newFile();
  const store = await openWith(100, file);
  const secret = "a-key-that-nobody-else-knows";
  await store.start(newGeneration(), cost, { key: secret, body: `{"prompt":"${secret}"}` });
  await store.close();
  expect(readFileSync(file).includes(secret)).toBe(false);
  expect(readFileSync(file).includes(hash("sha256", secret))).toBe(true);
});

test("a newer vidgen's database is refused", async () => {
  const file = await closedFile();
  edit(file, "PRAGMA user_version = 99");
  await expectRefusal(file, /version 99.*use a newer vidgen/);
});

test("another program's database is refused", async () => {
  const file = await newFile();
  edit(file, "CREATE TABLE bookmarks (url TEXT)");
  await expectRefusal(file, "another program");
});

test("a file that is not a database is refused", async () => {
  const file = await newFile();
  writeFileSync(file, "my notes\n".repeat(1_000));
  await expectRefusal(file, "not a database");
});

test("after a crash, a damaged database is refused", async () => {
  const file = await closedFile();
  leaveLock(file);
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xff, 5 * 4096, 6 * 4096));
  await expectRefusal(file, "damaged");
});

test.each([
  ["a balance that is not the sum of its rows", "UPDATE accounts SET balance = balance + 1", "not to 501"],
  [
    "a debit that is missing",
    "DROP TRIGGER ledger_deleted; DELETE FROM ledger WHERE generation = 7",
    "sums up to 510 credits, not to 500",
  ],
])(
  "%s is refused after a crash; a file that was closed is not checked, so that a command does not wait for it",
  async (_, sql, said) => {
    const file = await closedFile();
    edit(file, sql);
    await (await open(file)).close();
    leaveLock(file);
    await expectRefusal(file, said);
  },
);

test.each([
  ["changed", "UPDATE ledger SET amount = 0 WHERE number = 2", "only added to"],
  ["deleted", "DELETE FROM ledger WHERE number = 2", "only added to"],
  [
    "paid twice",
    "INSERT INTO ledger (account, amount, reason, at, generation) VALUES ('local', -10, 'start', '', 1)",
    "UNIQUE",
  ],
  ["made without credits", "UPDATE accounts SET balance = balance - 501", "CHECK"],
  ["of no account", "INSERT INTO ledger (account, amount, reason, at) VALUES ('nobody', 1, 'x', '')", "FOREIGN KEY"],
])("the database itself refuses a debit that is %s", async (_, sql, said) => {
  const file = await closedFile();
  expect(() => edit(file, sql)).toThrow(said);
});

// What goes to the disk, seen where the package calls Node.

type DiskCall = "fsyncSync" | "writeSync";

/** Does `before` ahead of every such call until the test ends. */
function intercept(call: DiskCall, before: () => void): void {
  const original: (...values: never[]) => unknown = fs[call];
  const replace = (value: unknown) => Object.assign(fs, { [call]: value });
  replace((...values: never[]) => {
    before();
    return original(...values);
  });
  onTestFinished(() => void replace(original));
}

test("simultaneous starts share one sync, and none is acknowledged before it", async () => {
  const store = await openWith(1_000, await newFile());
  const events: string[] = [];
  intercept("fsyncSync", () => events.push("sync"));
  const start = async () => {
    await store.start(newGeneration(), cost, undefined);
    events.push("start");
  };
  await Promise.all(Array.from({ length: 32 }, start));
  expect(events).toEqual(["sync", ...Array(32).fill("start")]);
});

test("a change that arrives while another waits for its commit shares the sync", async () => {
  const store = await open(await newFile());
  let syncs = 0;
  intercept("fsyncSync", () => syncs++);
  const added = store.addAccount({ name: "local", keyHash: "hash" });
  await Promise.resolve();
  expect(await store.account("hash")).toBeUndefined();
  await Promise.all([added, setCredits(store, "local", 5)]);
  expect(syncs).toBe(1);
});

/** The files beside a database, except its own. */
function besides(file: string): string[] {
  return readdirSync(dirname(file)).filter((name) => !/^service\.db(-wal)?(\.lock)?$/.test(name));
}

test("several simultaneous copies are complete, and none leaves a file", async () => {
  const file = await newFile();
  const store = await openWith(1_000, file);
  await store.start(newGeneration(), cost, undefined);
  const copies = await Promise.all(Array.from({ length: 5 }, () => store.backup?.()));
  for (const copy of copies) {
    const bytes = readFileSync(copy?.fd ?? 0);
    closeSync(copy?.fd ?? 0);
    expect([bytes.length, bytes.toString("latin1", 0, 15)]).toEqual([copy?.size, "SQLite format 3"]);
  }
  expect(besides(file)).toEqual([]);
});

test("a copy is the database at one moment, however much is written meanwhile", async () => {
  const file = await newFile();
  const store = await openWith(100_000, file);
  const before = newGeneration();
  await store.start(before, cost, undefined);
  // More than the log holds before it is written into the file.
  const later = Array.from({ length: 6_000 }, () => newGeneration());
  const original = fs.promises.copyFile;
  const replace = (copyFile: typeof original) => {
    fs.promises.copyFile = copyFile;
    syncBuiltinESMExports();
  };
  onTestFinished(() => replace(original));
  replace(async (...values) => {
    await Promise.all(later.map((generation) => store.start(generation, cost, undefined)));
    return original(...values);
  });
  const copy = await store.backup?.();
  expect((await store.totals({})).counts).toEqual({ queued: 6_001 });
  const other = await newFile();
  writeFileSync(other, readFileSync(copy?.fd ?? 0));
  closeSync(copy?.fd ?? 0);
  expect((await (await open(other)).totals({})).counts).toEqual({ queued: 1 });
});

test("a copy without enough disk space leaves no file, nor does the copy of a killed process", async () => {
  const file = await newFile();
  writeFileSync(`${file}.backup`, "of a process that was killed");
  const store = await openWith(1_000, file);
  expect(besides(file)).toEqual([]);
  for (let count = 0; count < 50; count++) await store.start(newGeneration(), cost, undefined);
  let left = 10;
  intercept("writeSync", () => {
    if (--left < 0) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  });
  await expect(store.backup?.()).rejects.toMatchObject({ isUnavailable: true });
  expect(besides(file)).toEqual([]);
  left = Number.POSITIVE_INFINITY;
  const copy = await store.backup?.();
  expect(readFileSync(copy?.fd ?? 0)).toHaveLength(copy?.size ?? 0);
  closeSync(copy?.fd ?? 0);
});

test.each(["fsyncSync", "writeSync"] as const)(
  "a disk that fails at %s fails the whole commit, and the store goes on",
  async (call) => {
    const file = await newFile();
    const troubles: unknown[] = [];
    const store = await openWith(1_000, file, (what, error) => troubles.push(`${what}: ${error}`));
    let isFull = true;
    intercept(call, () => {
      if (isFull) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    });
    const lost = Array.from({ length: 8 }, () => newGeneration());
    const outcomes = await Promise.allSettled(lost.map((each) => store.start(each, cost, undefined)));
    expect(outcomes).toEqual(
      Array(8).fill({ status: "rejected", reason: expect.objectContaining({ isUnavailable: true }) }),
    );
    await expect(store.check()).rejects.toMatchObject({ isUnavailable: true });
    expect(troubles).toEqual([
      expect.stringMatching(/^The database cannot be written: Error: (the disk|disk|database)/),
    ]);
    expect(await findUnfinished(store)).toEqual([]);
    isFull = false;
    await store.check();
    const kept = newGeneration();
    expect(await store.start(kept, cost, undefined)).toMatchObject({ kind: "started", remaining_credits: 990 });
    await store.close();
    const again = await open(file);
    expect(await findUnfinished(again)).toStrictEqual([kept]);
    expect(await again.balance("local")).toBe(990);
  },
);

test("while the file is removed or replaced, no starts are accepted", async () => {
  const file = await newFile();
  const troubles: unknown[] = [];
  const store = await openWith(100, file, (what, error) => troubles.push(`${what}: ${error}`));
  const start = () => store.start(newGeneration(), cost, undefined);
  const away = { isUnavailable: true, message: expect.stringContaining("was removed or replaced") };
  renameSync(file, `${file}.away`);
  await expect(start()).rejects.toMatchObject(away);
  writeFileSync(file, "");
  await expect(store.check()).rejects.toMatchObject(away);
  expect(troubles).toHaveLength(1);
  renameSync(`${file}.away`, file);
  expect(await start()).toMatchObject({ remaining_credits: 90 });
});

test("a closed database is one file with all changes", async () => {
  const file = await newFile();
  const store = await openWith(100, file);
  const starts = Array.from({ length: 5 }, () => store.start(newGeneration(), cost, undefined));
  await store.close();
  expect(readdirSync(join(file, ".."))).toEqual(["service.db"]);
  await expect(store.start(newGeneration(), cost, undefined)).rejects.toThrow("closed");
  await expect(Promise.all(starts)).resolves.toHaveLength(5);
  expect(await (await open(file)).balance("local")).toBe(50);
});

/** Starts for ever, eight at a time, and says each that was acknowledged. */
const writer = `
import { randomUUID } from "node:crypto";
import { openStore } from "../src/server/store/sqlite/sqlite-store.ts";
const [file, generation] = process.argv.slice(2);
const store = await openStore(file);
await Promise.all(Array.from({ length: 8 }, async () => {
  for (;;) {
    const id = randomUUID();
    await store.start({ ...JSON.parse(generation), id }, ${cost}, { key: id, body: "{}" });
    process.stdout.write(id + "\\n");
    if (Math.random() < 0.5) await store.finish(id, { status: "failed", completed_at: "x", error: "no", media: null, cost: null });
  }
}));
`;

/** Kills a writer once it has said so many, and returns all that it said. */
async function writeUntilKilled(file: string, count: number): Promise<string[]> {
  const argv = [await compile(writer), file, JSON.stringify(newGeneration())];
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    said += text;
    if (said.split("\n").length > count) child.kill("SIGKILL");
  });
  expect(await once(child, "close")).toEqual([null, "SIGKILL"]);
  return said.split("\n").slice(0, -1);
}

const countRows = `SELECT (SELECT count(*) FROM generations) AS generations, (SELECT count(*) FROM idempotency_keys) AS keys,
  (SELECT count(*) FROM ledger WHERE reason = 'start') AS debits, (SELECT sum(amount) FROM ledger) AS sum,
  (SELECT sum(generations) FROM sums WHERE by = 'day') AS started, (SELECT sum(credits) FROM sums WHERE by = 'model') AS paid,
  (SELECT sum(failed) FROM sums WHERE by = 'model') - (SELECT count(*) FROM generations WHERE state = 'failed') AS wrong`;

test("a suspended process that has lost its folder to another process changes nothing in the file, not even when it closes", async () => {
  const file = await newFile();
  let isLost = false;
  const assertFresh = () => {
    if (isLost) throw new Error("another has taken over");
  };
  const suspended = await openStore(file, { lease: { confirm: async () => assertFresh(), assertFresh } });
  await suspended.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 1_000 });
  const claimed = newGeneration();
  await suspended.start(claimed, cost, undefined);
  const wanted = { kind: "new", maxImages: 4, isSimulation: true } as const;
  const [claim] = await suspended.claim({ ...wanted, models: [claimed.request.model] }, { except: [], limit: 1 });
  claim?.confirm();
  isLost = true;
  expect(claim?.confirm).toThrow("another has taken over");
  const next = await open(file);
  const [kept, late] = [newGeneration(), newGeneration()];
  await next.start(kept, cost, undefined);
  await expect(suspended.start(late, cost, undefined)).rejects.toThrow("another has taken over");
  await suspended.close();
  // As it is after a crash of the process that has the folder now.
  const last = await open(file);
  expect([await last.generation(kept.id), await last.generation(late.id)]).toEqual([kept, undefined]);
  expect(await last.balance("local")).toBe(1_000 - 2 * cost);
});

test("a process that is killed again and again loses no acknowledged start, and the ledger adds up", async () => {
  const file = await newFile();
  const credits = 1_000_000;
  await (await openWith(credits, file)).close();
  const acknowledged: string[] = [];
  for (const count of [1, 100, 500]) {
    acknowledged.push(...(await writeUntilKilled(file, count)));
    const store = await openStore(file);
    for (const id of acknowledged) expect(await store.generation(id)).toMatchObject({ id, account: "local" });
    const replay = await store.start(newGeneration(), cost, { key: acknowledged.at(-1) ?? "", body: "{}" });
    expect(replay).toMatchObject({ replayed: true, generation: { id: acknowledged.at(-1) } });
    const balance = await store.balance("local");
    await store.close();
    const counts = inspect(file, (database) => database.get(countRows));
    const generations = (credits - balance) / cost;
    expect(generations).toBeGreaterThanOrEqual(acknowledged.length);
    const summed = { started: generations, paid: credits - balance, wrong: 0 };
    expect(counts).toEqual({ generations, keys: generations, debits: generations, sum: balance, ...summed });
  }
});
