import type { Value } from "./database.ts";

type Condition = [sql: string, value: Value | readonly Value[] | true | undefined];

/** Joins the conditions that have a value; each has one `?` for it, one for each of its values, or none. Returns an empty condition when there are none. */
export function where(conditions: readonly Condition[]): { condition: string; values: Value[] } {
  const wanted = conditions.flatMap(([sql, value]) =>
    value === undefined ? [] : [{ sql, values: value === true ? [] : [value].flat() }],
  );
  const condition = wanted.length === 0 ? "" : `WHERE ${wanted.map(({ sql }) => sql).join(" AND ")}`;
  return { condition, values: wanted.flatMap(({ values }) => values) as Value[] };
}
