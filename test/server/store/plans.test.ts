import { expect, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { createClaims as createSharedClaims } from "../../../src/server/store/postgres/claims.ts";
import { openDatabase as openShared, type Database as Shared } from "../../../src/server/store/postgres/database.ts";
import { createDeliveries as createSharedDeliveries } from "../../../src/server/store/postgres/deliveries.ts";
import { createClaims } from "../../../src/server/store/sqlite/claims.ts";
import { type Database, openDatabase } from "../../../src/server/store/sqlite/database.ts";
import { createDeliveries } from "../../../src/server/store/sqlite/deliveries.ts";
import { migrate } from "../../../src/server/store/sqlite/migrations.ts";
import { postgresPrograms } from "../../postgres.ts";
import { open, useServer } from "./postgres/open.ts";

// What /metrics asks a database, and the loop that takes work: only what has not ended is read, by an index, however many rows there are.

const server = useServer();
const wanted = {
  kind: "new",
  models: ["sora-2"],
  maxImages: 1,
  isSimulation: false,
  isFetched: false,
  turns: [],
} as const;

test("SQLite reads what waits by the indexes of what has not ended", async () => {
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
  const claims = createClaims(watched);
  claims.waiting({ except: [] });
  claims.find({ kind: "begun", engines: [] }, { except: [], limit: 1 });
  claims.find(wanted, { except: [], limit: 1 });
  createDeliveries(watched).pending();
  expect(plans).toEqual([
    expect.stringMatching(/^SCAN generations USING INDEX unfinished;/),
    expect.stringMatching(/^SCAN generations USING INDEX begun;/),
    expect.not.stringMatching(/SCAN generations/),
    expect.stringMatching(/^SEARCH deliveries USING COVERING INDEX pending /),
  ]);
  database.close();
});

test.skipIf(postgresPrograms === undefined)("PostgreSQL does, too", async () => {
  const url = await server().createDatabase();
  await (await open(url)).store.addAccount({ name: "local", keyHash: "hash" });
  const database = await openShared(url, { maxConnections: 2, clock: systemClock, onTrouble: () => {} });
  await database.query(`INSERT INTO vidgen.generations (id, account, status, created_at, model, prompt, asked, checkpoint, result)
    SELECT n, 'local', CASE WHEN n > 20000 THEN 'processing' ELSE 'completed' END, '', 'sora-2', '', '', '', ''
    FROM generate_series(1, 20010) AS n`);
  await database.query(`INSERT INTO vidgen.deliveries (id, generation, request, due_at)
    SELECT number, number, '', CASE WHEN number > 20000 THEN now() END FROM vidgen.generations`);
  await database.query("VACUUM ANALYZE vidgen.generations, vidgen.deliveries");
  const plans: string[] = [];
  const watched: Shared = {
    ...database,
    query: async (sql, ...values) => {
      const plan = await database.query(`EXPLAIN ${sql}`, ...values);
      plans.push(plan.map((row) => row["QUERY PLAN"]).join("\n"));
      return database.query(sql, ...values);
    },
  };
  const claims = createSharedClaims(watched, { process: "1", clock: systemClock, onTrouble: () => {} });
  expect(await claims.waiting({ except: [] })).toMatchObject([{ count: 10 }]);
  expect(await createSharedDeliveries(watched, systemClock).pendingCallbacks()).toBe(10);
  expect(plans).toEqual([
    expect.stringContaining("Index Scan using unfinished_by_account"),
    expect.stringContaining("Index Only Scan using deliveries_due"),
  ]);
  for (const plan of plans) expect(plan).not.toContain("Seq Scan");
  await database.close();
});
