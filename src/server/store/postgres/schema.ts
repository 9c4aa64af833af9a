/** The sums that a generation counts in, and what counts in them. */
const keysOf = (row: string) =>
  `CROSS JOIN LATERAL (VALUES ('day', left(${row}.created_at, 10)), ('model', ${row}.model), ('label', ${row}.label)) AS keys (by, key)`;
const usdOf = (result: string) => `(${result} ->> 'cost')::float8`;
const isUnclear = (result: string) => `(${result} ->> 'error_code' IS NOT DISTINCT FROM 'unclear')`;
const sumColumns = `keys.by, account, keys.key, count(*) AS generations, sum(${usdOf("result")}) AS usd,
  count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running,
  count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'failed') AS failed,
  count(*) FILTER (WHERE ${isUnclear("result")}) AS unclear, max((asked -> 'request' -> 'label' ->> 'size')::bigint) AS size,
  min(created_at) AS started_at, max(completed_at) AS ended_at, max(number) AS newest`;

/**
 * The tables of version 1. A column has the same name and meaning in both databases. An account's `balance` is the sum of its rows in the ledger.
 * `holder` is the process that makes a generation, or the last process that did; its claim expires at `held_until`. `slot` names the engine whose
 * slot the generation occupies. The images of a generation that `is_fetched` must be fetched first. `turns` contains the order of the accounts'
 * last turns; it has no foreign key, which would lock the accounts that starts lock. A delivery is attempted at `due_at`, by the database's clock;
 * while it is attempted, that is when another process may attempt it. Rows that depend on a generation are deleted with it; the ledger stays.
 * Triggers update `sums`, which only `sums.ts` reads, and refuse to change the ledger. A transaction locks the account before it changes a sum, as
 * a start does: so a start and an end never wait for each other's sums.
 */
