import type { Change } from "../change.ts";
import type { Row } from "../reads/reader.ts";

/** JSON goes as its text. */
export type Value = string | number | boolean | null;

/** A statement, or what all processes are to be told once the changes are durable. */
export type Step = { text: string; values: readonly Value[] } | { changes: readonly Change[] };

/**
 * A rule of the store, in one text for both databases. It yields its statements, and what runs it gives it the rows of each: `sqlite/run.ts` in the one
 * transaction that a file has, `postgres/run.ts` in a transaction beside those of other connections. So a rule locks the row of its account first, or
 * changes it by an UPDATE with a condition.
 */
export type Rule<Result> = Generator<Step, Result, Row[]>;

/** Runs a statement that has one `?` for each value, and no other. SQLite has no FOR UPDATE, and needs none: there the clause is left out. */
export function* sql(text: string, ...values: Value[]): Rule<Row[]> {
  return yield { text, values };
}

export function* publish(...changes: Change[]): Rule<void> {
  yield { changes };
}

/** What the rules cannot say alike, and which process runs them. */
export type Context = {
  process: string;
  /** The time of what is written now (ISO 8601). */
  now(): string;
  /** Keeps when a callback is due, by the process's clock or, where there are several, by the database's: a column, and its value with one `?`. */
  schedule(next_at: string | null, plannedAt: string): { column: string; due: string; value: Value };
  /** Adds a text, which is the first `?`, to what the search finds of the generation with a number. */
  addToSearch: string;
};
