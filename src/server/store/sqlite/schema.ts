/** The sums that a generation counts in. */
const keysOf = (row: "NEW" | "OLD") =>
  `SELECT 'day' AS by, substr(${row}.created_at, 1, 10) AS key UNION ALL SELECT 'model', ${row}.model UNION ALL SELECT 'label', ${row}.label`;
const usdOf = (row: "NEW") => `CAST(${row}.result ->> 'cost' AS REAL)`;
const isUnclear = (row: "NEW" | "OLD") => `(${row}.result ->> 'error_code' IS 'unclear')`;

/**
 * The tables of version 1. A column has the same name and meaning in both databases. `asked`, `checkpoint` and `result` are JSON. An account's
 * `balance` is the sum of its rows in the ledger, and is compared with them after a crash. `holder` is always empty, because the only process that
 * uses the file makes everything. An attempt of a delivery was planned at `planned_at` for `next_at`. If the clock shows an earlier time than both,
 * it was set back. Rows that depend on a generation are deleted with it; the ledger stays. Triggers update `sums`, which only `sums.ts` reads, and
 * refuse to change the ledger.
 */
const schema = `
  CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    balance INTEGER NOT NULL DEFAULT 0 CHECK (balance BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER}),
    max_running INTEGER,
    max_per_hour INTEGER,
    disabled_at TEXT,
    deleted_at TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE keys (
    hash TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts,
    created_at TEXT NOT NULL,
    used_at TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE ended_tokens (hash TEXT PRIMARY KEY, until TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE provenance (runs INTEGER NOT NULL, copied_at TEXT, restored_at TEXT) STRICT;
  INSERT INTO provenance (runs) VALUES (0);

  CREATE TABLE generations (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL REFERENCES accounts,
    status TEXT NOT NULL CHECK (status IN ('processing', 'completed', 'failed')),
    created_at TEXT NOT NULL,
    completed_at TEXT,
    removed_at TEXT,
    asked TEXT NOT NULL,
    checkpoint TEXT,
    result TEXT NOT NULL,
    model TEXT NOT NULL,
    images INTEGER NOT NULL DEFAULT 0,
    is_real INTEGER NOT NULL DEFAULT 0,
    is_fetched INTEGER NOT NULL DEFAULT 0,
    engine TEXT,
    is_submitting INTEGER NOT NULL DEFAULT 0,
    starred INTEGER NOT NULL DEFAULT 0,
    label TEXT,
    holder TEXT,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed'))
  ) STRICT;
  CREATE INDEX unfinished ON generations (number, model, images, is_real, is_fetched, engine, is_submitting, created_at, id)
    WHERE status = 'processing';
  CREATE INDEX unfinished_by_account ON generations (account) WHERE status = 'processing';
  CREATE INDEX waiting ON generations (model, is_fetched, account, number, images, is_real, id)
    WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting;
  CREATE INDEX begun ON generations (number, engine, is_submitting, id)
    WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting);
  CREATE INDEX kept ON generations (completed_at) WHERE status = 'completed' AND removed_at IS NULL;
  CREATE INDEX ended ON generations (completed_at) WHERE status <> 'processing';
  CREATE INDEX starts_by_account ON generations (account, created_at);
  CREATE INDEX generations_by_account ON generations (account, number);
  CREATE INDEX generations_by_account_and_state ON generations (account, state, number);
  CREATE INDEX generations_by_state ON generations (state, number);
  CREATE INDEX generations_by_model ON generations (model, number);
  CREATE INDEX queued ON generations (model, number) WHERE state = 'queued';
  CREATE INDEX starred ON generations (number) WHERE starred;
  CREATE INDEX labelled ON generations (label, number) WHERE label IS NOT NULL;

  CREATE TABLE search (
    generation INTEGER PRIMARY KEY REFERENCES generations ON DELETE CASCADE,
    text TEXT NOT NULL
  ) STRICT;
  CREATE TABLE images (
    generation INTEGER NOT NULL REFERENCES generations ON DELETE CASCADE,
    place INTEGER NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (generation, place)
  ) STRICT;

  CREATE TABLE ledger (
    number INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts,
    amount INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL,
    generation INTEGER REFERENCES generations ON DELETE SET NULL,
    key_hash TEXT,
    UNIQUE (generation, reason)
  ) STRICT;
  CREATE INDEX ledger_sums ON ledger (account, amount);
  CREATE UNIQUE INDEX ledger_keys ON ledger (account, key_hash) WHERE key_hash IS NOT NULL;
  CREATE TRIGGER ledger_changed BEFORE UPDATE OF number, account, amount, reason ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
  CREATE TRIGGER ledger_paid BEFORE UPDATE OF generation ON ledger WHEN NEW.generation IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
  CREATE TRIGGER ledger_deleted BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;

  CREATE TABLE idempotency_keys (
    account TEXT NOT NULL REFERENCES accounts,
    key_hash TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    generation INTEGER NOT NULL REFERENCES generations ON DELETE CASCADE,
    remaining_credits INTEGER NOT NULL,
    PRIMARY KEY (account, key_hash)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keys_by_generation ON idempotency_keys (generation);

  CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL UNIQUE REFERENCES generations ON DELETE CASCADE,
    account TEXT NOT NULL,
    url TEXT NOT NULL,
    body TEXT NOT NULL,
    traceparent TEXT,
    host TEXT NOT NULL,
    next_at TEXT,
    planned_at TEXT,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'given_up'))
  ) STRICT;
  CREATE INDEX pending ON deliveries (next_at) WHERE next_at IS NOT NULL;
  CREATE INDEX pending_by_host ON deliveries (host, next_at, number, id) WHERE next_at IS NOT NULL;
  CREATE INDEX planned_by_host ON deliveries (host, planned_at, number, id) WHERE next_at IS NOT NULL;
  CREATE INDEX deliveries_by_account ON deliveries (account, state, number);
  CREATE INDEX deliveries_by_state ON deliveries (state, host, number);
  CREATE INDEX deliveries_by_host ON deliveries (host, state);
  CREATE TABLE delivery_attempts (
    delivery INTEGER NOT NULL REFERENCES deliveries ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    outcome TEXT NOT NULL,
    delivered INTEGER NOT NULL CHECK (delivered IN (0, 1)),
    reply TEXT NOT NULL,
    ms INTEGER NOT NULL,
    PRIMARY KEY (delivery, number)
  ) STRICT, WITHOUT ROWID;

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
  CREATE TRIGGER generation_started AFTER INSERT ON generations BEGIN
    INSERT INTO sums (by, account, key, generations, usd, queued, running, completed, failed, unclear, size, started_at, ended_at, newest)
      SELECT keys.by, NEW.account, keys.key, 1, ${usdOf("NEW")}, NEW.state = 'queued', NEW.state = 'running',
        NEW.state = 'completed', NEW.state = 'failed', ${isUnclear("NEW")},
        NEW.asked -> 'request' -> 'label' ->> 'size', NEW.created_at, NEW.completed_at, NEW.number
      FROM (${keysOf("NEW")}) AS keys WHERE keys.key IS NOT NULL
      ON CONFLICT DO UPDATE SET generations = generations + 1, usd = coalesce(usd + excluded.usd, usd, excluded.usd),
        queued = queued + excluded.queued, running = running + excluded.running, completed = completed + excluded.completed,
        failed = failed + excluded.failed, unclear = unclear + excluded.unclear,
        size = max(coalesce(size, excluded.size), coalesce(excluded.size, size)), started_at = min(started_at, excluded.started_at),
        ended_at = max(coalesce(ended_at, excluded.ended_at), coalesce(excluded.ended_at, ended_at)), newest = excluded.newest;
  END;
  CREATE TRIGGER generation_changed AFTER UPDATE OF state ON generations WHEN NEW.state <> OLD.state BEGIN
    UPDATE sums SET usd = coalesce(usd + ${usdOf("NEW")}, usd, ${usdOf("NEW")}),
      queued = queued + (NEW.state = 'queued') - (OLD.state = 'queued'),
      running = running + (NEW.state = 'running') - (OLD.state = 'running'),
      completed = completed + (NEW.state = 'completed'), failed = failed + (NEW.state = 'failed'),
      unclear = unclear + ${isUnclear("NEW")},
      ended_at = max(coalesce(ended_at, NEW.completed_at), coalesce(NEW.completed_at, ended_at))
    FROM (${keysOf("NEW")}) AS keys WHERE sums.by = keys.by AND sums.account = NEW.account AND sums.key = keys.key;
  END;
  CREATE TRIGGER generation_forgotten AFTER DELETE ON generations BEGIN
    UPDATE sums SET completed = completed - (OLD.state = 'completed'), failed = failed - (OLD.state = 'failed'),
      unclear = unclear - ${isUnclear("OLD")}
    FROM (${keysOf("OLD")}) AS keys WHERE sums.by = keys.by AND sums.account = OLD.account AND sums.key = keys.key;
  END;
  CREATE TRIGGER generation_paid AFTER INSERT ON ledger WHEN NEW.generation IS NOT NULL BEGIN
    UPDATE sums SET credits = credits - NEW.amount
    FROM generations
    WHERE number = NEW.generation AND sums.account = generations.account
      AND (by = 'day' AND key = substr(created_at, 1, 10) OR by = 'model' AND key = model OR by = 'label' AND key = label);
  END;
`;

