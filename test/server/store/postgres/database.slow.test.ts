import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemReason } from "../../../../src/errors.ts";
import { systemClock } from "../../../../src/io.ts";
import { describeError, openDatabase } from "../../../../src/server/store/postgres/database.ts";
import { postgresPrograms } from "../../../needs.ts";
import { query } from "../../../postgres.ts";
import { newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";

test("the error of a failed connection has its address, even if Node's error has no message", () => {
  const fail = (code: string, message = "") => Object.assign(new Error(message), { code });
  const socket = "connect ENOENT /run/postgresql/.s.PGSQL.5432";
  expect(describeError(fail("ENOENT", socket))).toMatchObject({ message: socket, isUnavailable: true });
  const several = new AggregateError([fail("ECONNREFUSED"), fail("ECONNREFUSED")]);
  expect(describeError(several)).toMatchObject({ message: "ECONNREFUSED", isUnavailable: true });
});

test("the report of an outage of a socket has its path", async () => {
  const told = new Promise((resolve) => {
    const reportProblem = (_what: string, error: unknown) => resolve(systemReason(error));
    void openDatabase("postgres:///x?host=/nowhere", { maxConnections: 1, clock: systemClock, reportProblem }).then(
      async (database) => {
        await database.query("SELECT 1").catch(() => {});
        await database.close();
      },
    );
  });
  expect(await told).toMatch(/ENOENT \/nowhere\//);
});

describe("connections to PostgreSQL", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  async function openWithTroubles() {
    const url = await server().createDatabase();
    const troubles: string[] = [];
    const reportProblem = (what: string) => void troubles.push(what);
    const database = await openDatabase(url, { maxConnections: 1, clock: systemClock, reportProblem });
    onTestFinished(() => database.close());
    /** Resolves when the connections of this state are gone. */
    const cut = (state: string) =>
      query(
        url,
        `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'vidgen' AND state = '${state}'`,
      );
    return { database, troubles, cut };
  }

  test("a connection that breaks inside a transaction undoes the transaction, and the next connection works", async () => {
    const { database, troubles, cut } = await openWithTroubles();
    await database.query("CREATE TABLE public.words (word text)");
    const broken = database.transaction(async (sql) => {
      await sql("INSERT INTO public.words VALUES ('a')");
      expect(await cut("idle in transaction")).toHaveLength(1);
      await sql("INSERT INTO public.words VALUES ('b')");
    });
    await expect(broken).rejects.toMatchObject({ isUnavailable: true });
    expect(await database.query("SELECT * FROM public.words")).toEqual([]);
    expect(troubles).toEqual(["The database cannot be reached"]);
  });

  test("an idle connection that breaks is replaced silently", async () => {
    const { database, troubles, cut } = await openWithTroubles();
    await database.query("SELECT 1");
    expect(await cut("idle")).toHaveLength(1);
    expect(await database.query("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    expect(troubles).toEqual([]);
  });

  test("a session that breaks between two statements rejects with the reason", async () => {
    const { database, cut } = await openWithTroubles();
    const broken = database.session(async (sql) => {
      await sql("SELECT 1");
      expect(await cut("idle")).toHaveLength(1);
      await sql("SELECT 2");
    });
    await expect(broken).rejects.toMatchObject({
      isUnavailable: true,
      message: expect.stringContaining("terminating"),
    });
  });

  test("a statement that the database refuses is not an outage, and undoes only its transaction", async () => {
    const { database, troubles } = await openWithTroubles();
    await database.query("CREATE TABLE public.words (word text UNIQUE)");
    const twice = database.transaction(async (sql) => {
      await sql("INSERT INTO public.words VALUES ('a')");
      await sql("INSERT INTO public.words VALUES ('a')");
    });
    await expect(twice).rejects.toMatchObject({ isUnavailable: false });
    expect(await database.query("SELECT * FROM public.words")).toEqual([]);
    expect(troubles).toEqual([]);
  });

  test("a statement that takes too long can be tried again, and is reported as that", async () => {
    const { database, troubles, cut } = await openWithTroubles();
    for (let i = 0; i < 2; i++)
      await expect(database.query("SET statement_timeout = 1; SELECT pg_sleep(1)")).rejects.toMatchObject({
        isUnavailable: true,
      });
    expect(troubles).toEqual(["The database is too slow"]);
    await database.query("SELECT 1");
    const broken = database.transaction(() => cut("idle in transaction"));
    await expect(broken).rejects.toMatchObject({ isUnavailable: true });
    expect(troubles).toEqual(["The database is too slow", "The database cannot be reached"]);
  });

  test("an outage is reported once, and its start is known", async () => {
    const { database, troubles } = await openWithTroubles();
    await database.query("SELECT 1");
    await server().stop("SIGQUIT");
    const before = performance.now();
    for (let i = 0; i < 3; i++) await expect(database.query("SELECT 1")).rejects.toMatchObject({ isUnavailable: true });
    await server().start();
    await database.query("SELECT 1");
    expect(database.upForMs()).toBeLessThan(performance.now() - before);
    expect(troubles).toEqual(["The database cannot be reached"]);
    await server().stop("SIGQUIT");
    await expect(database.query("SELECT 1")).rejects.toMatchObject({ isUnavailable: true });
    await server().start();
    expect(troubles).toHaveLength(2);
  });

  test("after an outage of the listening connection, the listener is called, because changes may have been missed", async () => {
    const { database, troubles, cut } = await openWithTroubles();
    const heard: string[] = [];
    database.listen(
      "words",
      (text) => void heard.push(text),
      () => void heard.push("reconnected"),
    );
    const say = () => database.query("SELECT pg_notify('words', 'a word')");
    await expect.poll(() => say().then(() => heard.length)).toBeGreaterThan(0);
    expect(new Set(heard)).toEqual(new Set(["a word"]));
    await cut("idle");
    await expect.poll(() => heard).toContain("reconnected");
    expect(troubles).toEqual([]);
  });

  test("closing gives up the connections if the database does not answer", async () => {
    const url = new URL(await server().createDatabase());
    const { hostname: host, port } = url;
    const sockets: Socket[] = [];
    const relay = createServer({ allowHalfOpen: true }, (socket) => {
      const onward = connect({ port: Number(port), host, allowHalfOpen: true });
      for (const each of [socket, onward]) sockets.push(each.on("error", () => {}));
      socket.pipe(onward).pipe(socket);
    }).listen(0, "127.0.0.1");
    await once(relay, "listening");
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      relay.close();
    });
    url.port = String(Object(relay.address()).port);
    const database = await openDatabase(url.href, { maxConnections: 1, clock: systemClock, reportProblem: () => {} });
    let isHeard = false;
    database.listen("words", () => {
      isHeard = true;
    });
    while (!isHeard) await database.query("NOTIFY words");
    for (const socket of sockets) socket.unpipe().pause();
    await database.close();
  });

  test("a process can close while the database is unavailable", async () => {
    const url = await server().createDatabase();
    const { store } = await open(url, { reportProblem: () => {} });
    store.listen(() => {});
    await store.claim({ kind: "begun", engines: [] }, { limit: 1, except: [] });
    await store.addAccount({ name: "local", keyHash: "hash" });
    await server().stop("SIGINT");
    const before = performance.now();
    await expect(store.start(newGeneration(), 0, undefined)).rejects.toMatchObject({ isUnavailable: true });
    await store.close();
    expect(performance.now() - before).toBeLessThan(5_000);
    await server().start();
  });
});
