import { beginsUuid, isSameId, isUuid } from "../../protocol/id.ts";
import {
  type AttemptLines,
  createGrouping,
  type DatedLine,
  type Entry,
  foldEntry,
  groupLines,
  type IntentLine,
  keyOf,
} from "./history.ts";
import type { Journal } from "./journal.ts";

// Queries on a journal. All results are sorted newest first. They reject as `Journal.scan` does.

type ScannableJournal = Pick<Journal, "scan">;
type AttemptLine = DatedLine & { attempt: string };

/**
 * The lines of each attempt, a part of the file at a time; with `words`, only lines that contain one of them.
 * When the caller stops, the rest is not read.
 */
export async function* scanAttempts(
  journal: ScannableJournal,
  words?: readonly string[],
): AsyncGenerator<AttemptLines[]> {
  const group = createGrouping();
  for await (const { lines } of journal.scan({ words })) {
    const attempts = lines.flatMap((line) => {
      const attempt = group(line);
      return attempt ? [attempt] : [];
    });
    if (attempts.length > 0) yield attempts;
  }
}

/** The entries of the attempts, a part of the file at a time; with `words`, only as lines that contain one of them say. */
export async function* scanEntries(journal: ScannableJournal, words?: readonly string[]): AsyncGenerator<Entry[]> {
  for await (const attempts of scanAttempts(journal, words)) yield attempts.map(foldEntry);
}

/** The lines of all attempts. */
export async function readAttempts(journal: ScannableJournal): Promise<AttemptLines[]> {
  const attempts: AttemptLines[] = [];
  for await (const part of scanAttempts(journal)) attempts.push(...part);
  return attempts;
}

export async function readEntries(journal: ScannableJournal): Promise<Entry[]> {
  return (await readAttempts(journal)).map(foldEntry);
}

/** How many of the newest entries are enough for prices, balances and times. */
const recentCount = 1_000;

/**
 * The newest entries, about a thousand or as many as are enough, for prices, balances and times; empty if the
 * journal cannot be read. Never rejects.
 */
export async function readRecent(
  journal: ScannableJournal,
  isEnough: (entries: readonly Entry[]) => boolean = () => false,
): Promise<Entry[]> {
  const entries: Entry[] = [];
  try {
    for await (const part of scanEntries(journal)) {
      entries.push(...part);
      if (entries.length >= recentCount || isEnough(entries)) break;
    }
  } catch {
    return [];
  }
  return entries;
}

/** Returns a function that reads the lines that were appended since its last call, newest first; at first, all lines. */
export function createTail(journal: ScannableJournal): () => Promise<DatedLine[]> {
  let from = 0;
  return async () => {
    const newLines: DatedLine[] = [];
    let newEnd = from;
    for await (const { lines, end } of journal.scan({ from })) {
      newLines.push(...lines);
      newEnd = Math.max(newEnd, end);
    }
    from = newEnd;
    return newLines;
  };
}

/** The newest matching attempt. Reads no further. */
export async function findNewest<Match extends Entry>(
  journal: ScannableJournal,
  isMatch: (entry: Entry) => entry is Match,
): Promise<Match | undefined> {
  for await (const part of scanEntries(journal)) {
    const found = part.find(isMatch);
    if (found) return found;
  }
  return undefined;
}

/** The newest matching line. Reads no further. With `words`, only lines that contain one of them. */
export async function findLine<Wanted extends DatedLine>(
  journal: ScannableJournal,
  isWanted: (line: DatedLine) => line is Wanted,
  words?: readonly string[],
): Promise<Wanted | undefined> {
  for await (const { lines } of journal.scan({ words })) {
    const found = lines.find(isWanted);
    if (found) return found;
  }
  return undefined;
}

/** The attempts that have a generation of this id, at any service. */
export function findById(journal: ScannableJournal, id: string): Promise<Entry[]> {
  const spellings = isUuid(id) ? [id, id.toLowerCase(), id.toUpperCase()] : [id];
  const words = spellings.map(wordOf);
  return findAttempts(journal, words, (line) => "id" in line && isSameId(line.id ?? "", id));
}

/** The newest attempt that has a generation of this id, at any service. */
export async function findStarted(
  journal: ScannableJournal,
  id: string,
): Promise<(Entry & { id: string }) | undefined> {
  const isStarted = (entry: Entry): entry is Entry & { id: string } => entry.id !== undefined;
  return (await findById(journal, id)).find(isStarted);
}

