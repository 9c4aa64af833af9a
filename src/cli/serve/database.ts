import { systemCode, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Output } from "../terminal/output.ts";

/**
 * The address of the database: flag > VIDGEN_DATABASE_URL; `undefined` without both. Hides the address in all
 * output from now on. Throws `usage`.
 */
export function findDatabase(
  flag: string | undefined,
  { env }: Pick<Io, "env">,
  { hide }: Pick<Output, "hide">,
): string | undefined {
  const text = flag ?? env.VIDGEN_DATABASE_URL;
  if (text === undefined || (text === "" && flag === undefined)) return undefined;
  const password = readPassword(text);
  if (password === undefined)
    throw usage(
      `${flag === undefined ? "VIDGEN_DATABASE_URL" : "--database"} must be an address such as postgres://user@host/name.`,
      "In a password, write @ as %40, / as %2F, # as %23, ? as %3F and % as %25.",
    );
  for (const secret of [text, password]) hide(secret);
  return text;
}

/** The password in the address of a PostgreSQL database, or an empty text; `undefined` for another kind of address. */
function readPassword(text: string): string | undefined {
  try {
    // Without a host, the connection is a local socket.
    const url = new URL(text.replace("@/", "@localhost/"));
    if (!/^postgres(ql)?:$/.test(url.protocol)) return undefined;
    // A / or # in a password ends the host, so part of the password would be read as the host's name, and printed.
    if ((url.pathname + url.hash).includes("@")) return undefined;
    return decodeURIComponent(url.password) || (url.searchParams.get("password") ?? "");
  } catch {
    return undefined;
  }
}

/** The name of a database in messages, without user and password. */
export function databaseName(text: string): string {
  const { host, pathname } = new URL(text.replace("@/", "@localhost/"));
  return `${host}${pathname}`;
}

/** The URL of the service that uses a database, as its processes have announced it. Rejects if the database cannot be used. */
export async function findSharedUrl(database: string, io: Io): Promise<string | undefined> {
  const { visitPostgres } = await import("../../server/store/postgres/postgres.ts");
  const { settings, close } = await visitPostgres(database, io);
  return (await settings().finally(close)).addresses?.base_url;
}

/** The error when the database cannot be opened. */
export function databaseError(error: unknown): VidgenError {
  if (error instanceof VidgenError) return error;
  const code = systemCode(error) ?? "";
  if (code === "ERR_MODULE_NOT_FOUND")
    return usage("--database needs the package pg, which is not installed with vidgen.", installHint());
  // Does not use `systemReason`, because a file that "does not exist" is a socket or a certificate, not the database.
  const reason = error instanceof Error ? error.message : String(error);
  // The driver's message for a missing password.
  if (/client password must be a string/.test(reason)) return usage("The database requires a password.", addressHint);
  // SQLSTATE: the statement was cancelled, most often by a time limit.
  if (code === "57014")
    return new VidgenError("output", `The database did not finish a statement in time: ${reason}.`, {
      hint: "It is busy, or another session holds a lock in it. Nothing was changed: try again.",
      cause: error,
    });
  const isUnavailable = error instanceof Error && "isUnavailable" in error && error.isUnavailable === true;
  if (isUnavailable)
    return new VidgenError("network", `The database cannot be reached: ${reason}.`, {
      hint: addressHint,
      cause: error,
    });
  // SQLSTATE: the user or the password was refused, or there is no such database.
  if (/^(28|3D)/.test(code)) return usage(`The database refused the connection: ${reason}.`, addressHint);
  return new VidgenError("output", `Cannot use the database: ${reason}.`, { hint: addressHint, cause: error });
}

const addressHint = "Its address is in VIDGEN_DATABASE_URL or --database: postgres://user:password@host:5432/name.";

/** The command that installs the package where this program, at `url`, finds it. */
export function installHint(url = import.meta.url): string {
  return url.includes("/_npx/")
    ? "Run it as: npx -p vidgen -p pg vidgen serve ..."
    : "Install it beside vidgen: npm install pg\nWith -g, if vidgen was installed with -g.";
}
