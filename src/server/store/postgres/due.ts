import type { Clock } from "../../../io.ts";
import type { Delivery, DueQuery } from "../deliveries.ts";
import { readDelivery } from "../reads/deliveries.ts";
import type { Context } from "../rules/rule.ts";
import type { Query } from "./database.ts";

/** An attempt takes up to 15 s; if its process has died, another process repeats the attempt after this time. */
const attemptSeconds = 20;

const selection = `
  SELECT deliveries.id, generations.id AS generation, deliveries.account, url, body, traceparent, next_at,
    (SELECT count(*) FROM vidgen.delivery_attempts WHERE delivery = deliveries.number) AS attempts
  FROM vidgen.deliveries JOIN vidgen.generations ON generations.number = deliveries.generation`;

/** A callback is due by the clock of the database, which may differ from that of the process. */
export function createSchedule(clock: Pick<Clock, "date">): Context["schedule"] {
  return (next_at) => {
    const seconds = next_at === null ? null : Math.max(0, Date.parse(next_at) - clock.date().getTime()) / 1_000;
    return { column: "due_at", due: "now() + make_interval(secs => ?)", value: seconds };
  };
}

/**
 * Claims the deliveries that are due for the time of an attempt. Reads only as many of each host as may be attempted, however many wait. See
 * `Deliveries`.
 */
export async function claimDue(
  query: Query,
  { limit, perHost, room, except }: DueQuery,
): Promise<{ deliveries: Delivery[]; nextMs: number }> {
  const claimed = await query(
    `WITH RECURSIVE
       hosts (host) AS (
         SELECT min(host) FROM vidgen.deliveries WHERE due_at IS NOT NULL
         UNION ALL
         SELECT (SELECT min(host) FROM vidgen.deliveries WHERE due_at IS NOT NULL AND host > hosts.host)
         FROM hosts WHERE host IS NOT NULL
       ),
       due AS (
         SELECT number, hosts.host, row_number() OVER (PARTITION BY hosts.host ORDER BY due_at, number) AS place
         FROM hosts CROSS JOIN LATERAL (
           SELECT number, due_at FROM vidgen.deliveries
           WHERE host BETWEEN hosts.host AND hosts.host AND due_at <= now() AND id <> ALL($1)
           ORDER BY host, due_at, number LIMIT $3) AS head
       )
     UPDATE vidgen.deliveries SET due_at = now() + make_interval(secs => ${attemptSeconds})
     WHERE number IN (
       SELECT number FROM vidgen.deliveries WHERE due_at <= now() AND number IN (
         SELECT number FROM due LEFT JOIN json_each_text($2) AS room ON room.key = host
         WHERE place <= coalesce(room.value::integer, $5)
       ) ORDER BY due_at, number LIMIT $4 FOR UPDATE SKIP LOCKED)
     RETURNING number`,
    ...[except, JSON.stringify(room), Math.max(perHost, ...Object.values(room)), limit, perHost],
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
