import { hash } from "node:crypto";
import { systemReason } from "../../../errors.ts";
import type { OnTrouble } from "../../api/message.ts";
import type { Database, Query, Value } from "./database.ts";

/** The queues: what is to be made, and which callbacks are to be sent. */
export type QueueName = "generations" | "deliveries";

/** Where a job is in its queue once it is due: at the end unless given. */
type Place = "first" | "last";

/** Jobs of pg-boss. Each is called by the id of a generation or a delivery; there is one at a time for each. */
export type Jobs = {
  /** Makes jobs due in so many seconds, whatever was planned for them; in the transaction of `query`. */
  plan(query: Query, queue: QueueName, ids: readonly string[], seconds: number, place?: Place): Promise<void>;
  /** Adds a job that there was not before, due at once. */
  add(query: Query, queue: QueueName, id: string): Promise<void>;
  remove(query: Query, queue: QueueName, ids: readonly string[]): Promise<void>;
  /** Takes up to `limit` jobs that are due. Those that are neither planned nor removed afterwards are due again within 25 s. */
  fetch(queue: QueueName, limit: number): Promise<string[]>;
  close(): Promise<void>;
};

/** A job comes back after its time, checked by one process every 2 s. An attempt to deliver takes up to 15 s; a generation is only taken. */
const expireInSeconds = { generations: 10, deliveries: 20 };

/** A job is tried until it is removed. pg-boss would drop one that waits for two weeks; a queue has a retention in minutes alone. */
const forever = { retryLimit: 2 ** 31 - 1, retentionMinutes: 3_650 * 24 * 60 };

/** Prepares pg-boss over the connections of the database. Rejects when the package `pg-boss` is missing. */
export async function openJobs({ query }: Database, onTrouble: OnTrouble): Promise<Jobs> {
  const { default: PgBoss } = await import("pg-boss");
  const boss = new PgBoss({
    ...{ db: bossDatabase(query), schema: "vidgen_jobs", schedule: false },
    ...{ maintenanceIntervalSeconds: 2, archiveCompletedAfterSeconds: 60, deleteAfterHours: 1 },
  });
  // An outage has been told of.
  boss.on("error", (error) => Object(error).isUnavailable || onTrouble("pg-boss", systemReason(error)));
  await boss.start();
  for (const name of ["generations", "deliveries"] as const)
    await boss.createQueue(name, { name, expireInSeconds: expireInSeconds[name], retryDelay: 1, ...forever });
  const remove: Jobs["remove"] = async (sql, queue, ids) => {
    if (ids.length > 0) await boss.deleteJob(queue, ids.map(jobId), { db: bossDatabase(sql) });
  };
  return {
    async add(sql, queue, id) {
      await boss.send(queue, { id }, { id: jobId(id), db: bossDatabase(sql) });
    },
    remove,
    async plan(sql, queue, ids, seconds, place = "last") {
      // pg-boss cannot change when a job is due.
      await remove(sql, queue, ids);
      const due = { startAfter: String(seconds), priority: place === "first" ? 1 : 0 };
      const jobs = ids.map((id) => ({ id: jobId(id), name: queue, data: { id }, ...due }));
      if (ids.length > 0) await boss.insert(jobs, { db: bossDatabase(sql) });
    },
    async fetch(queue, limit) {
      const jobs = await boss.fetch<{ id: string }>(queue, { batchSize: limit });
      return jobs.map(({ data }) => data.id);
    },
    close: () => boss.stop({ graceful: false, close: false }),
  };
}

function bossDatabase(query: Query) {
  return { executeSql: async (text: string, values: Value[] = []) => ({ rows: await query(text, ...values) }) };
}

/** pg-boss wants UUIDs. */
function jobId(id: string): string {
  return hash("sha256", id).slice(0, 32);
}
