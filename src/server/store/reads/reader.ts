import type { GenerationFilter } from "../reports.ts";

/** Runs the statements that both databases share, and returns the few parts that differ. */
export type Reader = {
  /** Runs a SELECT with exactly one `?` for each value. Rows may change between two calls. */
  query(sql: string, ...values: QueryValue[]): Promise<Row[]>;
  /** Returns the condition that a column is one of the texts of a JSON array, which is the condition's value. */
  isOneOf(column: string): string;
  /** Returns the condition that the text of the search contains a word. */
  contains(word: string): Condition;
  /** Whether a search reads one text after another, because no index contains its words. */
  isScan(text: string | undefined): boolean;
  /** Returns the tables that a search reads, and the column of its order, if they differ from those of other lists. */
  searched?(filter: GenerationFilter): Listed;
};

/** The beginning of a generation's prompt, for lists. */
export const shownPrompt = "substr(asked -> 'request' ->> 'prompt', 1, 300)";

export type Listed = { tables: string; order: string };

export type QueryValue = string | number | null;
/** PostgreSQL returns large numbers as texts, and JSON as values; SQLite returns 0 and 1 for false and true. */
export type Row = Record<string, unknown>;

/** A condition has one `?` for each of its values, or none. It is left out when its first value is `undefined`. */
export type Condition<Bound = QueryValue> = [sql: string, value: Bound | true | undefined, ...others: Bound[]];

/** Joins conditions into a WHERE clause, which is empty without conditions. */
export function where<Bound = QueryValue>(
  conditions: readonly Condition<NoInfer<Bound>>[],
): { condition: string; values: Bound[] } {
  const wanted = conditions.filter(([, value]) => value !== undefined);
  const condition = wanted.length === 0 ? "" : `WHERE ${wanted.map(([sql]) => sql).join(" AND ")}`;
  return {
    condition,
    values: wanted.flatMap(([sql, value, ...others]) => (sql.includes("?") ? [value as Bound, ...others] : [])),
  };
}
