import type { Value } from "./database.ts";

/** Joins the conditions that have a value; each has one `?` for it, or needs none. Returns an empty condition when there are none. `given` values come before. */
export function where(conditions: [sql: string, value: Value][], given = 0): { condition: string; values: Value[] } {
  const values: Value[] = [];
  const texts = conditions.flatMap(([sql, value]) => {
    if (value === undefined) return [];
    return sql.includes("?") ? sql.replace("?", `$${values.push(value) + given}`) : sql;
  });
  return { condition: texts.length === 0 ? "" : `WHERE ${texts.join(" AND ")}`, values };
}
