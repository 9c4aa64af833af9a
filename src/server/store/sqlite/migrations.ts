import type { Database } from "./database.ts";
import { steps as migrations } from "./schema.ts";

/**
 * Throws, without changing the file, when it is not a database, belongs to another program or was written by a newer version. With
 * `afterCrash`, it also throws when the file is damaged or a balance is not the sum of its ledger: with 200,000 generations that takes seconds.
 */
export function checkDatabase(database: Database, { afterCrash }: { afterCrash: boolean }, steps = migrations): void {
  const version = versionOf(database);
  if (version > steps.length)
    throw new Error(
      `it has version ${version}, but this vidgen supports only up to ${steps.length}: use a newer vidgen`,
    );
  if (version === 0 && database.get("SELECT name FROM sqlite_schema")) throw new Error("it belongs to another program");
  if (!afterCrash) return;
  checkPages(database);
  if (version > 0) checkBalances(database);
}

/** Brings the database to this program's version: all of it or nothing. */
export function migrate(database: Database, steps = migrations): void {
  const missing = steps.slice(versionOf(database));
  if (missing.length > 0)
    database.exec(`BEGIN IMMEDIATE; ${missing.join("")} PRAGMA user_version = ${steps.length}; COMMIT`);
}

/** Throws if the file cannot be written now: writes its version again, which changes nothing. */
export function checkWritable(database: Database): void {
  database.exec(`PRAGMA user_version = ${migrations.length}`);
}

function versionOf(database: Database): number {
  return Number(database.get("PRAGMA user_version")?.user_version);
}

function checkPages(database: Database): void {
  const found = database.get("PRAGMA quick_check(1)")?.quick_check;
  if (found !== "ok") throw new Error(`it is damaged: ${found}`);
}

function checkBalances(database: Database): void {
  const wrong = database.get(
    `SELECT name, balance, sum FROM (
       SELECT name, balance, (SELECT coalesce(sum(amount), 0) FROM ledger WHERE account = name) AS sum FROM accounts
     ) WHERE balance <> sum`,
  );
  if (wrong) throw new Error(`the ledger of ${wrong.name} sums up to ${wrong.sum} credits, not to ${wrong.balance}`);
}
