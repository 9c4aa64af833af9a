import type { Change } from "../change.ts";
import type { Query } from "./database.ts";

/** The channel on which the processes of a database are notified of changes. */
export const channel = "vidgen";

/** Reads a change; `undefined` for what another program has sent. */
export function readChange(text: string): Change | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Notifies all processes of changes; inside a transaction, once it is committed. */
export async function notify(query: Query, ...changes: Change[]): Promise<void> {
  const texts = changes.map((change) => JSON.stringify(change));
  await query("SELECT pg_notify($1, text) FROM unnest($2::text[]) AS text", channel, texts);
}
