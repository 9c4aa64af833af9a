import { describe, expect, test } from "vitest";
import { pgBouncer, postgresPrograms } from "../../../needs.ts";
import { completed, cost, newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";
import { openPgBouncer } from "./pgbouncer.ts";

describe("behind PgBouncer", { skip: postgresPrograms === undefined || pgBouncer === undefined }, () => {
  const server = useServer();

  test("in session mode, two processes share a database, and are told of each other's changes", async () => {
    const url = await openPgBouncer(await server().createDatabase(), "session");
    const [{ store: one }, { store: two }] = [await open(url), await open(url)];
    await one.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 100 });
    const heard = new Promise((resolve) => two.listen((change) => change.kind === "generation" && resolve(change.id)));
    const generation = newGeneration();
    // What is told before it listens is missed.
    const telling = setInterval(() => one.publish({ kind: "generation", id: "early", account: "local" }), 50);
    await heard;
    clearInterval(telling);
    await one.start(generation, cost, undefined);
    expect(await two.finish(generation.id, completed)).toBe(true);
    expect(await one.generation(generation.id)).toMatchObject({ status: "completed" });
    await two.check();
  });

  test("transaction mode is refused, with the setting that is needed", async () => {
    const url = await openPgBouncer(await server().createDatabase(), "transaction");
    await expect(open(url)).rejects.toThrow(/pool_mode to session, or connect to PostgreSQL directly$/);
  });
});
