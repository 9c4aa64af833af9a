import { systemCode, usage } from "../../../errors.ts";
import type { Clock } from "../../../io.ts";
import type { Database, Query } from "./database.ts";

/** Parts of the step that adds the sums. */
const keysOf = (row: string) =>
  `CROSS JOIN LATERAL (VALUES ('day', left(${row}.created_at, 10)), ('model', ${row}.model), ('label', ${row}.label)) AS keys (by, key)`;
const usdOf = (result: string) => `substring(${result} FROM ',"cost":([0-9.e+-]+)}$')::float8`;
const isUnclear = (result: string) => `${result} LIKE '%"error_code":"unclear"%'`;
const counts = `count(*) AS generations, sum(${usdOf("result")}) AS usd,
  count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running,
  count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'failed') AS failed,
  count(*) FILTER (WHERE ${isUnclear("result")}) AS unclear, max(label_size) AS size, min(created_at) AS started_at,
  max(completed_at) AS ended_at, max(number) AS newest`;
const sumColumns = `keys.by, account, keys.key, ${counts}`;

/**
 * The steps to the current version; step n makes version n from n - 1. They are never changed once they were released.
 *
 * Texts from outside are stored as JSON, since PostgreSQL has no NUL and no half pairs of surrogates in a text. A balance is the sum of an
 * account's rows in the ledger. `holder` is the process that makes a generation, or was the last to do so; it may until `held_until`. A delivery
 * is attempted at `due_at`, by the database's clock; while it is attempted, that is when another process may attempt it.
 */
