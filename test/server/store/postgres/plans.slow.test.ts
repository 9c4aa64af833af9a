import { expect, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { createClaims } from "../../../../src/server/store/postgres/claims.ts";
import { type Database, openDatabase } from "../../../../src/server/store/postgres/database.ts";
import { claimDue } from "../../../../src/server/store/postgres/due.ts";
import { createReader } from "../../../../src/server/store/postgres/reader.ts";
import { createDeliveryReads } from "../../../../src/server/store/reads/deliveries.ts";
import { createGenerationReads } from "../../../../src/server/store/reads/generations.ts";
import { createLedgerReads } from "../../../../src/server/store/reads/ledger.ts";
import { postgresPrograms } from "../../../needs.ts";
import { open, useServer } from "./open.ts";

const server = useServer();

test.skipIf(postgresPrograms === undefined)(
  "PostgreSQL reads waiting generations by the indexes of unfinished ones",
  async () => {
    const url = await server().createDatabase();
    await (await open(url)).store.addAccount({ name: "local", keyHash: "hash" });
    const database = await openDatabase(url, { maxConnections: 2, clock: systemClock, reportProblem: () => {} });
    await database.query(`INSERT INTO vidgen.generations (id, account, status, state, created_at, model, asked, result, search)
    SELECT n, 'local', CASE WHEN n > 20000 THEN 'processing' ELSE 'completed' END, CASE WHEN n > 20000 THEN 'queued' ELSE 'completed' END, '', 'sora-2', '{}', '{}', ''
    FROM generate_series(1, 20010) AS n`);
    await database.query(`INSERT INTO vidgen.deliveries (id, generation, account, url, body, host, state, next_at, due_at)
    SELECT number, number, 'local', '', '', '', CASE WHEN number > 20000 THEN 'waiting' ELSE 'given_up' END, CASE WHEN number > 20000 THEN '' END, CASE WHEN number > 20000 THEN now() END FROM vidgen.generations`);
    await database.query(`INSERT INTO vidgen.delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
    SELECT number, 1, '', '', false, '', 5 FROM vidgen.deliveries`);
    await database.query("VACUUM ANALYZE vidgen.generations, vidgen.deliveries, vidgen.delivery_attempts");
    const plans: string[] = [];
    const watched: Database = {
      ...database,
      query: async (sql, ...values) => {
        const plan = await database.query(`EXPLAIN ${sql}`, ...values);
        plans.push(plan.map((row) => row["QUERY PLAN"]).join("\n"));
        return database.query(sql, ...values);
      },
    };
    const claims = createClaims(watched, { process: "1", clock: systemClock, reportProblem: () => {} });
    expect(await claims.waiting({ except: [] })).toMatchObject([{ count: 10 }]);
    const deliveries = createDeliveryReads(createReader(watched));
    expect(await deliveries.pendingCallbacks()).toBe(10);
    expect(await deliveries.deliveries({ generations: ["none"], limit: 48 })).toEqual([]);
    expect(plans).toEqual([
      expect.stringContaining("Index Scan using unfinished_by_account"),
      expect.stringContaining("Index Only Scan using deliveries_by_state"),
      expect.stringContaining("Index Scan using generations_id_key"),
      expect.stringContaining("Scan using delivery_attempts_pkey"),
    ]);
    for (const plan of plans) expect(plan).not.toContain("Seq Scan");
    plans.length = 0;
    expect(await claims.slots()).toEqual(new Map());
    const wanted = { kind: "new", models: ["sora-2"], maxImages: 1, isSimulation: false } as const;
    const slot = { engine: "http://gpu-1", max: 2 };
    expect(await claims.claim({ ...wanted, slot }, { limit: 9, except: [] })).toHaveLength(2);
    await claims.stopRenewing();
    const [taken, candidates] = plans.splice(0);
    expect(taken).toContain("using slots");
    expect(candidates).toContain("using waiting");
    for (const plan of [taken, candidates]) expect(plan).not.toContain("Seq Scan on generations");
    await database.query(`UPDATE vidgen.deliveries SET state = 'waiting', next_at = '', due_at = now()`);
    await database.query("VACUUM ANALYZE vidgen.deliveries");
    const due = await claimDue(watched.query, {
      now: "",
      limit: 9,
      perHost: 4,
      except: ["1"],
      hosts: { "": { room: 3, beforeRetry: 0 } },
    });
    expect(due.deliveries.map(({ id }) => id)).toEqual(["2", "3", "4"]);
    expect(plans[0]).toMatch(
      /Index Scan using deliveries_due_by_kind .*\n +Index Cond: \(\(is_retry = .*\) AND \(host >= hosts[_1]*.host\) AND /,
    );
    expect(plans[0]).not.toContain("Seq Scan");
    await database.close();
  },
);

test.skipIf(postgresPrograms === undefined)("PostgreSQL reads the lists and sums of the page by indexes", async () => {
  const url = await server().createDatabase();
  await (await open(url)).store.addAccount({ name: "local", keyHash: "hash" });
  const database = await openDatabase(url, { maxConnections: 2, clock: systemClock, reportProblem: () => {} });
  await database.query(`INSERT INTO vidgen.generations
      (id, account, status, state, created_at, completed_at, model, asked, result, search, label)
    SELECT n, 'local', 'completed', 'completed', '2026-01-01', '2026-01-02', 'sora-2', '{}', '{}', 'a fox, take ' || n, n % 10
    FROM generate_series(1, 20010) AS n`);
  await database.query("VACUUM ANALYZE");
  const plans: string[] = [];
  const watched: Database = {
    ...database,
    query: async (sql, ...values) => {
      const plan = await database.query(`EXPLAIN ${sql}`, ...values);
      plans.push(plan.map((row) => row["QUERY PLAN"]).join("\n"));
      return database.query(sql, ...values);
    },
  };
  const reader = createReader(watched);
  const generations = createGenerationReads(reader);
  const ledger = createLedgerReads(reader);
  expect(await generations.list({ account: "local", state: "failed", limit: 9 })).toEqual([]);
  expect(await generations.list({ text: "zebra", limit: 9 })).toEqual([]);
  expect(await generations.list({ text: "zq", limit: 9 })).toEqual([]);
  const account = "local";
  expect((await generations.totals({ account })).counts).toEqual({ completed: 20_010 });
  expect(await generations.labels({ account, limit: 9 })).toHaveLength(9);
  expect((await ledger.spending({ account, limit: 9 })).day).toHaveLength(1);
  expect(plans[0]).toContain("Index Scan Backward using generations_by_account_and_state");
  expect(plans[1]).toContain("Bitmap Index Scan on search_texts");
  expect(plans[2]).toContain("generations_pkey");
  expect(plans[3]).toContain("(number >= '11'::bigint)");
  for (const plan of plans.slice(4)) expect(plan).toMatch(/ on sums /);
  await database.close();
});
