import { expect, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { createClaims } from "../../../../src/server/store/postgres/claims.ts";
import { type Database, openDatabase } from "../../../../src/server/store/postgres/database.ts";
import { createDeliveries } from "../../../../src/server/store/postgres/deliveries.ts";
import { postgresPrograms } from "../../../needs.ts";
import { open, useServer } from "./open.ts";

const server = useServer();

test.skipIf(postgresPrograms === undefined)(
  "PostgreSQL reads what waits by the indexes of what has not ended",
  async () => {
    const url = await server().createDatabase();
    await (await open(url)).store.addAccount({ name: "local", keyHash: "hash" });
    const database = await openDatabase(url, { maxConnections: 2, clock: systemClock, onTrouble: () => {} });
    await database.query(`INSERT INTO vidgen.generations (id, account, status, created_at, model, prompt, asked, checkpoint, result)
    SELECT n, 'local', CASE WHEN n > 20000 THEN 'processing' ELSE 'completed' END, '', 'sora-2', '', '', '', ''
    FROM generate_series(1, 20010) AS n`);
    await database.query(`INSERT INTO vidgen.deliveries (id, generation, request, due_at)
    SELECT number, number, '', CASE WHEN number > 20000 THEN now() END FROM vidgen.generations`);
    await database.query("VACUUM ANALYZE vidgen.generations, vidgen.deliveries");
    const plans: string[] = [];
    const watched: Database = {
      ...database,
      query: async (sql, ...values) => {
        const plan = await database.query(`EXPLAIN ${sql}`, ...values);
        plans.push(plan.map((row) => row["QUERY PLAN"]).join("\n"));
        return database.query(sql, ...values);
      },
    };
    const claims = createClaims(watched, { process: "1", clock: systemClock, onTrouble: () => {} });
    expect(await claims.waiting({ except: [] })).toMatchObject([{ count: 10 }]);
    expect(await createDeliveries(watched, systemClock).pendingCallbacks()).toBe(10);
    expect(plans).toEqual([
      expect.stringContaining("Index Scan using unfinished_by_account"),
      expect.stringContaining("Index Only Scan using deliveries_due"),
    ]);
    for (const plan of plans) expect(plan).not.toContain("Seq Scan");
    await database.close();
  },
);
