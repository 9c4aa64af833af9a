import type { Accounts } from "./accounts.ts";
import type { Change } from "./change.ts";
import type { Claims } from "./claims.ts";
import type { Deliveries, Delivery } from "./deliveries.ts";
import type { GenerationEnd, Generations, StoredGeneration } from "./generations.ts";
import type { Reports } from "./reports.ts";

/** `fd` is an open file without a name, which is deleted when closed; `size` is in bytes. */
export type DatabaseCopy = { size: number; fd: number };

/** The history of an embedded database. */
export type Provenance = {
  /**
   * `runs` counts the starts and ends of the services that used the database; `copiedAt` is when `serve --backup` made this copy, and `restoredAt`
   * when a service last began with a copy (ISO 8601).
   */
  read(): Promise<{ runs: number; copiedAt: string | null; restoredAt: string | null }>;
  count(runs: number): Promise<void>;
  /**
   * Ends generations that may have been submitted since the copy was made, and removes the mark of a copy: both or nothing. Resolves with the number
   * of ended generations.
   */
  restore(restoration: Restoration): Promise<number>;
};

/** `at` is the time (ISO 8601). `endOf` returns the end of a generation for a real engine that was not submitted when the copy was made. */
export type Restoration = {
  runs: number;
  at: string;
  endOf(generation: StoredGeneration): { end: GenerationEnd; delivery: Delivery | undefined };
};

/**
 * The service's state. A method that changes something resolves when the change is durable; when it rejects, nothing was changed, unless the
 * connection to a database on another machine broke off meanwhile. An error is `Unavailable` when the database, or its disk, cannot be used now.
 */
export type Store = Generations &
  Deliveries &
  Claims &
  Accounts &
  Reports & {
    /** Resolves after a test write, which shows that a start could be stored now. Measures the difference of the clocks. */
    check(): Promise<void>;
    /** By how many milliseconds the database's clock is ahead of this machine's; only if processes share the database. */
    clockDifferenceMs?(): number;
    /** Whether other processes use the database, so that work may arrive without a change that this process is notified of. */
    isShared: boolean;
    /** Calls `onChange` for every change of any process, this one included, until the returned function is called. */
    listen(onChange: (change: Change) => void): () => void;
    /** Notifies all processes of a change that is not in the database. */
    publish(change: Change): void;
    /** Resolves with a consistent copy of the database; only for an embedded database. */
    backup?(): Promise<DatabaseCopy>;
    /** Only for an embedded database, whose file a person can replace by a copy. */
    provenance?: Provenance;
    /** Resolves when the changes under way are durable and the database is closed. */
    close(): Promise<void>;
  };
