import { createOutageReporter, isUnavailable, type ReportProblem } from "../../observe/problem.ts";
import { createGroupCommit } from "../group-commit.ts";
import type { Database } from "./database.ts";

export type Commits = {
  /**
   * Runs `change` in a transaction that it shares with the other waiting changes. Resolves with the returned value once the commit is durable. An
   * error thrown by `change` undoes only this change; a commit that fails rejects all changes in it.
   */
  write<T>(change: () => T): Promise<T>;
  /** Resolves when the waiting changes are committed; later changes are rejected. */
  close(): Promise<void>;
};

type PendingChange = { run(): void; resolve(): void; reject(error: unknown): void };

export type CommitOptions = {
  /** Rejects when the file must not be written now. */
  check(): Promise<void>;
  reportProblem: ReportProblem;
};

/** Runs changes in batches, each in one transaction. */
export function createCommits(database: Database, { check, reportProblem }: CommitOptions): Commits {
  const outage = createOutageReporter("The database cannot be written", reportProblem);
  const batches = createGroupCommit<PendingChange>(async (batch) => {
    try {
      await check();
      commit(batch, database);
      outage.end();
    } catch (error) {
      if (isUnavailable(error)) outage.report(error);
      throw error;
    }
  });
  return {
    write<T>(change: () => T): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        let value: T;
        const run = () => {
          value = change();
        };
        batches.add({ run, resolve: () => resolve(value), reject });
      });
    },
    close: batches.close,
  };
}

/** Throws if none of the changes was made; a change that failed alone is rejected with its own error. */
function commit(batch: PendingChange[], database: Database): void {
  let applied: PendingChange[];
  try {
    database.exec("BEGIN IMMEDIATE");
    applied = batch.filter((change) => apply(change, database));
    database.exec("COMMIT");
  } catch (error) {
    if (database.inTransaction()) database.exec("ROLLBACK");
    throw error;
  }
  for (const change of applied) change.resolve();
}

/** Runs one change; when it throws, undoes and rejects only this one and returns false. */
function apply(change: PendingChange, database: Database): boolean {
  database.exec("SAVEPOINT change");
  try {
    change.run();
  } catch (error) {
    // A full disk makes SQLite roll back the whole transaction.
    if (!database.inTransaction()) throw error;
    database.exec("ROLLBACK TO change; RELEASE change");
    change.reject(error);
    return false;
  }
  database.exec("RELEASE change");
  return true;
}
