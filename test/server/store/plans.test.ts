import { expect, onTestFinished, test } from "vitest";
import { createDeliveryReads } from "../../../src/server/store/reads/deliveries.ts";
import { createGenerationReads } from "../../../src/server/store/reads/generations.ts";
import { createLedgerReads } from "../../../src/server/store/reads/ledger.ts";
import { maxScanned } from "../../../src/server/store/search.ts";
import { createClaims } from "../../../src/server/store/sqlite/claims.ts";
import { type Database, openDatabase } from "../../../src/server/store/sqlite/database.ts";
import { findDue } from "../../../src/server/store/sqlite/due.ts";
import { migrate } from "../../../src/server/store/sqlite/migrations.ts";
import { createReader } from "../../../src/server/store/sqlite/reader.ts";

// What /metrics asks a database, and the loop that takes work: only what has not ended is read, by an index, however many rows there are.

const wanted = {
  kind: "new",
  models: ["sora-2"],
  maxImages: 1,
  isSimulation: false,
} as const;

/** A database, and the plans of what is asked of it. */
async function watch() {
  const database = await openDatabase(":memory:");
  migrate(database);
  const plans: string[] = [];
  const explain = (sql: string, values: Parameters<Database["all"]>[1][]) =>
    plans.push(
      database
        .all(`EXPLAIN QUERY PLAN ${sql}`, ...values)
        .map(({ detail }) => detail)
        .join("; "),
    );
  const watched: Database = {
    ...database,
    all(sql, ...values) {
      explain(sql, values);
      return database.all(sql, ...values);
    },
    get(sql, ...values) {
      explain(sql, values);
      return database.get(sql, ...values);
    },
  };
  onTestFinished(() => database.close());
  return { plans, watched };
}

test("SQLite reads waiting generations by the indexes of unfinished ones", async () => {
  const { plans, watched } = await watch();
  const claims = createClaims(watched, { assertFresh() {} });
  claims.waiting({ except: [] });
  claims.find({ kind: "begun", engines: [] }, { except: [], limit: 1 });
  claims.find(wanted, { except: [], limit: 1 });
  await createDeliveryReads(createReader(watched)).pendingCallbacks();
  expect(plans).toEqual([
    expect.stringMatching(/^SCAN generations USING COVERING INDEX unfinished;/),
    expect.stringMatching(/^SCAN generations USING INDEX begun;/),
    expect.not.stringMatching(/SCAN generations/),
    expect.stringMatching(/^SEARCH deliveries USING COVERING INDEX deliveries_by_state /),
  ]);
});

test("SQLite reads only the callbacks of each host that may be attempted", async () => {
  const { plans, watched } = await watch();
  findDue(watched, { now: "2026-01-01T00:00:00.000Z", limit: 9, perHost: 4, except: [], hosts: {} });
  const [due, next] = plans;
  expect(due).toContain("INDEX pending_by_host (host=? AND is_retry=? AND next_at>? AND next_at<?)");
  expect(due).toContain("INDEX planned_by_host (host=? AND is_retry=? AND planned_at>?)");
  expect(due).not.toContain("SCAN deliveries");
  // Not the whole list of hosts for each host.
  expect(due).toContain("SEARCH rooms USING AUTOMATIC");
  expect(next).toMatch(/^SEARCH deliveries USING COVERING INDEX pending /);
});

test("SQLite reads the queue of a model once for a list, however many entries wait", async () => {
  const { plans, watched } = await watch();
  watched.exec(`INSERT INTO accounts (name) VALUES ('local');
    INSERT INTO generations (id, account, status, state, created_at, model, asked, result)
    SELECT value, 'local', 'processing', 'queued', '', 'sora-2', '{"request":{}}', '{}' FROM json_each('[1, 2, 3]')`);
  const listed = await createGenerationReads(createReader(watched)).list({ limit: 9 });
  expect(listed.map(({ ahead }) => ahead)).toEqual([2, 1, 0]);
  const [list, queue, ...others] = plans;
  expect(list).not.toContain("queued");
  expect(queue).toBe("SEARCH generations USING COVERING INDEX queued (model=?)");
  expect(others).toEqual([]);
});

