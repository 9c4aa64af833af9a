import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { openFolder } from "../../../../src/server/media/folder.ts";
import { openSharedService } from "../../../../src/server/serve.ts";
import { openPostgres } from "../../../../src/server/store/postgres/postgres.ts";
import { openDatabase } from "../../../../src/server/store/sqlite/database.ts";
import { migrate } from "../../../../src/server/store/sqlite/migrations.ts";
import { makeFolder } from "../../../folder.ts";
import { postgresPrograms } from "../../../needs.ts";
import { query } from "../../../postgres.ts";
import { realIo } from "../../../real-io.ts";
import { cookieOf } from "../../page/sign-in.ts";
import { fakeEngine } from "../../service.ts";
import { completed, cost, newDelivery, newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";

describe("a database that processes share", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** The stores of so many processes; the account "local" has these credits. */
  async function openAll(count: number, credits: number) {
    const url = await server().createDatabase();
    const stores = await Promise.all(Array.from({ length: count }, async () => (await open(url)).store));
    await stores[0]?.addAccount({ name: "local", keyHash: "hash", creditsOf: () => credits });
    return { url, stores };
  }

  const sumOf = async (url: string) => {
    const [row] = await query(
      url,
      "SELECT sum(amount)::int, count(*) FILTER (WHERE amount < 0)::int AS debits FROM vidgen.ledger",
    );
    return row;
  };

  test("each process reads what the others have written", async () => {
    const { stores } = await openAll(2, 100);
    const [one, other] = stores as [(typeof stores)[0], (typeof stores)[0]];
    const generation = newGeneration();
    await one.start(generation, cost, undefined);
    expect(await other.generation(generation.id)).toStrictEqual(generation);
    expect(await other.balance("local")).toBe(90);
    await other.finish(generation.id, completed, newDelivery("1", generation.id));
    expect(await one.generation(generation.id)).toStrictEqual({ ...generation, ...completed });
    expect(await one.finish(generation.id, completed, newDelivery("2", generation.id))).toBe(false);
    expect(await one.deliveries({ limit: 9 })).toMatchObject([{ id: "1" }]);
  });

  test("200 simultaneous starts with the same key through two processes are charged once", async () => {
    const { url, stores } = await openAll(2, 1_000);
    const same = { key: "attempt", body: "{}" };
    const starts = Array.from({ length: 100 }, () => stores.map((store) => store.start(newGeneration(), cost, same)));
    const outcomes = await Promise.all(starts.flat());
    const ids = outcomes.map((each) => each.kind === "started" && each.generation.id);
    expect(new Set(ids).size).toBe(1);
    expect(outcomes.filter((each) => each.kind === "started" && !each.replayed)).toHaveLength(1);
    expect(await sumOf(url)).toEqual({ sum: 990, debits: 1 });
    expect(await stores[0]?.totals({})).toMatchObject({ counts: { queued: 1 } });
  });

  test("simultaneous starts of many processes never cost more than the balance", async () => {
    const { url, stores } = await openAll(3, 305);
    const starts = Array.from({ length: 30 }, () =>
      stores.map((store) => store.start(newGeneration(), cost, undefined)),
    );
    const outcomes = await Promise.all(starts.flat());
    expect(outcomes.filter(({ kind }) => kind === "started")).toHaveLength(30);
    expect(outcomes.filter(({ kind }) => kind === "no credits")).toHaveLength(60);
    expect(await stores[0]?.balance("local")).toBe(5);
    expect(await sumOf(url)).toEqual({ sum: 5, debits: 30 });
  });

  test("simultaneous starts of several accounts share a few commits", async () => {
    const { url, stores } = await openAll(1, 1_000);
    const [store] = stores as [(typeof stores)[0]];
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 1_000 });
    const start = (index: number) => {
      const same = index < 10 ? { key: "attempt", body: "{}" } : undefined;
      return store.start(newGeneration({ account: index % 2 ? "local" : "other" }), cost, same);
    };
    await Promise.all(Array.from({ length: 100 }, (_, index) => start(index)));
    const [row] = await query(
      url,
      "SELECT count(*)::int, count(DISTINCT xmin::text)::int AS commits FROM vidgen.generations",
    );
    // Of the ten with the same key, one of each account.
    expect(row).toEqual({ count: 92, commits: 1 });
  });

  test("a start waits only for the lock of its own account", async () => {
    const { url, stores } = await openAll(1, 100);
    const [store] = stores as [(typeof stores)[0]];
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("BEGIN; SELECT * FROM vidgen.accounts WHERE name = 'local' FOR UPDATE");
    const locked = Array.from({ length: 3 }, () => store.start(newGeneration(), cost, undefined));
    for (let index = 0; index < 3; index++)
      expect(await store.start(newGeneration({ account: "other" }), cost, undefined)).toMatchObject({
        kind: "started",
      });
    expect(await store.balance("local")).toBe(100);
    await client.query("UPDATE vidgen.accounts SET balance = balance - 85 WHERE name = 'local'; COMMIT");
    expect((await Promise.all(locked)).map(({ kind }) => kind)).toEqual(["started", "no credits", "no credits"]);
    expect(await store.balance("local")).toBe(5);
  });

  test("no account waits for the images of another", async () => {
    const { stores } = await openAll(1, 100);
    const [store] = stores as [(typeof stores)[0]];
    await store.addAccount({ name: "other", keyHash: "theirs", creditsOf: () => 100 });
    const images = [`data:image/png;base64,${"A".repeat(20_000_000)}`];
    const large = newGeneration({ account: "other", request: { ...newGeneration().request, images } });
    const done: string[] = [];
    const start = (generation: typeof large) =>
      store.start(generation, cost, undefined).then(() => done.push(generation.account));
    await Promise.all([start(large), start(newGeneration()), start(newGeneration())]);
    expect(done).toEqual(["local", "local", "other"]);
  });

  test("a group of starts whose commit is uncertain is not written again", async () => {
    const { url, stores } = await openAll(1, 100);
    const [store] = stores as [(typeof stores)[0]];
    // A sequence counts on whatever is undone.
    await query(
      url,
      `CREATE SEQUENCE public.attempts;
       CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM nextval('public.attempts'); RAISE EXCEPTION 'gone' USING ERRCODE = '08006'; END $$;
       CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON vidgen.generations DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION refuse();`,
    );
    const starts = Array.from({ length: 3 }, () => store.start(newGeneration(), cost, undefined));
    for (const each of await Promise.allSettled(starts))
      expect(each).toMatchObject({ status: "rejected", reason: { isUnavailable: true } });
    expect(await query(url, "SELECT last_value::int FROM public.attempts")).toEqual([{ last_value: 1 }]);
    expect(await sumOf(url)).toEqual({ sum: 100, debits: 0 });
  });

  test("a database that is killed during starts charges no start without a generation, and keeps every acknowledged start", async () => {
    const { url, stores } = await openAll(2, 1_000_000);
    const answered: string[] = [];
    const errors: unknown[] = [];
    const run = async (store: (typeof stores)[0]) => {
      while (errors.length < 20) {
        const { id } = newGeneration();
        await store.start(newGeneration({ id }), cost, { key: id, body: "{}" }).then(
          () => answered.push(id),
          (error) => errors.push(error),
        );
      }
    };
    const running = Promise.all(Array.from({ length: 20 }, (_, index) => run(stores[index % 2] as (typeof stores)[0])));
    await expect.poll(() => answered.length, { interval: 1 }).toBeGreaterThan(60);
    await server().stop("SIGKILL");
    await running;
    await server().start();
    for (const error of errors) expect(error).toMatchObject({ isUnavailable: true });
    const [store] = stores as [(typeof stores)[0]];
    await expect
      .poll(() =>
        store.check().then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    const kept = await query(
      url,
      "SELECT id FROM vidgen.generations JOIN vidgen.ledger ON generation = generations.number",
    );
    const ids = kept.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(answered));
    expect(await query(url, "SELECT count(*)::int FROM vidgen.generations")).toEqual([{ count: ids.length }]);
    expect(await sumOf(url)).toEqual({ sum: 1_000_000 - ids.length * cost, debits: ids.length });
    expect(await store.balance("local")).toBe(1_000_000 - ids.length * cost);
    expect((await store.totals({})).counts).toEqual({ queued: ids.length });
    const { model } = await store.spending({ limit: 9 });
    expect(model).toMatchObject([{ generations: ids.length, credits: ids.length * cost }]);
  });

  test("a removed key is refused by this process at once, and by other processes within 5 s", async () => {
    const { url, stores } = await openAll(1, 100);
    const [store] = stores as [(typeof stores)[0]];
    let aheadMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
    const { store: other } = await open(url, { clock });
    for (const each of [store, other]) expect(await each.account("hash")).toBe("local");
    await store.addAccount({ name: "local", keyHash: "new", replacesKeys: true });
    expect(await store.account("hash")).toBeUndefined();
    aheadMs = 5_000;
    expect(await other.account("hash")).toBeUndefined();
  });

  test("a transaction that cannot be committed leaves nothing behind", async () => {
    const { url, stores } = await openAll(1, 100);
    const [store] = stores as [(typeof stores)[0]];
    const generation = newGeneration();
    await store.start(generation, cost, undefined);
    // Checked when all is done: as if the database went away just before the commit.
    await query(
      url,
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no commit'; END $$;
       CREATE CONSTRAINT TRIGGER refused AFTER INSERT OR UPDATE ON vidgen.generations DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION refuse();`,
    );
    const same = { key: "attempt", body: "{}" };
    await expect(store.start(newGeneration(), cost, same)).rejects.toThrow("no commit");
    await expect(store.finish(generation.id, completed, newDelivery("1", generation.id))).rejects.toThrow("no commit");
    expect(await store.generation(generation.id)).toStrictEqual(generation);
    expect(await store.deliveries({ limit: 9 })).toEqual([]);
    expect(await sumOf(url)).toEqual({ sum: 90, debits: 1 });
    expect(await query(url, "SELECT key_hash FROM vidgen.idempotency_keys")).toEqual([]);
  });

  test("five processes that open an empty database at the same time prepare it once, and agree on its keys", async () => {
    const url = await server().createDatabase();
    const processes = await Promise.all(Array.from({ length: 5 }, () => open(url)));
    const versions = await query(url, "SELECT version FROM vidgen.versions ORDER BY version");
    expect(versions).toEqual(versions.map((_, i) => ({ version: i + 1 })));
    const secrets = await Promise.all(
      processes.map(({ initialize }, i) => {
        const account = { name: "local", keyHash: `hash ${i}`, credits: 100 + i };
        return initialize({ account, webhookSecret: `webhook ${i}`, pageSecret: `page ${i}` });
      }),
    );
    const first = secrets.findIndex(({ isFirst }) => isFirst);
    for (const [i, each] of secrets.entries())
      expect(each).toEqual({ isFirst: i === first, webhookSecret: `webhook ${first}` });
    for (const { pageSecret } of processes) expect(await pageSecret()).toBe(`page ${first}`);
    const { store } = await open(url);
    const accounts = await Promise.all(secrets.map((_, i) => store.account(`hash ${i}`)));
    expect(accounts).toEqual(secrets.map(({ isFirst }) => (isFirst ? "local" : undefined)));
    expect(await store.balance("local")).toBe(100 + first);
    expect(await sumOf(url)).toEqual({ sum: 100 + first, debits: 0 });
  });

  test("a rotation ends the owner's key, sessions and links in every process", async () => {
    const url = await server().createDatabase();
    let aheadMs = 0;
    const io = { ...realIo(), now: () => systemClock.now() + aheadMs };
    const run = async (rotate: boolean) => {
      const service = await openSharedService(
        {
          ...{ database: url, rotate, engines: [fakeEngine()], host: "127.0.0.1", isLoopback: true, hasPage: true },
          ...{ ports: { api: 0, media: 0 }, pace: "fast", onDelivery: () => {}, onNote: () => {} },
          openVideos: async () => openFolder({ folder: makeFolder() }),
        },
        io,
      );
      onTestFinished(() => service.close(0));
      const { address, pageUrl = "" } = service;
      const ask = async (path: string, init = {}) => service.api(new Request(address.base_url + path, init));
      const status = async (path: string, headers = {}) => (await ask(path, { headers })).status;
      const { search: token, port, origin } = new URL(pageUrl);
      return { key: address.api_key, ask, status, token, port, origin };
    };
    const [one, other] = [await run(false), await run(false)];
    const signIn = async ({ ask, token, port, origin }: typeof one) => {
      const body = new URLSearchParams(token);
      const reply = await ask("/", { method: "POST", headers: { Origin: origin }, body });
      const session = cookieOf(reply).replace(/^\w+/, "");
      return { Cookie: [one, other].map((each) => `vidgen_page_${each.port}${session}`).join("; "), port };
    };
    const cookies = await signIn(one);
    const key = { Authorization: `Bearer ${one.key}` };
    const answers = async (process: typeof one) => [
      await process.status("/", cookies),
      // The link of the first one was used.
      await process.status(`/${other.token}`),
      await process.status("/api/generation-status", key),
    ];
    for (const each of [one, other]) expect(await answers(each)).toEqual([200, 200, 400]);
    const rotated = await run(true);
    aheadMs = 5_001;
    for (const each of [one, other]) expect(await answers(each)).toEqual([401, 401, 401]);
    for (const each of [one, other, rotated]) expect(await each.status(`/${rotated.token}`)).toBe(200);
    const later = await run(false);
    expect(await later.status(`/${rotated.token}`)).toBe(200);
    expect(await one.status("/api/generation-status", { Authorization: `Bearer ${rotated.key}` })).toBe(400);
  });

  test("when several processes rotate at the same time, the key and the page's secret of one of them are valid", async () => {
    const url = await server().createDatabase();
    const processes = await Promise.all(Array.from({ length: 5 }, () => open(url)));
    const valuesOf = (name: string) => {
      const account = { name: "local", keyHash: `hash ${name}`, credits: 100 };
      return { account, webhookSecret: `webhook ${name}`, pageSecret: `page ${name}` };
    };
    await processes[0]?.initialize(valuesOf("first"));
    await Promise.all(processes.map(({ initialize }, i) => initialize(valuesOf(`${i}`), { rotate: true })));
    const keys = await query(url, "SELECT hash FROM vidgen.keys");
    const secrets = await query(url, "SELECT value FROM vidgen.settings WHERE name = 'page_secret'");
    expect([keys, secrets]).toMatchObject([
      [{ hash: expect.stringMatching(/^hash \d$/) }],
      [{ value: String(keys[0]?.hash).replace("hash", "page") }],
    ]);
    expect(await query(url, "SELECT value FROM vidgen.settings WHERE name = 'webhook_secret'")).toEqual([
      { value: "webhook first" },
    ]);
    expect(await sumOf(url)).toEqual({ sum: 100, debits: 0 });
  });

  const schema =
    "SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE table_schema !~ '^(pg_|inf)' ORDER BY 1, 2, 3";
  const openRefused = (url: string) =>
    openPostgres(url, { process: randomUUID(), clock: systemClock, reportProblem: () => {} });

  test.each([
    ["a newer version", /version 99.*use a newer vidgen/, "INSERT INTO vidgen.versions VALUES (99)", true],
    [
      "another program",
      /belongs to another program/,
      "CREATE SCHEMA vidgen; CREATE TABLE vidgen.accounts (id int)",
      false,
    ],
  ])("a database of %s is refused as it is", async (_, said, sql, isOurs) => {
    const url = await server().createDatabase();
    if (isOurs) await (await open(url)).store.close();
    await query(url, sql);
    const before = await query(url, schema);
    await expect(openRefused(url)).rejects.toThrow(said);
    expect(await query(url, schema)).toEqual(before);
  });

  test("both databases have the same columns, except those for claims, turns, due callbacks, the search and the version before", async () => {
    const url = await server().createDatabase();
    await open(url);
    const sqlite = await openDatabase(":memory:");
    onTestFinished(() => sqlite.close());
    migrate(sqlite);
    const columns = await query(
      url,
      "SELECT table_name || '.' || column_name AS name FROM information_schema.columns WHERE table_schema = 'vidgen'",
    );
    const ours = new Set(columns.map(({ name }) => String(name)));
    const theirs = new Set(
      sqlite
        .all(
          "SELECT tables.name || '.' || columns.name AS name FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'",
        )
        .map(({ name }) => String(name)),
    );
    const without = (all: Set<string>, others: Set<string>) => [...all].filter((name) => !others.has(name)).sort();
    expect(without(ours, theirs)).toEqual([
      "deliveries.due_at",
      "generations.fetching",
      "generations.held_until",
      "generations.search",
      "generations.slot",
      "settings.name",
      "settings.value",
      "turns.account",
      "turns.at",
      "turns.is_fetched",
      "versions.version",
    ]);
    expect(without(theirs, ours)).toEqual([
      "deliveries.planned_at",
      "provenance.copied_at",
      "provenance.restored_at",
      "provenance.runs",
      "search.generation",
      "search.text",
    ]);
  });

  test("a database may have the tables of other programs beside ours", async () => {
    const url = await server().createDatabase();
    await query(
      url,
      "CREATE TABLE accounts (id int); CREATE TABLE job (id int); CREATE SCHEMA pgboss; CREATE TABLE pgboss.job (id int)",
    );
    const { store } = await open(url);
    await store.addAccount({ name: "local", keyHash: "hash" });
    expect(await store.accounts()).toMatchObject([{ account: "local", credits: 0 }]);
    expect(await query(url, "SELECT * FROM accounts")).toEqual([]);
  });

  test("the error for an unusable address has no password", async () => {
    const url = new URL(await server().createDatabase());
    Object.assign(url, { password: "hidden", pathname: "/nowhere" });
    const error: unknown = await openRefused(url.href).catch((thrown) => thrown);
    expect(String(error)).toContain('"nowhere" does not exist');
    url.port = "1";
    const refused: unknown = await openRefused(url.href).catch((thrown) => thrown);
    expect(refused).toMatchObject({ isUnavailable: true });
    for (const each of [error, refused]) expect(`${each} ${JSON.stringify(each)}`).not.toContain("hidden");
  });

  test.each([
    ["changed", "UPDATE vidgen.ledger SET amount = 0 WHERE number = 2", "only added to"],
    ["deleted", "DELETE FROM vidgen.ledger WHERE number = 2", "only added to"],
    [
      "paid twice",
      "INSERT INTO vidgen.ledger (account, amount, reason, at, generation) VALUES ('local', -10, 'start', '', 1)",
      "unique",
    ],
    ["made without credits", "UPDATE vidgen.accounts SET balance = -1", "check"],
    [
      "of no account",
      "INSERT INTO vidgen.ledger (account, amount, reason, at) VALUES ('nobody', 1, 'x', '')",
      "foreign key",
    ],
  ])("the database itself refuses a debit that is %s", async (_, sql, said) => {
    const { url, stores } = await openAll(1, 100);
    await stores[0]?.start(newGeneration(), cost, undefined);
    await expect(query(url, sql)).rejects.toThrow(said);
  });
});

describe("clocks that differ", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  const minuteMs = 60_000;
  const shifted = (ms: number) => ({ ...systemClock, date: () => new Date(Date.now() + ms) });

  test("each process has the database's time, and its owner is told of a clock that is wrong by more than 5 s", async () => {
    const url = await server().createDatabase();
    const notes: string[] = [];
    const onNote = (text: string) => void notes.push(text);
    const behind = await open(url, { clock: shifted(-5 * minuteMs), onNote });
    const ahead = await open(url, { clock: shifted(5 * minuteMs), onNote });
    const right = await open(url, { onNote });
    for (const { date } of [behind, ahead, right]) expect(Math.abs(date().getTime() - Date.now())).toBeLessThan(5_000);
    expect(notes).toEqual([
      expect.stringMatching(/^The clock of this machine is (299|300|301)\.\d s behind the database's/),
      expect.stringMatching(/^The clock of this machine is (299|300|301)\.\d s ahead of the database's/),
    ]);
    await ahead.store.check();
    expect([notes.length, ahead.store.clockDifferenceMs?.()]).toEqual([2, expect.closeTo(-5 * minuteMs, -4)]);
  });

  test("a video that one process starts and another completes is completed after it was started, and its callback is due at once", async () => {
    const url = await server().createDatabase();
    const start = async (differenceMs: number) => {
      const service = await openSharedService(
        {
          // Nothing is made, so that the second process ends the generation.
          ...{
            database: url,
            rotate: true,
            engines: [fakeEngine({ concurrency: 0 })],
            host: "127.0.0.1",
            isLoopback: true,
          },
          ...{ ports: { api: 0, media: 0 }, pace: "fast", onDelivery: () => {}, onNote: () => {} },
          openVideos: async () => openFolder({ folder: makeFolder() }),
        },
        { ...realIo(), ...shifted(differenceMs) },
      );
      onTestFinished(() => service.close(0));
      const { base_url, api_key } = service.address;
      const ask = (path: string, method = "GET", body?: object) =>
        service.api(
          new Request(base_url + path, {
            ...{ method, headers: { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" } },
            ...(body && { body: JSON.stringify(body) }),
          }),
        );
      return { ask };
    };
    const ahead = await start(5 * minuteMs);
    const reply = await ahead.ask("/api/generate", "POST", { prompt: "a fox", model: "sora-2" });
    const { data } = (await reply.json()) as { data: { id: string; created_at: string } };
    const behind = await start(-5 * minuteMs);
    await behind.ask(`/api/cancel?id=${data.id}`, "POST");
    const [row] = await query(url, "SELECT created_at, completed_at FROM vidgen.generations");
    const ms = Date.parse(String(row?.completed_at)) - Date.parse(String(row?.created_at));
    expect(ms).toBeGreaterThanOrEqual(-100);
    expect(ms).toBeLessThan(2 * minuteMs);
    expect(await (await behind.ask("/readyz")).json()).toMatchObject({
      clock_difference_seconds: expect.closeTo(300, -1),
    });
  });
});
