import type { Attempt, Delivery } from "../store.ts";
import type { Database, Row } from "./database.ts";

/** The tables of callbacks and of the attempts to deliver them. Synchronous: the caller runs changes in a transaction. */
export function createDeliveries(database: Database) {
  const insert = database.statement(
    "INSERT INTO deliveries (id, generation, request, next_at) SELECT ?, number, ?, ? FROM generations WHERE id = ?",
  );
  const pending = database.statement(
    `SELECT deliveries.id, generations.id AS generation, request, next_at,
       (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts
     FROM deliveries JOIN generations ON generations.number = deliveries.generation
     WHERE next_at IS NOT NULL ORDER BY next_at, deliveries.number`,
  );
  const plan = database.statement("UPDATE deliveries SET next_at = ? WHERE id = ?");
  const attempt = database.statement(
    `INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered)
     SELECT number, 1 + (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number), ?, ?, ?
     FROM deliveries WHERE id = ?`,
  );
  return {
    add({ id, generation, url, body, next_at }: Delivery): void {
      const request = JSON.stringify({ url, body });
      if (insert.run(id, request, next_at, generation) === 0) throw new Error(`no generation ${generation}`);
    },
    pending: (): Delivery[] => pending.all().map(readRow),
    record(id: string, { at, outcome, delivered }: Attempt, next_at: string | null): void {
      if (plan.run(next_at, id) === 0) throw new Error(`no delivery ${id}`);
      attempt.run(at, JSON.stringify(outcome), Number(delivered), id);
    },
  };
}

function readRow(row: Row): Delivery {
  const { id, generation, next_at } = row as Pick<Delivery, "id" | "generation" | "next_at">;
  const { url, body }: Pick<Delivery, "url" | "body"> = JSON.parse(String(row.request));
  return { id, generation, next_at, attempts: Number(row.attempts), url, body };
}
