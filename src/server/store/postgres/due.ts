import type { Clock } from "../../../io.ts";
import type { Delivery, DueQuery } from "../deliveries.ts";
import { readDelivery } from "../reads/deliveries.ts";
import { inTurn } from "../reads/due.ts";
import type { Context } from "../rules/rule.ts";
import type { Query } from "./database.ts";
import { numberPlaceholders } from "./reader.ts";

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

/** The callbacks of a host that are due. BETWEEN keeps the order of the index, by which only the first are read. */
const heads = `LATERAL (
  SELECT number, due_at AS due FROM deliveries
  WHERE is_retry = kinds.is_retry AND host BETWEEN hosts.host AND hosts.host AND due_at <= now() AND id <> ALL(?)
  ORDER BY host, due_at, number LIMIT ?) AS head`;

/** Claims the deliveries that are due for the time of an attempt. See `Deliveries`. */
export async function claimDue(
  query: Query,
  { limit, perHost, hosts, except }: DueQuery,
): Promise<{ deliveries: Delivery[]; nextMs: number }> {
  const claimed = await query(
    numberPlaceholders(`${inTurn(heads)}
      UPDATE deliveries SET due_at = now() + make_interval(secs => ${attemptSeconds})
      WHERE number = ANY(ARRAY(
        SELECT number FROM deliveries WHERE due_at <= now() AND number = ANY(ARRAY(SELECT number FROM turns))
        ORDER BY due_at, number LIMIT ? FOR UPDATE SKIP LOCKED))
      RETURNING number`),
    ...[JSON.stringify(hosts), except, Math.max(perHost, ...Object.values(hosts).map(({ room }) => room))],
    ...[perHost, limit],
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
