import { type ReportProblem, unavailable } from "../../../src/server/observe/problem.ts";
import type { Claim } from "../../../src/server/store/claims.ts";
import { submissionOf } from "../../../src/server/store/needs.ts";
import { createClaims } from "../../../src/server/store/postgres/claims.ts";
import { createDatabaseTime, type DatabaseTime } from "../../../src/server/store/postgres/time.ts";
import type { Store } from "../../../src/server/store/store.ts";
import type { Schedule } from "../schedule.ts";
import type { ReachEngine } from "./probes.ts";
import { epoch, type Process } from "./process.ts";
import { checkpointKind, type Watched } from "./watch.ts";

export type ServerOptions = {
  schedule: Schedule;
  processOf(name: string): Process | undefined;
  /** For how long a process has reached the database without a break, in milliseconds; 0 when it cannot now. */
  upForMs(process: Process): number;
  reach: ReachEngine;
};

/** For so long no other process gets a delivery. */
const deliveryMs = 30_000;
const heldMs = 12_000;

/** Who holds a generation until when, and what the row has beside that. */
type Holder = { process: string; until: number | null; slot: string | null };

export type DatabaseServer = ReturnType<typeof createDatabaseServer>;

/**
 * A database that several processes share. What it keeps is in a real SQLite store; who holds what is decided by the service's own claims, whose
 * statements are answered here as PostgreSQL would. It does one thing after the other, and a process that is dead is still heard to the end.
 */
