import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sqlite from "node-sqlite3-wasm";

/** A row of a table, or of an answer. */
export type Row = Record<string, unknown>;

/** What the service's database says, read from a copy, by nobody's code but this. */
export type Books = {
  /** The ids of all generations. */
  ids: Set<string>;
  /** What the owner's account has left. */
  balance: number;
  debits: number;
  /** How often what a generation cost was given back. */
  refunds: number;
  /** Generations by their state; "killed" for one that failed because processes ended. */
  states: Map<string, string>;
  prompts: string[];
  /** The ETag of each kept video, by its prompt. */
  etags: Map<string, string>;
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
      const all = (sql: string) => database.all(sql) as Row[];
      const corrupt = all("PRAGMA quick_check").filter(({ quick_check }) => quick_check !== "ok");
      return toBooks([...bookQueries(cost).map(all), corrupt]);
    } finally {
      database.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Whether an error says that processes ended while they rendered it, or one while it submitted it to an engine. */
export function isKilled(error: string): boolean {
  return error.includes("ended 3 times while it rendered") || error.includes("it was not submitted again");
}

/** The questions that `toBooks` reads the answers of, in the words that SQLite and PostgreSQL share. */
export function bookQueries(cost: number): string[] {
  const sums = `SELECT name, balance, (SELECT coalesce(sum(amount), 0) FROM ledger WHERE account = name) AS sum FROM accounts`;
  return [
    `SELECT id, status, asked, result, ${-cost} AS price,
       (SELECT sum(amount) FROM ledger WHERE ledger.generation = generations.number) AS paid FROM generations`,
    "SELECT balance FROM accounts WHERE name = 'local'",
    `SELECT count(*) AS count, (SELECT count(*) FROM ledger WHERE reason = 'refund') AS refunds
     FROM ledger WHERE reason = 'start'`,
    `SELECT deliveries.id, generations.id AS generation, next_at,
       (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number AND delivered) AS successes
     FROM deliveries JOIN generations ON generations.number = deliveries.generation`,
    `SELECT * FROM (${sums}) AS sums WHERE balance <> sum OR sum < 0`,
    `SELECT 'ledger' AS name, generation FROM ledger
     WHERE generation IS NOT NULL AND generation NOT IN (SELECT number FROM generations)`,
    `SELECT * FROM (${keptSums}) AS kept EXCEPT SELECT * FROM (${countedSums}) AS counted`,
    `SELECT * FROM (${countedSums}) AS counted EXCEPT SELECT * FROM (${keptSums}) AS kept`,
  ];
}

const states = ["queued", "running", "completed", "failed"];
/** What the reports read. */
const keptSums = `SELECT by, account, key, generations, credits, ${states} FROM sums`;
/** The same, from the generations and the ledger. Nothing is forgotten here: what is, still counts in what was spent. */
const countedSums = Object.entries({ day: "substr(created_at, 1, 10)", model: "model", label: "label" })
  .map(
    ([by, key]) => `SELECT '${by}' AS by, account, ${key} AS key, count(*) AS generations, -sum(paid) AS credits,
       ${states.map((state) => `count(*) FILTER (WHERE state = '${state}') AS ${state}`)}
     FROM generations LEFT JOIN (
       SELECT generation, sum(amount) AS paid FROM ledger GROUP BY generation
     ) AS entries ON generation = generations.number WHERE ${key} IS NOT NULL GROUP BY 1, 2, 3`,
  )
  .join(" UNION ALL ");

/** Whatever comes after the first four answers is wrong. */
export function toBooks([generations = [], own = [], debits = [], deliveries = [], ...wrong]: Row[][]): Books {
  return {
    ids: new Set(generations.map(({ id }) => String(id))),
    balance: Number(own[0]?.balance),
    debits: Number(debits[0]?.count),
    refunds: Number(debits[0]?.refunds),
    states: new Map(
      generations.map(({ id, status, result }) => [
        String(id),
        isKilled(JSON.stringify(result)) ? "killed" : String(status),
      ]),
    ),
    prompts: generations.map(promptOf),
    etags: new Map(
      generations.flatMap((row) => {
        const { media } = readJson(row.result);
        return media ? [[promptOf(row), media.etag]] : [];
      }),
    ),
    deliveries: deliveries.map(({ id, generation, next_at, successes }) => ({
      id: String(id),
      generation: String(generation),
      isDelivered: Number(successes) > 0,
      isDue: next_at !== null,
    })),
    faults: [
      ...wrong.flat().map((row) => `the books do not add up: ${JSON.stringify(row)}`),
      ...generations
        .filter(isWronglyPaid)
        .map(({ id, paid, result }) => `${id} cost ${paid}: ${JSON.stringify(result)}`),
    ],
  };
}

/** PostgreSQL gives its value, SQLite its text. */
const readJson = (json: unknown) => (typeof json === "string" ? JSON.parse(json) : json);

const promptOf = ({ asked }: Row): string => readJson(asked).request.prompt;

/** What failed because processes ended is given back, and nothing else: also not what an engine may be making. */
function isWronglyPaid({ status, result, price, paid }: Row): boolean {
  const isUnclear = readJson(result).error_code === "unclear";
  const isGivenBack = status === "failed" && isKilled(JSON.stringify(result)) && !isUnclear;
  return Number(paid) !== (isGivenBack ? 0 : Number(price));
}
