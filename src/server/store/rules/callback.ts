import { type Attempt, type Delivery, hostOf } from "../deliveries.ts";
import { type Context, type Rule, sql } from "./rule.ts";

/** Adds the callback of a generation, which is due at once. */
export function* addDelivery(delivery: Delivery, { schedule }: Context): Rule<void> {
  const { id, generation, url, body, traceparent, next_at } = delivery;
  const { column, due, value } = schedule(next_at, next_at);
  const [added] = yield* sql(
    `INSERT INTO deliveries (id, url, body, traceparent, host, state, next_at, ${column}, generation, account)
     SELECT ?, ?, ?, ?, ?, 'waiting', ?, ${due}, number, account FROM generations WHERE id = ? RETURNING number`,
    ...[id, url, body, traceparent ?? null, hostOf(url), next_at, value, generation],
  );
  if (!added) throw new Error(`no generation ${generation}`);
}

/** Records an attempt to deliver a callback, and when the next one is due; `null` when it was delivered or given up. */
export function* recordAttempt(
  id: string,
  attempt: Attempt,
  next_at: string | null,
  { schedule }: Context,
): Rule<void> {
  const { at, outcome, delivered, reply, ms } = attempt;
  const { column, due, value } = schedule(next_at, at);
  const ended = delivered ? "delivered" : "given_up";
  const [delivery] = yield* sql(
    `UPDATE deliveries SET state = ?, is_retry = TRUE, next_at = ?, ${column} = ${due} WHERE id = ? RETURNING number`,
    ...[next_at === null ? ended : "waiting", next_at, value, id],
  );
  if (!delivery) throw new Error(`no delivery ${id}`);
  const number = Number(delivery.number);
  const [made] = yield* sql("SELECT count(*) AS count FROM delivery_attempts WHERE delivery = ?", number);
  yield* sql(
    "INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered, reply, ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
    ...[number, 1 + Number(made?.count), at, outcome, delivered, reply, ms],
  );
}
