import { type Condition, where as join, type Reader } from "../reads/reader.ts";
import { isShortSearch } from "../search.ts";
import type { Database, PgValue } from "./database.ts";

export function createReader({ query }: Pick<Database, "query">): Reader {
  return {
    query: (sql, ...values) => query(numberPlaceholders(sql), ...values),
    // An array, because PostgreSQL estimates a hundred rows for a function that reads JSON.
    isOneOf: (column) => `${column} = ANY(ARRAY(SELECT json_array_elements_text(?)))`,
    isScan: isShortSearch,
    // The index of the search is for LIKE alone.
    contains: (word) => ["search LIKE ?", `%${word.replace(/[\\%_]/g, "\\$&")}%`],
  };
}

/** Joins conditions; `given` values come before theirs. */
export function where(conditions: readonly Condition<PgValue>[], given = 0): { condition: string; values: PgValue[] } {
  const { condition, values } = join<PgValue>(conditions);
  return { condition: numberPlaceholders(condition, given), values };
}

/** Replaces each `?` by a placeholder of PostgreSQL, numbered after the `given` ones. */
export function numberPlaceholders(sql: string, given = 0): string {
  let last = given;
  return sql.replace(/\?/g, () => `$${++last}`);
}
