import type { Database, Row } from "./sqlite.ts";
import type { StoredGeneration } from "./store.ts";

export type End = Pick<StoredGeneration, "status" | "completed_at" | "error" | "media">;

/** A generation with the number that other tables name it by: short, and in the order of the starts. */
export type Numbered = { number: number; generation: StoredGeneration };

/** The table of generations. Synchronous: changes belong into a transaction. */
export type Generations = {
  /** Returns its number. */
  add(generation: StoredGeneration): number;
  find(id: string): Numbered | undefined;
  at(number: number): StoredGeneration;
  unfinished(): StoredGeneration[];
  /** Says whether it was still processing; one that has ended stays as it is. */
  end(number: number, end: End): boolean;
};

const columns = "number, id, account, status, created_at, completed_at, asked, result";

export function createGenerations(database: Database): Generations {
  const insert = database.statement(
    "INSERT INTO generations (id, account, status, created_at, completed_at, asked, result) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const lastNumber = database.statement("SELECT last_insert_rowid() AS number");
  const byId = database.statement(`SELECT ${columns} FROM generations WHERE id = ?`);
  const byNumber = database.statement(`SELECT ${columns} FROM generations WHERE number = ?`);
  const processing = database.statement(
    `SELECT ${columns} FROM generations WHERE status = 'processing' ORDER BY number`,
  );
  const update = database.statement(
    "UPDATE generations SET status = ?, completed_at = ?, result = ? WHERE number = ? AND status = 'processing'",
  );
  return {
    add({ id, account, status, created_at, completed_at, request, callback_url, error, media }) {
      const asked = JSON.stringify({ request, callback_url });
      insert.run(id, account, status, created_at, completed_at, asked, JSON.stringify({ error, media }));
      return Number(lastNumber.get()?.number);
    },
    find(id) {
      const row = byId.get(id);
      return row && { number: Number(row.number), generation: readRow(row) };
    },
    at(number) {
      const row = byNumber.get(number);
      if (!row) throw new Error(`no generation of the number ${number}`);
      return readRow(row);
    },
    unfinished: () => processing.all().map(readRow),
    end: (number, { status, completed_at, error, media }) =>
      update.run(status, completed_at, JSON.stringify({ error, media }), number) > 0,
  };
}

/** The rows are this program's own, so that their JSON is taken as it is. */
function readRow(row: Row): StoredGeneration {
  const { id, account, status, created_at, completed_at } = row as Pick<
    StoredGeneration,
    "id" | "account" | "status" | "created_at" | "completed_at"
  >;
  const asked: Pick<StoredGeneration, "request" | "callback_url"> = JSON.parse(String(row.asked));
  const result: Pick<StoredGeneration, "error" | "media"> = JSON.parse(String(row.result));
  return { id, account, status, created_at, completed_at, ...asked, ...result };
}
