import { fstatSync, openSync, rmSync } from "node:fs";
import { copyFile, mkdir } from "node:fs/promises";
import type { Lease } from "../../../lease.ts";
import { createMutex } from "../../../mutex.ts";
import { type ReportProblem, unavailable } from "../../observe/problem.ts";
import type { Change } from "../change.ts";
import { createDeliveryReads } from "../reads/deliveries.ts";
import { createGenerationReads } from "../reads/generations.ts";
import { createLedgerReads } from "../reads/ledger.ts";
import { createMethods } from "../rules/methods.ts";
import type { Context } from "../rules/rule.ts";
import type { Store } from "../store.ts";
import { createClaims } from "./claims.ts";
import { createCommits } from "./commits.ts";
import { createFileCheck, type Database, lockOf, openDatabase, removeLock, useWriteAheadLog } from "./database.ts";
import { findDue } from "./due.ts";
import { checkDatabase, checkWritable, migrate } from "./migrations.ts";
import { createProvenance, markAsCopy } from "./provenance.ts";
import { createReader } from "./reader.ts";
import { runRule } from "./run.ts";
import { start } from "./starts.ts";

export type StoreOptions = {
  /** Called when the disk cannot be written. */
  reportProblem?: ReportProblem;
  /** The lease of the file's folder. */
  lease?: Pick<Lease, "confirm" | "assertFresh">;
};

/** The lease of a database that no other process can use. */
const ownLease: Pick<Lease, "confirm" | "assertFresh"> = { confirm: async () => {}, assertFresh() {} };

/**
 * Opens the state in a SQLite file, or an empty one in memory. The caller must hold the lease of the file's folder, because the file itself is not
 * locked. The lease is confirmed before each write, since a process that was suspended may have lost the folder without knowing it. Rejects, and
 * leaves the file unchanged, when it belongs to another program, was written by a newer version, or is damaged after a crash.
 */
export async function openStore(file: string, options: StoreOptions = {}): Promise<Store> {
  const { reportProblem = () => {}, lease = ownLease } = options;
  const database = await openChecked(file);
  const checkFile = await createFileCheck(file);
  const check = () => lease.confirm().then(checkFile);
  const commits = createCommits(database, { check, reportProblem });
  const claims = createClaims(database, lease);
  const context = createContext(database);
  const provenance = createProvenance(database, context);
  const reader = createReader(database);
  const listeners = new Set<(change: Change) => void>();
  const publish = (...changes: Change[]) => {
    for (const change of changes) for (const listener of listeners) listener(change);
  };
  /** Runs a change in a transaction, and publishes what it adds to `changes` once that is durable. */
  const write = async <T>(change: (changes: Change[]) => T) => {
    const changes: Change[] = [];
    const value = await commits.write(() => change(changes));
    publish(...changes);
    return value;
  };
  const inTurn = createMutex();
  /** Copies the file while others read and write: for that time all changes stay in the log beside it. */
  const copyDatabase = async () => {
    const copy = copyOf(file);
    await check();
    try {
      database.exec("PRAGMA wal_autocheckpoint = 0");
      if (database.get("PRAGMA wal_checkpoint(TRUNCATE)")?.busy !== 0)
        throw unavailable(undefined, "the database is being read; try again");
      await copyFile(file, copy).catch((error) => {
        throw unavailable(error);
      });
      const marked = await openDatabase(copy);
      try {
        markAsCopy(marked);
      } finally {
        marked.close();
      }
      const fd = openSync(copy, "r");
      return { size: fstatSync(fd).size, fd };
    } finally {
      database.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
      // The open descriptor still reads the removed file. The system deletes its data when the descriptor is closed.
      rmSync(copy, { force: true });
    }
  };
  return {
    check: () => commits.write(() => checkWritable(database)),
    ...createMethods(
      {
        read: async (rule) => runRule(database, rule),
        change: (rule) => write((changes) => runRule(database, rule, changes)),
      },
      context,
    ),
    start: (generation, cost, idempotency, missing) =>
      write((changes) => start(database, { generation, cost, idempotency, missing }, changes)),
    ...createGenerationReads(reader),
    ...createDeliveryReads(reader),
    ...createLedgerReads(reader),
    claim: async (wanted, filter) => claims.find(wanted, filter),
    freeSlot: async () => {},
    release: async () => {},
    begun: async () => claims.begun(),
    named: async () => claims.named(),
    waiting: async (filter) => claims.waiting(filter),
    due: async (query) => findDue(database, query),
    isShared: false,
    listen(onChange) {
      listeners.add(onChange);
      return () => listeners.delete(onChange);
    },
    publish,
    // One backup at a time, because a second backup would write the log into the file while it is being copied.
    backup: () => inTurn(copyDatabase),
    provenance: {
      read: async () => provenance.read(),
      count: (runs) => commits.write(() => provenance.count(runs)),
      restore: (restoration) => commits.write(() => provenance.restore(restoration)),
    },
    async close() {
      await Promise.all([commits.close(), inTurn(async () => {})]);
      // Closing writes to the file and deletes its log, which belong to the process that has taken over.
      const isOurs = await lease.confirm().then(
        () => true,
        () => false,
      );
      if (isOurs) database.close();
    },
  };
}

/** Only one process uses the file, so its own clock decides what is due. */
function createContext(database: Database): Context {
  const now = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now";
  return {
    process: "",
    now: () => String(database.get(now)?.now),
    schedule: (_, plannedAt) => ({ column: "planned_at", due: "?", value: plannedAt }),
    addToSearch: "UPDATE search SET text = text || ? WHERE generation = ?",
  };
}

/** SQLite's default: SQLite writes the log into the file once the log has this number of pages. */
const checkpointPages = 1_000;

/** Returns the path of a copy while it is made. */
function copyOf(file: string): string {
  return `${file}.backup`;
}

async function openChecked(file: string): Promise<Database> {
  const afterCrash = await removeLock(file);
  // A process that was killed while it made a copy left this file.
  for (const path of [copyOf(file), lockOf(copyOf(file))]) rmSync(path, { force: true, recursive: true });
  let database: Database | undefined;
  try {
    database = await openDatabase(file);
    checkDatabase(database, { afterCrash });
    await useWriteAheadLog(database, file);
    migrate(database);
    return database;
  } catch (error) {
    database?.close();
    // The next process must check the file as well.
    if (afterCrash) await mkdir(lockOf(file)).catch(() => {});
    throw new Error(`${file} cannot be used: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}
