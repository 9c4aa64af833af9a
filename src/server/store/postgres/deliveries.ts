import type { Clock } from "../../../io.ts";
import type { Attempt, Delivery, DeliveryQuery, DeliveryRecord, Store } from "../store.ts";
import { notify } from "./changes.ts";
import type { Database, Query, Row } from "./database.ts";
import type { Jobs } from "./jobs.ts";
import { where } from "./where.ts";

export type Deliveries = ReturnType<typeof createDeliveries>;

export type DeliveriesOptions = { jobs: Jobs; clock: Pick<Clock, "date"> };

const selection = `
  SELECT deliveries.number, deliveries.id, generations.id AS generation, request, next_at,
    (SELECT count(*) FROM vidgen.delivery_attempts WHERE delivery = deliveries.number) AS attempts
  FROM vidgen.deliveries JOIN vidgen.generations ON generations.number = deliveries.generation`;

/** Callbacks and the attempts to deliver them. */
export function createDeliveries({ query, transaction }: Database, { jobs, clock }: DeliveriesOptions) {
  // The clock of the database may be another one.
  const secondsUntil = (at: string) => Math.max(0, Date.parse(at) - clock.date().getTime()) / 1_000;
  const attemptsOf = async (delivery: number): Promise<Attempt[]> => {
    const select =
      "SELECT at, outcome, delivered, reply FROM vidgen.delivery_attempts WHERE delivery = $1 ORDER BY number";
    return (await query(select, delivery)).map(readAttempt);
  };
  return {
    async add(sql: Query, { id, generation, url, body, next_at }: Delivery): Promise<void> {
      await sql(
        `INSERT INTO vidgen.deliveries (id, generation, request, next_at)
         SELECT $1, number, $2, $3 FROM vidgen.generations WHERE id = $4`,
        ...[id, JSON.stringify({ url, body }), next_at, generation],
      );
      await jobs.add(sql, "deliveries", id);
    },
    /** Returns a delivery that has an attempt to come. */
    async findPending(id: string): Promise<Delivery | undefined> {
      const [row] = await query(`${selection} WHERE deliveries.id = $1 AND next_at IS NOT NULL`, id);
      return row && readRow(row);
    },
    recordAttempt: (id: string, { at, outcome, delivered, reply }: Attempt, next_at: string | null) =>
      transaction(async (sql) => {
        const update = "UPDATE vidgen.deliveries SET next_at = $2 WHERE id = $1 RETURNING number";
        const [row] = await sql(update, id, next_at);
        if (!row) throw new Error(`no delivery ${id}`);
        await sql(
          `INSERT INTO vidgen.delivery_attempts (delivery, number, at, outcome, delivered, reply)
           SELECT $1, 1 + (SELECT count(*) FROM vidgen.delivery_attempts WHERE delivery = $1), $2, $3, $4, $5`,
          ...[row.number as string, at, JSON.stringify(outcome), delivered, JSON.stringify(reply)],
        );
        if (next_at === null) await jobs.remove(sql, "deliveries", [id]);
        else await jobs.plan(sql, "deliveries", [id], secondsUntil(next_at));
      }),
    resend: (generation: string, at: string) =>
      transaction(async (sql) => {
        const update = `UPDATE vidgen.deliveries SET next_at = $2
          WHERE generation = (SELECT number FROM vidgen.generations WHERE id = $1) RETURNING id`;
        const [changed] = await sql<{ id: string }>(update, generation, at);
        if (!changed) return undefined;
        await jobs.plan(sql, "deliveries", [changed.id], secondsUntil(at));
        await notify(sql, { kind: "callback", id: generation });
        const [row] = await sql(`${selection} WHERE deliveries.id = $1`, changed.id);
        return row && readRow(row);
      }),
    async deliveries({ before, limit, generations }: DeliveryQuery): Promise<DeliveryRecord[]> {
      const { condition, values } = where([
        ["deliveries.number < (SELECT number FROM vidgen.deliveries WHERE id = ?)", before],
        ["generations.id = ANY(?)", generations],
      ]);
      const rows = await query(`${selection} ${condition} ORDER BY deliveries.number DESC LIMIT ${limit}`, ...values);
      return Promise.all(
        rows.map(async (row) => ({ ...readRow(row), attempts: await attemptsOf(Number(row.number)) })),
      );
    },
  } satisfies Partial<Store> & Record<string, unknown>;
}

function readAttempt({ at, outcome, delivered, reply }: Row): Attempt {
  const [words, text]: string[] = [outcome, reply].map((json) => JSON.parse(String(json)));
  return { at: String(at), outcome: words ?? "", delivered: delivered === true, reply: text ?? "" };
}

function readRow({ number: _, request, attempts, ...row }: Row): Delivery {
  const delivery = row as Pick<Delivery, "id" | "generation" | "next_at">;
  const { url, body }: Pick<Delivery, "url" | "body"> = JSON.parse(String(request));
  return { ...delivery, url, body, attempts: Number(attempts) };
}