const migrations: string[] = [
  `
  CREATE TABLE vidgen.settings (name text PRIMARY KEY, value text NOT NULL);
  CREATE TABLE vidgen.accounts (
    name text PRIMARY KEY,
    balance bigint NOT NULL DEFAULT 0 CHECK (balance BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER})
  );
  CREATE TABLE vidgen.keys (hash text PRIMARY KEY, account text NOT NULL REFERENCES vidgen.accounts);
  CREATE TABLE vidgen.generations (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL UNIQUE,
    account text NOT NULL REFERENCES vidgen.accounts,
    status text NOT NULL CHECK (status IN ('processing', 'completed', 'failed')),
    created_at text NOT NULL,
    completed_at text,
    model text NOT NULL,
    prompt text NOT NULL,
    asked text NOT NULL,
    checkpoint text NOT NULL,
    result text NOT NULL,
    holder text,
    held_until timestamptz
  );
  CREATE INDEX generations_by_model ON vidgen.generations (model, number);
  CREATE INDEX generations_by_status ON vidgen.generations (status, number);
  CREATE TABLE vidgen.ledger (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account text NOT NULL REFERENCES vidgen.accounts,
    amount bigint NOT NULL,
    reason text NOT NULL,
    generation bigint REFERENCES vidgen.generations,
    UNIQUE (generation, reason)
  );
  CREATE FUNCTION vidgen.refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the ledger is only added to'; END $$;
  CREATE TRIGGER ledger_changed BEFORE UPDATE OR DELETE ON vidgen.ledger
    FOR EACH ROW EXECUTE FUNCTION vidgen.refuse_change();
  CREATE TABLE vidgen.idempotency_keys (
    account text NOT NULL REFERENCES vidgen.accounts,
    key_hash text NOT NULL,
    body_hash text NOT NULL,
    generation bigint NOT NULL REFERENCES vidgen.generations,
    remaining_credits bigint NOT NULL,
    PRIMARY KEY (account, key_hash)
  );
  CREATE TABLE vidgen.deliveries (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL UNIQUE,
    generation bigint NOT NULL UNIQUE REFERENCES vidgen.generations,
    request text NOT NULL,
    next_at text
  );
  CREATE TABLE vidgen.delivery_attempts (
    delivery bigint NOT NULL REFERENCES vidgen.deliveries,
    number integer NOT NULL,
    at text NOT NULL,
    outcome text NOT NULL,
    delivered boolean NOT NULL,
    reply text NOT NULL,
    PRIMARY KEY (delivery, number)
  );
  `,
  // A text in JSON has no quotes of its own, so that the patterns find keys alone.
  `
  DROP SCHEMA IF EXISTS vidgen_jobs CASCADE;
  ALTER TABLE vidgen.generations
    ADD COLUMN images integer NOT NULL DEFAULT 0,
    ADD COLUMN is_real boolean NOT NULL DEFAULT false,
    ADD COLUMN is_fetched boolean NOT NULL DEFAULT false,
    ADD COLUMN engine text,
    ADD COLUMN is_submitting boolean NOT NULL DEFAULT false;
  UPDATE vidgen.generations SET
    images = (asked NOT LIKE '%"images":[]%')::integer,
    is_real = asked LIKE '%"isReal":true%',
    is_fetched = asked ~* '"images":\\["(?!data:)',
    engine = substring(checkpoint FROM '"state":"submitted".*"engine":"([^"]*)"'),
    is_submitting = checkpoint LIKE '{"state":"submitting"%'
    WHERE status = 'processing';
  ALTER TABLE vidgen.deliveries ADD COLUMN host text NOT NULL DEFAULT '', ADD COLUMN due_at timestamptz;
  UPDATE vidgen.deliveries SET due_at = now(), host = split_part(split_part(request, '//', 2), '/', 1)
    WHERE next_at IS NOT NULL;
  `,
  `
  CREATE TABLE vidgen.images (
    generation bigint NOT NULL REFERENCES vidgen.generations,
    place integer NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (generation, place)
  );
  `,
  `
  ALTER TABLE vidgen.generations ADD COLUMN removed_at text;
  `,
  `
  ALTER TABLE vidgen.accounts ADD COLUMN max_running bigint, ADD COLUMN max_per_hour bigint;
  ALTER TABLE vidgen.ledger ADD COLUMN key_hash text;
  CREATE UNIQUE INDEX ledger_keys ON vidgen.ledger (account, key_hash) WHERE key_hash IS NOT NULL;
  `,
  `
  DROP TRIGGER ledger_changed ON vidgen.ledger;
  CREATE TRIGGER ledger_changed BEFORE DELETE OR UPDATE OF number, account, amount, reason ON vidgen.ledger
    FOR EACH ROW EXECUTE FUNCTION vidgen.refuse_change();
  CREATE TRIGGER ledger_paid BEFORE UPDATE OF generation ON vidgen.ledger
    FOR EACH ROW WHEN (NEW.generation IS NOT NULL) EXECUTE FUNCTION vidgen.refuse_change();
  `,
  // The errors of earlier generations are not found: they are JSON, which may have what a text cannot. The column gets its values with a change of
  // its type, in the one rewrite of the table that the other column takes: an UPDATE takes six times as long, and leaves the table twice as large.
  `
  ALTER TABLE vidgen.generations ADD COLUMN search text NOT NULL DEFAULT '';
  ALTER TABLE vidgen.generations
    ALTER COLUMN search TYPE text USING lower(concat_ws(chr(10), prompt, id, model)),
    ADD COLUMN state text GENERATED ALWAYS AS (
      CASE WHEN status <> 'processing' THEN status WHEN checkpoint = 'null' THEN 'queued' ELSE 'running' END
    ) STORED;
  `,
  `
  ALTER TABLE vidgen.delivery_attempts ADD COLUMN ms integer;
  ALTER TABLE vidgen.ledger ADD COLUMN at text;
  `,
  `
  ALTER TABLE vidgen.generations
    ADD COLUMN starred boolean NOT NULL DEFAULT false, ADD COLUMN label text, ADD COLUMN label_size bigint;
  `,
  // Whoever changes a sum has locked its account before, as a start has: so a start and an end never wait for each other's sums.
  `
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
      unclear = unclear + (${isUnclear("NEW.result")})::integer, ended_at = greatest(ended_at, NEW.completed_at)
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
  INSERT INTO vidgen.sums (by, account, key, generations, usd, queued, running, completed, failed, unclear, size, started_at, ended_at, newest, credits)
    SELECT keys.by, account, keys.key, sum(generations), sum(usd), sum(queued), sum(running), sum(completed), sum(failed), sum(unclear), max(size),
      min(started_at), max(ended_at), max(newest), sum(credits)
    FROM (
      SELECT left(created_at, 10) AS day, model, label, coalesce(sum(paid.credits), 0) AS credits, account, ${counts}
      FROM vidgen.generations LEFT JOIN (SELECT generation, -sum(amount) AS credits FROM vidgen.ledger GROUP BY 1) AS paid ON paid.generation = number
      GROUP BY 1, 2, 3, 5
    ) AS counted CROSS JOIN LATERAL (VALUES ('day', day), ('model', model), ('label', label)) AS keys (by, key)
    WHERE keys.key IS NOT NULL GROUP BY 1, 2, 3;
  `,
  // The new columns get their values with a change of their type, which may not have a subquery, but a function. Triggers keep them, since a process of
  // an earlier version, which may still run, does not know of them.
  `
  CREATE FUNCTION vidgen.account_of(bigint) RETURNS text LANGUAGE sql STABLE AS
    $$ SELECT account FROM vidgen.generations WHERE number = $1 $$;
  CREATE FUNCTION vidgen.was_delivered(bigint) RETURNS boolean LANGUAGE sql STABLE AS
    $$ SELECT coalesce((SELECT delivered FROM vidgen.delivery_attempts WHERE delivery = $1 ORDER BY number DESC LIMIT 1), false) $$;
  ALTER TABLE vidgen.deliveries
    ADD COLUMN account text NOT NULL DEFAULT '', ADD COLUMN delivered boolean NOT NULL DEFAULT false;
  ALTER TABLE vidgen.deliveries
    ALTER COLUMN account TYPE text USING vidgen.account_of(generation),
    ALTER COLUMN delivered TYPE boolean USING vidgen.was_delivered(number);
  ALTER TABLE vidgen.deliveries
    ADD COLUMN state text GENERATED ALWAYS AS (
      CASE WHEN next_at IS NOT NULL THEN 'waiting' WHEN delivered THEN 'delivered' ELSE 'given_up' END
    ) STORED;
  DROP FUNCTION vidgen.account_of, vidgen.was_delivered;
  CREATE FUNCTION vidgen.delivery_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.account := (SELECT account FROM vidgen.generations WHERE number = NEW.generation);
    RETURN NEW;
  END $$;
  CREATE FUNCTION vidgen.delivery_attempted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE vidgen.deliveries SET delivered = NEW.delivered WHERE number = NEW.delivery AND delivered <> NEW.delivered;
    RETURN NULL;
  END $$;
  CREATE TRIGGER delivery_added BEFORE INSERT ON vidgen.deliveries FOR EACH ROW EXECUTE FUNCTION vidgen.delivery_added();
  CREATE TRIGGER delivery_attempted AFTER INSERT ON vidgen.delivery_attempts FOR EACH ROW EXECUTE FUNCTION vidgen.delivery_attempted();
  `,
  "CREATE TABLE vidgen.ended_tokens (hash text PRIMARY KEY, until text NOT NULL);",
  "ALTER TABLE vidgen.accounts ADD COLUMN deleted_at text;",
];

