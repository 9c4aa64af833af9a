import { rmSync, writeFileSync } from "node:fs";
import { rmdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Database as Connection, Statement } from "node-sqlite3-wasm";
import { unavailable } from "../../observe/problem.ts";
import type { SqlValue } from "../rules/rule.ts";
import { syncFolder } from "../sync.ts";
import { toText } from "../values.ts";

export type SqliteRow = Record<string, string | number | null>;

/** A connection to SQLite. Its methods are synchronous and throw SQLite's own errors. */
export type Database = {
  exec(sql: string): void;
  /** Returns the number of rows that the statement changed. Pass a long text as its bytes, which takes a quarter of the time. */
  run(sql: string, ...values: (SqlValue | Uint8Array)[]): number;
  all(sql: string, ...values: SqlValue[]): SqliteRow[];
  /** The first row. */
  get(sql: string, ...values: SqlValue[]): SqliteRow | undefined;
  inTransaction(): boolean;
  close(): void;
};

/** Removes the lock that a killed process left beside its file, and resolves with whether there was one. The caller must hold the folder. */
export async function removeLock(file: string): Promise<boolean> {
  return rmdir(lockOf(file)).then(
    () => true,
    () => false,
  );
}

export const lockOf = (file: string) => `${file}.lock`;

/** Opens a database in memory or in a file; the package creates a new one with mode 0600. A lock beside the file must have been removed. */
export async function openDatabase(file: string): Promise<Database> {
  const { Database } = await loadSqlite();
  if (file === ":memory:") return wrap(new Database(file), file);
  const database = wrap(new Database(file), file);
  try {
    // The package has no shared memory, without which a write-ahead log needs an exclusive lock.
    database.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Switches the database to a write-ahead log, so that a commit takes one write and one sync. Separate from opening, because a refused database must
 * stay unchanged.
 */
export async function useWriteAheadLog(database: Database, file: string): Promise<void> {
  if (file === ":memory:") return;
  database.exec("PRAGMA journal_mode = WAL");
  // The package syncs files, but not the folder that holds their names.
  await syncFolder(dirname(file));
}

/**
 * Returns a function that rejects if the file was removed or replaced since it was opened: what is written to a removed file is lost when this
 * process ends.
 */
export async function createFileCheck(file: string): Promise<() => Promise<void>> {
  if (file === ":memory:") return async () => {};
  const opened = await stat(file);
  return async () => {
    const found = await stat(file).catch(() => undefined);
    if (found?.ino !== opened.ino || found.dev !== opened.dev)
      throw unavailable(undefined, `${file} was removed or replaced. Put it back, or restart the service`);
  };
}

/**
 * Loads the package with the first database, since it compiles 1.3 MB of WebAssembly. The package is CommonJS, so its import has a `default`, which
 * its types do not declare.
 */
async function loadSqlite(): Promise<typeof import("node-sqlite3-wasm")> {
  const loaded: object = await import("node-sqlite3-wasm");
  return (loaded as { default: typeof import("node-sqlite3-wasm") }).default;
}

/** What SQLite says of a disk that is full, read-only or broken. The package gives no codes. */
const diskTrouble = /disk is full|disk I\/O error|readonly database|unable to open database/;

/** The size of a test file, for which a full disk has no room. */
const testBytes = 65_536;

/** Returns the error for people. SQLite says "disk I/O error" also when the disk is full, so this asks the system, by writing a file beside it. */
function describe(error: unknown, file: string): unknown {
  if (!(error instanceof Error && diskTrouble.test(error.message))) return error;
  if (file === ":memory:") return unavailable(error);
  const testFile = `${file}.check`;
  try {
    writeFileSync(testFile, Buffer.alloc(testBytes));
    return unavailable(error);
  } catch (cause) {
    return unavailable(cause);
  } finally {
    rmSync(testFile, { force: true });
  }
}

function bind<T extends SqlValue | Uint8Array>(value: T) {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "string" ? toText(value) : value;
}

/** The maximum number of cached statements: compiling one takes longer than running it. */
const maxStatements = 100;

/** Narrows the package's types to the values that are stored here. */
function wrap(connection: Connection, file: string): Database {
  const withDiskErrors = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw describe(error, file);
    }
  };
  /** Compiled statements, least recently used first. */
  const statements = new Map<string, Statement>();
  const finalize = (statement: Statement) => {
    try {
      statement.finalize();
    } catch {
      // `finalize` repeats the error of a step that has failed.
    }
  };
  const prepare = (sql: string) => {
    const [oldest] = statements;
    if (oldest && statements.size >= maxStatements) {
      statements.delete(oldest[0]);
      finalize(oldest[1]);
    }
    return connection.prepare(sql);
  };
  const use = <T>(sql: string, work: (statement: Statement) => T): T =>
    withDiskErrors(() => {
      const statement = statements.get(sql) ?? prepare(sql);
      // A statement that fails is not used again.
      statements.delete(sql);
      try {
        const result = work(statement);
        statements.set(sql, statement);
        return result;
      } catch (error) {
        finalize(statement);
        throw error;
      }
    });
  // The `get` of node-sqlite3-wasm leaves a statement, and with it a read transaction, open.
  const all = (sql: string, values: SqlValue[]) =>
    use(sql, (statement) => statement.all(values.map(bind)) as SqliteRow[]);
  return {
    exec: (sql) => withDiskErrors(() => connection.exec(sql)),
    run(sql, ...values) {
      // A cached statement would keep its values, such as large images, in memory.
      if (values.some((value) => value instanceof Uint8Array))
        return withDiskErrors(() => connection.run(sql, values.map(bind)).changes);
      return use(sql, (statement) => statement.run(values.map(bind)).changes);
    },
    all: (sql, ...values) => all(sql, values),
    get: (sql, ...values) => all(sql, values)[0],
    inTransaction: () => connection.inTransaction,
    close() {
      for (const statement of statements.values()) finalize(statement);
      connection.close();
    },
  };
}
