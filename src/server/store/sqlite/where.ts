import type { Value } from "./database.ts";

/** Joins the conditions that have a value; each has one `?` for it. Returns an empty condition when there are none. */
export function where(conditions: [sql: string, value: Value | undefined][]): { condition: string; values: Value[] } {
  const wanted = conditions.flatMap(([sql, value]) => (value === undefined ? [] : [{ sql, value }]));
  const condition = wanted.length === 0 ? "" : `WHERE ${wanted.map(({ sql }) => sql).join(" AND ")}`;
  return { condition, values: wanted.map(({ value }) => value) };
}

/** The pattern of LIKE, with `!` as its escape character, for texts that contain this one. */
export function containing(text: string): string {
  return `%${text.replace(/[!%_]/g, "!$&")}%`;
}
