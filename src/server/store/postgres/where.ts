import type { Value } from "./database.ts";

/** Joins the conditions that have a value; each has one `?` for it. Returns an empty condition when there are none. `given` values come before. */
export function where(conditions: [sql: string, value: Value][], given = 0): { condition: string; values: Value[] } {
  const wanted = conditions.filter(([, value]) => value !== undefined);
  const texts = wanted.map(([sql], index) => sql.replace("?", `$${index + 1 + given}`));
  const condition = texts.length === 0 ? "" : `WHERE ${texts.join(" AND ")}`;
  return { condition, values: wanted.map(([, value]) => value) };
}
