import type { Delivery, DueQuery } from "../deliveries.ts";
import { readDelivery } from "../reads/deliveries.ts";
import type { Database } from "./database.ts";

/**
 * The due deliveries of a host: their time has come, or the clock was set back after they were planned. Reads only as many as may be attempted, however
 * many wait.
 */
const heads = ["next_at <= ?", "planned_at > ?"].map(
  (condition) => `
    SELECT number FROM deliveries
    WHERE next_at IS NOT NULL AND host = hosts.host AND ${condition} AND id NOT IN (SELECT value FROM json_each(?))
    ORDER BY ${condition.split(" ")[0]}, number LIMIT ?`,
);

/** Reads the deliveries to attempt now. See `Deliveries`. */
export function findDue(
  database: Database,
  { now, limit, perHost, except, room }: DueQuery,
): { deliveries: Delivery[]; nextMs: number } {
  const values = [now, JSON.stringify(except), Math.max(perHost, ...Object.values(room))];
  const rows = database.all(
    `WITH RECURSIVE
       hosts (host) AS (
         SELECT min(host) FROM deliveries WHERE next_at IS NOT NULL
         UNION ALL
         SELECT (SELECT min(host) FROM deliveries WHERE next_at IS NOT NULL AND host > hosts.host)
         FROM hosts WHERE host IS NOT NULL
       ),
       due AS (
         SELECT number, next_at, hosts.host, row_number() OVER (PARTITION BY hosts.host ORDER BY next_at, number) AS place
         FROM hosts CROSS JOIN deliveries
           ON number IN (SELECT * FROM (${heads[0]}) UNION ALL SELECT * FROM (${heads[1]}))
       )
     SELECT deliveries.id, generations.id AS generation, deliveries.account, url, body, traceparent, next_at,
       (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts
     FROM deliveries JOIN generations ON generations.number = deliveries.generation
     WHERE deliveries.number IN (
       SELECT number FROM due LEFT JOIN json_each(?) AS room ON room.key = host
       WHERE place <= coalesce(room.value, ?) ORDER BY next_at, number LIMIT ?
     ) ORDER BY next_at, deliveries.number`,
    ...[...values, ...values, JSON.stringify(room), perHost, limit],
  );
  const later = database.get("SELECT min(next_at) AS next_at FROM deliveries WHERE next_at > ?", now)?.next_at;
  const nextMs = later ? Date.parse(String(later)) - Date.parse(now) : Number.POSITIVE_INFINITY;
  return { deliveries: rows.map(readDelivery), nextMs };
}
