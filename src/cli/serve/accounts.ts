import { existsSync } from "node:fs";
import { join } from "node:path";
import { createApi } from "../../client/http/api.ts";
import { localBaseUrl } from "../../client/ledger/same-service.ts";
import { type Accounts, createAccounts } from "../../connect/accounts.ts";
import { findLocal, findServiceFolder } from "../../connect/local.ts";
import { openServices } from "../../connect/services.ts";
import { findBaseUrl } from "../../connect/settings.ts";
import { hasFolder } from "../../connect/storage.ts";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Context } from "../context.ts";
import { databaseError, databaseName, findDatabase } from "./database.ts";

/** Which service's accounts are managed; `new` makes an embedded database if there is none. */
export type AccountsPlace = { local?: true; baseUrl?: string; database?: string; new?: true };

/**
 * Opens the accounts of the service with the base URL that is set, unless `--local` or `--database` is given;
 * else of the database that is named; else of the service in the folder of this machine. Notes which one it
 * is. Throws `auth` if there is none: a new one would have other keys and accounts.
 */
export async function openAccounts(place: AccountsPlace, context: Context): Promise<Accounts> {
  const { io, output, defer } = context;
  const { local, baseUrl } = place;
  if (place.database !== undefined && baseUrl !== undefined)
    throw usage("--database and --base-url cannot be combined.");
  const isHere = local ?? place.database !== undefined;
  const isRemote = baseUrl !== undefined || (!isHere && (await findBaseUrl(undefined, io)) !== undefined);
  const database = isRemote ? undefined : findDatabase(place.database, io, output);
  if (database !== undefined) return openInDatabase(database, context);
  const where = isRemote ? undefined : await findServiceHere(place, io);
  const services = await openServices({ ...place, local: local ?? !isRemote, output }, io);
  defer(services.close);
  const { service } = await services.open();
  output.note(`Service: ${where ?? service.name}`);
  return createAccounts(service.api, { signal: io.signal }, io);
}

async function openInDatabase(database: string, { io, output, defer }: Context): Promise<Accounts> {
  const { openSharedAccounts } = await import("../../server/shared-accounts.ts");
  const { handle, close } = await openSharedAccounts(database, io).catch((error) => {
    throw databaseError(error);
  });
  defer(close);
  output.note(`Service: the database ${databaseName(database)}`);
  const fetch: Io["fetch"] = async (url, init) => handle(new Request(url, init));
  return createAccounts(createApi({ baseUrl: localBaseUrl, fetch }), { signal: io.signal }, io);
}

/** Describes the service in the folder of this machine. */
async function findServiceHere({ new: isNew }: AccountsPlace, io: Io): Promise<string> {
  if (!hasFolder("data", io)) throw noServiceError("the home folder, which is missing");
  const folder = findServiceFolder(io);
  const { kind } = await findLocal(io);
  if (kind !== "none") return `the one that runs in ${folder}`;
  if (existsSync(join(folder, "service.db"))) return `the one in ${folder}, which is not running`;
  if (!isNew) throw noServiceError(folder);
  return `a new one in ${folder}`;
}

function noServiceError(folder: string): VidgenError {
  const ways = [
    "With VIDGEN_HOME or as another user, the service has another folder: run this with the same VIDGEN_HOME, as that user.",
    "If it uses PostgreSQL, set VIDGEN_DATABASE_URL; if it is elsewhere, log in with the owner's key: `vidgen login`.",
    "`vidgen serve` makes a service, and so does `vidgen accounts create <account> --new`.",
  ];
  const message = `There is no service in ${folder}, and no other one is named. Nothing was changed.`;
  return new VidgenError("auth", message, { hint: ways.join("\n") });
}