export function createDatabaseServer(store: Watched, options: ServerOptions) {
  const { schedule, processOf, upForMs, reach } = options;
  const holders = new Map<string, Holder>();
  /** How each generation was submitted, if it was. */
  const submissions = new Map<string, ReturnType<typeof submissionOf>>();
  const delivering = new Map<string, number>();
  let last: Promise<unknown> = Promise.resolve();
  const serially = <Result>(work: () => Promise<Result>): Promise<Result> => {
    const next = last.then(work, work);
    last = next.catch(() => {});
    return next;
  };
  const isHeld = (id: string) => {
    const until = holders.get(id)?.until;
    return until !== undefined && until !== null && until >= schedule.now();
  };
  const isExpired = (id: string, isSteady: boolean) => {
    const until = holders.get(id)?.until ?? null;
    return until === null || (isSteady && until < schedule.now());
  };
  const isQueued = (id: string) => {
    const { engine, isSubmitting } = submissions.get(id) ?? { engine: null, isSubmitting: false };
    return engine === null && !isSubmitting;
  };
  const slotsOf = (isSteady: boolean) =>
    [...holders].filter(
      ([id, { slot }]) => slot !== null && store.unfinished.has(id) && !(isQueued(id) && isExpired(id, isSteady)),
    );
  const isAllOf = (ids: string[]) => [...store.unfinished].every((id) => ids.includes(id));
  const mayWrite = (id: string, process: Process) => (holders.get(id)?.process ?? process.name) === process.name;

  const findFree = async (
    process: Process,
    [wanted, among]: Parameters<Store["claim"]>,
    isSteady: boolean,
  ): Promise<Claim[]> => {
    const taken = [...holders.keys()].filter((id) => !isExpired(id, isSteady));
    const except = [...among.except, ...taken];
    return isAllOf(except) ? [] : store.of(process).claim(wanted, { ...among, except });
  };
  /** The candidates of a claim, which nobody has locked: each with its place among those of its account. */
  const candidateRows = (free: readonly Claim[]) =>
    free.map(({ number, account }, index) => ({
      number,
      nth: free.slice(0, index + 1).filter((each) => each.account === account).length,
    }));
  const hold = (process: Process, { id, isSubmitting, engine }: Claim, slot: string | null) => {
    const before = holders.get(id);
    const holder = before && before.process !== process.name ? processOf(before.process) : undefined;
    if (holder && before?.until !== null && (engine !== null || isSubmitting))
      reach(holder.isOver() ? "a job is taken over from a dead process" : "a job is taken over from a frozen process");
    holders.set(id, { process: process.name, until: schedule.now() + heldMs, slot });
  };
  const take = (process: Process, found: readonly Claim[]) => {
    for (const claim of found) hold(process, claim, holders.get(claim.id)?.slot ?? null);
    return found.map(rowOf);
  };
  const takeFirst = (process: Process, found: readonly Claim[], slot: string | null) => {
    for (const claim of found) hold(process, claim, slot);
    return found.map(rowOf);
  };
  const change = (process: Process, id: string, changes: Partial<Holder>) => {
    const holder = holders.get(id);
    if (holder?.process === process.name) Object.assign(holder, changes);
    return [];
  };
  const renew = (process: Process, ids: string[]) => {
    const own = ids.filter((id) => {
      const holder = holders.get(id);
      return holder?.process === process.name && holder.until !== null;
    });
    for (const id of own) change(process, id, { until: schedule.now() + heldMs });
    return own.map((id) => ({ id, is_renewed: true }));
  };
  const waiting = async (process: Process, among: Parameters<Store["waiting"]>[0]) => {
    const held = [...holders.keys()].filter(isHeld);
    if (isAllOf([...among.except, ...held])) return [];
    const of = store.of(process);
    const all = await of.waiting(among);
    const free = await of.waiting({ ...among, except: [...among.except, ...held] });
    const count = (list: typeof all, model: string) =>
      list.filter((each) => each.model === model).reduce((sum, each) => sum + each.count, 0);
    return free.map(({ isReal, ...each }) => ({
      ...each,
      is_real: isReal,
      held: count(all, each.model) - count(free, each.model),
    }));
  };

  return {
    /** Whether this process may make a generation now, as the database has it. */
    isHolder: (id: string, process: Process) => holders.get(id)?.process === process.name,
    /** Returns the database as a process has it, and the database's time there. */
    connect(
      process: Process,
      { reportProblem, onNote }: { reportProblem: ReportProblem; onNote(text: string): void },
    ): { store: Store; time: DatabaseTime } {
      const own = store.of(process);
      const ask = <Result>(kind: Parameters<Process["call"]>[0], work: () => Promise<Result>) =>
        process.call(kind, () => {
          if (upForMs(process) === 0) throw unavailable(new Error("connect ECONNREFUSED 10.0.0.5:5432"));
          const isCut = process.takeCut();
          return serially(async () => {
            const result = await work();
            if (!isCut) return result;
            if (kind === "finish") reach("the answer to the end of a generation is lost");
            throw unavailable(new Error("Connection terminated unexpectedly"));
          });
        });
      let claiming: Parameters<Store["claim"]> | undefined;
      let looking: Parameters<Store["waiting"]>[0] | undefined;
      const run = async (sql: string, ...values: unknown[]): Promise<Record<string, unknown>[]> => {
        const [claimed, looked] = [claiming, looking];
        const isSteady = values[0] === true;
        if (sql.trimStart().startsWith("WITH RECURSIVE") && claimed)
          return candidateRows(await findFree(process, claimed, isSteady));
        if (sql.trimStart().startsWith("WITH taken (taken_number)") && claimed)
          return take(process, (await findFree(process, claimed, isSteady)).slice(0, limitOf(sql)));
        if (sql.trimStart().startsWith("WITH") && sql.includes("taken AS") && claimed) {
          const [, , numbers, , slot] = values as [unknown, unknown, number[], unknown, string | null];
          const [wanted, among] = claimed;
          const place = ({ number }: Claim) => numbers.indexOf(number);
          const free = await findFree(process, [wanted, { ...among, limit: numbers.length + among.limit }], isSteady);
          const first = free.filter((claim) => place(claim) >= 0).sort((a, b) => place(a) - place(b));
          return takeFirst(process, first.slice(0, limitOf(sql)), slot);
        }
        if (sql.trimStart().startsWith("WITH open") && looked) return waiting(process, looked);
        if (sql.includes("clock_timestamp()")) return [{ ms: epoch + schedule.now() }];
        if (sql.includes("pg_advisory_xact_lock") || sql.includes("pg_notify")) return [];
        if (sql.includes("slot = $2 AND"))
          return [{ count: slotsOf(isSteady).filter(([, { slot }]) => slot === values[1]).length }];
        if (sql.includes("GROUP BY slot")) {
          const taken = slotsOf(isSteady);
          return [...new Set(taken.map(([, { slot }]) => slot))].map((slot) => ({
            slot,
            count: taken.filter(([, holder]) => holder.slot === slot).length,
          }));
        }
        const id = String(values[1]);
        if (sql.includes("SET slot = NULL")) return change(process, id, { slot: null });
        if (sql.includes("held_until = now()")) return renew(process, values[1] as string[]);
        if (sql.includes("held_until = NULL")) return change(process, id, { until: null });
        throw new Error(`the simulated database does not know: ${sql}`);
      };
      const database = {
        query: (sql: string, ...values: unknown[]) => ask("store", () => run(sql, ...values)),
        transaction: <Result>(work: (query: typeof run) => Promise<Result>) => ask("store", () => work(run)),
        upForMs: () => upForMs(process),
      } as unknown as Parameters<typeof createClaims>[0];
      const time = createDatabaseTime(database.query, { clock: process.clock, onNote });
      const { stopRenewing, ...claims } = createClaims(database, {
        process: process.name,
        clock: process.clock,
        reportProblem,
        onRenew: time.measure,
      });
      const through = Object.fromEntries(
        Object.entries(own).map(([name, method]) => [
          name,
          typeof method === "function"
            ? (...args: never[]) => ask("store", async () => (method as (...args: never[]) => unknown)(...args))
            : method,
        ]),
      ) as unknown as Store;
      const connected: Store = {
        ...through,
        isShared: true,
        claim(...asked) {
          claiming = asked;
          return claims.claim(...asked);
        },
        waiting(among) {
          looking = among;
          return claims.waiting(among);
        },
        release: claims.release,
        freeSlot: claims.freeSlot,
        slots: claims.slots,
        begun: () =>
          ask("store", async () => {
            const count = (engine: string) =>
              [...submissions].filter(
                ([id, submission]) => submission.engine === engine && store.unfinished.has(id) && isHeld(id),
              ).length;
            return (await own.begun()).map((each) => ({ ...each, held: count(each.engine) }));
          }),
        keepImageFetch: (id, imageFetch) =>
          ask("store", async () => {
            if (!mayWrite(id, process)) throw new Error(`no generation ${id} that this process makes`);
            await own.keepImageFetch(id, imageFetch);
          }),
        keepCheckpoint: (id, checkpoint) =>
          ask(checkpointKind(checkpoint), async () => {
            if (!mayWrite(id, process)) throw new Error(`no generation ${id} that this process makes`);
            await own.keepCheckpoint(id, checkpoint);
            submissions.set(id, submissionOf(checkpoint));
          }),
        finish: (id, end, delivery) =>
          ask("finish", async () => mayWrite(id, process) && (await own.finish(id, end, delivery))),
        due: (query) =>
          ask("store", async () => {
            if (!store.hasDeliveries()) return { deliveries: [], nextMs: Number.POSITIVE_INFINITY };
            const busy = [...delivering].filter(([, until]) => until > schedule.now()).map(([id]) => id);
            const found = await own.due({ ...query, except: [...query.except, ...busy] });
            for (const { id } of found.deliveries) delivering.set(id, schedule.now() + deliveryMs);
            return found;
          }),
        recordAttempt: (id, ...attempt) =>
          ask("store", async () => {
            await own.recordAttempt(id, ...attempt);
            delivering.delete(id);
          }),
        listen: (onChange) => own.listen((change) => void process.after(5, () => onChange(change))),
        publish: (change) => void process.after(5, () => own.publish(change)),
        close: stopRenewing,
      };
      return { store: connected, time };
    },
  };
}

function rowOf({ isReal, isSubmitting, lost: _, confirm: __, ...claim }: Claim): Record<string, unknown> {
  return { ...claim, is_real: isReal, is_submitting: isSubmitting };
}

function limitOf(sql: string): number {
  return Number(/LIMIT (\d+)/.exec(sql)?.[1]);
}
