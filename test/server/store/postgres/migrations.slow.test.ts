import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { openDatabase } from "../../../../src/server/store/postgres/database.ts";
import {
  type MigrateOptions,
  migrate,
  requireCurrent,
  type Versions,
} from "../../../../src/server/store/postgres/migrations.ts";
import { indexes as currentIndexes, steps } from "../../../../src/server/store/postgres/schema.ts";
import { postgresPrograms } from "../../../needs.ts";
import { query } from "../../../postgres.ts";
import { expectKeysBefore, insertKeysBefore, newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";

/** What a later version may have: a column, what it is filled with, and indexes. */
const later: Versions = {
  steps: [
    ...steps,
    "ALTER TABLE vidgen.generations ADD COLUMN length integer NOT NULL DEFAULT 0",
    "UPDATE vidgen.generations SET length = number",
  ],
  indexes: {
    ...currentIndexes,
    generations_by_length: "vidgen.generations (length, number)",
    generations_by_account_and_length: "vidgen.generations (account, length)",
  },
};
/** Those of version 2. */
const { named: _, deliveries_due_by_kind: __, ...kept } = currentIndexes;
const indexesBefore = {
  ...kept,
  deliveries_due_by_host: "vidgen.deliveries (host, due_at, number) WHERE due_at IS NOT NULL",
};
const indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'vidgen' ORDER BY indexdef";
const invalid = "SELECT indexrelid::regclass::text AS name FROM pg_index WHERE NOT indisvalid";
/** The sessions that build an index and wait for somebody else's transaction. */
const building =
  "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock' AND datname = current_database()";
const versions = "SELECT max(version) AS version FROM vidgen.versions";

describe("an upgrade on PostgreSQL", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** A database of this version with some generations. */
  async function createOld(): Promise<string> {
    const url = await server().createDatabase();
    const { store } = await open(url);
    await store.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 100 });
    for (let count = 0; count < 3; count++) await store.start(newGeneration(), 10, undefined);
    await store.close();
    return url;
  }

  /** Brings a database to the later version, as a process of it would. */
  async function upgrade(url: string, options: Partial<MigrateOptions> = {}): Promise<void> {
    const database = await openDatabase(url, { maxConnections: 1, clock: systemClock, reportProblem: () => {} });
    try {
      await migrate(database, { clock: systemClock, onNote: () => {}, versions: later, ...options });
    } finally {
      await database.close();
    }
  }

  /** A session of another program, until the test ends. */
  async function connect(url: string): Promise<pg.Client> {
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  }

  test("is required of a command that only reads, which changes nothing before a service of the new version has started", async () => {
    const url = await createOld();
    const database = await openDatabase(url, { maxConnections: 1, clock: systemClock, reportProblem: () => {} });
    onTestFinished(() => database.close());
    await requireCurrent(database.query);
    await expect(requireCurrent(database.query, later)).rejects.toThrow("This database is of an earlier version");
    expect(await query(url, versions)).toEqual([{ version: steps.length }]);
  });

  test("adds the tables and indexes of a new database to an old one, and fills them", async () => {
    const [old, fresh] = [await createOld(), await server().createDatabase()];
    const notes: string[] = [];
    for (const url of [old, fresh]) await upgrade(url, { onNote: (text) => void notes.push(text) });
    const columns =
      "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'vidgen' ORDER BY 1, 2";
    for (const what of [indexes, columns, versions]) expect(await query(old, what)).toEqual(await query(fresh, what));
    const lengths = await query(old, "SELECT length FROM vidgen.generations ORDER BY number");
    expect(lengths).toEqual([{ length: 1 }, { length: 2 }, { length: 3 }]);
    // Nobody waits for a new one.
    expect(notes).toEqual([expect.stringMatching(/^Upgrading the database from version 6 to 8\./)]);
    await upgrade(old, { onNote: (text) => void notes.push(text) });
    expect(notes).toHaveLength(1);
  });

  test("from version 1: what waited for images waits for their fetching, the version before is refused, and one that still runs claims nothing", async () => {
    const [old, fresh] = [await server().createDatabase(), await createOld()];
    const slots = "vidgen.generations (slot) WHERE status = 'processing' AND (slot IS NOT NULL OR is_ready)";
    const versions = { steps: steps.slice(0, 1), indexes: { ...indexesBefore, slots } };
    await upgrade(old, { versions });
    await query(
      old,
      `INSERT INTO vidgen.accounts (name) VALUES ('local');
       INSERT INTO vidgen.generations (id, account, status, created_at, asked, result, model, search, images, is_fetched, is_ready, state)
       VALUES ('fox', 'local', 'processing', '2026-01-01T00:00:00.000Z', '{"request":{"images":["https://images.example/a.png"]}}',
         '{"error":null,"media":null,"cost":null}', 'sora-2', '', 1, true, true, 'queued')`,
    );
    const { store } = await open(old);
    expect(await query(old, indexes)).toEqual(await query(fresh, indexes));
    expect(await store.generation("fox")).not.toHaveProperty("imageFetch");
    const wanted = { kind: "fetch", models: ["sora-2"], maxImages: 1, isSimulation: true } as const;
    expect(await store.claim(wanted, { limit: 1, except: [] })).toMatchObject([{ id: "fox" }]);
    await store.keepImageFetch("fox", { files: ["images/1"] });
    expect((await store.generation("fox"))?.imageFetch).toEqual({ files: ["images/1"] });
    await expect(upgrade(old, { versions })).rejects.toThrow("it has version 6, but this vidgen supports only up to 1");
    const claim = "UPDATE vidgen.generations SET is_ready = false, holder = 'before' WHERE id = 'fox'";
    await expect(query(old, claim)).rejects.toThrow('"is_ready"');
  });

  test("from version 2: fetched images are kept, and a process of that version that still runs reads everything and claims nothing new", async () => {
    const old = await server().createDatabase();
    await upgrade(old, { versions: { steps: steps.slice(0, 2), indexes: indexesBefore } });
    await query(
      old,
      `INSERT INTO vidgen.accounts (name) VALUES ('local');
       INSERT INTO vidgen.generations (id, account, status, created_at, asked, result, model, search, images, fetching, state)
       VALUES ('fox', 'local', 'processing', '2026-01-01T00:00:00.000Z', '{"request":{"images":["https://images.example/a.png"]}}',
         '{"error":null,"media":null,"cost":null}', 'sora-2', '', 1, '{"files":["images/1"]}', 'queued');
       INSERT INTO vidgen.deliveries (id, generation, account, url, body, host, state, due_at)
       SELECT 'callback', number, 'local', '', '', '', 'waiting', now() FROM vidgen.generations;
       INSERT INTO vidgen.delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
       SELECT number, 1, '', '', false, '', 5 FROM vidgen.deliveries`,
    );
    const { store } = await open(old);
    expect(await query(old, "SELECT is_retry FROM vidgen.deliveries")).toEqual([{ is_retry: true }]);
    expect(await query(old, indexes)).not.toContainEqual({
      indexdef: expect.stringContaining("deliveries_due_by_host"),
    });
    expect((await store.generation("fox"))?.imageFetch).toEqual({ files: ["images/1"] });
    expect(await query(old, "SELECT fetching, names FROM vidgen.generations")).toEqual([
      { fetching: { files: ["images/1"] }, names: null },
    ]);
    const claim = "UPDATE vidgen.generations SET holder = 'before' WHERE fetch_at IS NULL OR fetch_at <= ''";
    await expect(query(old, claim)).rejects.toThrow('"fetch_at"');
    const wanted = { kind: "new", models: ["sora-2"], maxImages: 1, isSimulation: true, named: [] } as const;
    expect(await store.claim(wanted, { limit: 1, except: [] })).toMatchObject([{ id: "fox", names: [] }]);
  });

  test.each([1, 5])(
    "from version %i: used keys are found and charge nothing, and a process of that version that still runs starts nothing",
    async (version) => {
      const old = await server().createDatabase();
      await upgrade(old, { versions: { steps: steps.slice(0, version), indexes: {} } });
      await query(old, insertKeysBefore("vidgen."));
      const { store } = await open(old);
      await expectKeysBefore(store);
      // As a process of that version asks for a key, and as it adds any start.
      await expect(query(old, "SELECT body_hash FROM vidgen.idempotency_keys")).rejects.toThrow('"body_hash"');
      const none = "SELECT account, key_hash, key_hash, generation, 1 FROM vidgen.idempotency_keys WHERE false";
      const add = `INSERT INTO vidgen.idempotency_keys (account, key_hash, body_hash, generation, remaining_credits) ${none}`;
      await expect(query(old, add)).rejects.toThrow('"body_hash"');
    },
  );

  test("that is refused leaves the database and its version unchanged", async () => {
    const url = await createOld();
    const versions = { ...later, steps: [...later.steps.slice(0, -1), "UPDATE vidgen.foxes SET length = 1"] };
    await expect(upgrade(url, { versions })).rejects.toThrow("foxes");
    expect(await query(url, "SELECT max(version) AS version FROM vidgen.versions")).toEqual([
      { version: steps.length + 1 },
    ]);
    await upgrade(url);
  });

  test("leaves out the index of the search if its extension is not allowed, and the search reads the texts", async () => {
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

  test("leaves out that index if the extension is in a schema that is not allowed", async () => {
    const url = await server().createDatabase();
    await query(url.replace("tester", "postgres"), "CREATE SCHEMA theirs; CREATE EXTENSION pg_trgm SCHEMA theirs");
    const { store } = await open(url);
    expect(await store.list({ text: "fox", limit: 9 })).toEqual([]);
  });

  test("has no time limit, even if the database, its role or the address set one", async () => {
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
    await upgrade(url);
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
    await upgrade(url, { clock: { ...systemClock, sleep } });
    expect(pauses).toBeGreaterThan(0);
  });

  test("fails after a minute with the lock that it waits for, and has changed nothing in that step", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN; SELECT FROM vidgen.generations");
    let aheadMs = 0;
    const now = () => systemClock.now() + aheadMs;
    const sleep = async () => {
      aheadMs += 60_000;
    };
    await expect(upgrade(url, { clock: { ...systemClock, now, sleep } })).rejects.toThrow(
      /^another session has held a lock .* end that session and start again$/,
    );
    expect(await query(url, versions)).toEqual([{ version: steps.length }]);
    await other.query("COMMIT");
    await upgrade(url);
  });

  test("that is interrupted while it builds an index is finished by the next process, which builds that index again", async () => {
    const [old, fresh] = [await createOld(), await server().createDatabase()];
    const other = await connect(old);
    // It has a snapshot, for which whoever builds an index waits, but no lock on any table.
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const opening = upgrade(old).catch((error) => error);
    await expect.poll(() => query(old, building)).toHaveLength(1);
    await query(old, `SELECT pg_terminate_backend(pid, 5000) FROM (${building}) AS building`);
    expect(await opening).toMatchObject({ isUnavailable: true });
    expect(await query(old, invalid)).toHaveLength(1);
    await other.query("COMMIT");
    await upgrade(old);
    await upgrade(fresh);
    expect(await query(old, invalid)).toEqual([]);
    expect(await query(old, indexes)).toEqual(await query(fresh, indexes));
  });

  test("is not needed by a database of this version, unless an index is invalid", async () => {
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

  test("by several processes at once runs once, even while an index waits for another transaction", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const notes: string[] = [];
    const processes = Array.from({ length: 4 }, () => upgrade(url, { onNote: (text) => void notes.push(text) }));
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

  test("can be waited for until the signal aborts", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("SELECT pg_advisory_lock(8787)");
    const stop = new AbortController();
    const onNote = () => stop.abort(new Error("interrupted"));
    await expect(upgrade(url, { onNote, signal: stop.signal })).rejects.toThrow("interrupted");
  });

  test("continues after a deadlock of its index with an earlier version that waits for the migration inside a statement", async () => {
    const url = await createOld();
    const other = await connect(url);
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const opening = upgrade(url);
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
