import type { Entry } from "./journal.ts";

/** The ids in these entries that begin with what was typed. */
export function idsBeginningWith(entries: Entry[], typed: string): string[] {
  const ids = entries.flatMap(({ id }) => (id?.startsWith(typed) ? [id] : []));
  return [...new Set(ids)];
}

/** The base URL of another service at which this machine has started what was typed; `undefined` where it knows of none. */
export function otherServiceOf(entries: Entry[], typed: string, baseUrl: string): string | undefined {
  return entries.find((entry) => entry.base_url !== baseUrl && entry.id?.startsWith(typed))?.base_url;
}
