import { systemCode, usage } from "../../../errors.ts";
import type { Clock } from "../../../io.ts";
import type { Database, Query } from "./database.ts";
import { indexes, steps } from "./schema.ts";

/**
 * The steps to a version; step n makes version n from n - 1, and is never changed once it was released. The indexes are not part of a step: on a
 * large table an index takes minutes, in which no process could write to it. So each is built concurrently, after the steps; an unfinished index is
 * built again.
 */
export type Versions = { steps: readonly string[]; indexes: Readonly<Record<string, string>> };

const current: Versions = { steps, indexes };

/**
 * The index of the search, with every three characters of each text. The index needs an extension. If the server does not have or allow the
 * extension, each start tries again, and until then a search reads all texts.
 */
const searchIndex = "search_texts";

export type MigrateOptions = {
  clock: Pick<Clock, "sleep" | "now">;
  /** Called with a line for the owner when the migration takes long. */
  onNote(text: string): void;
  /** Ends the wait for other sessions. */
  signal?: AbortSignal | undefined;
  /** The versions of this program; a test may have its own. */
  versions?: Versions;
};

/** Any number, the same in each process and each version. */
const lock = 8_787;
const lockPollMs = 100;
/** How long a step may wait for other sessions: meanwhile all statements on the same table wait behind it. */
const lockTimeoutMs = 2_000;
const lockPatienceMs = 60_000;
const lockPauseMs = 1_000;

/**
 * Brings the database to this program's version; one process does so at a time, and the others wait. If that process is killed, the next one
 * continues. Rejects when another program, or a newer version of this one, made the schema.
 */
export async function migrate(
  { query, session }: Pick<Database, "query" | "session">,
  options: MigrateOptions,
): Promise<void> {
  const { versions = current } = options;
  const { steps, indexes } = versions;
  if (await isCurrent(query, versions)) return;
  await session(async (sql) => {
    await waitForLock(sql, options);
    const version = await versionOf(sql, versions);
    if (version > 0 && version < steps.length)
      options.onNote(
        `Upgrading the database from version ${version} to ${steps.length}. With a million generations this takes a minute or two; meanwhile other processes may respond with HTTP 503.`,
      );
    await sql(`SET lock_timeout = ${lockTimeoutMs}`);
    for (const [index, step] of steps.entries())
      if (index >= version) await retryLocked(() => takeStep(sql, index + 1, step), options);
    // Building an index waits for other transactions, and blocks none.
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
export async function requireCurrent(query: Query, versions: Versions = current): Promise<void> {
  const version = await versionOf(query, versions);
  if (version === 0)
    throw usage(
      "No service has used this database. Nothing was changed in it.",
      "Check its address, or start the service on it: vidgen serve --database <url>",
    );
  if (version < versions.steps.length)
    throw usage(
      "This database is of an earlier version of vidgen. Nothing was changed in it.",
      "Start the service on it once, which upgrades it: vidgen serve --database <url>",
    );
}

async function isCurrent(query: Query, versions: Versions): Promise<boolean> {
  const { steps, indexes } = versions;
  if ((await versionOf(query, versions)) < steps.length) return false;
  const found = await readIndexes(query);
  return [...Object.keys(indexes), searchIndex].every((name) => found.get(name)?.isWhole);
}

async function readIndexes(query: Query): Promise<Map<unknown, { isWhole: boolean }>> {
  const rows = await query(
    "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relnamespace = 'vidgen'::regnamespace",
  );
  return new Map(rows.map(({ relname, indisvalid }) => [relname, { isWhole: indisvalid === true }]));
}

/** Polls, because building an index waits for all running statements, including one that waits for a lock. */
async function waitForLock(sql: Query, { clock, onNote, signal, versions }: MigrateOptions): Promise<void> {
  for (let isNoted = false; ; isNoted = true) {
    const [row] = await sql("SELECT pg_try_advisory_lock($1) AS is_held", lock);
    if (row?.is_held) return;
    if (!isNoted && (await versionOf(sql, versions)) > 0)
      onNote("Another process is preparing the database; waiting for it.");
    await clock.sleep(lockPollMs, signal);
  }
}

async function takeStep(sql: Query, version: number, step: string): Promise<void> {
  try {
    await sql("BEGIN");
    if (version === 1) await sql("CREATE SCHEMA vidgen; CREATE TABLE vidgen.versions (version integer PRIMARY KEY)");
    await sql(step);
    await sql("INSERT INTO vidgen.versions (version) VALUES ($1)", version);
    await sql("COMMIT");
  } catch (error) {
    await sql("ROLLBACK").catch(() => {});
    throw error;
  }
}

/**
 * Adds the extension pg_trgm, and returns its schema; `undefined` when the extension cannot be added, or is in a schema that this role may not use.
 */
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

/** Retries for a minute while another session holds a lock, or waits for this one. */
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
async function versionOf(query: Query, { steps } = current): Promise<number> {
  const [schema] = await query("SELECT 1 FROM pg_namespace WHERE nspname = 'vidgen'");
  if (!schema) return 0;
  const [table] = await query("SELECT to_regclass('vidgen.versions') AS name");
  if (!table?.name) throw new Error("its schema vidgen belongs to another program");
  const [row] = await query("SELECT max(version) AS version FROM vidgen.versions");
  const version = Number(row?.version);
  if (version > steps.length)
    throw new Error(
      `it has version ${version}, but this vidgen supports only up to ${steps.length}: use a newer vidgen`,
    );
  return version;
}
