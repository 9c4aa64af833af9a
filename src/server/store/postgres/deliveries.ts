import type { Clock } from "../../../io.ts";
import { hostOf, shownCharacters } from "../needs.ts";
import type { Attempt, Delivery, DeliveryFilter, DeliveryQuery, DeliveryRecord, DueQuery, Store } from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Row } from "./database.ts";
import { where } from "./where.ts";

export type Deliveries = ReturnType<typeof createDeliveries>;

/** An attempt takes up to 15 s; when its process is gone, another one makes it after this time. */
const attemptSeconds = 20;

const selection = `
  SELECT deliveries.number, deliveries.id, generations.id AS generation, deliveries.account, request, next_at,
    left(prompt, ${shownCharacters}) AS prompt,
    (SELECT count(*) FROM vidgen.delivery_attempts WHERE delivery = deliveries.number) AS attempts
  FROM vidgen.deliveries JOIN vidgen.generations ON generations.number = deliveries.generation`;

/** Callbacks and the attempts to deliver them. */
export function createDeliveries({ query, transaction }: Database, clock: Pick<Clock, "date">) {
  // The clock of the database may be another one.
  const secondsUntil = (at: string) => Math.max(0, Date.parse(at) - clock.date().getTime()) / 1_000;
  const attemptsOf = async (delivery: number): Promise<Attempt[]> => {
    const select =
      "SELECT at, outcome, delivered, reply, ms FROM vidgen.delivery_attempts WHERE delivery = $1 ORDER BY number";
    return (await query(select, delivery)).map(readAttempt);
  };
  return {
    async add(sql: Query, { id, generation, url, body, traceparent, next_at }: Delivery): Promise<void> {
      await sql(
        `INSERT INTO vidgen.deliveries (id, generation, request, next_at, host, due_at)
         SELECT $1, number, $2, $3, $5, now() FROM vidgen.generations WHERE id = $4`,
        ...[id, JSON.stringify({ url, body, traceparent }), next_at, generation, hostOf(url)],
      );
    },
    recordAttempt: (id: string, { at, outcome, delivered, reply, ms }: Attempt, next_at: string | null) =>
      transaction(async (sql) => {
        const [row] = await sql(
          `UPDATE vidgen.deliveries SET next_at = $2, due_at = now() + make_interval(secs => $3)
           WHERE id = $1 RETURNING number`,
          ...[id, next_at, next_at === null ? null : secondsUntil(next_at)],
        );
        if (!row) throw new Error(`no delivery ${id}`);
        await sql(
          `INSERT INTO vidgen.delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
           SELECT $1, 1 + (SELECT count(*) FROM vidgen.delivery_attempts WHERE delivery = $1), $2, $3, $4, $5, $6`,
          ...[row.number as string, at, JSON.stringify(outcome), delivered, JSON.stringify(reply), ms],
        );
      }),
    resend: (generation: string, at: string) =>
      transaction(async (sql) => {
        const [changed] = await sql<{ id: string }>(
          `UPDATE vidgen.deliveries SET next_at = $2, due_at = now() + make_interval(secs => $3)
           WHERE generation = (SELECT number FROM vidgen.generations WHERE id = $1) RETURNING id`,
          ...[generation, at, secondsUntil(at)],
        );
        if (!changed) return undefined;
        const [row] = await sql(`${selection} WHERE deliveries.id = $1`, changed.id);
        if (!row) return undefined;
        const delivery = readRow(row);
        await notify(sql, { kind: "callback", id: generation, account: delivery.account });
        return delivery;
      }),
    resendGivenUp: ({ account, host }: DeliveryFilter, at: string) =>
      transaction(async (sql) => {
        const { condition, values } = where(
          [
            ["state = ?", "given_up"],
            ["account = ?", account],
            ["host = ?", host],
          ],
          2,
        );
        const rows = await sql<{ generation: string }>(
          `UPDATE vidgen.deliveries SET next_at = $1, due_at = now() + make_interval(secs => $2) ${condition}
           RETURNING generation`,
          ...[at, secondsUntil(at), ...values],
        );
        const find = "SELECT id, account FROM vidgen.generations WHERE number = $1";
        const [first] = await sql<{ id: string; account: string }>(find, rows[0]?.generation ?? null);
        // Of all of them the sender hears once: each attempt is told of by itself.
        if (first) await notify(sql, { kind: "callback", ...first });
        return rows.length;
      }),
    async deliveryTotals({ account, host }: DeliveryFilter) {
      const own = where([["account = ?", account]]);
      const hosts = await query(
        `SELECT host FROM vidgen.deliveries ${own.condition} GROUP BY host ORDER BY host COLLATE "C" LIMIT 100`,
        ...own.values,
      );
      const wanted = where([
        ["account = ?", account],
        ["host = ?", host],
      ]);
      const rows = await query(
        `SELECT state, count(*) AS count FROM vidgen.deliveries ${wanted.condition} GROUP BY 1`,
        ...wanted.values,
      );
      return {
        counts: Object.fromEntries(rows.map(({ state, count }) => [state, Number(count)])),
        hosts: hosts.map(({ host }) => String(host)).filter((each) => each !== ""),
      };
    },
    async pendingCallbacks() {
      const [row] = await query("SELECT count(*) AS count FROM vidgen.deliveries WHERE due_at IS NOT NULL");
      return Number(row?.count);
    },
    async deliveries({
      before,
      limit,
      generations,
      account,
      host,
      ...filter
    }: DeliveryQuery): Promise<DeliveryRecord[]> {
      const { condition, values } = where([
        ["deliveries.account = ?", account],
        ["host = ?", host],
        ["deliveries.state = ?", filter.state],
        ["deliveries.number < (SELECT number FROM vidgen.deliveries WHERE id = ?)", before],
        ["generations.id = ANY(?)", generations],
      ]);
      const rows = await query(`${selection} ${condition} ORDER BY deliveries.number DESC LIMIT ${limit}`, ...values);
      return Promise.all(
        rows.map(async (row) => ({
          ...readRow(row),
          prompt: String(row.prompt),
          attempts: await attemptsOf(Number(row.number)),
        })),
      );
    },
  } satisfies Partial<Store> & Record<string, unknown>;
}

