import type { Clock } from "../../../io.ts";
import type { OnTrouble } from "../../observe/trouble.ts";
import type { Among, Claims, Wanted } from "../claims.ts";
import { readClaim, readNeeds } from "../needs.ts";
import type { Condition } from "../reads/reader.ts";
import type { Database, Row, Value } from "./database.ts";
import { where } from "./reader.ts";

export type ClaimsOptions = { process: string; clock: Pick<Clock, "now" | "date" | "sleep">; onTrouble: OnTrouble };

/** A process that makes a generation says so this often; another one may claim the generation when that was not heard for so long. */
const renewMs = 4_000;
const heldSeconds = 12;
/** For so long after that no other process can have claimed it, also by a clock that is not quite as fast as the database's. */
const heldMs = 10_000;
/** When the database was away, the other processes could not say that they go on, either: they have this long to do so. */
const outageMs = 15_000;

/** What is to be made. A row has its holder and until when it is held, so what a process had comes back by itself once that is gone. */
export function createClaims({ query, steadyMs }: Database, { process, clock, onTrouble }: ClaimsOptions) {
  const stop = new AbortController();
  /** What is made here, how it is told that another process has claimed it, and when this one last said that it goes on. */
  const held = new Map<string, { lost: AbortController; at: Time }>();
  let renewing: Promise<void> | undefined;
  /** By both clocks: one stands still while a virtual machine is suspended, and the other may be set. */
  const now = (): Time => ({ ms: clock.now(), dateMs: clock.date().getTime() });
  const msSince = (at: Time) => Math.max(clock.now() - at.ms, clock.date().getTime() - at.dateMs);
  const confirm = (id: string) => {
    const at = held.get(id)?.at;
    if (at === undefined || msSince(at) >= heldMs)
      throw new Error("another process may have taken over this generation, while this one was suspended");
  };

  /** One that has ended, or was released meanwhile, is not renewed any more, either. */
  const renew = async () => {
    const ids = [...held.keys()];
    if (ids.length === 0) return;
    const at = now();
    const isOurs = "id = ANY($2) AND holder = $1 AND held_until IS NOT NULL AND status = 'processing'";
    // One that somebody has locked does not hold up the others: it is renewed the next time.
    const rows = await query<{ id: string; is_renewed: boolean }>(
      `WITH renewed AS (
         UPDATE vidgen.generations SET held_until = now() + make_interval(secs => ${heldSeconds})
         WHERE number IN (SELECT number FROM vidgen.generations WHERE ${isOurs} FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id
       )
       SELECT id, id IN (SELECT id FROM renewed) AS is_renewed FROM vidgen.generations WHERE ${isOurs}`,
      ...[process, ids],
    );
    const still = new Map(rows.map(({ id, is_renewed }) => [id, is_renewed]));
    for (const id of ids) {
      const own = held.get(id);
      if (own && still.get(id)) own.at = at;
      if (still.has(id)) continue;
      own?.lost.abort(new Error("another process has taken over this generation"));
      held.delete(id);
    }
  };
  const renewAll = async () => {
    while (!stop.signal.aborted) {
      // An outage was told of.
      await renew().catch(
        (error) =>
          Object(error).isUnavailable || onTrouble("The claims on running generations could not be renewed", error),
      );
      await clock.sleep(renewMs, stop.signal).catch(() => {});
    }
  };

  const isSteady = () => steadyMs() > outageMs;
  /** Claims the rows that a SELECT locks. */
  const take = ({ select, values }: Selection) =>
    query(
      // Materialized: a plan may run a subquery once for each row, and take more than the limit.
      `WITH taken (taken_number) AS MATERIALIZED (${select})
       UPDATE vidgen.generations SET holder = $2, held_until = now() + make_interval(secs => ${heldSeconds})
       FROM taken WHERE number = taken_number
       RETURNING number, id, account, model, images, is_real, is_fetched, engine, is_submitting`,
      ...[isSteady(), process, ...values],
    );
  /**
   * Reads candidates without a lock, and locks only those that it claims: other processes pass over locked rows, and would find nothing. While it
   * has too few it reads more: the next ones of each account, or, when other processes have claimed all that it read, a longer part of each queue.
   * When a later round rejects, what the earlier ones have claimed is free again once its time is over.
   */
  const takeNew = async (wanted: New, among: Among, limit: number): Promise<Row[]> => {
    const taken: Row[] = [];
    for (let depth = 4; ; ) {
      const { select, values } = selectCandidates(wanted, among, depth);
      const candidates = await query(select, isSteady(), ...values);
      const numbers = candidates.map(({ number }) => number);
      const found = numbers.length > 0 ? await take(selectFirst(numbers, limit - taken.length)) : [];
      taken.push(...found);
      const isEnd = candidates.every(({ nth }) => Number(nth) < depth);
      if (isEnd || taken.length >= limit) return taken;
      // For a few rows PostgreSQL reads the index in its order; for many it would sort the whole queue of an account.
      if (found.length === 0) depth *= 4;
    }
  };

  const claims: Omit<Claims, "divide"> = {
    async claim(wanted, { limit, ...among }) {
      renewing ??= renewAll();
      const at = now();
      const rows =
        wanted.kind === "new" ? await takeNew(wanted, among, limit) : await take(selectOldest(wanted, among, limit));
      const claimed = rows.map((row) => {
        const lost = new AbortController();
        const id = String(row.id);
        held.set(id, { lost, at });
        return { ...readClaim(row), lost: lost.signal, confirm: () => confirm(id) };
      });
      return claimed.sort((a, b) => a.number - b.number);
    },
    async release(id) {
      held.delete(id);
      // The holder stays: one before it, that was suspended, must not write to the generation.
      const update = "UPDATE vidgen.generations SET held_until = NULL WHERE id = $2 AND holder = $1";
      await query(`${update} AND status = 'processing'`, process, id);
    },
    async waiting(among) {
      const { condition, values } = where(conditionsAmong(among));
      const rows = await query(
        `WITH open AS (
           SELECT model, images, is_real, engine, created_at, coalesce(held_until > now(), false) AS is_held
           FROM vidgen.generations ${condition} AND status = 'processing' AND NOT is_submitting
         )
         SELECT model, images, is_real, engine, count(*) AS count, min(created_at) AS oldest_at,
           (SELECT count(*) FROM open AS other WHERE other.model = open.model AND other.is_held) AS held
         FROM open WHERE NOT is_held GROUP BY model, images, is_real, engine`,
        ...values,
      );
      return rows.map((row) => ({
        ...readNeeds(row),
        count: Number(row.count),
        held: Number(row.held),
        oldest_at: String(row.oldest_at),
      }));
    },
  };
  return {
    ...claims,
    async stopRenewing() {
      stop.abort();
      await renewing;
    },
  };
}

