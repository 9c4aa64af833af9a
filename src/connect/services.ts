import { type Journal, type JournalIo, noJournal, openJournal } from "../client/ledger/journal.ts";
import { localBaseUrl } from "../client/ledger/same-service.ts";
import { asVidgenError, usage, type VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { noKey, openLocal } from "./local.ts";
import { createSession, type ServiceAccess, type Session, type SessionOptions } from "./session.ts";
import { findBaseUrl, findEngineSetting, resolveApiKey, resolveBaseUrl, resolveKeyOfStart } from "./settings.ts";
import { journalIn, storageFolder } from "./storage.ts";

/** The services of a command. Each is opened when it is first needed. */
export type Services = {
  /** The user's journal, of all services. */
  journal: Journal;
  /**
   * The session of the service that the flags name, else of `baseUrl`, a service in the journal, else of the
   * configured service. Settings are read each time, so that a login while an MCP server runs takes effect.
   * Throws `auth` without a base URL or a key.
   */
  open(baseUrl?: string): Promise<Session>;
  /** Closes all sessions: see `Session.close`. */
  close(isOk: boolean): Promise<void>;
};

/** With `--local` or `--base-url` there is only that service. Throws `usage` for both; sends nothing to a remote service. */
export async function openServices(options: SessionOptions, io: Io): Promise<Services> {
  const { local = false, baseUrl: flagUrl, output } = options;
  if (local && flagUrl !== undefined) throw usage("--local and --base-url cannot be combined.");
  const journal = findJournal({ ...io, onNote: output.note });
  const shared = { ...options, journal };
  /** Sessions by service and key, since a login may change the key. */
  const opened = new Map<string, Promise<Session>>();

  /** Opens a service once, even during concurrent calls, because the local service cannot run twice. */
  const openOnce = (name: string, find: () => Promise<ServiceAccess>): Promise<Session> => {
    const session = opened.get(name) ?? find().then((service) => createSession(service, shared, io));
    opened.set(name, session);
    session.catch(() => opened.delete(name));
    return session;
  };

  return {
    journal,
    async open(baseUrl) {
      const isFlagged = local || flagUrl !== undefined;
      const startUrl = isFlagged ? undefined : baseUrl;
      const isLocal = local || startUrl === localBaseUrl;
      const hasEngineSetting = !isFlagged && (isLocal || startUrl === undefined);
      const engine = options.engine ?? (hasEngineSetting ? await findEngineSetting(io) : undefined);
      if (isLocal || (startUrl === undefined && engine))
        return openOnce(localBaseUrl, () => openLocalService({ ...options, engine }, io));
      const resolving = startUrl === undefined ? resolveService(flagUrl, io) : findAccess(startUrl, io);
      const service = await (options.isDryRun
        ? resolving.catch((error) => withoutKey(error, startUrl ?? flagUrl, io))
        : resolving);
      return openOnce(`${service.baseUrl} ${service.apiKey}`, async () => service);
    },
    async close(isOk) {
      for (const session of opened.values()) await session.then(({ close }) => close(isOk)).catch(() => {});
    },
  };
}

async function findAccess(baseUrl: string, io: Io): Promise<ServiceAccess> {
  return { baseUrl, ...(await resolveKeyOfStart(baseUrl, io)) };
}

/** A dry run needs no key. Rethrows the error if there is no base URL either. */
async function withoutKey(error: unknown, flag: string | undefined, io: Io): Promise<ServiceAccess> {
  const baseUrl = asVidgenError(error).code === "auth" ? await findBaseUrl(flag, io) : undefined;
  if (baseUrl === undefined) throw error;
  return { baseUrl, apiKey: noKey };
}

async function openLocalService(
  {
    engine = [],
    engineTimeout,
    isStarting = false,
    isDryRun,
    output,
  }: Pick<SessionOptions, "engineTimeout" | "isStarting" | "isDryRun" | "output"> & {
    engine: readonly string[] | undefined;
  },
  io: Io,
): Promise<ServiceAccess> {
  const local = await openLocal({ engine, engineTimeout, isStarting, isDryRun, onNote: output.note }, io);
  return { baseUrl: local.baseUrl, apiKey: local.apiKey, local };
}

/** The remote service and its key, from flag, environment or saved file. Throws `auth` without a base URL or a key. */
export async function resolveService(flag: string | undefined, io: Io) {
  const baseUrl = await resolveBaseUrl(flag, io, ", save one with `vidgen login`, or use --local");
  return { baseUrl, ...(await resolveApiKey(baseUrl, io)) };
}

/** The user's journal. Without a home folder, all writes to it fail. */
export function findJournal(io: Io & Pick<JournalIo, "onNote">): Journal {
  try {
    return openJournal(journalIn(storageFolder("state", io)), io);
  } catch (error) {
    const reason = asVidgenError(error);
    if (reason.code === "usage") throw reason;
    return unwritableJournal(reason);
  }
}

/** The journal if there is no folder for it: polls and downloads work, but a start, which costs money, fails. */
function unwritableJournal(error: VidgenError): Journal {
  const refuse = async () => {
    throw error;
  };
  return {
    ...noJournal,
    append: refuse,
    lock: refuse,
    leaseOf: refuse,
    holderOf: refuse,
    acquire: refuse,
    withdraw: refuse,
    forget: refuse,
  };
}