const schema = `
  CREATE TABLE vidgen.settings (name text PRIMARY KEY, value text NOT NULL);
  CREATE TABLE vidgen.accounts (
    name text PRIMARY KEY,
    balance bigint NOT NULL DEFAULT 0 CHECK (balance BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER}),
    max_running bigint,
    max_per_hour bigint,
    disabled_at text,
    deleted_at text
  );
  CREATE TABLE vidgen.keys (
    hash text PRIMARY KEY,
    account text NOT NULL REFERENCES vidgen.accounts,
    created_at text NOT NULL,
    used_at text
  );
  CREATE TABLE vidgen.ended_tokens (hash text PRIMARY KEY, until text NOT NULL);

  CREATE TABLE vidgen.generations (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL UNIQUE,
    account text NOT NULL REFERENCES vidgen.accounts,
    status text NOT NULL CHECK (status IN ('processing', 'completed', 'failed')),
    created_at text NOT NULL,
    completed_at text,
    removed_at text,
    asked jsonb NOT NULL,
    checkpoint jsonb,
    result jsonb NOT NULL,
    model text NOT NULL,
    images integer NOT NULL DEFAULT 0,
    is_real boolean NOT NULL DEFAULT false,
    is_fetched boolean NOT NULL DEFAULT false,
    engine text,
    is_submitting boolean NOT NULL DEFAULT false,
    starred boolean NOT NULL DEFAULT false,
    label text,
    search text NOT NULL,
    holder text,
    held_until timestamptz,
    slot text,
    is_ready boolean NOT NULL DEFAULT false,
    state text NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed'))
  );
  CREATE SEQUENCE vidgen.turn;
  CREATE TABLE vidgen.turns (
    account text NOT NULL,
    is_fetched boolean NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (account, is_fetched)
  );
  CREATE TABLE vidgen.images (
    generation bigint NOT NULL REFERENCES vidgen.generations ON DELETE CASCADE,
    place integer NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (generation, place)
  );

  CREATE TABLE vidgen.ledger (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account text NOT NULL REFERENCES vidgen.accounts,
    amount bigint NOT NULL,
    reason text NOT NULL,
    at text NOT NULL,
    generation bigint REFERENCES vidgen.generations ON DELETE SET NULL,
    key_hash text,
    UNIQUE (generation, reason)
  );
  CREATE UNIQUE INDEX ledger_keys ON vidgen.ledger (account, key_hash) WHERE key_hash IS NOT NULL;
  CREATE FUNCTION vidgen.refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the ledger is only added to'; END $$;
  CREATE TRIGGER ledger_changed BEFORE DELETE OR UPDATE OF number, account, amount, reason ON vidgen.ledger
    FOR EACH ROW EXECUTE FUNCTION vidgen.refuse_change();
  CREATE TRIGGER ledger_paid BEFORE UPDATE OF generation ON vidgen.ledger
    FOR EACH ROW WHEN (NEW.generation IS NOT NULL) EXECUTE FUNCTION vidgen.refuse_change();

  CREATE TABLE vidgen.idempotency_keys (
    account text NOT NULL REFERENCES vidgen.accounts,
    key_hash text NOT NULL,
    body_hash text NOT NULL,
    generation bigint NOT NULL REFERENCES vidgen.generations ON DELETE CASCADE,
    remaining_credits bigint NOT NULL,
    PRIMARY KEY (account, key_hash)
  );

  CREATE TABLE vidgen.deliveries (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL UNIQUE,
    generation bigint NOT NULL UNIQUE REFERENCES vidgen.generations ON DELETE CASCADE,
    account text NOT NULL,
    url text NOT NULL,
    body text NOT NULL,
    traceparent text,
    host text NOT NULL,
    next_at text,
    due_at timestamptz,
    state text NOT NULL CHECK (state IN ('waiting', 'delivered', 'given_up'))
  );
  CREATE TABLE vidgen.delivery_attempts (
    delivery bigint NOT NULL REFERENCES vidgen.deliveries ON DELETE CASCADE,
    number integer NOT NULL,
    at text NOT NULL,
    outcome text NOT NULL,
    delivered boolean NOT NULL,
    reply text NOT NULL,
    ms integer NOT NULL,
    PRIMARY KEY (delivery, number)
  );

  CREATE TABLE vidgen.sums (
    by text NOT NULL,
    account text NOT NULL,
    key text NOT NULL,
    generations bigint NOT NULL DEFAULT 0,
    credits bigint NOT NULL DEFAULT 0,
    usd float8,
    queued bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    unclear bigint NOT NULL DEFAULT 0,
    size bigint,
    started_at text,
    ended_at text,
    newest bigint,
    PRIMARY KEY (by, account, key)
  );
  CREATE FUNCTION vidgen.generations_started() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO vidgen.sums AS kept
      (by, account, key, generations, usd, queued, running, completed, failed, unclear, size, started_at, ended_at, newest)
    SELECT ${sumColumns}
    FROM started ${keysOf("started")} WHERE keys.key IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (by, account, key) DO UPDATE SET generations = kept.generations + EXCLUDED.generations,
      usd = coalesce(kept.usd + EXCLUDED.usd, kept.usd, EXCLUDED.usd), queued = kept.queued + EXCLUDED.queued,
      running = kept.running + EXCLUDED.running, completed = kept.completed + EXCLUDED.completed,
      failed = kept.failed + EXCLUDED.failed, unclear = kept.unclear + EXCLUDED.unclear, size = greatest(kept.size, EXCLUDED.size),
      started_at = least(kept.started_at, EXCLUDED.started_at), ended_at = greatest(kept.ended_at, EXCLUDED.ended_at),
      newest = EXCLUDED.newest;
    RETURN NULL;
  END $$;
  CREATE FUNCTION vidgen.generation_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM FROM vidgen.accounts WHERE name = NEW.account FOR NO KEY UPDATE;
    UPDATE vidgen.sums SET usd = coalesce(usd + ${usdOf("NEW.result")}, usd, ${usdOf("NEW.result")}),
      queued = queued + (NEW.state = 'queued')::integer - (OLD.state = 'queued')::integer,
      running = running + (NEW.state = 'running')::integer - (OLD.state = 'running')::integer,
      completed = completed + (NEW.state = 'completed')::integer, failed = failed + (NEW.state = 'failed')::integer,
      unclear = unclear + ${isUnclear("NEW.result")}::integer, ended_at = greatest(ended_at, NEW.completed_at)
    WHERE account = NEW.account AND (by, key) IN (('day', left(NEW.created_at, 10)), ('model', NEW.model), ('label', NEW.label));
    RETURN NULL;
  END $$;
  CREATE FUNCTION vidgen.generations_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM FROM vidgen.accounts WHERE name IN (SELECT account FROM forgotten) ORDER BY name FOR NO KEY UPDATE;
    UPDATE vidgen.sums AS kept SET completed = kept.completed - gone.completed, failed = kept.failed - gone.failed, unclear = kept.unclear - gone.unclear
    FROM (SELECT ${sumColumns} FROM forgotten ${keysOf("forgotten")} GROUP BY 1, 2, 3) AS gone
    WHERE (kept.by, kept.account, kept.key) = (gone.by, gone.account, gone.key);
    RETURN NULL;
  END $$;
  CREATE FUNCTION vidgen.generations_paid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE vidgen.sums AS kept SET credits = kept.credits + paid.credits
    FROM (
      SELECT keys.by, generations.account, keys.key, -sum(amount) AS credits
      FROM entries JOIN vidgen.generations ON generations.number = generation ${keysOf("generations")} GROUP BY 1, 2, 3
    ) AS paid WHERE (kept.by, kept.account, kept.key) = (paid.by, paid.account, paid.key);
    RETURN NULL;
  END $$;
  CREATE TRIGGER generations_started AFTER INSERT ON vidgen.generations REFERENCING NEW TABLE AS started
    FOR EACH STATEMENT EXECUTE FUNCTION vidgen.generations_started();
  CREATE TRIGGER generation_changed AFTER UPDATE OF state ON vidgen.generations
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION vidgen.generation_changed();
  CREATE TRIGGER generations_forgotten AFTER DELETE ON vidgen.generations REFERENCING OLD TABLE AS forgotten
    FOR EACH STATEMENT EXECUTE FUNCTION vidgen.generations_forgotten();
  CREATE TRIGGER generations_paid AFTER INSERT ON vidgen.ledger REFERENCING NEW TABLE AS entries
    FOR EACH STATEMENT EXECUTE FUNCTION vidgen.generations_paid();
`;

