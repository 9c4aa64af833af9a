import type { Clock } from "../../../io.ts";
import type { OnTrouble } from "../../api/message.ts";
import type { StoredGeneration, Work, Workers } from "../store.ts";
import { channel, notify, readChange } from "./changes.ts";
import type { Database, Row } from "./database.ts";
import type { Deliveries } from "./deliveries.ts";
import { columns, readRow } from "./generations.ts";
import type { Jobs } from "./jobs.ts";

export type WorkOptions = {
  jobs: Jobs;
  findPending: Deliveries["findPending"];
  process: string;
  clock: Pick<Clock, "sleep">;
  onTrouble: OnTrouble;
};

const pollMs = 500;
/** A process that makes a generation says so this often; another one may take the generation when that was not heard for so long. */
const renewMs = 4_000;
const heldSeconds = 12;
/** When the database was away, the other processes could not say that they go on, either: they have this long to do so. */
const outageMs = 15_000;
/** A generation that this process cannot make, or a delivery to a receiver that is busy, is offered again after this time. */
const laterSeconds = 2;
const maxDeliveries = 32;
/** So many generations are read at once: a request may have 28 MB, and a statement has 10 s. */
const maxTaken = 4;

/**
 * Takes generations and deliveries from the queues for this process. The job of a generation that is being made is planned for the time when
 * its holder was not heard: so it comes back by itself when that process is gone, and never while it is there.
 */
export function createWork({ query, transaction, listen, steadyMs }: Database, options: WorkOptions): Work {
  const { jobs, findPending, process, clock, onTrouble } = options;
  const stop = new AbortController();
  /** What is made here, and how it is told that another process has taken it over. */
  const held = new Map<string, AbortController>();
  const attempts = new Set<string>();
  const running = new Set<Promise<void>>();

  /** Takes those of these generations that nobody makes; the jobs of the others are planned for later, or removed when they have ended. */
  const take = (ids: string[]) =>
    transaction(async (sql) => {
      const wanted = ids.filter((id) => !held.has(id));
      const rows: Row[] = await sql(
        `UPDATE vidgen.generations SET holder = $1, held_until = now() + make_interval(secs => ${heldSeconds})
         WHERE id = ANY($2) AND status = 'processing' AND (held_until IS NULL OR $3 AND held_until < now())
         RETURNING ${columns}`,
        ...[process, wanted, steadyMs() > outageMs],
      );
      const taken = rows.map(readRow);
      const takenIds = taken.map(({ id }) => id);
      const others = ids.filter((id) => !takenIds.includes(id));
      const left = await sql<{ id: string }>(
        "SELECT id FROM vidgen.generations WHERE id = ANY($1) AND status = 'processing'",
        others,
      );
      await jobs.remove(sql, "generations", others);
      await jobs.plan(
        sql,
        "generations",
        left.map(({ id }) => id),
        laterSeconds,
        "first",
      );
      await jobs.plan(sql, "generations", takenIds, heldSeconds, "first");
      return taken;
    });

  const renew = async () => {
    const ids = [...held.keys()];
    if (ids.length === 0) return;
    const renewed = await transaction(async (sql) => {
      const rows = await sql<{ id: string }>(
        `UPDATE vidgen.generations SET held_until = now() + make_interval(secs => ${heldSeconds})
         WHERE id = ANY($2) AND holder = $1 AND status = 'processing' RETURNING id`,
        ...[process, ids],
      );
      const still = rows.map(({ id }) => id);
      await jobs.plan(sql, "generations", still, heldSeconds, "first");
      return still;
    });
    for (const id of ids)
      if (!renewed.includes(id)) held.get(id)?.abort(new Error("another process has taken over this generation"));
  };

  /** Lets any process take what this one has not ended: at a stop before all that nobody has begun. */
  const handBack = (id: string, seconds: number) =>
    transaction(async (sql) => {
      const update = `UPDATE vidgen.generations SET held_until = NULL
        WHERE id = $2 AND holder = $1 AND status = 'processing' RETURNING id`;
      const place = seconds === 0 ? "first" : "last";
      if ((await sql(update, process, id)).length > 0) await jobs.plan(sql, "generations", [id], seconds, place);
    });

  /** Not async, so that the generation is not in memory until its end: its request may have 28 MB. */
  const make = (generation: StoredGeneration, workers: Workers): Promise<void> => {
    const { id } = generation;
    if (!workers.canMake(generation)) return handBack(id, laterSeconds);
    const lost = new AbortController();
    held.set(id, lost);
    return workers.make(generation, lost.signal).then(() => {
      held.delete(id);
      return handBack(id, stop.signal.aborted ? 0 : laterSeconds);
    });
  };

  const deliver = async (id: string, workers: Workers) => {
    attempts.add(id);
    try {
      const delivery = await findPending(id);
      if (delivery && (await workers.deliver(delivery))) return;
      await transaction((sql) =>
        delivery ? jobs.plan(sql, "deliveries", [id], laterSeconds) : jobs.remove(sql, "deliveries", [id]),
      );
    } finally {
      attempts.delete(id);
    }
  };

  // An outage was told of; what was taken comes back by itself.
  const report = (error: unknown) => {
    if (!Object(error).isUnavailable) onTrouble("The database's work could not be done", error);
  };
  const keep = (job: Promise<void>) => {
    const kept = job.catch(report).finally(() => running.delete(kept));
    running.add(kept);
  };
  const repeat = async (step: () => Promise<void>, everyMs: number, end: AbortSignal) => {
    while (!end.aborted) {
      await step().catch(report);
      await clock.sleep(everyMs, end).catch(() => {});
    }
  };
  const takeAll = async (workers: Workers) => {
    for (let room = workers.room(); room > 0; room -= maxTaken) {
      const ids = await jobs.fetch("generations", Math.min(room, maxTaken));
      if (ids.length === 0) break;
      for (const generation of await take(ids)) keep(make(generation, workers));
    }
    if (attempts.size === maxDeliveries) return;
    for (const id of await jobs.fetch("deliveries", maxDeliveries - attempts.size)) keep(deliver(id, workers));
  };
  const stopRenewing = new AbortController();
  let taking = Promise.resolve();
  let renewing = Promise.resolve();
  return {
    start(workers) {
      taking = repeat(() => takeAll(workers), pollMs, stop.signal);
      renewing = repeat(renew, renewMs, stopRenewing.signal);
      listen(channel, (text) => {
        const change = readChange(text);
        if (change) workers.onChange(change);
      });
    },
    publish: (change) => keep(notify(query, change)),
    async close() {
      stop.abort();
      await taking;
      // What is made or sent here is being stopped, and handed back.
      while (running.size > 0) await Promise.all(running);
      stopRenewing.abort();
      await renewing;
    },
  };
}