/** Claims the deliveries to attempt now for the time of an attempt. See `Store`. */
export async function claimDue(
  query: Query,
  { limit, perHost, busy, except }: DueQuery,
): Promise<{ deliveries: Delivery[]; nextMs: number }> {
  const claimed = await query(
    `UPDATE vidgen.deliveries SET due_at = now() + make_interval(secs => ${attemptSeconds})
     WHERE number IN (
       SELECT number FROM vidgen.deliveries WHERE due_at <= now() AND number IN (
         SELECT number FROM (
           SELECT number, host, row_number() OVER (PARTITION BY host ORDER BY due_at, number) AS place
           FROM vidgen.deliveries WHERE due_at <= now() AND id <> ALL($1)
         ) AS due LEFT JOIN json_each_text($2) AS busy ON busy.key = host
         WHERE place <= $3 - coalesce(busy.value::integer, 0)
       ) ORDER BY due_at, number LIMIT $4 FOR UPDATE SKIP LOCKED)
     RETURNING number`,
    ...[except, JSON.stringify(busy), perHost, limit],
  );
  const numbers = claimed.map(({ number }) => number as string);
  const rows =
    numbers.length === 0 ? [] : await query(`${selection} WHERE deliveries.number = ANY($1) ORDER BY 1`, numbers);
  const next =
    "SELECT extract(epoch FROM min(due_at) - now()) * 1000 AS ms FROM vidgen.deliveries WHERE due_at > now()";
  const [later] = await query(next);
  return { deliveries: rows.map(readRow), nextMs: later?.ms ? Number(later.ms) : Number.POSITIVE_INFINITY };
}

function readAttempt({ at, outcome, delivered, reply, ms }: Row): Attempt {
  const [words, text]: string[] = [outcome, reply].map((json) => JSON.parse(String(json)));
  const tookMs = typeof ms === "number" ? ms : null;
  return { at: String(at), outcome: words ?? "", delivered: delivered === true, reply: text ?? "", ms: tookMs };
}

function readRow({ number: _, prompt: __, request, attempts, ...row }: Row): Delivery {
  const delivery = row as Pick<Delivery, "id" | "generation" | "account" | "next_at">;
  const sent: Pick<Delivery, "url" | "body" | "traceparent"> = JSON.parse(String(request));
  return { ...delivery, ...sent, attempts: Number(attempts) };
}
