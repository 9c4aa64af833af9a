import type { Query } from "./database.ts";

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
  CREATE INDEX waiting_by_model ON vidgen.generations (model, number) WHERE status = 'processing';
  ALTER TABLE vidgen.deliveries ADD COLUMN host text NOT NULL DEFAULT '', ADD COLUMN due_at timestamptz;
  UPDATE vidgen.deliveries SET due_at = now(), host = split_part(split_part(request, '//', 2), '/', 1)
    WHERE next_at IS NOT NULL;
  CREATE INDEX deliveries_due ON vidgen.deliveries (due_at) WHERE due_at IS NOT NULL;
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
  CREATE INDEX generations_by_account ON vidgen.generations (account, number);
  `,
  `
  ALTER TABLE vidgen.accounts ADD COLUMN max_running bigint, ADD COLUMN max_per_hour bigint;
  ALTER TABLE vidgen.ledger ADD COLUMN key_hash text;
  CREATE UNIQUE INDEX ledger_keys ON vidgen.ledger (account, key_hash) WHERE key_hash IS NOT NULL;
  CREATE INDEX starts_by_account ON vidgen.generations (account, created_at);
  CREATE INDEX unfinished_by_account ON vidgen.generations (account) WHERE status = 'processing';
  CREATE INDEX waiting ON vidgen.generations (model, is_fetched, account, number)
    WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting;
  CREATE INDEX begun ON vidgen.generations (number)
    WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting);
  `,
  `
  CREATE INDEX kept ON vidgen.generations (completed_at) WHERE status = 'completed' AND removed_at IS NULL;
  CREATE INDEX ended ON vidgen.generations (completed_at) WHERE status <> 'processing';
  CREATE INDEX keys_by_generation ON vidgen.idempotency_keys (generation);
  DROP TRIGGER ledger_changed ON vidgen.ledger;
  CREATE TRIGGER ledger_changed BEFORE DELETE OR UPDATE OF number, account, amount, reason ON vidgen.ledger
    FOR EACH ROW EXECUTE FUNCTION vidgen.refuse_change();
  CREATE TRIGGER ledger_paid BEFORE UPDATE OF generation ON vidgen.ledger
    FOR EACH ROW WHEN (NEW.generation IS NOT NULL) EXECUTE FUNCTION vidgen.refuse_change();
  `,
  // The errors of earlier generations are not found: they are JSON, which may have what a text cannot.
  `
  ALTER TABLE vidgen.generations
    ADD COLUMN state text GENERATED ALWAYS AS (
      CASE WHEN status <> 'processing' THEN status WHEN checkpoint = 'null' THEN 'queued' ELSE 'running' END
    ) STORED,
    ADD COLUMN search text NOT NULL DEFAULT '';
  UPDATE vidgen.generations SET search = lower(concat_ws(chr(10), prompt, id, model));
  CREATE INDEX generations_by_state ON vidgen.generations (state, number);
  CREATE INDEX queued_by_model ON vidgen.generations (model, number) WHERE state = 'queued';
  `,
  `
  ALTER TABLE vidgen.delivery_attempts ADD COLUMN ms integer;
  ALTER TABLE vidgen.ledger ADD COLUMN at text;
  `,
  `
  ALTER TABLE vidgen.generations
    ADD COLUMN starred boolean NOT NULL DEFAULT false, ADD COLUMN label text, ADD COLUMN label_size bigint;
  CREATE INDEX starred ON vidgen.generations (number) WHERE starred;
  CREATE INDEX labelled ON vidgen.generations (label, number) WHERE label IS NOT NULL;
  `,
];

/** Brings the database to this program's version. Rejects when another program made its schema, or a newer version of this one did. */
export async function migrate(query: Query): Promise<void> {
  const version = await versionOf(query);
  if (version > migrations.length)
    throw new Error(
      `it has version ${version}, but this vidgen supports only up to ${migrations.length}: use a newer vidgen`,
    );
  if (version === 0) await query("CREATE SCHEMA vidgen");
  if (version === 0) await query("CREATE TABLE vidgen.versions (version integer PRIMARY KEY)");
  for (const [index, migration] of migrations.entries()) {
    if (index < version) continue;
    await query(migration);
    await query("INSERT INTO vidgen.versions (version) VALUES ($1)", index + 1);
  }
}

async function versionOf(query: Query): Promise<number> {
  const [schema] = await query("SELECT 1 FROM pg_namespace WHERE nspname = 'vidgen'");
  if (!schema) return 0;
  const [table] = await query("SELECT to_regclass('vidgen.versions') AS name");
  if (!table?.name) throw new Error("its schema vidgen belongs to another program");
  const [row] = await query("SELECT max(version) AS version FROM vidgen.versions");
  return Number(row?.version);
}