/**
 * Version 2: `fetching` says where the fetched images of a generation are, or why they are not there yet; then they are fetched again at `fetch_at`.
 * Without `is_ready`, a process of the version before can only finish what was begun, and claims nothing else.
 */
const fetchedImages = `
  ALTER TABLE vidgen.generations ADD COLUMN fetching jsonb, ADD COLUMN fetch_at text, DROP COLUMN is_ready;
`;

/**
 * Version 3: an engine takes all of `names`, a JSON array, or may not make the generation; NULL for nearly all. `secrets` has the values of fields
 * that `asked` has only as hashes, until the generation ends. `image_fetch` replaces `fetching`, which stays for processes of the version before.
 * Without `fetch_at`, they can only finish what was begun, and claim nothing else.
 */
const namedFields = `
  ALTER TABLE vidgen.generations ADD COLUMN names text, ADD COLUMN secrets jsonb, ADD COLUMN image_fetch jsonb;
  ALTER TABLE vidgen.generations RENAME COLUMN fetch_at TO image_fetch_at;
  UPDATE vidgen.generations SET image_fetch = fetching WHERE status = 'processing' AND fetching IS NOT NULL;
`;

/** Version 4: the name that the owner gave a key; NULL for most. */
const namedKeys = `
  ALTER TABLE vidgen.keys ADD COLUMN key_name text;
`;

/** Version 5: whether the next attempt of a callback is a retry. Processes of the version before make attempts without saying so. */
const retries = `
  ALTER TABLE vidgen.deliveries ADD COLUMN is_retry boolean NOT NULL DEFAULT false;
  UPDATE vidgen.deliveries SET is_retry = true
    WHERE state <> 'delivered' AND EXISTS (SELECT 1 FROM vidgen.delivery_attempts WHERE delivery = deliveries.number);
  DROP INDEX IF EXISTS vidgen.deliveries_due_by_host;
`;

/**
 * Version 6: an idempotency key is stored as parsed, and `request_hash` is of a body with its members sorted, unless an earlier version stored the
 * row: `is_sorted` is false there. Without `body_hash`, a process of the version before, which does not find a parsed key in quotes, starts nothing.
 */
const parsedKeys = `
  ALTER TABLE vidgen.idempotency_keys RENAME COLUMN body_hash TO request_hash;
  ALTER TABLE vidgen.idempotency_keys ADD COLUMN is_sorted boolean NOT NULL DEFAULT false;
`;

/** The script at index n brings a database from version n to version n + 1. A released script is never changed. */
export const steps: readonly string[] = [schema, fetchedImages, namedFields, namedKeys, retries, parsedKeys];

/** The indexes by name. They are built after the script; see `Versions`. */
export const indexes: Readonly<Record<string, string>> = {
  waiting_by_model: "vidgen.generations (model, number) WHERE status = 'processing'",
  deliveries_due: "vidgen.deliveries (due_at) WHERE due_at IS NOT NULL",
  deliveries_due_by_kind: "vidgen.deliveries (is_retry, host, due_at, number) WHERE due_at IS NOT NULL",
  generations_by_account: "vidgen.generations (account, number)",
  starts_by_account: "vidgen.generations (account, created_at)",
  unfinished_by_account: "vidgen.generations (account) WHERE status = 'processing'",
  waiting:
    "vidgen.generations (model, is_fetched, account, number) WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting",
  named:
    "vidgen.generations (model) WHERE names IS NOT NULL AND status = 'processing' AND engine IS NULL AND NOT is_submitting",
  begun: "vidgen.generations (number) WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting)",
  slots: "vidgen.generations (slot) WHERE status = 'processing' AND slot IS NOT NULL",
  kept: "vidgen.generations (completed_at) WHERE status = 'completed' AND removed_at IS NULL",
  ended: "vidgen.generations (completed_at) WHERE status <> 'processing'",
  keys_by_generation: "vidgen.idempotency_keys (generation)",
  generations_by_state: "vidgen.generations (state, number)",
  queued_by_model: "vidgen.generations (model, number) WHERE state = 'queued'",
  starred: "vidgen.generations (number) WHERE starred",
  labelled: "vidgen.generations (label, number) WHERE label IS NOT NULL",
  generations_by_account_and_state: "vidgen.generations (account, state, number)",
  deliveries_by_account: "vidgen.deliveries (account, state, number)",
  deliveries_by_state: "vidgen.deliveries (state, host, number)",
  deliveries_by_host: "vidgen.deliveries (host, state)",
  generations_by_model: "vidgen.generations (model, number)",
};