test("a search in SQLite reads a limited number of texts at once, and continues where it stopped", async () => {
  const { watched } = await watch();
  watched.exec(`INSERT INTO accounts (name) VALUES ('local'), ('other');
    WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${2 * maxScanned + 1})
    INSERT INTO generations (id, account, status, state, created_at, model, asked, result)
    SELECT i, iif(i % 2, 'local', 'other'), 'failed', 'failed', '', 'sora-2', '{"request":{}}', '{}' FROM n;
    INSERT INTO search (generation, text) SELECT number, iif(number IN (1, 2), 'zebra', 'fox') FROM generations;`);
  const { list, totals, lastSearched } = createGenerationReads(createReader(watched));
  const find = async (query: object) => {
    const { counts } = await totals({ text: "zebra", ...query });
    const found = await list({ text: "zebra", limit: 9, ...query });
    return { found: found.map(({ id }) => id), counts, last: await lastSearched({ text: "zebra", ...query }) };
  };
  const [first, second] = [String(maxScanned + 2), "2"];
  expect(await find({})).toEqual({ found: [], counts: {}, last: first });
  expect(await find({ before: first })).toEqual({ found: ["2"], counts: { failed: 1 }, last: second });
  expect(await find({ before: second })).toEqual({ found: ["1"], counts: { failed: 1 }, last: undefined });
  // Of an account its own are counted.
  expect(await find({ account: "other" })).toEqual({ found: ["2"], counts: { failed: 1 }, last: undefined });
  expect(await find({ account: "local" })).toEqual({ found: [], counts: {}, last: "3" });
  expect(await find({ text: "fox", before: "9" })).toMatchObject({ counts: { failed: 6 }, last: undefined });
  // The nearest newer one is looked for as far.
  expect(await list({ text: "zebra", after: "1", limit: 1 })).toMatchObject([{ id: "2" }]);
  watched.exec(`UPDATE search SET text = 'okapi' WHERE generation = ${maxScanned + 5}`);
  expect(await list({ text: "okapi", after: "4", limit: 1 })).toEqual([]);
  expect((await totals({ text: "okapi", from: "4" })).newer).toBe(0);
  expect((await totals({ text: "okapi", from: "5" })).newer).toBe(1);
});

test("SQLite reads the lists and sums of the page by indexes", async () => {
  const { plans, watched } = await watch();
  const reader = createReader(watched);
  const generations = createGenerationReads(reader);
  const ledger = createLedgerReads(reader);
  const account = "local";
  await generations.list({ account, state: "failed", limit: 9 });
  await generations.list({ text: "fox", limit: 9 });
  await generations.list({ text: "fox", account, limit: 9 });
  await generations.list({ text: "fo x", limit: 9 });
  for (const filter of [{}, { account }, { account, label: "foxes.csv" }]) await generations.totals(filter);
  for (const filter of [{}, { account }]) await generations.labels({ ...filter, limit: 9 });
  for (const filter of [{}, { account }]) await ledger.spending({ ...filter, limit: 9 });
  const [state, last, text, ownLast, own, , short, ...sums] = plans.splice(0);
  expect(last).toBe("SCAN generations");
  expect(ownLast).toMatch(/^SEARCH generations USING INDEX generations_by_account /);
  expect(state).toMatch(/^SEARCH shown USING INDEX generations_by_account_and_state \(account=\? AND state=\?\)/);
  // The newest texts first, and only those generations that are found.
  expect(text).toMatch(/^SCAN search; SEARCH shown USING INTEGER PRIMARY KEY /);
  expect(own).toMatch(
    /^SEARCH shown USING INDEX generations_by_account \(account=\?\); SEARCH search USING INTEGER PRIMARY KEY /,
  );
  expect(short).toBe(text);
  for (const plan of [state, text, own, short]) expect(plan).not.toContain("ORDER BY");
  expect(sums).toHaveLength(8);
  for (const plan of sums) expect(plan).toMatch(/SEARCH sums USING PRIMARY KEY \(by=\?/);
  const deliveries = createDeliveryReads(reader);
  for (const filter of [{}, { account }, { host: "hook.example" }]) await deliveries.deliveryTotals(filter);
  await deliveries.deliveries({ account, state: "given_up", limit: 9 });
  const attempts = plans.pop();
  expect(attempts).toContain("SEARCH delivery_attempts USING PRIMARY KEY (delivery=?)");
  expect(plans).toHaveLength(7);
  for (const plan of plans) expect(plan).toMatch(/USING (COVERING )?INDEX deliveries_by_(account|state|host)/);
});