/**
 * The indexes of later versions, by name. They are no part of a step: on a large table an index takes minutes, in which nobody could write to it. So
 * each is built beside the work of other processes, after the steps; one that was left unfinished is built anew.
 */
const indexes: Readonly<Record<string, string>> = {
  waiting_by_model: "vidgen.generations (model, number) WHERE status = 'processing'",
  deliveries_due: "vidgen.deliveries (due_at) WHERE due_at IS NOT NULL",
  generations_by_account: "vidgen.generations (account, number)",
  starts_by_account: "vidgen.generations (account, created_at)",
  unfinished_by_account: "vidgen.generations (account) WHERE status = 'processing'",
  waiting:
    "vidgen.generations (model, is_fetched, account, number) WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting",
  begun: "vidgen.generations (number) WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting)",
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
};

/**
 * The index of the search: every three characters of each text. It needs an extension; a server that does not have it, or does not allow it, is
 * asked again at each start, and the search reads all texts.
 */
const searchIndex = "search_texts";

export type MigrateOptions = {
  clock: Pick<Clock, "sleep" | "now">;
  /** Called with a line for the owner when it takes long. */
  onNote(text: string): void;
  /** Ends the wait for other sessions. */
  signal?: AbortSignal | undefined;
};

/** Any number, the same in each process and each version. */
const lock = 8_787;
const lockPollMs = 100;
/** For so long a step may wait for other sessions: whoever wants the same table meanwhile waits behind it. */
const lockTimeoutMs = 2_000;
const lockPatienceMs = 60_000;
const lockPauseMs = 1_000;

/**
 * Brings the database to this program's version; one process does so at a time, and the others wait. When it is killed, the next one goes on from
 * there. Rejects when another program made its schema, or a newer version of this one did.
 */
export async function migrate(
  { query, session }: Pick<Database, "query" | "session">,
  options: MigrateOptions,
): Promise<void> {
  if (await isCurrent(query)) return;
  await session(async (sql) => {
    await waitForLock(sql, options);
    const version = await versionOf(sql);
    if (version > 0 && version < migrations.length)
      options.onNote(
        `Upgrading the database from version ${version} to ${migrations.length}. With a million generations this takes a minute or two; meanwhile other processes may respond with HTTP 503.`,
      );
    await sql(`SET lock_timeout = ${lockTimeoutMs}`);
    for (let from = version; from < migrations.length; from++) await retryLocked(() => takeStep(sql, from), options);
    // This waits for the transactions of others, and nobody waits for it.
    await sql("SET lock_timeout = 0");
    for (const [name, columns] of Object.entries(indexes))
      await retryLocked(() => buildIndex(sql, name, columns), options);
    const schema = await findTrigrams(sql);
    if (schema !== undefined)
      await retryLocked(
        () => buildIndex(sql, searchIndex, `vidgen.generations USING gin (search ${schema}.gin_trgm_ops)`),
        options,
      );
  });
}

