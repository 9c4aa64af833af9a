import { mkdir } from "node:fs/promises";
import type { Backlog, Store } from "../store.ts";
import { createCommits } from "./commits.ts";
import { type Database, lockOf, openDatabase, removeLock, useWriteAheadLog } from "./database.ts";
import { createDeliveries } from "./deliveries.ts";
import { createGenerations } from "./generations.ts";
import { createLedger } from "./ledger.ts";
import { checkDatabase, migrate } from "./migrations.ts";

export type SqliteStore = Store & Backlog;

/**
 * Opens the state in a SQLite file, or an empty one in memory. The caller must hold the lock of the file's folder: the file itself is not
 * locked. Rejects, and leaves the file unchanged, when it belongs to another program, was written by a newer version, or is damaged after a crash.
 */
export async function openStore(file: string): Promise<SqliteStore> {
  const database = await openChecked(file);
  const commits = createCommits(database);
  const ledger = createLedger(database);
  const generations = createGenerations(database, ledger);
  const deliveries = createDeliveries(database);
  return {
    account: async (keyHash) => ledger.accountOf(keyHash),
    addAccount: (account) => commits.write(() => ledger.addAccount(account)),
    balance: async (account) => ledger.balance(account),
    setBalance: (account, credits) => commits.write(() => ledger.setBalance(account, credits)),
    start: (generation, cost, idempotency) => commits.write(() => generations.start(generation, cost, idempotency)),
    generation: async (id) => generations.find(id),
    unfinished: async () => generations.unfinished(),
    keepCheckpoint: (id, checkpoint) => commits.write(() => generations.keepCheckpoint(id, checkpoint)),
    finish: (id, end, delivery) =>
      commits.write(() => {
        const isEnded = generations.end(id, end);
        if (isEnded && delivery) deliveries.add(delivery);
        return isEnded;
      }),
    pendingDeliveries: async () => deliveries.pending(),
    recordAttempt: (id, attempt, next_at) => commits.write(() => deliveries.record(id, attempt, next_at)),
    resend: (generation, at) => commits.write(() => deliveries.resend(generation, at)),
    list: async (query) => generations.list(query),
    totals: async () => generations.totals(),
    deliveries: async (query) => deliveries.list(query),
    ledger: async (query) => ledger.list(query),
    balances: async () => ledger.balances(),
    async close() {
      await commits.close();
      database.close();
    },
  };
}

async function openChecked(file: string): Promise<Database> {
  const afterCrash = await removeLock(file);
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
