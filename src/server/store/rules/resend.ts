import type { Delivery, DeliveryFilter } from "../deliveries.ts";
import { readDelivery } from "../reads/deliveries.ts";
import { where } from "../reads/reader.ts";
import { type Context, publish, type Rule, sql } from "./rule.ts";

/** Makes the callback of a generation due at a time, also when it was delivered or given up. */
export function* resend(generation: string, at: string, { schedule }: Context): Rule<Delivery | undefined> {
  const { column, due, value } = schedule(at, at);
  const [row] = yield* sql(
    `UPDATE deliveries SET state = 'waiting', next_at = ?, ${column} = ${due}
     WHERE generation = (SELECT number FROM generations WHERE id = ?)
     RETURNING id, account, url, body, traceparent, next_at,
       (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts`,
    ...[at, value, generation],
  );
  if (!row) return undefined;
  const delivery = readDelivery({ ...row, generation });
  yield* publish({ kind: "callback", id: generation, account: delivery.account });
  return delivery;
}

/** Makes all callbacks that were given up due at a time. Returns their number. */
export function* resendGivenUp({ account, host }: DeliveryFilter, at: string, { schedule }: Context): Rule<number> {
  const { column, due, value } = schedule(at, at);
  const { condition, values } = where([
    ["state = 'given_up'", true],
    ["account = ?", account],
    ["host = ?", host],
  ]);
  const rows = yield* sql(
    `UPDATE deliveries SET state = 'waiting', next_at = ?, ${column} = ${due} ${condition}
     RETURNING account, (SELECT id FROM generations WHERE number = generation) AS generation`,
    ...[at, value, ...values],
  );
  const [first] = rows;
  // One change is enough for the sender; each attempt publishes its own.
  if (first) yield* publish({ kind: "callback", id: String(first.generation), account: String(first.account) });
  return rows.length;
}
