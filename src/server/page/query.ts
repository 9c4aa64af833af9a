import type { Context } from "hono";
import { usage } from "../../errors.ts";
import { type ApiContext, readBody } from "../http/message.ts";

/** The number of entries that a list has at first, and that "Show older" adds. */
const perPage = 48;

/** The maximum number of entries on one page, so that the browser stays fast. Older ones are on the next page. */
const maxShown = 10 * perPage;

/** A value of the query; `undefined` if it is empty. Throws `usage` if it does not match the pattern. */
export function readValue({ req }: Context, name: string, pattern = /^/): string | undefined {
  const value = req.query(name)?.replaceAll("\0", "").trim() || undefined;
  if (value !== undefined && !pattern.test(value)) throw usage(`${name} cannot be read`);
  return value;
}

/** Returns an address with those values of a query that are given. */
export function withQuery(path: string, values: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** Reads a form that was posted. Throws a refusal if it is larger than `maxBytes`. */
export async function readForm(c: ApiContext, maxBytes: number): Promise<URLSearchParams> {
  const body = await readBody(c, { maxBytes, types: ["application/x-www-form-urlencoded"] });
  return new URLSearchParams(Buffer.from(body).toString());
}

/**
 * The part of a list to show: up to `limit` entries that start at the entry `from`, or are older than the entry `before`. The browser already has the
 * first `skip` of them. `name` is the pattern of an entry's name. Throws `usage`.
 */
export function readList(c: Context, name: RegExp) {
  const limit = Math.min(Number(readValue(c, "shown", /^[1-9]\d{0,2}$/) ?? perPage), maxShown);
  const skip = Number(readValue(c, "skip", /^\d{1,3}$/) ?? 0);
  return { limit, skip, before: readValue(c, "before", name), from: readValue(c, "from", name) };
}

/** Returns the address of the longer list, or of the next page if this page is full; `undefined` if there are no more entries. */
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

/** Returns the address of the page that starts after an entry: with the next older one. */
export function addressBefore(c: Context, last: string | number): string {
  const query = new URLSearchParams(c.req.query());
  for (const name of ["skip", "shown", "from"]) query.delete(name);
  query.set("before", String(last));
  return `${c.req.path}?${query}`;
}