/** Version 2: `fetching` says where the fetched images of a generation are, or why they are not there yet; then they are fetched at `fetch_at`. */
const fetchedImages = `
  ALTER TABLE generations ADD COLUMN fetching TEXT;
  ALTER TABLE generations ADD COLUMN fetch_at TEXT;
`;

/**
 * Version 3: an engine takes all of `names`, a JSON array, or may not make the generation; NULL for nearly all. `secrets` has the values of fields
 * that `asked` has only as hashes, until the generation ends. `image_fetch` was called as a field of the status that means something else.
 */
const namedFields = `
  ALTER TABLE generations ADD COLUMN names TEXT;
  ALTER TABLE generations ADD COLUMN secrets TEXT;
  ALTER TABLE generations RENAME COLUMN fetching TO image_fetch;
  ALTER TABLE generations RENAME COLUMN fetch_at TO image_fetch_at;
  DROP INDEX unfinished;
  DROP INDEX waiting;
  CREATE INDEX unfinished
    ON generations (number, model, images, is_real, is_fetched, names, engine, is_submitting, created_at, id)
    WHERE status = 'processing';
  CREATE INDEX waiting
    ON generations (model, is_fetched, account, number, images, is_real, names, image_fetch_at, id)
    WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting;
  CREATE INDEX named ON generations (model, names)
    WHERE names IS NOT NULL AND status = 'processing' AND engine IS NULL AND NOT is_submitting;
`;

