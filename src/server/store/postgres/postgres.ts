import type { Clock } from "../../../io.ts";
import type { OnTrouble } from "../../api/message.ts";
import type { Store, Work } from "../store.ts";
import { openDatabase } from "./database.ts";
import { createDeliveries } from "./deliveries.ts";
import { createGenerations } from "./generations.ts";
import { type FirstValues, initialize } from "./initialize.ts";
import { openJobs } from "./jobs.ts";
import { createLedger } from "./ledger.ts";
import { migrate } from "./migrations.ts";
import { createWork } from "./work.ts";

export type Postgres = {
  store: Store;
  work: Work;
  /** See `initialize`. */
  initialize(values: FirstValues): ReturnType<typeof initialize>;
};

export type PostgresOptions = {
  /** Identifies this process as the holder of what it makes. */
  process: string;
  clock: Pick<Clock, "sleep" | "now" | "date">;
  onTrouble: OnTrouble;
};

/** Any number, the same in each process. */
const lock = 8_787;

/**
 * Opens a PostgreSQL database, and brings it to this program's version. Rejects with an error that has no password: Node's
 * ERR_MODULE_NOT_FOUND when `pg` or `pg-boss` is not installed, else one made for people.
 */
export async function openPostgres(url: string, { process, clock, onTrouble }: PostgresOptions): Promise<Postgres> {
  const database = await openDatabase(url, { maxConnections: 10, clock, onTrouble: () => {} });
  // Of its own, so that many requests do not delay what a process has to say in time. It is used all the time, so it tells of an outage.
  const background = await openDatabase(url, { maxConnections: 4, clock, onTrouble });
  const close = async () => void (await Promise.all([database.close(), background.close()]));
  try {
    const jobs = await database.transaction(async (query) => {
      // One process prepares the tables, its own and those of pg-boss, and the others wait.
      await query("SELECT pg_advisory_xact_lock($1)", lock);
      await migrate(query);
      return openJobs(background, onTrouble);
    });
    const { add, findPending, ...deliveries } = createDeliveries(database, { jobs, clock });
    const store: Store = {
      ...createLedger(database),
      ...createGenerations(database, { jobs, addDelivery: add, process }),
      ...deliveries,
      async close() {
        await jobs.close();
        await close();
      },
    };
    return {
      store,
      work: createWork(background, { jobs, findPending, process, clock, onTrouble }),
      initialize: (values) => initialize(database, values),
    };
  } catch (error) {
    await close();
    throw error;
  }
}
