import type { Delivery, DueQuery } from "../deliveries.ts";
import { readDelivery } from "../reads/deliveries.ts";
import type { Database } from "./database.ts";

/** Reads the deliveries to attempt now. See `Deliveries`. */
export function findDue(
  database: Database,
  { now, limit, perHost, except, busy }: DueQuery,
): { deliveries: Delivery[]; nextMs: number } {
  const rows = database.all(
    `SELECT deliveries.id, generations.id AS generation, deliveries.account, url, body, traceparent, next_at,
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
}
