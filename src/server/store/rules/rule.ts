import type { Change } from "../change.ts";
import type { Row } from "../reads/reader.ts";

/** A value of a statement. JSON is passed as text. */
export type SqlValue = string | number | boolean | null;

/** A statement, or changes to publish to all processes once they are durable. */
export type Step = { text: string; values: readonly SqlValue[] } | { changes: readonly Change[] };

/**
 * A rule of the store, in one text for both databases. It yields its statements, and gets the rows of each: from `sqlite/run.ts` in the only
 * transaction of a file, from `postgres/run.ts` in a transaction beside those of other connections. So a rule first locks the row of its account, or
 * changes it by an UPDATE with a condition.
 */
export type Rule<Result> = Generator<Step, Result, Row[]>;

/** Runs a statement with exactly one `?` for each value. FOR UPDATE is left out for SQLite, which does not need it. */
export function* sql(text: string, ...values: SqlValue[]): Rule<Row[]> {
  return yield { text, values };
}

export function* publish(...changes: Change[]): Rule<void> {
  yield { changes };
}

/** The parts of rules that differ between the databases, and the process that runs them. */
export type Context = {
  process: string;
  /** The current time (ISO 8601). */
  now(): string;
  /**
   * Returns the column that stores when a callback is due, and its value with one `?`: by the clock of the process or, if several share the database,
   * of the database.
   */
  schedule(next_at: string | null, plannedAt: string): { column: string; due: string; value: SqlValue };
  /** The statement that adds a text, the first `?`, to the text of the search for a generation, by its number. */
  addToSearch: string;
};