/** Rejects with `usage` unless a service of this version has prepared the database. Changes nothing. */
export async function requireCurrent(query: Query): Promise<void> {
  const version = await versionOf(query);
  if (version === 0)
    throw usage(
      "No service has used this database. Nothing was changed in it.",
      "Check its address, or start the service on it: vidgen serve --database <url>",
    );
  if (version < migrations.length)
    throw usage(
      "This database is of an earlier version of vidgen. Nothing was changed in it.",
      "Start the service on it once, which upgrades it: vidgen serve --database <url>",
    );
}

async function isCurrent(query: Query): Promise<boolean> {
  if ((await versionOf(query)) < migrations.length) return false;
  const found = await readIndexes(query);
  return [...Object.keys(indexes), searchIndex].every((name) => found.get(name)?.isWhole);
}

async function readIndexes(query: Query): Promise<Map<unknown, { isWhole: boolean }>> {
  const rows = await query(
    "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relnamespace = 'vidgen'::regnamespace",
  );
  return new Map(rows.map(({ relname, indisvalid }) => [relname, { isWhole: indisvalid === true }]));
}

/** Asks again and again: a session that waits inside a statement is waited for by whoever builds an index. */
async function waitForLock(sql: Query, { clock, onNote, signal }: MigrateOptions): Promise<void> {
  for (let isTold = false; ; isTold = true) {
    const [row] = await sql("SELECT pg_try_advisory_lock($1) AS is_held", lock);
    if (row?.is_held) return;
    if (!isTold && (await versionOf(sql)) > 0) onNote("Another process is preparing the database; waiting for it.");
    await clock.sleep(lockPollMs, signal);
  }
}

async function takeStep(sql: Query, from: number): Promise<void> {
  try {
    await sql("BEGIN");
    if (from === 0) await sql("CREATE SCHEMA vidgen; CREATE TABLE vidgen.versions (version integer PRIMARY KEY)");
    await sql(migrations[from] ?? "");
    await sql("INSERT INTO vidgen.versions (version) VALUES ($1)", from + 1);
    await sql("COMMIT");
  } catch (error) {
    await sql("ROLLBACK").catch(() => {});
    throw error;
  }
}

/** Returns the schema of the extension pg_trgm, which is added first; `undefined` when it cannot be, or is in a schema that this role may not use. */
async function findTrigrams(sql: Query): Promise<string | undefined> {
  await sql("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA vidgen").catch(() => {});
  const [row] = await sql<{ schema: string }>(
    `SELECT extnamespace::regnamespace::text AS schema FROM pg_extension
     WHERE extname = 'pg_trgm' AND has_schema_privilege(extnamespace, 'USAGE')`,
  );
  return row?.schema;
}

async function buildIndex(sql: Query, name: string, columns: string): Promise<void> {
  const found = (await readIndexes(sql)).get(name);
  if (found?.isWhole) return;
  // A process was killed while it built this index.
  if (found) await sql(`DROP INDEX CONCURRENTLY vidgen.${name}`);
  await sql(`CREATE INDEX CONCURRENTLY ${name} ON ${columns}`);
}

/** Tries again for a minute while another session holds a lock, or waits for this one. */
async function retryLocked(work: () => Promise<void>, { clock, signal }: MigrateOptions): Promise<void> {
  const giveUpAt = clock.now() + lockPatienceMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!/^(55P03|40P01)$/.test(systemCode(error) ?? "")) throw error;
      if (clock.now() >= giveUpAt)
        throw new Error(
          "another session has held a lock on its tables for a minute, so they could not be upgraded: end that session and start again",
          { cause: error },
        );
    }
    await clock.sleep(lockPauseMs, signal);
  }
}

/** Throws when the schema is another program's, or a newer version's. */
async function versionOf(query: Query): Promise<number> {
  const [schema] = await query("SELECT 1 FROM pg_namespace WHERE nspname = 'vidgen'");
  if (!schema) return 0;
  const [table] = await query("SELECT to_regclass('vidgen.versions') AS name");
  if (!table?.name) throw new Error("its schema vidgen belongs to another program");
  const [row] = await query("SELECT max(version) AS version FROM vidgen.versions");
  const version = Number(row?.version);
  if (version > migrations.length)
    throw new Error(
      `it has version ${version}, but this vidgen supports only up to ${migrations.length}: use a newer vidgen`,
    );
  return version;
}
