import type { GenerationFilter } from "../reports.ts";

/** What a statement of both databases needs: something that runs it, and the few things that they say differently. */
export type Reader = {
  /** Runs a SELECT that has one `?` for each value, and no other. A change may come between two of them. */
  query(sql: string, ...values: Value[]): Promise<Row[]>;
  /** The condition that a column has one of the texts of a JSON array, which is its value. */
  isOneOf(column: string): string;
  /** The condition that a word is in what the search looks at. */
  contains(word: string): Condition;
  /** Whether a search reads one text after another, and an index does not have its words. */
  isScan(text: string | undefined): boolean;
  /** The tables in which a search looks for words, and the column of the order, if not those of all lists. */
  searched?(filter: GenerationFilter): Listed;
};

/** The beginning of a generation's prompt, which is all that a list has of it. */
export const shownPrompt = "substr(asked -> 'request' ->> 'prompt', 1, 300)";

export type Listed = { tables: string; order: string };

export type Value = string | number | null;
/** PostgreSQL gives large numbers as texts, and what is JSON as its value; SQLite gives 0 and 1 for what is false or true. */
export type Row = Record<string, unknown>;

/** Left out when its value is `undefined`. It has one `?` for the value, or needs none. */
export type Condition<Bound = Value> = [sql: string, value: Bound | true | undefined];

/** Joins conditions. Returns an empty one when there are none. */
export function where<Bound = Value>(
  conditions: readonly Condition<NoInfer<Bound>>[],
): { condition: string; values: Bound[] } {
  const wanted = conditions.filter(([, value]) => value !== undefined);
  const condition = wanted.length === 0 ? "" : `WHERE ${wanted.map(([sql]) => sql).join(" AND ")}`;
  return { condition, values: wanted.flatMap(([sql, value]) => (sql.includes("?") ? [value as Bound] : [])) };
}
