-- The tables of version 6, as the program of that time made them. Never change this file.
CREATE SCHEMA vidgen;
CREATE TABLE vidgen.versions (version integer PRIMARY KEY);
INSERT INTO vidgen.versions SELECT generate_series(1, 6);
CREATE TABLE vidgen.settings (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE vidgen.accounts (
  name text PRIMARY KEY,
  balance bigint NOT NULL DEFAULT 0 CHECK (balance BETWEEN 0 AND 9007199254740991)
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
ALTER TABLE vidgen.generations
  ADD COLUMN images integer NOT NULL DEFAULT 0,
  ADD COLUMN is_real boolean NOT NULL DEFAULT false,
  ADD COLUMN is_fetched boolean NOT NULL DEFAULT false,
  ADD COLUMN engine text,
  ADD COLUMN is_submitting boolean NOT NULL DEFAULT false;
CREATE INDEX waiting_by_model ON vidgen.generations (model, number) WHERE status = 'processing';
ALTER TABLE vidgen.deliveries ADD COLUMN host text NOT NULL DEFAULT '', ADD COLUMN due_at timestamptz;
CREATE INDEX deliveries_due ON vidgen.deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE vidgen.images (
  generation bigint NOT NULL REFERENCES vidgen.generations,
  place integer NOT NULL,
  source text NOT NULL,
  PRIMARY KEY (generation, place)
);
ALTER TABLE vidgen.generations ADD COLUMN removed_at text;
CREATE INDEX generations_by_account ON vidgen.generations (account, number);
ALTER TABLE vidgen.accounts ADD COLUMN max_running bigint, ADD COLUMN max_per_hour bigint;
ALTER TABLE vidgen.ledger ADD COLUMN key_hash text;
CREATE UNIQUE INDEX ledger_keys ON vidgen.ledger (account, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX starts_by_account ON vidgen.generations (account, created_at);
CREATE INDEX unfinished_by_account ON vidgen.generations (account) WHERE status = 'processing';
CREATE INDEX waiting ON vidgen.generations (model, is_fetched, account, number)
  WHERE status = 'processing' AND engine IS NULL AND NOT is_submitting;
CREATE INDEX begun ON vidgen.generations (number)
  WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting);
CREATE INDEX kept ON vidgen.generations (completed_at) WHERE status = 'completed' AND removed_at IS NULL;
CREATE INDEX ended ON vidgen.generations (completed_at) WHERE status <> 'processing';
CREATE INDEX keys_by_generation ON vidgen.idempotency_keys (generation);
DROP TRIGGER ledger_changed ON vidgen.ledger;
CREATE TRIGGER ledger_changed BEFORE DELETE OR UPDATE OF number, account, amount, reason ON vidgen.ledger
  FOR EACH ROW EXECUTE FUNCTION vidgen.refuse_change();
CREATE TRIGGER ledger_paid BEFORE UPDATE OF generation ON vidgen.ledger
  FOR EACH ROW WHEN (NEW.generation IS NOT NULL) EXECUTE FUNCTION vidgen.refuse_change();
