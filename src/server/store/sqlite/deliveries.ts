import type { Attempt, Delivery, DeliveryFilter, DueQuery } from "../deliveries.ts";
import { hostOf } from "../needs.ts";
import { readDelivery } from "../reads/deliveries.ts";
import { where } from "../reads/reader.ts";
import type { Database } from "./database.ts";

/** The tables of callbacks and of the attempts to deliver them. Synchronous: the caller runs changes in a transaction. */
export function createDeliveries(database: Database) {
  return {
    add({ id, generation, url, body, traceparent, next_at }: Delivery): void {
      const changes = database.run(
        `INSERT INTO deliveries (id, generation, account, request, next_at, planned_at, host)
         SELECT ?, number, account, ?, ?, ?, ? FROM generations WHERE id = ?`,
        ...[id, JSON.stringify({ url, body, traceparent }), next_at, next_at, hostOf(url), generation],
      );
      if (changes === 0) throw new Error(`no generation ${generation}`);
    },
    due({ now, limit, perHost, except, busy }: DueQuery): { deliveries: Delivery[]; nextMs: number } {
      const rows = database.all(
        `SELECT deliveries.id, generations.id AS generation, deliveries.account, request, next_at,
           (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts
         FROM deliveries JOIN generations ON generations.number = deliveries.generation
         WHERE deliveries.number IN (
           SELECT number FROM (
             SELECT number, next_at, host, row_number() OVER (PARTITION BY host ORDER BY next_at, number) AS place
             FROM deliveries
             WHERE next_at IS NOT NULL AND (next_at <= ? OR planned_at > ?) AND id NOT IN (SELECT value FROM json_each(?))
           ) LEFT JOIN json_each(?) AS busy ON busy.key = host
           WHERE place <= ? - coalesce(busy.value, 0) ORDER BY next_at, number LIMIT ?
         ) ORDER BY next_at, deliveries.number`,
        ...[now, now, JSON.stringify(except), JSON.stringify(busy), perHost, limit],
      );
      const later = database.get("SELECT min(next_at) AS next_at FROM deliveries WHERE next_at > ?", now)?.next_at;
      const nextMs = later ? Date.parse(String(later)) - Date.parse(now) : Number.POSITIVE_INFINITY;
      return { deliveries: rows.map(readDelivery), nextMs };
    },
    record(id: string, { at, outcome, delivered, reply, ms }: Attempt, next_at: string | null): void {
      const ended = delivered ? "delivered" : "given_up";
      const changes = database.run(
        "UPDATE deliveries SET next_at = ?, planned_at = ?, state = ? WHERE id = ?",
        ...[next_at, at, next_at === null ? ended : "waiting", id],
      );
      if (changes === 0) throw new Error(`no delivery ${id}`);
      database.run(
        `INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
         SELECT number, 1 + (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number), ?, ?, ?, ?, ?
         FROM deliveries WHERE id = ?`,
        ...[at, JSON.stringify(outcome), Number(delivered), JSON.stringify(reply), ms, id],
      );
    },
    resend(generation: string, at: string): Delivery | undefined {
      const row = database.get(
        `UPDATE deliveries SET next_at = ?, planned_at = ?, state = 'waiting' WHERE generation = (SELECT number FROM generations WHERE id = ?)
         RETURNING id, request, next_at, account,
           (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts`,
        ...[at, at, generation],
      );
      return row && readDelivery({ ...row, generation });
    },
    /** Returns the ids of their generations. */
    resendGivenUp({ account, host }: DeliveryFilter, at: string): string[] {
      const { condition, values } = where([
        ["state = ?", "given_up"],
        ["account = ?", account],
        ["host = ?", host],
      ]);
      const rows = database.all(
        `UPDATE deliveries SET next_at = ?, planned_at = ?, state = 'waiting' ${condition}
         RETURNING (SELECT id FROM generations WHERE number = generation) AS generation`,
        ...[at, at, ...values],
      );
      return rows.map(({ generation }) => String(generation));
    },
  };
}
