import type { Attempt, Delivery } from "../store.ts";
import type { Database, Row } from "./database.ts";

/** The tables of callbacks and of the attempts to deliver them. Synchronous: the caller runs changes in a transaction. */
export function createDeliveries(database: Database) {
  return {
    add({ id, generation, url, body, next_at }: Delivery): void {
      const changes = database.run(
        "INSERT INTO deliveries (id, generation, request, next_at) SELECT ?, number, ?, ? FROM generations WHERE id = ?",
        ...[id, JSON.stringify({ url, body }), next_at, generation],
      );
      if (changes === 0) throw new Error(`no generation ${generation}`);
    },
    pending(): Delivery[] {
      const rows = database.all(
        `SELECT deliveries.id, generations.id AS generation, request, next_at,
           (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts
         FROM deliveries JOIN generations ON generations.number = deliveries.generation
         WHERE next_at IS NOT NULL ORDER BY next_at, deliveries.number`,
      );
      return rows.map(readRow);
    },
    record(id: string, { at, outcome, delivered }: Attempt, next_at: string | null): void {
      const changes = database.run("UPDATE deliveries SET next_at = ? WHERE id = ?", next_at, id);
      if (changes === 0) throw new Error(`no delivery ${id}`);
      database.run(
        `INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered)
         SELECT number, 1 + (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number), ?, ?, ?
         FROM deliveries WHERE id = ?`,
        ...[at, JSON.stringify(outcome), Number(delivered), id],
      );
    },
  };
}

function readRow({ request, ...row }: Row): Delivery {
  const delivery = row as Pick<Delivery, "id" | "generation" | "next_at" | "attempts">;
  const { url, body }: Pick<Delivery, "url" | "body"> = JSON.parse(String(request));
  return { ...delivery, url, body };
}
