import { fstatSync, openSync, rmSync } from "node:fs";
import { copyFile, mkdir } from "node:fs/promises";
import type { Lease } from "../../../lease.ts";
import { createMutex } from "../../../mutex.ts";
import { type OnTrouble, unavailable } from "../../observe/trouble.ts";
import { type Change, endChanges } from "../change.ts";
import type { Cancellation } from "../generations.ts";
import { createDeliveryReads } from "../reads/deliveries.ts";
import { createGenerationReads } from "../reads/generations.ts";
import { createLedgerReads } from "../reads/ledger.ts";
import type { Store } from "../store.ts";
import { createClaims } from "./claims.ts";
import { createCommits } from "./commits.ts";
import { createFileCheck, type Database, lockOf, openDatabase, removeLock, useWriteAheadLog } from "./database.ts";
import { createDeliveries } from "./deliveries.ts";
import { createGenerations } from "./generations.ts";
import { createLedger } from "./ledger.ts";
import { checkDatabase, migrate, touch } from "./migrations.ts";
import { createProvenance, markAsCopy } from "./provenance.ts";
import { createReader } from "./reader.ts";

export type StoreOptions = {
  /** Hears of a disk that cannot be written. */
  onTrouble?: OnTrouble;
  /** That of the file's folder. */
  lease?: Pick<Lease, "confirm" | "assertFresh">;
};

/** Of a database that no other process can have. */
const ownLease: Pick<Lease, "confirm" | "assertFresh"> = { confirm: async () => {}, assertFresh() {} };

/**
 * Opens the state in a SQLite file, or an empty one in memory. The caller must hold the lease of the file's folder, because the file itself is
 * not locked: the lease is confirmed before each write, since a process that was suspended may have lost the folder without knowing it. Rejects, and leaves the file unchanged, when it belongs to another program, was written by a newer version, or is damaged after a crash.
 */
export async function openStore(file: string, options: StoreOptions = {}): Promise<Store> {
  const { onTrouble = () => {}, lease = ownLease } = options;
  const database = await openChecked(file);
  const checkFile = await createFileCheck(file);
  const check = () => lease.confirm().then(checkFile);
  const commits = createCommits(database, { check, onTrouble });
  const ledger = createLedger(database);
  const generations = createGenerations(database, ledger);
  const deliveries = createDeliveries(database);
  const claims = createClaims(database, lease);
  const provenance = createProvenance(database, { generations, deliveries });
  const reader = createReader(database);
  const listeners = new Set<(change: Change) => void>();
  const publish = (...changes: Change[]) => {
    for (const change of changes) for (const listener of listeners) listener(change);
  };
  /** Tells of changes once they are durable. */
  const write = async <T>(change: () => T, changesOf: (value: T) => Change[]) => {
    const value = await commits.write(change);
    publish(...changesOf(value));
    return value;
  };
  /** A change of a generation, unless it was forgotten meanwhile. */
  const changeOf = (kind: "generation" | "callback", id: string): Change[] => {
    const account = generations.accountOf(id);
    return account === undefined ? [] : [{ kind, id, account }];
  };
  const finish = (id: string, { end, delivery }: Omit<Cancellation, "engine">, cancelled?: Cancellation) =>
    write(
      () => {
        const account = generations.end(id, end, cancelled);
        if (account !== undefined && delivery) deliveries.add(delivery);
        return account;
      },
      (account) =>
        account === undefined
          ? []
          : endChanges({ id, account }, { ...end, isCancelled: cancelled !== undefined }, delivery),
    ).then((account) => account !== undefined);
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
      // Without its name it goes with this process.
      rmSync(copy, { force: true });
    }
  };
  return {
    check: () => commits.write(() => touch(database)),
    account: async (keyHash) => ledger.accountOf(keyHash),
    addAccount: (account) =>
      write(
        () => ledger.addAccount(account),
        () => [{ kind: "credits", account: account.name }],
      ),
    deleteAccount: (account, at) =>
      write(
        () => ledger.deleteAccount(account, at),
        () => [{ kind: "credits", account }],
      ),
    removeKeys: (keys) => commits.write(() => ledger.removeKeys(keys)),
    endToken: (token, now) => commits.write(() => ledger.endToken(token, now)),
    hasTokenEnded: async (hash) => ledger.hasTokenEnded(hash),
    balance: async (account) => ledger.balance(account),
    start: (generation, cost, idempotency) =>
      write(
        () => generations.start(generation, cost, idempotency),
        (outcome) =>
          outcome.kind === "started" && !outcome.replayed
            ? [
                { kind: "generation", id: generation.id, account: generation.account },
                { kind: "credits", account: generation.account },
              ]
            : [],
      ),
    findStart: async (account, idempotency) => generations.findStart(account, idempotency),
    generation: async (id) => generations.find(id),
    images: async (id) => generations.images(id),
    keepCheckpoint: (id, checkpoint) =>
      write(
        () => generations.keepCheckpoint(id, checkpoint),
        () => changeOf("generation", id),
      ),
    finish: (id, end, delivery) => finish(id, { end, delivery }),
    cancel: (id, cancellation) => finish(id, cancellation, cancellation),
    remove: (id, at) =>
      write(
        () => generations.remove(id, at),
        () => changeOf("generation", id),
      ),
    star: (id, isStarred) =>
      write(
        () => generations.star(id, isStarred),
        () => changeOf("generation", id),
      ),
    forget: (query) =>
      write(
        () => generations.forget(query),
        (count) => (count > 0 ? [{ kind: "credits", account: null }] : []),
      ),
    recordAttempt: (id, attempt, next_at) => commits.write(() => deliveries.record(id, attempt, next_at)),
    resend: (generation, at) =>
      write(
        () => deliveries.resend(generation, at),
        (delivery) => (delivery ? [{ kind: "callback", id: generation, account: delivery.account }] : []),
      ),
    resendGivenUp: async (filter, at) => {
      // Of all of them the sender hears once: each attempt is told of by itself.
      const changes = (ids: string[]) => ids.slice(0, 1).flatMap((id) => changeOf("callback", id));
      return (await write(() => deliveries.resendGivenUp(filter, at), changes)).length;
    },
    ...createGenerationReads(reader),
    ...createDeliveryReads(reader),
    ...createLedgerReads(reader),
    addCredits: (change) =>
      write(
        () => ledger.addCredits(change),
        () => [{ kind: "credits", account: change.account }],
      ),
    setLimits: (account, limits) => commits.write(() => ledger.setLimits(account, limits)),
    claim: async (wanted, among) => claims.find(wanted, among),
    release: async () => {},
    waiting: async (among) => claims.waiting(among),
    due: async (query) => deliveries.due(query),
    isShared: false,
    listen(onChange) {
      listeners.add(onChange);
      return () => listeners.delete(onChange);
    },
    publish,
    // One at a time: the next one writes the log into the file, which is being copied.
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

/** SQLite's own: so many pages of the log are written into the file together. */
const checkpointPages = 1_000;

/** Where a copy is for as long as it is made. */
function copyOf(file: string): string {
  return `${file}.backup`;
}

async function openChecked(file: string): Promise<Database> {
  const afterCrash = await removeLock(file);
  // Of a process that was killed while it made one.
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
