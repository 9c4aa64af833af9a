import { hostOf, shownCharacters } from "../needs.ts";
import type {
  Attempt,
  Delivery,
  DeliveryFilter,
  DeliveryQuery,
  DeliveryRecord,
  DeliveryTotals,
  DueQuery,
} from "../store.ts";
import type { Database, Row, Value } from "./database.ts";
import { where } from "./where.ts";

/** The tables of callbacks and of the attempts to deliver them. Synchronous: the caller runs changes in a transaction. */
export function createDeliveries(database: Database) {
  const attemptsOf = (delivery: Value): Attempt[] => {
    const columns = "at, outcome, delivered, reply, ms";
    const rows = database.all(`SELECT ${columns} FROM delivery_attempts WHERE delivery = ? ORDER BY number`, delivery);
    return rows.map(readAttempt);
  };
  return {
    add({ id, generation, url, body, traceparent, next_at }: Delivery): void {
      const changes = database.run(
        `INSERT INTO deliveries (id, generation, account, request, next_at, planned_at, host)
         SELECT ?, number, account, ?, ?, ?, ? FROM generations WHERE id = ?`,
        ...[id, JSON.stringify({ url, body, traceparent }), next_at, next_at, hostOf(url), generation],
      );
      if (changes === 0) throw new Error(`no generation ${generation}`);
    },
    due({ now, limit, perHost, except, busy }: DueQuery): { deliveries: Delivery[]; nextMs: number } {
      const rows = database.all(
        `SELECT deliveries.id, generations.id AS generation, deliveries.account, request, next_at,
           (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts
         FROM deliveries JOIN generations ON generations.number = deliveries.generation
         WHERE deliveries.number IN (
           SELECT number FROM (
             SELECT number, next_at, host, row_number() OVER (PARTITION BY host ORDER BY next_at, number) AS place
             FROM deliveries
             WHERE next_at IS NOT NULL AND (next_at <= ? OR planned_at > ?) AND id NOT IN (SELECT value FROM json_each(?))
           ) LEFT JOIN json_each(?) AS busy ON busy.key = host
           WHERE place <= ? - coalesce(busy.value, 0) ORDER BY next_at, number LIMIT ?
         ) ORDER BY next_at, deliveries.number`,
        ...[now, now, JSON.stringify(except), JSON.stringify(busy), perHost, limit],
      );
      const later = database.get("SELECT min(next_at) AS next_at FROM deliveries WHERE next_at > ?", now)?.next_at;
      const nextMs = later ? Date.parse(String(later)) - Date.parse(now) : Number.POSITIVE_INFINITY;
      return { deliveries: rows.map(readRow), nextMs };
    },
    record(id: string, { at, outcome, delivered, reply, ms }: Attempt, next_at: string | null): void {
      const ended = delivered ? "delivered" : "given_up";
      const changes = database.run(
        "UPDATE deliveries SET next_at = ?, planned_at = ?, state = ? WHERE id = ?",
        ...[next_at, at, next_at === null ? ended : "waiting", id],
      );
      if (changes === 0) throw new Error(`no delivery ${id}`);
      database.run(
        `INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
         SELECT number, 1 + (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number), ?, ?, ?, ?, ?
         FROM deliveries WHERE id = ?`,
        ...[at, JSON.stringify(outcome), Number(delivered), JSON.stringify(reply), ms, id],
      );
    },
    pending(): number {
      return Number(database.get("SELECT count(*) AS count FROM deliveries WHERE next_at IS NOT NULL")?.count);
    },
    resend(generation: string, at: string): Delivery | undefined {
      const row = database.get(
        `UPDATE deliveries SET next_at = ?, planned_at = ?, state = 'waiting' WHERE generation = (SELECT number FROM generations WHERE id = ?)
         RETURNING id, request, next_at, account,
           (SELECT count(*) FROM delivery_attempts WHERE delivery = deliveries.number) AS attempts`,
        ...[at, at, generation],
      );
      return row && readRow({ ...row, generation });
    },
    /** Returns the ids of their generations. */
    resendGivenUp({ account, host }: DeliveryFilter, at: string): string[] {
      const { condition, values } = where([
        ["state = ?", "given_up"],
        ["account = ?", account],
        ["host = ?", host],
      ]);
      const rows = database.all(
        `UPDATE deliveries SET next_at = ?, planned_at = ?, state = 'waiting' ${condition}
         RETURNING (SELECT id FROM generations WHERE number = generation) AS generation`,
        ...[at, at, ...values],
      );
      return rows.map(({ generation }) => String(generation));
    },
    totals({ account, host }: DeliveryFilter): DeliveryTotals {
      const own = where([["account = ?", account]]);
      const hosts = database.all(
        `SELECT DISTINCT host FROM deliveries ${own.condition} ORDER BY host LIMIT 100`,
        ...own.values,
      );
      const wanted = where([
        ["account = ?", account],
        ["host = ?", host],
      ]);
      const rows = database.all(
        `SELECT state, count(*) AS count FROM deliveries ${wanted.condition} GROUP BY 1`,
        ...wanted.values,
      );
      return {
        counts: Object.fromEntries(rows.map(({ state, count }) => [state, count])),
        hosts: hosts.map(({ host }) => String(host)).filter((each) => each !== ""),
      };
    },
    list({ before, limit, generations, account, host, ...query }: DeliveryQuery): DeliveryRecord[] {
      const { condition, values } = where([
        ["deliveries.account = ?", account],
        ["host = ?", host],
        ["deliveries.state = ?", query.state],
        ["deliveries.number < (SELECT number FROM deliveries WHERE id = ?)", before],
        ["generations.id IN (SELECT value FROM json_each(?))", generations && JSON.stringify(generations)],
      ]);
      const rows = database.all(
        `SELECT deliveries.number, deliveries.id, generations.id AS generation, deliveries.account, request, next_at,
           substr(asked ->> '$.request.prompt', 1, ${shownCharacters}) AS prompt
         FROM deliveries JOIN generations ON generations.number = deliveries.generation
         ${condition} ORDER BY deliveries.number DESC LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map(({ number, prompt, ...row }) => ({
        ...readRow(row),
        prompt: String(prompt),
        attempts: attemptsOf(number ?? null),
      }));
    },
  };
}

/** `delivered` is 0 or 1. */
function readAttempt({ at, outcome, delivered, reply, ms }: Row): Attempt {
  const [words, text]: string[] = [outcome, reply].map((json) => JSON.parse(String(json)));
  const tookMs = typeof ms === "number" ? ms : null;
  return { at: String(at), outcome: words ?? "", delivered: delivered === 1, reply: text ?? "", ms: tookMs };
}

function readRow({ request, ...row }: Row): Delivery {
  const delivery = row as Pick<Delivery, "id" | "generation" | "account" | "next_at" | "attempts">;
  const sent: Pick<Delivery, "url" | "body" | "traceparent"> = JSON.parse(String(request));
  return { ...delivery, ...sent };
}
