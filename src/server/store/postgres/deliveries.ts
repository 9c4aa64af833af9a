import type { Clock } from "../../../io.ts";
import type { Attempt, Deliveries, Delivery, DeliveryFilter, DueQuery } from "../deliveries.ts";
import { hostOf } from "../needs.ts";
import { readDelivery } from "../reads/deliveries.ts";
import { notify } from "./changes.ts";
import type { Database, Query } from "./database.ts";
import { where } from "./reader.ts";

/** An attempt takes up to 15 s; when its process is gone, another one makes it after this time. */
const attemptSeconds = 20;

const selection = `
  SELECT deliveries.id, generations.id AS generation, deliveries.account, request, next_at,
    (SELECT count(*) FROM vidgen.delivery_attempts WHERE delivery = deliveries.number) AS attempts
  FROM vidgen.deliveries JOIN vidgen.generations ON generations.number = deliveries.generation`;

/** Callbacks and the attempts to deliver them. */
export function createDeliveries({ transaction }: Pick<Database, "transaction">, clock: Pick<Clock, "date">) {
  // The clock of the database may be another one.
  const secondsUntil = (at: string) => Math.max(0, Date.parse(at) - clock.date().getTime()) / 1_000;
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
        const delivery = readDelivery(row);
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
  } satisfies Partial<Deliveries> & Record<string, unknown>;
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
    numbers.length === 0
      ? []
      : await query(`${selection} WHERE deliveries.number = ANY($1) ORDER BY deliveries.number`, numbers);
  const next =
    "SELECT extract(epoch FROM min(due_at) - now()) * 1000 AS ms FROM vidgen.deliveries WHERE due_at > now()";
  const [later] = await query(next);
  return { deliveries: rows.map(readDelivery), nextMs: later?.ms ? Number(later.ms) : Number.POSITIVE_INFINITY };
}
