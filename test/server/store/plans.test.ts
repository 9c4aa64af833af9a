import { expect, test } from "vitest";
import { createClaims } from "../../../src/server/store/sqlite/claims.ts";
import { type Database, openDatabase } from "../../../src/server/store/sqlite/database.ts";
import { createDeliveries } from "../../../src/server/store/sqlite/deliveries.ts";
import { migrate } from "../../../src/server/store/sqlite/migrations.ts";

// What /metrics asks a database, and the loop that takes work: only what has not ended is read, by an index, however many rows there are.

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
  const claims = createClaims(watched, { assertFresh() {} });
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
