import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../../../../src/server/store/sqlite/database.ts";
import { migrate } from "../../../../src/server/store/sqlite/migrations.ts";
import { makeFolder } from "../../../folder.ts";

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
