import type { Clock } from "../../io.ts";
import type { Database } from "./sqlite.ts";

export type Commits = {
  /**
   * Runs `change` in a transaction that it shares with all that wait by then. Resolves with what it returns, once that is durable. What it
   * throws undoes its own changes alone; a commit that fails rejects all that shared it.
   */
  write<T>(change: () => T): Promise<T>;
  /** Resolves when what waits is done; later changes are rejected. */
  close(): Promise<void>;
};

type Waiting = { run(): void; resolve(): void; reject(error: unknown): void };

/** So that a long row of changes does not hold up everything else: statements block the thread. */
const mostInOneCommit = 128;

/** Group commit: the sync of the disk, which costs most, is paid once for many. */
export function createCommits(database: Database, clock: Pick<Clock, "turn">): Commits {
  const transaction = createTransaction(database);
  const waiting: Waiting[] = [];
  let flushing = Promise.resolve();
  let isClosed = false;

  const flush = async () => {
    while (waiting.length > 0) {
      await clock.turn();
      commit(waiting.splice(0, mostInOneCommit), transaction);
    }
  };
  const enqueue = (work: Waiting) => {
    waiting.push(work);
    if (waiting.length === 1) flushing = flush();
  };
  return {
    write<T>(change: () => T): Promise<T> {
      if (isClosed) return Promise.reject(new Error("the store is closed"));
      return new Promise<T>((resolve, reject) => {
        let returned: { value: T } | undefined;
        const run = () => {
          returned = { value: change() };
        };
        enqueue({ run, reject, resolve: () => returned && resolve(returned.value) });
      });
    },
    async close() {
      isClosed = true;
      await flushing;
    },
  };
}

type Transaction = ReturnType<typeof createTransaction>;

function createTransaction(database: Database) {
  const begin = database.statement("BEGIN IMMEDIATE");
  const end = database.statement("COMMIT");
  const undo = database.statement("ROLLBACK");
  const mark = database.statement("SAVEPOINT change");
  const keep = database.statement("RELEASE change");
  const back = database.statement("ROLLBACK TO change");
  return {
    inAll(run: () => void): void {
      begin.run();
      try {
        run();
        end.run();
      } catch (error) {
        if (database.inTransaction()) undo.run();
        throw error;
      }
    },
    /** Undoes what `run` did when it throws; says whether the rest of the transaction is still there. */
    inPart(run: () => void): { error: unknown; isLost: boolean } | undefined {
      mark.run();
      try {
        run();
      } catch (error) {
        // A disk that is full makes SQLite roll all of it back.
        if (!database.inTransaction()) return { error, isLost: true };
        back.run();
        keep.run();
        return { error, isLost: false };
      }
      keep.run();
      return undefined;
    },
  };
}

function commit(batch: Waiting[], transaction: Transaction): void {
  const done: Waiting[] = [];
  try {
    transaction.inAll(() => {
      for (const work of batch) {
        const failure = transaction.inPart(work.run);
        if (failure?.isLost) throw failure.error;
        if (failure) work.reject(failure.error);
        else done.push(work);
      }
    });
    for (const work of done) work.resolve();
  } catch (error) {
    // Those that were rejected on their own stay so.
    for (const work of batch) work.reject(error);
  }
}
