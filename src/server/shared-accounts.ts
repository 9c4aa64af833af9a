import { usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { createAccountsApp } from "./api/app.ts";
import type { Handler } from "./http/message.ts";
import { linkOf } from "./page/link.ts";
import { createSessions } from "./page/session.ts";

/**
 * Opens the accounts of the service that uses a PostgreSQL database, whether or not it runs. Its processes refuse removed keys within 5 s. Rejects
 * with `usage` when no service of this version has used the database.
 */
export async function openSharedAccounts(
  database: string,
  io: Io,
): Promise<{ handle: Handler; close(): Promise<void> }> {
  const { visitPostgres } = await import("./store/postgres/postgres.ts");
  const { settings, close, ...store } = await visitPostgres(database, io);
  try {
    const { webhookSecret, pageSecret, addresses } = await settings();
    if (webhookSecret === undefined) throw usage("No service has used this database. Nothing was changed in it.");
    const { base_url = "", media_url = "", has_page = false } = addresses ?? {};
    const linkFor = async (keyHash: string, ms?: number) =>
      linkOf(base_url, createSessions(pageSecret ?? ""), { keyHash, ms, now: io.date() });
    const handle = createAccountsApp({
      store,
      webhookSecret,
      baseUrl: () => base_url,
      mediaUrl: () => media_url,
      isCommand: addresses === undefined,
      linkFor: has_page && pageSecret !== undefined ? linkFor : undefined,
      // A process of the service removes images that no generation needs.
      videos: { remove: async () => {} },
      clock: io,
    });
    return { handle, close };
  } catch (error) {
    await close();
    throw error;
  }
}