type Time = { ms: number; dateMs: number };
type New = Extract<Wanted, { kind: "new" }>;
type Selection = { select: string; values: Value[] };

const isFree = "status = 'processing' AND (held_until IS NULL OR $1 AND held_until < now())";
const isQueued = "status = 'processing' AND engine IS NULL AND NOT is_submitting";

function selectOldest(wanted: Exclude<Wanted, New>, among: Among, limit: number): Selection {
  const { condition, values } = where([...conditionsOf(wanted), ...conditionsAmong(among)], 2);
  const select = `SELECT number FROM vidgen.generations ${condition} AND ${isFree}
    ORDER BY number LIMIT ${limit} FOR UPDATE SKIP LOCKED`;
  return { select, values };
}

/**
 * The next `depth` of each account, in the order of the turns. By the index `waiting`, of each account only what may be claimed is read, however
 * many generations wait: no other index has the order by account and number of one model.
 */
function selectCandidates(wanted: New, among: Among, depth: number): Selection {
  const { models, isFetched, turns, before } = wanted;
  const given = [models, isFetched, turns, before?.turn ?? null, before?.number ?? null];
  const conditions: Condition<Value>[] = [
    ["images <= ?", wanted.maxImages],
    ["is_real <= ?", !wanted.isSimulation],
    ["account <> ALL(?)", wanted.exceptAccounts],
    ...conditionsAmong(among),
  ];
  const { condition, values } = where(conditions, 1 + given.length);
  const next = `SELECT min(account) FROM vidgen.generations AS waiting WHERE is_fetched = $3 AND ${isQueued}`;
  const select = `
    WITH RECURSIVE
      queues (model, account) AS (
        SELECT wanted.model, (${next} AND waiting.model = wanted.model) FROM unnest($2::text[]) AS wanted (model)
        UNION ALL
        SELECT model, (${next} AND waiting.model = queues.model AND waiting.account > queues.account)
        FROM queues WHERE account IS NOT NULL
      ),
      heads AS (
        SELECT number, row_number() OVER (PARTITION BY queues.account ORDER BY number) AS nth,
          coalesce(array_position($4::text[], queues.account), 0) - 1 AS turn
        FROM queues CROSS JOIN LATERAL (
          SELECT number FROM vidgen.generations ${condition} AND is_fetched = $3 AND ${isQueued} AND ${isFree}
            AND model = queues.model AND account BETWEEN queues.account AND queues.account
          ORDER BY account, number LIMIT ${depth}) AS head
        WHERE queues.account IS NOT NULL
      )
    SELECT number, nth FROM heads
    WHERE nth <= ${depth} AND ($5::integer IS NULL OR nth = 1 AND (turn, number) < ($5::integer, $6::bigint))
    ORDER BY nth, turn, number`;
  return { select, values: [...given, ...values] };
}

/** The first candidates that are still free: another process may have claimed, or even submitted, one since it was read. */
function selectFirst(numbers: readonly unknown[], limit: number): Selection {
  const select = `
    SELECT number FROM unnest($3::bigint[]) WITH ORDINALITY AS candidate (number, place)
    JOIN vidgen.generations USING (number)
    WHERE ${isQueued} AND ${isFree}
    ORDER BY place LIMIT ${limit} FOR UPDATE OF generations SKIP LOCKED`;
  return { select, values: [numbers] };
}

function conditionsOf(wanted: Exclude<Wanted, New>): Condition<Value>[] {
  if (wanted.kind === "begun")
    return [["(engine IS NOT NULL OR is_submitting) AND (is_submitting OR engine = ANY(?))", wanted.engines]];
  return [
    ["model = ?", wanted.model],
    ["images = ?", wanted.images],
    ["is_real = ?", wanted.isReal],
    ["engine IS NOT DISTINCT FROM ?", wanted.engine],
    ["NOT is_submitting AND created_at < ?", wanted.startedBefore],
  ];
}

function conditionsAmong({ except, ids }: Among): Condition<Value>[] {
  return [
    ["id <> ALL(?)", except],
    ["id = ANY(?)", ids],
  ];
}
