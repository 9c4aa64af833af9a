import type { Started } from "../client/attempts.ts";
import { type Entry, isOpen } from "../client/history.ts";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import {
  createSession,
  listHint,
  openService,
  openServiceOf,
  openShared,
  type Session,
  type SessionOptions,
} from "./context.ts";

/** A generation, and the session of the service that it belongs to. `open` rejects when that has no key here. */
export type Found = { id: string; open(): Promise<Session> };

/** The services of the generations that a command is about; each is connected to when it is first needed. */
export type Sessions = {
  /**
   * The generation that a typed id, or the beginning of a UUID, stands for: that of the journal, at the service where it was started, else
   * the id itself at the service of the settings. Throws `usage` when several begin so.
   */
  find(typed: string): Promise<Found>;
  /** The newest generation that has not ended. Throws `not_found` when there is none. */
  findRunning(): Promise<Found>;
  /** The generations that have not ended, or are still to be saved; the oldest first. */
  findOpen(): Promise<Found[]>;
  /** As `Session.close`. */
  close(isDone: boolean): Promise<void>;
};

/** What was started before that runs no more: a long journal is not read to its beginning for it. */
const longestRunMs = 7 * 24 * 3600_000;

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** With `--local` or `--base-url` there is that one service; without them, all that the journal knows. */
export async function openSessions(options: SessionOptions, io: Io): Promise<Sessions> {
  const { journal, display } = await openShared(options, io);
  const isNamed = options.local || options.baseUrl !== undefined;
  const opened = new Map<string | undefined, Promise<Session>>();
  const connect = async (baseUrl: string | undefined) => {
    const service = await (baseUrl === undefined ? openService(options, io) : openServiceOf(baseUrl, options, io));
    return createSession(service, { ...options, journal, display }, io);
  };
  /** The session of the service with this name in the journal, else that of the flags and settings. */
  const sessionOf = (baseUrl?: string): Promise<Session> => {
    const session = opened.get(baseUrl) ?? connect(baseUrl);
    opened.set(baseUrl, session);
    return session;
  };
  const named = isNamed ? (await sessionOf()).client.baseUrl : undefined;
  const entries = async (goOn?: (part: Entry[]) => boolean): Promise<Started[]> => {
    const all = await journal.entries(goOn);
    return all.filter((entry): entry is Started => {
      return entry.id !== undefined && (named === undefined || entry.base_url === named);
    });
  };
  const asFound = ({ id, base_url }: Started): Found => ({ id, open: () => sessionOf(isNamed ? undefined : base_url) });
  /** Read once, however many ids were typed; an id needs no journal that can be read. */
  let known: Promise<Started[]> | undefined;

  return {
    async find(typed) {
      known ??= entries().catch(() => []);
      const lower = typed.toLowerCase();
      const isMeant = ({ id }: Started) => id === typed || (uuid.test(id) && id.toLowerCase().startsWith(lower));
      const meant = distinct((await known).filter(isMeant));
      const [only, other] = meant;
      if (only === undefined) return { id: uuid.test(typed) ? lower : typed, open: () => sessionOf() };
      if (other === undefined) return asFound(only);
      const rows = meant.map(({ id, base_url }) => `${id} at ${base_url}`);
      throw usage(`More than one id begins with ${typed}.`, rows.join("\n"));
    },
    async findRunning() {
      const isRunning = (entry: Entry) => entry.status === "processing";
      const since = io.date().getTime() - longestRunMs;
      const isNew = ({ at }: Entry) => new Date(at).getTime() > since;
      const found = await entries((part) => !part.some(isRunning) && part.some(isNew));
      const running = found.find(isRunning);
      if (running) return asFound(running);
      throw new VidgenError("not_found", "No generation that was started here is running.", {
        hint: `Give an id; ${listHint(io)}`,
      });
    },
    findOpen: async () =>
      distinct((await entries()).filter(isOpen))
        .map(asFound)
        .reverse(),
    async close(isDone) {
      for (const session of opened.values()) await (await session).close(isDone).catch(() => {});
    },
  };
}

/** Each generation once: attempts with the same Idempotency-Key have the same one. */
function distinct(entries: Started[]): Started[] {
  return [...new Map(entries.map((entry) => [`${entry.base_url} ${entry.id}`, entry])).values()];
}