/** Version 4: the name that the owner gave a key; NULL for most. */
const namedKeys = `
  ALTER TABLE keys ADD COLUMN key_name TEXT;
`;

/** Version 5: whether the next attempt of a callback is a retry. */
const retries = `
  ALTER TABLE deliveries ADD COLUMN is_retry INTEGER NOT NULL DEFAULT 0;
  UPDATE deliveries SET is_retry = 1 WHERE state <> 'delivered' AND number IN (SELECT delivery FROM delivery_attempts);
  DROP INDEX pending_by_host;
  DROP INDEX planned_by_host;
  CREATE INDEX pending_by_host ON deliveries (host, is_retry, next_at, number, id) WHERE next_at IS NOT NULL;
  CREATE INDEX planned_by_host ON deliveries (host, is_retry, planned_at, number, id) WHERE next_at IS NOT NULL;
`;

/**
 * Version 6: an idempotency key is stored as parsed, and `request_hash` is of a body with its members sorted, unless an earlier version stored the
 * row: `is_sorted` is FALSE there.
 */
const parsedKeys = `
  ALTER TABLE idempotency_keys RENAME COLUMN body_hash TO request_hash;
  ALTER TABLE idempotency_keys ADD COLUMN is_sorted INTEGER NOT NULL DEFAULT FALSE;
`;

/** The script at index n brings a database from version n to version n + 1. A released script is never changed. */
export const steps: readonly string[] = [schema, fetchedImages, namedFields, namedKeys, retries, parsedKeys];