/** The attempts whose name or id is this text, or is a UUID that begins with it in any letter case. */
export function findByBeginning(journal: ScannableJournal, text: string): Promise<Entry[]> {
  const words = [text, text.toLowerCase(), text.toUpperCase()].map((spelling) => wordOf(spelling).slice(0, -1));
  const isMatch = (name = "") => name === text || beginsUuid(text, name);
  return findAttempts(journal, words, (line) => isMatch(line.attempt) || ("id" in line && isMatch(line.id)));
}

/** The attempts with an Idempotency-Key, which may be sent several times. */
export function findByKey(journal: ScannableJournal, key: string): Promise<Entry[]> {
  return findAttempts(journal, [wordOf(key)], (line) => line.kind === "intent" && keyOf(line) === key);
}

/** The attempts with a prompt, or with one of these hashes of a command line (see `IntentLine.typed`). */
export function findByCommand(
  journal: ScannableJournal,
  { prompt, hashes }: { prompt?: string; hashes: readonly string[] },
): Promise<Entry[]> {
  const words = [...hashes.map(wordOf), ...(prompt === undefined ? [] : [`"prompt":${wordOf(prompt)}`])];
  const isOfCommand = ({ typed, request }: IntentLine) =>
    request.prompt === prompt || (typed !== undefined && hashes.includes(typed));
  return findAttempts(journal, words, (line) => line.kind === "intent" && isOfCommand(line));
}

/** The attempts of a run of several generations. */
export function findByRun(journal: ScannableJournal, run: string): Promise<Entry[]> {
  return findAttempts(journal, [wordOf(run)], (line) => line.kind === "intent" && line.run === run);
}

/** How a name, an id or another text is written in a line. */
export function wordOf(text: string): string {
  return JSON.stringify(text);
}

/**
 * The attempts with a matching line that contains one of `words`. Reads the whole file, since several
 * attempts may have the same id or key, but decodes only lines with these words.
 */
async function findAttempts(
  journal: ScannableJournal,
  words: readonly string[],
  isWanted: (line: AttemptLine) => boolean,
): Promise<Entry[]> {
  const attempts = new Set<string>();
  const ids = new Set<string>();
  for await (const { lines } of journal.scan({ words: [...new Set(words)] }))
    for (const line of lines)
      if ("attempt" in line && isWanted(line)) {
        attempts.add(line.attempt);
        if ("id" in line && line.id !== undefined) ids.add(line.id);
      }
  let lines: DatedLine[] = [];
  // A line about an attempt may have an id that other lines have instead of the attempt.
  for (let knownIds = -1; attempts.size > 0 && ids.size > knownIds; ) {
    knownIds = ids.size;
    lines = await readLinesAbout(attempts, ids, journal);
    for (const line of lines)
      if ("attempt" in line && attempts.has(line.attempt) && "id" in line && line.id !== undefined) ids.add(line.id);
  }
  return groupLines(lines)
    .filter(([{ attempt }]) => attempts.has(attempt))
    .map(foldEntry);
}

/** The maximum number of words to search for. With more of them it is faster to parse each line. */
const maxWords = 30;

/**
 * The lines about these attempts and ids, newest first. Reads no further back than the oldest intent of these
 * attempts: the journal has no line about an attempt before its intent, and a line about an id belongs to the
 * attempt whose line named that id before.
 */
async function readLinesAbout(
  attempts: ReadonlySet<string>,
  ids: ReadonlySet<string>,
  journal: ScannableJournal,
): Promise<DatedLine[]> {
  const names = new Set([...attempts, ...ids]);
  const words = names.size > maxWords ? undefined : [...names].map(wordOf);
  const withoutIntent = new Set(attempts);
  const found: DatedLine[] = [];
  for await (const { lines } of journal.scan({ words })) {
    for (const line of lines) {
      if (line.kind === "intent") withoutIntent.delete(line.attempt);
      const isAbout = "attempt" in line && attempts.has(line.attempt);
      if (isAbout || ("id" in line && ids.has(line.id ?? ""))) found.push(line);
    }
    if (withoutIntent.size === 0) break;
  }
  return found;
}
