import type { Clock } from "../../../io.ts";
import type { ReportProblem } from "../../observe/problem.ts";
import type { ClaimFilter, Claims, SlotLimit, Wanted, WantedNew } from "../claims.ts";
import { readClaim, readNamed, readNeeds, readSubmittedWork, toNamed, toNames } from "../needs.ts";
import type { Condition } from "../reads/reader.ts";
import type { Database, PgRow, PgValue, Query } from "./database.ts";
import { where } from "./reader.ts";

export type ClaimsOptions = {
  process: string;
  clock: Pick<Clock, "now" | "date" | "sleep">;
  reportProblem: ReportProblem;
  /** Called each time before the claims are renewed. */
  onRenew?(): Promise<void>;
};

/** How often a process renews its claim on a generation, and how long after the last renewal another process may claim it. */
const renewMs = 4_000;
const heldSeconds = 12;
/** How long after a renewal no other process can have claimed the generation, even by a clock that is slightly slower than the database's. */
const heldMs = 10_000;
/** Any number, the same in each process and each version. */
const slotLock = 8_788;
/** How long each process has to renew its claims after an outage of the database, before others may take them. */
const outageMs = 15_000;

/** The claims on generations. A row contains its holder and until when it is held, so the claims of a dead process expire. */
export function createClaims(
  { query, transaction, upForMs }: Pick<Database, "query" | "transaction" | "upForMs">,
  { process, clock, reportProblem, onRenew = async () => {} }: ClaimsOptions,
) {
  const stop = new AbortController();
  /** The claims of this process, by generation: `lost` is aborted when another process has taken over, and `at` is the last renewal. */
  const held = new Map<string, { lost: AbortController; at: Time }>();
  let renewing: Promise<void> | undefined;
  /** Uses two clocks, because one stops while a virtual machine is suspended, and the other may be set back. */
  const now = (): Time => ({ ms: clock.now(), dateMs: clock.date().getTime() });
  const msSince = (at: Time) => Math.max(clock.now() - at.ms, clock.date().getTime() - at.dateMs);
  const confirm = (id: string) => {
    const at = held.get(id)?.at;
    if (at === undefined || msSince(at) >= heldMs)
      throw new Error("another process may have taken over this generation, while this one was suspended");
  };

  /** Renews the claims on all generations that have not ended, and were not released meanwhile. */
  const renew = async () => {
    const ids = [...held.keys()];
    if (ids.length === 0) return;
    const at = now();
    const isOurs = "id = ANY($2) AND holder = $1 AND held_until IS NOT NULL AND status = 'processing'";
    // Skips locked rows, which are renewed the next time, so that they do not delay the others.
    const rows = await query<{ id: string; is_renewed: boolean }>(
      `WITH renewed AS (
         UPDATE vidgen.generations SET held_until = now() + make_interval(secs => ${heldSeconds})
         WHERE number IN (SELECT number FROM vidgen.generations WHERE ${isOurs} FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id
       )
       SELECT id, id IN (SELECT id FROM renewed) AS is_renewed FROM vidgen.generations WHERE ${isOurs}`,
      ...[process, ids],
    );
    const isRenewed = new Map(rows.map(({ id, is_renewed }) => [id, is_renewed]));
    for (const id of ids) {
      const claim = held.get(id);
      if (claim && isRenewed.get(id)) claim.at = at;
      if (isRenewed.has(id)) continue;
      claim?.lost.abort(new Error("another process has taken over this generation"));
      held.delete(id);
    }
  };
  const renewAll = async () => {
    while (!stop.signal.aborted) {
      // The connections report an outage themselves.
      await Promise.all([renew(), onRenew()]).catch(
        (error) =>
          Object(error).isUnavailable || reportProblem("The claims on running generations could not be renewed", error),
      );
      await clock.sleep(renewMs, stop.signal).catch(() => {});
    }
  };

  /** Whether all processes have had time to renew their claims after an outage. Until then, no claim counts as expired. */
  const canExpire = () => upForMs() > outageMs;
  const takeOldest = ({ select, values }: Selection) =>
    query(
      // Without MATERIALIZED, PostgreSQL may run the subquery once for each row, and so claim more than the limit.
      `WITH taken (taken_number) AS MATERIALIZED (${select})
       UPDATE vidgen.generations SET holder = $2, held_until = ${heldUntil}
       FROM taken WHERE number = taken_number RETURNING ${claimColumns}`,
      ...[canExpire(), process, ...values],
    );
  /** Claims the first candidates that are still free, because another process may have claimed, or even submitted, a candidate since it was read. */
  const takeFirst = (
    sql: Query,
    { kind, slot, times }: WantedNew,
    { numbers, limit }: { numbers: unknown[]; limit: number },
  ) =>
    sql(
      `WITH
         taken AS MATERIALIZED (
           SELECT number AS taken_number, account AS taken_account
           FROM unnest($3::bigint[]) WITH ORDINALITY AS candidate (number, place)
           JOIN vidgen.generations USING (number)
           WHERE is_fetched = $4 AND ${isQueued} AND ${isExpired} AND (image_fetch_at IS NULL OR $6::text IS NULL OR image_fetch_at <= $6 OR image_fetch_at > $7)
           ORDER BY place LIMIT ${limit} FOR UPDATE OF generations SKIP LOCKED
         ),
         turns AS (
           INSERT INTO vidgen.turns (account, is_fetched, at)
           SELECT account, $4::boolean, max(at)
           FROM (SELECT taken_account AS account, nextval('vidgen.turn') AS at FROM taken) AS turn
           -- In this order two claims never wait for each other.
           GROUP BY account ORDER BY account
           ON CONFLICT (account, is_fetched) DO UPDATE SET at = EXCLUDED.at
         )
       UPDATE vidgen.generations SET slot = $5, holder = $2, held_until = ${heldUntil}
       FROM taken WHERE number = taken_number RETURNING ${claimColumns}`,
      ...[
        canExpire(),
        process,
        numbers,
        kind === "fetch",
        slot?.engine ?? null,
        times?.at ?? null,
        times?.until ?? null,
      ],
    );
  /** Processes claim slots of an engine one after the other, so that each counts the slots that the others have taken. */
  const takeSlots = (wanted: WantedNew, slot: SlotLimit, { numbers, limit }: { numbers: unknown[]; limit: number }) =>
    transaction(async (sql) => {
      await sql(`SELECT pg_advisory_xact_lock(${slotLock}, hashtext($1))`, slot.engine);
      const [taken] = await sql(
        `SELECT count(*) AS count FROM vidgen.generations WHERE slot = $2 AND ${takesSlot}`,
        ...[canExpire(), slot.engine],
      );
      const room = Math.min(limit, slot.max - Number(taken?.count));
      const rows = room > 0 ? await takeFirst(sql, wanted, { numbers, limit: room }) : [];
      return { rows, isFull: rows.length >= room };
    });
  const takeCandidates = async (wanted: WantedNew, next: { numbers: unknown[]; limit: number }) => {
    if (wanted.slot) return takeSlots(wanted, wanted.slot, next);
    const rows = await takeFirst(query, wanted, next);
    return { rows, isFull: rows.length >= next.limit };
  };
  /**
   * Reads candidates without a lock, and locks only those that it claims, because other processes skip locked rows and would find nothing. With too
   * few candidates it reads more: the next ones of each account, or, when other processes have claimed all that it read, a longer part of each queue.
   * If a later round rejects, the claims of the earlier rounds expire.
   */
  const takeNew = async (wanted: WantedNew, filter: ClaimFilter, limit: number): Promise<PgRow[]> => {
    const taken: PgRow[] = [];
    for (let depth = 4; ; ) {
      const { select, values } = selectCandidates(wanted, filter, depth);
      const candidates = await query(select, canExpire(), ...values);
      const numbers = candidates.map(({ number }) => number);
      if (numbers.length === 0) return taken;
      const { rows, isFull } = await takeCandidates(wanted, { numbers, limit: limit - taken.length });
      taken.push(...rows);
      const isEnd = candidates.every(({ nth }) => Number(nth) < depth);
      if (isEnd || isFull) return taken;
      // For a few rows PostgreSQL reads the index in its order; for many it would sort the whole queue of an account.
      if (rows.length === 0) depth *= 4;
    }
  };

  const claims: Required<Claims> = {
    async claim(wanted, { limit, ...filter }) {
      renewing ??= renewAll();
      const at = now();
      const rows =
        "models" in wanted
          ? await takeNew(wanted, filter, limit)
          : await takeOldest(selectOldest(wanted, filter, limit));
      const claimed = rows.map((row) => {
        const id = String(row.id);
        const lost = new AbortController();
        held.set(id, { lost, at });
        return { ...readClaim(row), lost: lost.signal, confirm: () => confirm(id) };
      });
      return claimed.sort((a, b) => a.number - b.number);
    },
    async release(id) {
      held.delete(id);
      // The holder stays, because an earlier holder that was suspended must not write to the generation.
      const update = "UPDATE vidgen.generations SET held_until = NULL WHERE id = $2 AND holder = $1";
      await query(`${update} AND status = 'processing'`, process, id);
    },
    async freeSlot(id) {
      const update = "UPDATE vidgen.generations SET slot = NULL WHERE id = $2 AND holder = $1";
      await query(`${update} AND status = 'processing'`, process, id);
    },
    async slots() {
      const rows = await query(
        `SELECT slot, count(*) AS count FROM vidgen.generations WHERE ${takesSlot} GROUP BY slot`,
        canExpire(),
      );
      return new Map(rows.map(({ slot, count }) => [String(slot), Number(count)]));
    },
    async begun() {
      const rows = await query(
        `SELECT engine, count(*) AS count, count(*) FILTER (WHERE held_until > now()) AS held,
           (array_agg(checkpoint ORDER BY number DESC))[1] AS checkpoint
         FROM vidgen.generations WHERE status = 'processing' AND (engine IS NOT NULL OR is_submitting) AND engine IS NOT NULL
         GROUP BY engine`,
      );
      return rows.map((row) => ({ ...readSubmittedWork(row), held: Number(row.held) }));
    },
    async named() {
      const select = `SELECT DISTINCT model, names FROM vidgen.generations WHERE names IS NOT NULL AND ${isQueued}`;
      return (await query(select)).map(readNamed);
    },
    async waiting(filter) {
      const { condition, values } = where(filterConditions(filter));
      const rows = await query(
        `WITH open AS (
           SELECT model, names, images, is_real, engine, created_at, coalesce(held_until > now(), false) AS is_held
           FROM vidgen.generations ${condition} AND status = 'processing' AND NOT is_submitting
         )
         SELECT model, names, images, is_real, engine, count(*) AS count, min(created_at) AS oldest_at,
           (SELECT count(*) FROM open AS other WHERE other.model = open.model AND other.is_held
              AND (open.names IS NULL OR other.names = open.names)) AS held
         FROM open WHERE NOT is_held GROUP BY model, names, images, is_real, engine`,
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
type Selection = { select: string; values: PgValue[] };

const heldUntil = `now() + make_interval(secs => ${heldSeconds})`;
const claimColumns = "number, id, account, model, names, images, is_real, engine, is_submitting";
const isExpired = "(held_until IS NULL OR $1 AND held_until < now())";
const isFree = `status = 'processing' AND ${isExpired}`;
const isQueued = "status = 'processing' AND engine IS NULL AND NOT is_submitting";
/** Does not count the slot of a process that died before it submitted the generation; otherwise no process might have room to make it. */
const takesSlot = `status = 'processing' AND slot IS NOT NULL AND NOT (${isQueued} AND ${isExpired})`;

function selectOldest(wanted: Exclude<Wanted, WantedNew>, filter: ClaimFilter, limit: number): Selection {
  const { condition, values } = where([...conditionsOf(wanted), ...filterConditions(filter)], 2);
  const select = `SELECT number FROM vidgen.generations ${condition} AND ${isFree}
    ORDER BY number LIMIT ${limit} FOR UPDATE SKIP LOCKED`;
  return { select, values };
}

/**
 * Selects the next `depth` generations of each account, in the order of the turns. With the index `waiting`, the query reads only generations that
 * may be claimed, however many wait, because no other index is ordered by account and number for one model.
 */
function selectCandidates(wanted: WantedNew, filter: ClaimFilter, depth: number): Selection {
  const given = [wanted.models, wanted.kind === "fetch"];
  const conditions: Condition<PgValue>[] = [
    ["images <= ?", wanted.maxImages],
    ["is_real <= ?", !wanted.isSimulation],
    ["account <> ALL(?)", wanted.exceptAccounts],
    [
      "(image_fetch_at IS NULL OR image_fetch_at <= ? OR image_fetch_at > ?)",
      wanted.times?.at,
      wanted.times?.until ?? null,
    ],
    ["(names IS NULL OR model || names = ANY(?))", toNamed(wanted.named)],
    ...filterConditions(filter),
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
      heads (number, account) AS (
        SELECT number, account
        FROM queues CROSS JOIN LATERAL (
          SELECT number FROM vidgen.generations ${condition} AND is_fetched = $3 AND ${isQueued} AND ${isFree}
            AND model = queues.model AND account BETWEEN queues.account AND queues.account
          ORDER BY account, number LIMIT ${depth}) AS head
        WHERE queues.account IS NOT NULL
      ),
      places AS (
        SELECT number, row_number() OVER (PARTITION BY account ORDER BY number) AS nth, coalesce(at, 0) AS turn
        FROM heads LEFT JOIN (SELECT account, at FROM vidgen.turns WHERE is_fetched = $3) AS last USING (account)
      )
    SELECT number, nth FROM places WHERE nth <= ${depth} ORDER BY nth, turn, number`;
  return { select, values: [...given, ...values] };
}

function conditionsOf(wanted: Exclude<Wanted, WantedNew>): Condition<PgValue>[] {
  if (wanted.kind === "begun")
    return [["(engine IS NOT NULL OR is_submitting) AND (is_submitting OR engine = ANY(?))", wanted.engines]];
  return [
    ["model = ?", wanted.model],
    ["images = ?", wanted.images],
    ["is_real = ?", wanted.isReal],
    ["names IS NOT DISTINCT FROM ?", toNames(wanted.names)],
    ["engine IS NOT DISTINCT FROM ?", wanted.engine],
    ["NOT is_submitting AND created_at < ?", wanted.startedBefore],
  ];
}

function filterConditions({ except, ids }: ClaimFilter): Condition<PgValue>[] {
  return [
    ["id <> ALL(?)", except],
    ["id = ANY(?)", ids],
  ];
}
