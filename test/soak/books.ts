import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sqlite, { type Database } from "node-sqlite3-wasm";

type Row = Record<string, string | number | null>;

/** What the service's database says, read from a copy, by nobody's code but this. */
export type Books = {
  /** The ids of all generations. */
  ids: Set<string>;
  /** What the owner's account has left. */
  balance: number;
  debits: number;
  /** Generations by their state; "killed" for one that failed because its process ended three times while it was rendered. */
  states: Map<string, string>;
  prompts: string[];
  deliveries: { id: string; generation: string; isDelivered: boolean; isDue: boolean }[];
  /** What does not add up, in words. */
  faults: string[];
};

/** Reads the books of a service that does not run. `cost` is what a generation costs. */
export function readBooks(home: string, cost: number): Books {
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "vidgen-books-"));
  try {
    for (const name of ["service.db", "service.db-wal"]) {
      const file = join(home, "service", name);
      if (existsSync(file)) copyFileSync(file, join(folder, name));
    }
    const database = new sqlite.Database(join(folder, "service.db"));
    try {
      database.exec("PRAGMA locking_mode = EXCLUSIVE");
      return read(database, cost);
    } finally {
      database.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Whether an error of the service says so. */
export function isKilled(error: string): boolean {
  return error.includes("ended 3 times while it rendered");
}

function read(database: Database, cost: number): Books {
  const all = (sql: string) => database.all(sql) as Row[];
  const generations = all("SELECT id, status, asked, result FROM generations");
  const [own] = all("SELECT balance FROM accounts WHERE name = 'local'");
  const [debits] = all("SELECT count(*) AS count FROM ledger WHERE generation IS NOT NULL");
  const deliveries = all(
    `SELECT deliveries.id, generations.id AS generation, next_at,
       (SELECT max(delivered) FROM delivery_attempts WHERE delivery = deliveries.number) AS delivered
     FROM deliveries JOIN generations ON generations.number = deliveries.generation`,
  );
  return {
    ids: new Set(generations.map(({ id }) => String(id))),
    balance: Number(own?.balance),
    debits: Number(debits?.count),
    states: new Map(
      generations.map(({ id, status, result }) => [String(id), isKilled(String(result)) ? "killed" : String(status)]),
    ),
    prompts: generations.map(({ asked }) => JSON.parse(String(asked)).request.prompt),
    deliveries: deliveries.map(({ id, generation, next_at, delivered }) => ({
      ...{ id: String(id), generation: String(generation) },
      ...{ isDelivered: delivered === 1, isDue: next_at !== null },
    })),
    faults: wrongs(all, cost),
  };
}

function wrongs(all: (sql: string) => Row[], cost: number): string[] {
  const sums = `SELECT name, balance, (SELECT coalesce(sum(amount), 0) FROM ledger WHERE account = name) AS sum FROM accounts`;
  const unpaid = `SELECT id, (SELECT sum(amount) FROM ledger WHERE ledger.generation = generations.number) AS paid
    FROM generations`;
  const found = [
    ...all(`SELECT * FROM (${sums}) WHERE balance <> sum OR sum < 0`),
    ...all(`SELECT * FROM (${unpaid}) WHERE paid IS NOT ${-cost}`),
    ...all(
      "SELECT 'ledger' AS name, generation FROM ledger WHERE generation IS NOT NULL AND generation NOT IN (SELECT number FROM generations)",
    ),
    ...all("PRAGMA quick_check").filter(({ quick_check }) => quick_check !== "ok"),
  ];
  return found.map((row) => `the books do not add up: ${JSON.stringify(row)}`);
}
