import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { findService } from "../announcement.ts";
import { createSessions, type Sessions } from "./session.ts";

type LinkOptions = {
  /** Signs in the account whose key has this hash, while the key is valid; without it, the owner. */
  keyHash?: string;
  now: Date;
  /** How long it is valid; by default ten minutes. */
  ms?: number | undefined;
};

/** A link that signs in to the page, once, in every process with the same secret. */
export function linkOf(baseUrl: string, sessions: Pick<Sessions, "link">, { keyHash, now, ms }: LinkOptions): string {
  return `${baseUrl}/?token=${sessions.link(now, keyHash, ms)}`;
}

/** Creates a link to the page of the service that runs from a folder. Rejects with `usage` if none runs there, or it has no page. */
export async function makeLink(folder: string, io: Io): Promise<string> {
  const found = await findService(folder, io);
  if (found.kind === "elsewhere" || found.kind === "starting") throw found.error;
  if (found.kind === "none")
    throw usage(
      "The local service is not running, so there is no link to its page.",
      "vidgen serve starts it and prints the link.",
    );
  const { base_url, api_key, has_page } = found.announcement;
  if (!has_page) throw noPageError();
  return linkOf(base_url, createSessions(api_key), { now: io.date() });
}

/**
 * Creates a link to the page of a shared service, at `baseUrl` or else at the address that its processes have announced. Rejects with `usage` if no
 * service has used the database, or it has no page.
 */
export async function makeSharedLink(database: string, baseUrl: string | undefined, io: Io): Promise<string> {
  const { visitPostgres } = await import("../store/postgres/postgres.ts");
  const { settings, close } = await visitPostgres(database, io);
  const { pageSecret, addresses } = await settings().finally(close);
  const shownUrl = baseUrl ?? addresses?.base_url;
  if (pageSecret === undefined || shownUrl === undefined)
    throw usage("No service has used this database, so there is no page.", "vidgen serve prints its link.");
  if (!addresses?.has_page) throw noPageError();
  return linkOf(shownUrl, createSessions(pageSecret), { now: io.date() });
}

function noPageError() {
  return usage("The running service serves no page.", "Stop it and start it again with: vidgen serve --page");
}
