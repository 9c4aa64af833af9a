import type { Attempt, Deliveries, Delivery, DeliveryQuery, DeliveryRecord } from "../deliveries.ts";
import { type Reader, type Row, shownPrompt, where } from "./reader.ts";

/** Reads callbacks and the attempts to deliver them. */
export function createDeliveryReads({ query, isOneOf }: Reader) {
  /** Reads the attempts of several deliveries, each with the id of its delivery. */
  const findAttempts = (ids: readonly unknown[]) =>
    query(
      `SELECT deliveries.id, at, outcome, delivery_attempts.delivered, reply, ms
       FROM deliveries JOIN delivery_attempts ON delivery = deliveries.number
       WHERE ${isOneOf("deliveries.id")} ORDER BY delivery_attempts.number`,
      JSON.stringify(ids),
    );
  return {
    async pendingCallbacks() {
      const [row] = await query(`SELECT count(*) AS count FROM deliveries WHERE state = 'waiting'`);
      return Number(row?.count);
    },
    async deliveryTotals({ account, host }) {
      const own = where([["account = ?", account]]);
      const hosts = await query(
        `SELECT host FROM deliveries ${own.condition} GROUP BY host ORDER BY host LIMIT 100`,
        ...own.values,
      );
      const wanted = where([
        ["account = ?", account],
        ["host = ?", host],
      ]);
      const rows = await query(
        `SELECT state, count(*) AS count FROM deliveries ${wanted.condition} GROUP BY state`,
        ...wanted.values,
      );
      // An invalid URL has no host.
      const names = hosts.map(({ host }) => String(host)).filter((each) => each !== "");
      return {
        counts: Object.fromEntries(rows.map(({ state, count }) => [state, Number(count)])),
        // The order of the database depends on its locale.
        hosts: names.sort(),
      };
    },
    async deliveries({ before, limit, generations, account, host, state }: DeliveryQuery): Promise<DeliveryRecord[]> {
      const { condition, values } = where([
        ["deliveries.account = ?", account],
        ["host = ?", host],
        ["deliveries.state = ?", state],
        [`deliveries.number < (SELECT number FROM deliveries WHERE id = ?)`, before],
        [isOneOf("generations.id"), generations && JSON.stringify(generations)],
      ]);
      const rows = await query(
        `SELECT deliveries.id, generations.id AS generation, deliveries.account, url, body, traceparent, next_at,
           ${shownPrompt} AS prompt
         FROM deliveries JOIN generations ON generations.number = deliveries.generation
         ${condition} ORDER BY deliveries.number DESC LIMIT ?`,
        ...[...values, limit],
      );
      const attempts = await findAttempts(rows.map(({ id }) => id));
      return rows.map(({ prompt, ...row }) => ({
        ...readDelivery(row),
        prompt: String(prompt),
        attempts: attempts.filter(({ id }) => id === row.id).map(readAttempt),
      }));
    },
  } satisfies Partial<Deliveries>;
}

function readAttempt({ at, outcome, delivered, reply, ms }: Row): Attempt {
  return {
    at: String(at),
    outcome: String(outcome),
    delivered: Boolean(delivered),
    reply: String(reply),
    ms: Number(ms),
  };
}

/** Reads a delivery out of a row; `attempts` is valid only if the query counts them. */
export function readDelivery({ traceparent, attempts, ...row }: Row): Delivery {
  const delivery = row as Pick<Delivery, "id" | "generation" | "account" | "url" | "body" | "next_at">;
  return { ...delivery, ...(typeof traceparent === "string" && { traceparent }), attempts: Number(attempts) };
}
