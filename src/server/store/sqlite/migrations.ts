import type { Database } from "./database.ts";

/**
 * The script at index n brings a database from version n to version n + 1. A released script is never changed.
 *
 * Texts from outside are stored as JSON, since SQLite ends a text at a NUL. `balance` is the sum of an account's rows in the ledger. A
 * trigger updates it, so that a start does not add up hundreds of thousands of rows; it is compared with the ledger after a crash. An attempt
 * of a delivery was planned at `planned_at` for `next_at`: a clock that shows an earlier time than both was set back.
 */
const migrations: string[] = [
  `
  CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    balance INTEGER NOT NULL DEFAULT 0 CHECK (balance BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER})
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE keys (
    hash TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE generations (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL REFERENCES accounts,
    status TEXT NOT NULL CHECK (status IN ('processing', 'completed', 'failed')),
    created_at TEXT NOT NULL,
    completed_at TEXT,
    asked TEXT NOT NULL,
    result TEXT NOT NULL
  ) STRICT;
  CREATE INDEX unfinished ON generations (number) WHERE status = 'processing';
  CREATE TABLE ledger (
    number INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts,
    amount INTEGER NOT NULL,
    reason TEXT NOT NULL,
    generation INTEGER REFERENCES generations,
    UNIQUE (generation, reason)
  ) STRICT;
  CREATE INDEX ledger_sums ON ledger (account, amount);
  CREATE TRIGGER ledger_added AFTER INSERT ON ledger BEGIN
    UPDATE accounts SET balance = balance + NEW.amount WHERE name = NEW.account;
  END;
  CREATE TRIGGER ledger_changed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
  CREATE TRIGGER ledger_deleted BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
  CREATE TABLE idempotency_keys (
    account TEXT NOT NULL REFERENCES accounts,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    generation INTEGER NOT NULL REFERENCES generations,
    remaining_credits INTEGER NOT NULL,
    PRIMARY KEY (account, key)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL UNIQUE REFERENCES generations,
    request TEXT NOT NULL,
    next_at TEXT
  ) STRICT;
  CREATE INDEX pending ON deliveries (next_at) WHERE next_at IS NOT NULL;
  CREATE TABLE delivery_attempts (
    delivery INTEGER NOT NULL REFERENCES deliveries,
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    outcome TEXT NOT NULL,
    delivered INTEGER NOT NULL CHECK (delivered IN (0, 1)),
    PRIMARY KEY (delivery, number)
  ) STRICT, WITHOUT ROWID;
  `,
  "ALTER TABLE generations ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;",
  `
  ALTER TABLE generations DROP COLUMN tries;
  ALTER TABLE generations ADD COLUMN checkpoint TEXT NOT NULL DEFAULT 'null';
  `,
  `
  ALTER TABLE generations ADD COLUMN model TEXT AS (asked ->> '$.request.model') VIRTUAL;
  CREATE INDEX generations_by_model ON generations (model, number);
  CREATE INDEX generations_by_status ON generations (status, number);
  ALTER TABLE delivery_attempts ADD COLUMN reply TEXT NOT NULL DEFAULT '""';
  `,
  `
  ALTER TABLE generations ADD COLUMN images INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE generations ADD COLUMN is_real INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE generations ADD COLUMN is_fetched INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE generations ADD COLUMN engine TEXT;
  ALTER TABLE generations ADD COLUMN is_submitting INTEGER NOT NULL DEFAULT 0;
  UPDATE generations SET
    images = json_array_length(asked, '$.request.images'),
    is_real = coalesce(asked ->> '$.request.isReal', 0),
    is_fetched = EXISTS (SELECT 1 FROM json_each(asked, '$.request.images') WHERE value NOT LIKE 'data:%'),
    engine = iif(checkpoint ->> '$.state' = 'submitted', checkpoint ->> '$.engine', NULL),
    is_submitting = coalesce(checkpoint ->> '$.state' = 'submitting', 0)
    WHERE status = 'processing';
  DROP INDEX unfinished;
  CREATE INDEX unfinished ON generations (number, model, images, is_real, is_fetched, engine, is_submitting, created_at, id)
    WHERE status = 'processing';
  ALTER TABLE deliveries ADD COLUMN host TEXT NOT NULL DEFAULT '';
  UPDATE deliveries SET host = substr(request ->> '$.url', instr(request ->> '$.url', '//') + 2) WHERE next_at IS NOT NULL;
  UPDATE deliveries SET host = substr(host, 1, instr(host || '/', '/') - 1) WHERE next_at IS NOT NULL;
  DROP INDEX pending;
  CREATE INDEX pending ON deliveries (next_at, number, host, id) WHERE next_at IS NOT NULL;
  `,
  `
  ALTER TABLE deliveries ADD COLUMN planned_at TEXT;
  CREATE INDEX planned ON deliveries (planned_at, number, host, id, next_at) WHERE next_at IS NOT NULL;
  `,
  `
  CREATE TABLE images (
    generation INTEGER NOT NULL REFERENCES generations,
    place INTEGER NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (generation, place)
  ) STRICT;
  `,
  `
  ALTER TABLE generations ADD COLUMN removed_at TEXT;
  CREATE INDEX generations_by_account ON generations (account, number);
  `,
  `
  ALTER TABLE accounts ADD COLUMN max_running INTEGER;
  ALTER TABLE accounts ADD COLUMN max_per_hour INTEGER;
  ALTER TABLE ledger ADD COLUMN key_hash TEXT;
  CREATE UNIQUE INDEX ledger_keys ON ledger (account, key_hash) WHERE key_hash IS NOT NULL;
  CREATE INDEX starts_by_account ON generations (account, created_at);
  CREATE INDEX unfinished_by_account ON generations (account) WHERE status = 'processing';
  CREATE INDEX waiting ON generations (model, is_fetched, account, number, images, is_real, id)
    WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting;
  CREATE INDEX begun ON generations (number, engine, is_submitting, id)
    WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting);
  `,
  `
  CREATE INDEX kept ON generations (completed_at) WHERE status = 'completed' AND removed_at IS NULL;
  CREATE INDEX ended ON generations (completed_at) WHERE status <> 'processing';
  CREATE INDEX keys_by_generation ON idempotency_keys (generation);
  DROP TRIGGER ledger_changed;
  CREATE TRIGGER ledger_changed BEFORE UPDATE OF number, account, amount, reason ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
  CREATE TRIGGER ledger_paid BEFORE UPDATE OF generation ON ledger WHEN NEW.generation IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
  `,
  `
  ALTER TABLE generations ADD COLUMN state TEXT NOT NULL DEFAULT 'queued';
  UPDATE generations SET state = iif(status <> 'processing', status, iif(checkpoint = 'null', 'queued', 'running'));
  DROP INDEX generations_by_status;
  DROP INDEX generations_by_model;
  CREATE INDEX generations_by_state ON generations (state, number);
  CREATE INDEX generations_by_model ON generations (model, number);
  CREATE INDEX queued ON generations (model, number) WHERE state = 'queued';
  CREATE TABLE search (generation INTEGER PRIMARY KEY REFERENCES generations, text TEXT NOT NULL) STRICT;
  INSERT INTO search (generation, text)
    SELECT number, lower(concat_ws(char(10), asked ->> '$.request.prompt', id, model, result ->> '$.error')) FROM generations;
  `,
  `
  ALTER TABLE delivery_attempts ADD COLUMN ms INTEGER;
  ALTER TABLE ledger ADD COLUMN at TEXT;
  `,
  `
  ALTER TABLE generations ADD COLUMN starred INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE generations ADD COLUMN label TEXT;
  CREATE INDEX starred ON generations (number) WHERE starred;
  CREATE INDEX labelled ON generations (label, number) WHERE label IS NOT NULL;
  `,
];

/**
 * Throws, without changing the file, when it is not a database, belongs to another program or was written by a newer version. `afterCrash`
 * it also throws when the file is damaged or a balance is not the sum of its ledger: with 200,000 generations that takes seconds.
 */
export function checkDatabase(database: Database, { afterCrash }: { afterCrash: boolean }): void {
  const version = versionOf(database);
  if (version > migrations.length)
    throw new Error(
      `it has version ${version}, but this vidgen supports only up to ${migrations.length}: use a newer vidgen`,
    );
  if (version === 0 && database.get("SELECT name FROM sqlite_schema")) throw new Error("it belongs to another program");
  if (!afterCrash) return;
  checkPages(database);
  if (version > 0) checkBalances(database);
}

/** Brings the database to this program's version: all of it or nothing. */
export function migrate(database: Database): void {
  const version = versionOf(database);
  const missing = migrations.slice(version);
  if (missing.length > 0)
    database.exec(`BEGIN IMMEDIATE; ${missing.join("")} PRAGMA user_version = ${migrations.length}; COMMIT`);
}

/** Writes to the file, and changes nothing. */
export function touch(database: Database): void {
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
