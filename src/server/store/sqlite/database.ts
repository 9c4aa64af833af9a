import { rmdirSync } from "node:fs";
import { chmod, open } from "node:fs/promises";
import { dirname } from "node:path";
import type { Database as Connection, Statement as PreparedStatement } from "node-sqlite3-wasm";

export type Value = string | number | null;
export type Row = Record<string, Value>;

/** A statement that is prepared when it is first used. */
export type Statement = {
  /** Returns the number of rows that it changed. */
  run(...values: Value[]): number;
  all(...values: Value[]): Row[];
  /** The first row. */
  get(...values: Value[]): Row | undefined;
};

/** A connection to SQLite. Its methods are synchronous and throw SQLite's own errors. */
export type Database = {
  exec(sql: string): void;
  statement(sql: string): Statement;
  inTransaction(): boolean;
  close(): void;
};

/**
 * Opens a database in memory or in a file, which is created with mode 0600. The caller must hold the lock of the file's folder: a lock that
 * a killed process left beside the file is removed.
 */
export async function openDatabase(file: string): Promise<Database> {
  const { Database } = await loadSqlite();
  if (file === ":memory:") return wrap(new Database(file));
  await restrict(file);
  removeLock(file);
  const database = wrap(new Database(file));
  try {
    // The package has no shared memory, without which a write-ahead log needs an exclusive lock.
    database.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A commit then takes one write and one sync. Separate from opening, because a refused database must stay unchanged. */
export async function useWriteAheadLog(database: Database, file: string): Promise<void> {
  if (file === ":memory:") return;
  database.exec("PRAGMA journal_mode = WAL");
  await syncFolder(dirname(file));
}

/** Loaded with the first database, since it compiles 1.3 MB of WebAssembly. It is CommonJS, although its types declare no default export. */
async function loadSqlite(): Promise<typeof import("node-sqlite3-wasm")> {
  const loaded: object = await import("node-sqlite3-wasm");
  return (loaded as { default: typeof import("node-sqlite3-wasm") }).default;
}

async function restrict(file: string): Promise<void> {
  await (await open(file, "a", 0o600)).close();
  await chmod(file, 0o600);
}

function removeLock(file: string): void {
  try {
    rmdirSync(`${file}.lock`);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
}

/** The package syncs files, but not the folder that holds their names. Windows cannot open a folder. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder).catch(() => undefined);
  await handle?.sync().catch(() => {});
  await handle?.close();
}

function wrap(connection: Connection): Database {
  const finalizers: (() => void)[] = [];
  return {
    exec: (sql) => connection.exec(sql),
    statement(sql) {
      const { statement, finalize } = prepareOnce(connection, sql);
      finalizers.push(finalize);
      return statement;
    },
    inTransaction: () => connection.inTransaction,
    close() {
      for (const finalize of finalizers) finalize();
      connection.close();
    },
  };
}

function prepareOnce(connection: Connection, sql: string): { statement: Statement; finalize(): void } {
  let prepared: PreparedStatement | undefined;
  const finalize = () => {
    const old = prepared;
    prepared = undefined;
    try {
      old?.finalize();
    } catch {
      // SQLite repeats the error of the statement's last run.
    }
  };
  const use = <T>(values: Value[], run: (statement: PreparedStatement) => T): T => {
    if (values.some(hasNul)) throw new Error("SQLite would end a text at its first NUL");
    prepared ??= connection.prepare(sql);
    try {
      return run(prepared);
    } catch (error) {
      // A statement that has failed would fail again, whatever its values.
      finalize();
      throw error;
    }
  };
  const all = (...values: Value[]) => use(values, (statement) => statement.all(values) as Row[]);
  return {
    finalize,
    statement: {
      run: (...values) => use(values, (statement) => statement.run(values).changes),
      all,
      // The package's own `get` does not read to the end, and an open read keeps the log from being truncated.
      get: (...values) => all(...values)[0],
    },
  };
}

function hasNul(value: Value): boolean {
  return typeof value === "string" && value.includes("\0");
}
