import { isSameId } from "../../protocol/id.ts";
import {
  type AttemptLines,
  createGrouping,
  type DatedLine,
  type Entry,
  foldEntry,
  type IntentLine,
  keyOf,
} from "./history.ts";
import type { Journal } from "./journal.ts";

// Queries on a journal. All results are sorted newest first. They reject as `Journal.scan` does.

type ScannableJournal = Pick<Journal, "scan">;
type AttemptLine = DatedLine & { attempt: string };

type Intent = IntentLine & { at: string };

/** The lines of each attempt, a part of the file at a time. When the caller stops, the rest is not read. */
export async function* scanAttempts(journal: ScannableJournal): AsyncGenerator<AttemptLines[]> {
  const group = createGrouping();
  for await (const { lines } of journal.scan()) {
    const attempts = lines.flatMap((line) => {
      const attempt = group(line);
      return attempt ? [attempt] : [];
    });
    if (attempts.length > 0) yield attempts;
  }
}

/** The entries of the attempts, a part of the file at a time. */
export async function* scanEntries(journal: ScannableJournal): AsyncGenerator<Entry[]> {
  for await (const attempts of scanAttempts(journal)) yield attempts.map(foldEntry);
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

/** The newest part of the entries, which is enough for prices, balances and times; empty if the journal cannot be read. Never rejects. */
export async function readRecent(journal: ScannableJournal): Promise<Entry[]> {
  try {
    for await (const part of scanEntries(journal)) return part;
  } catch {
    return [];
  }
  return [];
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
  const words = [id, id.toLowerCase(), id.toUpperCase()];
  return findAttempts(journal, words, (line) => "id" in line && isSameId(line.id ?? "", id));
}

/** The attempts with an Idempotency-Key, which may be sent several times. */
export function findByKey(journal: ScannableJournal, key: string): Promise<Entry[]> {
  return findAttempts(journal, [key], (line) => line.kind === "intent" && keyOf(line) === key);
}

/** The attempts with a prompt, or with one of these hashes of a command line (see `IntentLine.typed`). */
export function findByCommand(
  journal: ScannableJournal,
  { prompt, hashes }: { prompt?: string; hashes: readonly string[] },
): Promise<Entry[]> {
  const words = [...hashes, ...(prompt === undefined ? [] : [`"prompt":${JSON.stringify(prompt)}`])];
  const isOfCommand = ({ typed, request }: IntentLine) =>
    request.prompt === prompt || (typed !== undefined && hashes.includes(typed));
  return findAttempts(journal, words, (line) => line.kind === "intent" && isOfCommand(line));
}

/** The attempts with a prompt and a matching intent. */
export function findByPrompt(
  journal: ScannableJournal,
  prompt: string,
  isWanted: (intent: Intent) => boolean,
): Promise<Entry[]> {
  const words = [`"prompt":${JSON.stringify(prompt)}`];
  return findAttempts(
    journal,
    words,
    (line) => line.kind === "intent" && line.request.prompt === prompt && isWanted(line),
  );
}

/** The attempts with a matching line that contains one of `words`. Reads the whole file, but decodes only parts with these words. */
async function findAttempts(
  journal: ScannableJournal,
  words: readonly string[],
  isWanted: (line: AttemptLine) => boolean,
): Promise<Entry[]> {
  const attempts = new Set<string>();
  const ids = new Set<string>();
  const collect = async (lineWords: readonly string[], isMatch: (line: AttemptLine) => boolean) => {
    for await (const { lines } of journal.scan({ words: lineWords }))
      for (const line of lines) {
        if (!("attempt" in line) || !isMatch(line)) continue;
        attempts.add(line.attempt);
        if ("id" in line && line.id !== undefined) ids.add(line.id);
      }
  };
  await collect(words, isWanted);
  if (attempts.size === 0) return [];
  // The ids may be in other lines about these attempts.
  if (ids.size === 0) await collect([...attempts], ({ attempt }) => attempts.has(attempt));
  const group = createGrouping();
  const entries: Entry[] = [];
  for await (const { lines } of journal.scan({ words: [...words, ...attempts, ...ids] }))
    for (const line of lines) {
      const found = group(line);
      if (found && attempts.has(found[0].attempt)) entries.push(foldEntry(found));
    }
  return entries;
}
