import { type Entry, isUndelivered } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { isStarted, type StartedEntry } from "../client/ledger/policy.ts";
import { findByBeginning, findNewest, readEntries, scanEntries } from "../client/ledger/search.ts";
import type { Services } from "../connect/services.ts";
import { listHint, type Session, type SessionOptions } from "../connect/session.ts";
import { asVidgenError, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { beginsUuid, isUuid } from "../protocol/id.ts";
import { findSimilar } from "../protocol/models.ts";
import { trimInvisible } from "../protocol/text.ts";
import { findByFile, isSavedFile, lastWord } from "./saved-file.ts";

/** A generation that a command is about. `open` returns the session of its service, and rejects without a key for it. */
export type LocatedGeneration = {
  id: string;
  /** The generation's entry in the journal. */
  entry?: StartedEntry;
  open(): Promise<Session>;
};

/** The generations that a command can be about. */
export type Generations = {
  /**
   * Finds a generation by its id, the beginning of a UUID, its saved file, or "last", the newest. Searches
   * the journal; an id that is not in the journal belongs to the service of the settings. Throws `usage` if
   * several ids match, and `not_found` for "last" in an empty journal or for an unknown file.
   */
  find(typed: string): Promise<LocatedGeneration>;
  /** The same for a command that changes the generation. Throws `usage` for fewer than eight characters of a longer id. */
  findForChange(typed: string): Promise<LocatedGeneration>;
  /** The newest running generation, and the number of other running ones. Throws `not_found` without one. */
  findRunning(): Promise<LocatedGeneration & { otherCount: number }>;
  /** The newest running generation, else the newest one. Throws `not_found` without one. */
  findRunningOrLast(): Promise<LocatedGeneration>;
  /** The generations that run or must still be saved, the oldest first. */
  findUnfinished(): Promise<LocatedGeneration[]>;
};

/** The number of characters of an id that `list` shows at a terminal. Commands that change something accept no fewer. */
export const minTypedChars = 8;

type NameOptions<Item> = { namesOf(item: Item): readonly string[]; minChars: number };

/** Whether the typed text is an id or an attempt of an entry, or enough of its beginning. */
export function isNamedBy(typed: string, entry: Entry): boolean {
  return findNamed(typed, [entry], { namesOf, minChars: minTypedChars }).length > 0;
}

/** The names that an entry is known by. */
export function namesOf({ id = "", attempt }: Entry): readonly string[] {
  return [attempt, id];
}

/**
 * The items with the typed text as a name, else those with a UUID that begins with it, if it has at least
 * `minChars` characters.
 */
export function findNamed<Item>(
  typed: string,
  items: readonly Item[],
  { namesOf, minChars }: NameOptions<Item>,
): Item[] {
  const exact = items.filter((item) => namesOf(item).includes(typed));
  if (exact.length > 0 || typed.length < minChars) return exact;
  return items.filter((item) => namesOf(item).some((name) => beginsUuid(typed, name)));
}

export function tooShortError(typed: string): VidgenError {
  return usage(`"${typed}" is too short: give at least ${minTypedChars} characters of it.`, hintForName(typed));
}

/** What to type in place of a name that no generation has. */
export function hintForName(typed: string): string {
  const isLast = /^l.*[st]$/i.test(typed) && findSimilar(typed, [lastWord]) !== undefined;
  return isLast ? `Did you mean ${lastWord}?` : listHint;
}

/** A generation older than this no longer runs, so a long journal is not read to its beginning. */
const longestRunMs = 7 * 24 * 3600_000;

/** Returns the generations in the journal; with `--local` or `--base-url` only those of that service. */
export async function locateGenerations(
  { local, baseUrl }: Pick<SessionOptions, "local" | "baseUrl">,
  { journal, open }: Pick<Services, "journal" | "open">,
  io: Io,
): Promise<Generations> {
  const hasServiceFlag = local || baseUrl !== undefined;
  const flagUrl = hasServiceFlag ? (await open()).service.baseUrl : undefined;
  const isStartedAtService = (entry: Entry): entry is StartedEntry =>
    isStarted(entry) && (flagUrl === undefined || entry.base_url === flagUrl);
  const locate = (entry: StartedEntry): LocatedGeneration => ({
    id: entry.id,
    entry,
    open: () => open(entry.base_url),
  });
  const isRunning = (entry: Entry) => entry.state === "running";
  /** The running generations, the newest first. With `isOneEnough` the journal is read only as far as the newest. */
  const findAllRunning = async ({ isOneEnough = false } = {}) => {
    const since = io.date().getTime() - longestRunMs;
    const isRecent = ({ at }: Entry) => new Date(at).getTime() > since;
    const running: StartedEntry[] = [];
    for await (const part of scanEntries(journal)) {
      running.push(...part.filter(isStartedAtService).filter(isRunning));
      if (!part.some(isRecent) || (isOneEnough && running.length > 0)) break;
    }
    return distinct(running);
  };
  /** The service of the settings, which may know an id that was not started here. */
  const openElsewhere = (id: string): Promise<Session> =>
    open().catch((thrown) => {
      const error = asVidgenError(thrown);
      if (hasServiceFlag || error.code !== "auth") throw error;
      const message = `No generation ${id} was started here, and no service is set to ask for it.`;
      throw new VidgenError("auth", message, { hint: `${hintForName(id)}\n${error.hint}` });
    });

  async function findTyped(word: string, { minChars }: { minChars: number }): Promise<LocatedGeneration> {
    const typed = trimInvisible(word);
    if (typed === lastWord) return locate(await findLast(journal, isStartedAtService));
    // A full id works even if the journal cannot be read.
    const entries: Entry[] = await findByBeginning(journal, typed).catch(() => []);
    const namesOf = ({ id }: StartedEntry) => [id];
    const matches = distinct(findNamed(typed, entries.filter(isStartedAtService), { namesOf, minChars: 1 }));
    const [only, other] = matches;
    if (only === undefined && (await isSavedFile(typed, io))) return locate(await findSaved(typed, journal, io));
    if (only === undefined)
      return { id: isUuid(typed) ? typed.toLowerCase() : typed, open: () => openElsewhere(typed) };
    if (typed.length < minChars && !matches.some(({ id }) => id === typed)) throw tooShortError(typed);
    if (other === undefined) return locate(only);
    const rows = matches.map(({ id, base_url }) => `${id} at ${base_url}`);
    throw usage(`More than one id begins with ${typed}.`, rows.join("\n"));
  }

  return {
    find: (typed) => findTyped(typed, { minChars: 1 }),
    findForChange: (typed) => findTyped(typed, { minChars: minTypedChars }),
    async findRunning() {
      const [newest, ...otherEntries] = await findAllRunning();
      if (newest) return { ...locate(newest), otherCount: otherEntries.length };
      throw new VidgenError("not_found", "No generation that was started here is running.", {
        hint: `Give an id; ${listHint}`,
      });
    },
    async findRunningOrLast() {
      const [newest] = await findAllRunning({ isOneEnough: true });
      return locate(newest ?? (await findLast(journal, isStartedAtService)));
    },
    findUnfinished: async () =>
      distinct((await readEntries(journal)).filter(isStartedAtService).filter(isUndelivered))
        .map(locate)
        .reverse(),
  };
}

/** The generation whose video is in a file. Throws `not_found` if the journal has none. */
async function findSaved(path: string, journal: Journal, io: Io): Promise<StartedEntry> {
  const entry = await findByFile(path, journal, io);
  if (entry !== undefined) return entry;
  throw new VidgenError("not_found", `${path} is the video of no generation that was started here.`, {
    hint: hintForName(path),
  });
}

/** The newest generation of the journal that matches. Throws `not_found` without one. */
export async function findLast(
  journal: Pick<Journal, "scan">,
  isMatch: (entry: Entry) => entry is StartedEntry = isStarted,
): Promise<StartedEntry> {
  const newest = await findNewest(journal, isMatch);
  if (newest) return newest;
  throw new VidgenError("not_found", "No generation was started here yet.", { hint: "`vidgen generate` starts one." });
}

/** Each generation once: attempts with the same Idempotency-Key have the same one. */
function distinct(entries: StartedEntry[]): StartedEntry[] {
  return [...new Map(entries.map((entry) => [`${entry.base_url} ${entry.id}`, entry])).values()];
}
