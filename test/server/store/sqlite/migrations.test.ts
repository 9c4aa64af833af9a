import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../../../../src/server/store/sqlite/database.ts";
import { checkDatabase, migrate } from "../../../../src/server/store/sqlite/migrations.ts";
import { steps } from "../../../../src/server/store/sqlite/schema.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import { makeFolder } from "../../../folder.ts";
import { apiKey, baseUrl, bearer, createTestService, readStart } from "../../service.ts";
import { doubledBody, doubledId, expectKeysBefore, insertKeysBefore } from "../records.ts";

const first = "CREATE TABLE foxes (name TEXT NOT NULL); INSERT INTO foxes VALUES ('red');";
const second = "ALTER TABLE foxes ADD COLUMN age INTEGER NOT NULL DEFAULT 1;";
const third = "UPDATE foxes SET age = age + 1;";

/** A database, and what it has. */
async function open(file = ":memory:") {
  const database = await openDatabase(file);
  onTestFinished(() => database.close());
  const version = () => Number(database.get("PRAGMA user_version")?.user_version);
  return { database, version, foxes: (columns: string) => database.all(`SELECT ${columns} FROM foxes`) };
}

test("a database gets each missing step once", async () => {
  const { database, version, foxes } = await open();
  migrate(database, [first]);
  expect([version(), foxes("name")]).toEqual([1, [{ name: "red" }]]);
  for (let times = 0; times < 2; times++) {
    migrate(database, [first, second, third]);
    expect([version(), foxes("name, age")]).toEqual([3, [{ name: "red", age: 2 }]]);
  }
});

test("a failed step leaves the database and its version unchanged", async () => {
  const file = join(makeFolder(), "service.db");
  const database = await openDatabase(file);
  migrate(database, [first]);
  expect(() => migrate(database, [first, second, "UPDATE bears SET age = 1;"])).toThrow("bears");
  database.close();
  const again = await open(file);
  expect([again.version(), again.foxes("*")]).toEqual([1, [{ name: "red" }]]);
});

test("a database of version 2 is upgraded: fetched images are kept, and what waits names no fields", async () => {
  const file = join(makeFolder(), "service.db");
  const before = await openDatabase(file);
  migrate(before, steps.slice(0, 2));
  before.exec(`INSERT INTO accounts (name) VALUES ('local');
    INSERT INTO generations (id, account, status, created_at, asked, result, model, images, fetching, state)
    VALUES ('fox', 'local', 'processing', '2026-01-01T00:00:00.000Z', '{"request":{"images":["https://images.example/a.png"]}}',
      '{"error":null,"media":null,"cost":null}', 'sora-2', 1, '{"files":["images/1"]}', 'queued');
    INSERT INTO deliveries (id, generation, account, url, body, host, state) VALUES ('callback', 1, 'local', '', '', '', 'given_up');
    INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered, reply, ms) VALUES (1, 1, '', '', FALSE, '', 5)`);
  before.close();
  const store = await openStore(file);
  expect((await store.generation("fox"))?.imageFetch).toEqual({ files: ["images/1"] });
  const wanted = { kind: "new", models: ["sora-2"], maxImages: 1, isSimulation: true, named: [] } as const;
  expect(await store.claim(wanted, { limit: 1, except: [] })).toMatchObject([{ id: "fox", names: [] }]);
  await store.close();
  expect((await open(file)).database.all("SELECT is_retry FROM deliveries")).toEqual([{ is_retry: 1 }]);
});

test("a database of version 1 is upgraded: what waited for images waits for their fetching, and the program before refuses the file", async () => {
  const file = join(makeFolder(), "service.db");
  const before = await openDatabase(file);
  migrate(before, steps.slice(0, 1));
  before.exec(`INSERT INTO accounts (name) VALUES ('local');
    INSERT INTO generations (id, account, status, created_at, asked, result, model, images, is_fetched, state)
    VALUES ('fox', 'local', 'processing', '2026-01-01T00:00:00.000Z', '{"request":{"images":["https://images.example/a.png"]}}',
      '{"error":null,"media":null,"cost":null}', 'sora-2', 1, 1, 'queued')`);
  before.close();
  const store = await openStore(file);
  expect(await store.generation("fox")).not.toHaveProperty("imageFetch");
  const wanted = { kind: "fetch", models: ["sora-2"], maxImages: 1, isSimulation: true } as const;
  expect(await store.claim(wanted, { limit: 1, except: [] })).toMatchObject([{ id: "fox" }]);
  await store.keepImageFetch("fox", { files: ["images/1"] });
  expect((await store.generation("fox"))?.imageFetch).toEqual({ files: ["images/1"] });
  await store.close();
  const { database, version } = await open(file);
  expect(version()).toBe(6);
  expect(() => checkDatabase(database, { afterCrash: false }, steps.slice(0, 1))).toThrow(
    "it has version 6, but this vidgen supports only up to 1",
  );
});

test.each([1, 5])(
  "a database of version %i is upgraded: its used keys are found, and charge nothing",
  async (version) => {
    const file = join(makeFolder(), "service.db");
    const before = await openDatabase(file);
    migrate(before, steps.slice(0, version));
    before.exec(insertKeysBefore(""));
    before.close();
    const store = await openStore(file);
    await expectKeysBefore(store);
    const { api } = await createTestService({ store });
    const headers = { ...bearer(apiKey), "Content-Type": "application/json", "Idempotency-Key": '"doubled"' };
    const request = new Request(`${baseUrl}/api/generate`, { method: "POST", headers, body: doubledBody });
    expect(await readStart(await api(request))).toMatchObject({ data: { id: doubledId } });
    await store.close();
    const { database } = await open(file);
    expect(() => checkDatabase(database, { afterCrash: true }, steps.slice(0, 5))).toThrow("it has version 6");
  },
);
