import type { Delivery, DueQuery } from "../deliveries.ts";
import { readDelivery } from "../reads/deliveries.ts";
import { inTurn } from "../reads/due.ts";
import type { Database } from "./database.ts";

/** The callbacks of a host that are due: their time has come, or the clock was set back after they were planned. */
const heads = ["next_at <= ?", "planned_at > ?"].map(
  (condition) => `
    SELECT number FROM deliveries WHERE next_at IS NOT NULL
      AND host = hosts.host AND is_retry = kinds.is_retry AND ${condition} AND id NOT IN (SELECT value FROM json_each(?))
    ORDER BY ${condition.split(" ")[0]}, number LIMIT ?`,
);

/** Reads the deliveries to attempt now. See `Deliveries`. */
export function findDue(
  database: Database,
  { now, limit, perHost, except, hosts }: DueQuery,
): { deliveries: Delivery[]; nextMs: number } {
  const most = Math.max(perHost, ...Object.values(hosts).map(({ room }) => room));
  const values = [now, JSON.stringify(except), most];
  const rows = database.all(
    `${inTurn(`(SELECT number, next_at AS due FROM deliveries) AS head
       ON number IN (SELECT * FROM (${heads[0]}) UNION ALL SELECT * FROM (${heads[1]}))`)}
     SELECT deliveries.id, generations.id AS generation, deliveries.account, url, body, traceparent, next_at,
       (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts
     FROM deliveries JOIN generations ON generations.number = deliveries.generation
     WHERE deliveries.number IN (SELECT number FROM turns ORDER BY due, number LIMIT ?) ORDER BY next_at, deliveries.number`,
    ...[JSON.stringify(hosts), ...values, ...values, perHost, limit],
  );
  const later = database.get("SELECT min(next_at) AS next_at FROM deliveries WHERE next_at > ?", now)?.next_at;
  const nextMs = later ? Date.parse(String(later)) - Date.parse(now) : Number.POSITIVE_INFINITY;
  return { deliveries: rows.map(readDelivery), nextMs };
}
