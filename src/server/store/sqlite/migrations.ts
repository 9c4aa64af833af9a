import type { Database } from "./database.ts";

/** The sums that a generation counts in. */
const keysOf = (row: "NEW" | "OLD") =>
  `SELECT 'day' AS by, substr(${row}.created_at, 1, 10) AS key UNION ALL SELECT 'model', ${row}.model UNION ALL SELECT 'label', ${row}.label`;

/**
 * The script at index n brings a database from version n to version n + 1. A released script is never changed.
 *
 * Texts from outside are stored as JSON, since SQLite ends a text at a NUL. `balance` is the sum of an account's rows in the ledger. A
 * trigger updates it, so that a start does not add up hundreds of thousands of rows; it is compared with the ledger after a crash. An attempt
 * of a delivery was planned at `planned_at` for `next_at`: a clock that shows an earlier time than both was set back. `sums` is read by `sums.ts`.
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
  `
  CREATE TABLE sums (
    by TEXT NOT NULL CHECK (by IN ('day', 'model', 'label')),
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    generations INTEGER NOT NULL DEFAULT 0,
    credits INTEGER NOT NULL DEFAULT 0,
    usd REAL,
    queued INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    unclear INTEGER NOT NULL DEFAULT 0,
    size INTEGER,
    started_at TEXT,
    ended_at TEXT,
    newest INTEGER,
    PRIMARY KEY (by, account, key)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO sums
    SELECT by, account, iif(by = 'day', day, iif(by = 'model', model, label)) AS key, sum(generations), sum(credits), sum(usd),
      sum(queued), sum(running), sum(completed), sum(failed), sum(unclear), max(size), min(started_at), max(ended_at), max(newest)
    FROM (
      SELECT account, substr(created_at, 1, 10) AS day, model, label, count(*) AS generations, sum(result ->> '$.cost') AS usd,
        sum((SELECT coalesce(-sum(amount), 0) FROM ledger WHERE generation = generations.number)) AS credits,
        sum(state = 'queued') AS queued, sum(state = 'running') AS running, sum(state = 'completed') AS completed,
        sum(state = 'failed') AS failed, sum(result LIKE '%"error_code":"unclear"%') AS unclear,
        max(asked ->> '$.request.label.size') AS size, min(created_at) AS started_at, max(completed_at) AS ended_at, max(number) AS newest
      FROM generations GROUP BY 1, 2, 3, 4
    ) CROSS JOIN (SELECT 'day' AS by UNION ALL SELECT 'model' UNION ALL SELECT 'label')
    GROUP BY 1, 2, 3 HAVING key IS NOT NULL;
  CREATE TRIGGER generation_started AFTER INSERT ON generations BEGIN
    INSERT INTO sums (by, account, key, generations, usd, queued, running, completed, failed, unclear, size, started_at, ended_at, newest)
      SELECT keys.by, NEW.account, keys.key, 1, NEW.result ->> '$.cost', NEW.state = 'queued', NEW.state = 'running',
        NEW.state = 'completed', NEW.state = 'failed', NEW.result LIKE '%"error_code":"unclear"%',
        NEW.asked ->> '$.request.label.size', NEW.created_at, NEW.completed_at, NEW.number
      FROM (${keysOf("NEW")}) AS keys WHERE keys.key IS NOT NULL
      ON CONFLICT DO UPDATE SET generations = generations + 1, usd = coalesce(usd + excluded.usd, usd, excluded.usd),
        queued = queued + excluded.queued, running = running + excluded.running, completed = completed + excluded.completed,
        failed = failed + excluded.failed, unclear = unclear + excluded.unclear,
        size = max(coalesce(size, excluded.size), coalesce(excluded.size, size)), started_at = min(started_at, excluded.started_at),
        ended_at = max(coalesce(ended_at, excluded.ended_at), coalesce(excluded.ended_at, ended_at)), newest = excluded.newest;
  END;
  CREATE TRIGGER generation_changed AFTER UPDATE OF state ON generations WHEN NEW.state <> OLD.state BEGIN
    UPDATE sums SET usd = coalesce(usd + (NEW.result ->> '$.cost'), usd, NEW.result ->> '$.cost'),
      queued = queued + (NEW.state = 'queued') - (OLD.state = 'queued'),
      running = running + (NEW.state = 'running') - (OLD.state = 'running'),
      completed = completed + (NEW.state = 'completed'), failed = failed + (NEW.state = 'failed'),
      unclear = unclear + (NEW.result LIKE '%"error_code":"unclear"%'),
      ended_at = max(coalesce(ended_at, NEW.completed_at), coalesce(NEW.completed_at, ended_at))
    FROM (${keysOf("NEW")}) AS keys WHERE sums.by = keys.by AND sums.account = NEW.account AND sums.key = keys.key;
  END;
  CREATE TRIGGER generation_forgotten AFTER DELETE ON generations BEGIN
    UPDATE sums SET completed = completed - (OLD.state = 'completed'), failed = failed - (OLD.state = 'failed'),
      unclear = unclear - (OLD.result LIKE '%"error_code":"unclear"%')
    FROM (${keysOf("OLD")}) AS keys WHERE sums.by = keys.by AND sums.account = OLD.account AND sums.key = keys.key;
  END;
  CREATE TRIGGER generation_paid AFTER INSERT ON ledger WHEN NEW.generation IS NOT NULL BEGIN
    UPDATE sums SET credits = credits - NEW.amount
    FROM generations
    WHERE number = NEW.generation AND sums.account = generations.account
      AND (by = 'day' AND key = substr(created_at, 1, 10) OR by = 'model' AND key = model OR by = 'label' AND key = label);
  END;
  CREATE INDEX generations_by_account_and_state ON generations (account, state, number);
  `,
  `
  ALTER TABLE deliveries ADD COLUMN account TEXT NOT NULL DEFAULT '';
  ALTER TABLE deliveries ADD COLUMN state TEXT NOT NULL DEFAULT 'waiting';
  UPDATE deliveries SET account = (SELECT account FROM generations WHERE number = generation),
    state = iif(next_at IS NOT NULL, 'waiting', iif(
      (SELECT delivered FROM delivery_attempts WHERE delivery = deliveries.number ORDER BY number DESC LIMIT 1), 'delivered', 'given_up'));
  CREATE INDEX deliveries_by_account ON deliveries (account, state, number);
  CREATE INDEX deliveries_by_state ON deliveries (state, host, number);
  CREATE INDEX deliveries_by_host ON deliveries (host, state);
  `,
  "CREATE TABLE ended_tokens (hash TEXT PRIMARY KEY, until TEXT NOT NULL) STRICT, WITHOUT ROWID;",
  `
  CREATE TABLE provenance (runs INTEGER NOT NULL, copied_at TEXT, restored_at TEXT) STRICT;
  INSERT INTO provenance (runs) VALUES (0);
  `,
  "ALTER TABLE accounts ADD COLUMN deleted_at TEXT;",
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
