import type { Context } from "hono";
import { usage } from "../../errors.ts";

/** How many entries a list has at first, and "Show older" adds. */
const perPage = 48;

/** A list has no more entries than this, so that a browser stays quick; older ones are on a page of their own. */
const maxShown = 10 * perPage;

/** A value of the query; `undefined` when it is empty. Throws `usage` when it is not what the page writes there. */
export function readValue({ req }: Context, name: string, pattern = /^/): string | undefined {
  const value = req.query(name)?.replaceAll("\0", "").trim() || undefined;
  if (value !== undefined && !pattern.test(value)) throw usage(`${name} cannot be read`);
  return value;
}

/**
 * Which part of a list is shown, whose entries are named like this: up to `limit` entries `from` one on, or `before` one. The browser has the first
 * `skip` of them already. Throws `usage`.
 */
export function readList(c: Context, name: RegExp) {
  const limit = Math.min(Number(readValue(c, "shown", /^[1-9]\d{0,2}$/) ?? perPage), maxShown);
  const skip = Number(readValue(c, "skip", /^\d{1,3}$/) ?? 0);
  return { limit, skip, before: readValue(c, "before", name), from: readValue(c, "from", name) };
}

/** Returns the address of a list with more entries than these, or of those before the `last` one where they are many; `undefined` when there are no more. */
export function olderAddress(
  c: Context,
  entries: readonly object[],
  last: string | number | undefined,
): string | undefined {
  const { limit } = readList(c, /^/);
  if (entries.length < limit || last === undefined) return undefined;
  if (limit >= maxShown) return addressBefore(c, last);
  const query = new URLSearchParams(c.req.query());
  query.delete("skip");
  query.set("shown", String(limit + perPage));
  return `${c.req.path}?${query}`;
}

/** Returns the address of the list that begins before an entry. */
export function addressBefore(c: Context, last: string | number): string {
  const query = new URLSearchParams(c.req.query());
  for (const name of ["skip", "shown", "from"]) query.delete(name);
  query.set("before", String(last));
  return `${c.req.path}?${query}`;
}
