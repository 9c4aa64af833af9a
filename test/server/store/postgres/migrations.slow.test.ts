import { readFileSync } from "node:fs";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { postgresPrograms } from "../../../needs.ts";
import { query } from "../../../postgres.ts";
import { newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";

const versionSix = readFileSync(new URL("version-6.sql", import.meta.url), "utf8");
const indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'vidgen' ORDER BY indexdef";
const invalid = "SELECT indexrelid::regclass::text AS name FROM pg_index WHERE NOT indisvalid";
/** The sessions that build an index and wait for somebody else's transaction. */
const building =
  "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock' AND datname = current_database()";
const versions = "SELECT max(version) AS version FROM vidgen.versions";

describe("an upgrade on PostgreSQL", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** A database of version 6 with some generations. */
  async function createOld(): Promise<string> {
    const url = await server().createDatabase();
    await query(url, versionSix);
    await query(
      url,
      `INSERT INTO vidgen.accounts (name) VALUES ('local');
       INSERT INTO vidgen.generations (id, account, status, created_at, model, prompt, asked, checkpoint, result)
       SELECT 'id ' || n, 'local', 'failed', '2026-01-01T00:00:00.000Z', 'sora-2', 'A fox', '{}', 'null', '{}'
       FROM generate_series(1, 100) AS n;
       UPDATE vidgen.generations SET result = '{"error":null,"error_code":"unclear","media":null,"cost":0.25}' WHERE number = 3;
       INSERT INTO vidgen.ledger (account, amount, reason, generation) SELECT 'local', -10, 'start', number FROM vidgen.generations;
       INSERT INTO vidgen.ledger (account, amount, reason, generation) VALUES ('local', 10, 'refund', 2);
       INSERT INTO vidgen.deliveries (id, generation, request, next_at) VALUES ('1', 1, '{}', NULL), ('2', 2, '{}', NULL), ('3', 3, '{}', '2026-01-01');
       INSERT INTO vidgen.delivery_attempts (delivery, number, at, outcome, delivered, reply)
       VALUES (1, 1, '', '""', false, '""'), (1, 2, '', '""', true, '""'), (2, 1, '', '""', false, '""')`,
    );
    return url;
  }

  /** A session of another program, until the test ends. */
  async function connect(url: string): Promise<pg.Client> {
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  }

  test("gives an old database the tables and indexes of a new one, and fills them", async () => {
    const [old, fresh] = [await createOld(), await server().createDatabase()];
    const notes: string[] = [];
    await open(old, { onNote: (text) => void notes.push(text) });
    await open(fresh, { onNote: (text) => void notes.push(text) });
    const columns =
      "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'vidgen' ORDER BY 1, 2";
    for (const what of [indexes, columns, versions]) expect(await query(old, what)).toEqual(await query(fresh, what));
    const [row] = await query(old, "SELECT state, search FROM vidgen.generations WHERE id = 'id 7'");
    expect(row).toEqual({ state: "failed", search: "a fox\nid 7\nsora-2" });
    const sums = await query(
      old,
      "SELECT by, key, generations, credits, usd, failed, unclear, started_at FROM vidgen.sums ORDER BY by",
    );
    const all = {
      generations: "100",
      credits: "990",
      usd: 0.25,
      failed: "100",
      unclear: "1",
      started_at: "2026-01-01T00:00:00.000Z",
    };
    expect(sums).toEqual([
      { by: "day", key: "2026-01-01", ...all },
      { by: "model", key: "sora-2", ...all },
    ]);
    const deliveries = await query(old, "SELECT account, state FROM vidgen.deliveries ORDER BY number");
    expect(deliveries).toEqual(["delivered", "given_up", "waiting"].map((state) => ({ account: "local", state })));
    // Nobody waits for a new one.
    expect(notes).toEqual([expect.stringMatching(/^Upgrading the database from version 6 to \d+\./)]);
  });

  test("leaves out the index of the search where its extension is not allowed: the texts are read then", async () => {
    const url = await server().createDatabase();
    const { store } = await open(url);
    await store.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 100 });
    const generation = newGeneration();
    await store.start(generation, 10, undefined);
    const texts = "SELECT FROM pg_indexes WHERE schemaname = 'vidgen' AND indexname = 'search_texts'";
    expect(await query(url, texts)).toHaveLength(1);
    const database = new URL(url).pathname.slice(1);
    await query(url, `DROP EXTENSION pg_trgm CASCADE; REVOKE CREATE ON DATABASE ${database} FROM tester`);
    const again = await open(url);
    expect(await query(url, texts)).toEqual([]);
    expect(await again.store.list({ text: "fox", limit: 9 })).toMatchObject([{ id: generation.id }]);
  });

  test("leaves out that index where the extension is in a schema that is not allowed", async () => {
    const url = await server().createDatabase();
    await query(url.replace("tester", "postgres"), "CREATE SCHEMA theirs; CREATE EXTENSION pg_trgm SCHEMA theirs");
    const { store } = await open(url);
    expect(await store.list({ text: "fox", limit: 9 })).toEqual([]);
  });

  test("has no time limit, whatever the database, its role and the address set", async () => {
    const url = await createOld();
    const database = new URL(url).pathname.slice(1);
    await query(
      url,
      `ALTER DATABASE ${database} SET statement_timeout = '7s'; ALTER DATABASE ${database} SET lock_timeout = '7s';
       CREATE FUNCTION refuse_limits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF current_setting('statement_timeout') <> '0' THEN RAISE 'statements end after %', current_setting('statement_timeout'); END IF;
         IF current_setting('lock_timeout') <> '2s' THEN RAISE 'locks are waited for %', current_setting('lock_timeout'); END IF;
         RETURN NEW; END $$;
       CREATE TRIGGER limits BEFORE INSERT ON vidgen.versions FOR EACH ROW EXECUTE FUNCTION refuse_limits()`,
    );
    await open(url);
    expect(await query(url, indexes)).not.toEqual([]);
  });

  test("tries again while another session uses its tables", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN; SELECT FROM vidgen.generations");
    let pauses = 0;
    const sleep: typeof systemClock.sleep = async (ms, signal) => {
      pauses++;
      if (pauses === 1) await other.query("COMMIT");
      else await systemClock.sleep(ms, signal);
    };
    await open(url, { clock: { ...systemClock, sleep } });
    expect(pauses).toBeGreaterThan(0);
  });

  test("says after a minute what it waits for, and has changed nothing of that step", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN; SELECT FROM vidgen.generations");
    let aheadMs = 0;
    const now = () => systemClock.now() + aheadMs;
    const sleep = async () => {
      aheadMs += 60_000;
    };
    await expect(open(url, { clock: { ...systemClock, now, sleep } })).rejects.toThrow(
      /^another session has held a lock .* end that session and start again$/,
    );
    expect(await query(url, versions)).toEqual([{ version: 6 }]);
    await other.query("COMMIT");
    await open(url);
  });

  test("that breaks while it builds an index is finished by the next process, which builds that index anew", async () => {
    const [old, fresh] = [await createOld(), await server().createDatabase()];
    const other = await connect(old);
    // It has a snapshot, for which whoever builds an index waits, but no lock on any table.
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const opening = open(old).catch((error) => error);
    await expect.poll(() => query(old, building)).toHaveLength(1);
    await query(old, `SELECT pg_terminate_backend(pid, 5000) FROM (${building}) AS building`);
    expect(await opening).toMatchObject({ isUnavailable: true });
    expect(await query(old, invalid)).toHaveLength(1);
    await other.query("COMMIT");
    await open(old);
    await open(fresh);
    expect(await query(old, invalid)).toEqual([]);
    expect(await query(old, indexes)).toEqual(await query(fresh, indexes));
  });

  test("is not needed by a database of this version, but for an index that is not whole", async () => {
    const [url, fresh] = [await server().createDatabase(), await server().createDatabase()];
    for (const each of [url, fresh]) await (await open(each)).store.close();
    await query(url, "DROP INDEX vidgen.starred; INSERT INTO vidgen.accounts (name) VALUES ('a'), ('b')");
    const broken = query(url, "CREATE UNIQUE INDEX CONCURRENTLY starred ON vidgen.accounts (balance)");
    await expect(broken).rejects.toThrow("could not create unique index");
    expect(await query(url, invalid)).toEqual([{ name: "vidgen.starred" }]);
    await open(url);
    expect(await query(url, invalid)).toEqual([]);
    expect(await query(url, indexes)).toEqual(await query(fresh, indexes));
  });

  test("by several processes at once is made once, also while an index waits for somebody's transaction", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const notes: string[] = [];
    const processes = Array.from({ length: 4 }, () => open(url, { onNote: (text) => void notes.push(text) }));
    await expect.poll(() => query(url, building)).toHaveLength(1);
    await expect.poll(() => notes.filter((note) => note.startsWith("Another process is preparing"))).toHaveLength(3);
    await other.query("COMMIT");
    await Promise.all(processes);
    expect(notes).toHaveLength(4);
    expect(await query(url, invalid)).toEqual([]);
    expect(await query(url, "SELECT count(*)::int FROM vidgen.versions")).toEqual(
      await query(url, versions).then(([row]) => [{ count: row?.version }]),
    );
  });

  test("is waited for until its signal aborts", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("SELECT pg_advisory_lock(8787)");
    const stop = new AbortController();
    const onNote = () => stop.abort(new Error("interrupted"));
    await expect(open(url, { onNote, signal: stop.signal })).rejects.toThrow("interrupted");
  });

  test("goes on when an earlier version, which waits for it inside a statement, makes its index a deadlock", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const opening = open(url);
    await expect.poll(() => query(url, building)).toHaveLength(1);
    const earlier = await connect(url);
    const waiting = earlier.query("BEGIN; SELECT pg_advisory_xact_lock(8787); COMMIT").catch(String);
    // PostgreSQL looks for a deadlock once, a second after a session began to wait: here that of the index finds it.
    const waitsLong =
      "SELECT FROM pg_stat_activity WHERE query LIKE '%xact_lock%' AND wait_event_type = 'Lock' AND now() - query_start > interval '1.5 s' AND datname = current_database()";
    await expect.poll(() => query(url, waitsLong)).toHaveLength(1);
    await other.query("COMMIT");
    await expect.poll(() => query(url, invalid)).toHaveLength(1);
    await expect.poll(() => query(url, building)).toEqual([]);
    await query(
      url,
      "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%xact_lock%' AND pid <> pg_backend_pid()",
    );
    expect(await waiting).toContain("canceling statement");
    await opening;
    expect(await query(url, invalid)).toEqual([]);
  });
});
