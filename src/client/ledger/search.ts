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

// What is asked of a journal. All answers have the newest first, and reject as `Journal.scan` does.

type Scanned = Pick<Journal, "scan">;
type AttemptLine = DatedLine & { attempt: string };

type Intent = IntentLine & { at: string };

/** The attempts as their lines, a part of the file at a time. When the caller stops, the rest is not read. */
export async function* scanAttempts(journal: Scanned): AsyncGenerator<AttemptLines[]> {
  const group = createGrouping();
  for await (const { lines } of journal.scan()) {
    const attempts = lines.flatMap((line) => {
      const attempt = group(line);
      return attempt ? [attempt] : [];
    });
    if (attempts.length > 0) yield attempts;
  }
}

/** The same, each attempt as what its lines say. */
export async function* scanEntries(journal: Scanned): AsyncGenerator<Entry[]> {
  for await (const attempts of scanAttempts(journal)) yield attempts.map(foldEntry);
}

/** What this machine has started. */
export async function readEntries(journal: Scanned): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const part of scanEntries(journal)) entries.push(...part);
  return entries;
}

/** The newest part of that, which is enough for prices, balances and times; empty where the journal cannot be read. Never rejects. */
export async function readRecent(journal: Scanned): Promise<Entry[]> {
  try {
    for await (const part of scanEntries(journal)) return part;
  } catch {
    return [];
  }
  return [];
}

/** The newest attempt that is meant. Reads no further. */
export async function findNewest<Meant extends Entry>(
  journal: Scanned,
  isMeant: (entry: Entry) => entry is Meant,
): Promise<Meant | undefined> {
  for await (const part of scanEntries(journal)) {
    const found = part.find(isMeant);
    if (found) return found;
  }
  return undefined;
}

/** The newest line that is wanted. Reads no further. With `words`, each such line has one of them in it. */
export async function findLine<Wanted extends DatedLine>(
  journal: Scanned,
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
export function findById(journal: Scanned, id: string): Promise<Entry[]> {
  const words = [id, id.toLowerCase(), id.toUpperCase()];
  return findAttempts(journal, words, (line) => "id" in line && isSameId(line.id ?? "", id));
}

/** Those of an Idempotency-Key: several may have been sent with it. */
export function findByKey(journal: Scanned, key: string): Promise<Entry[]> {
  return findAttempts(journal, [key], (line) => line.kind === "intent" && keyOf(line) === key);
}

/** Those of a typed line, by its hash. */
export function findByTypedLine(journal: Scanned, typed: string): Promise<Entry[]> {
  return findAttempts(journal, [typed], (line) => line.kind === "intent" && line.typed === typed);
}

/** Those of a prompt whose intent is wanted. */
export function findByPrompt(
  journal: Scanned,
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

/** The attempts that one line is wanted of, which has one of `words` in it. Reads the whole file, but decodes only what names them. */
async function findAttempts(
  journal: Scanned,
  words: readonly string[],
  isWanted: (line: AttemptLine) => boolean,
): Promise<Entry[]> {
  const attempts = new Set<string>();
  const ids = new Set<string>();
  const collect = async (words: readonly string[], isWanted: (line: AttemptLine) => boolean) => {
    for await (const { lines } of journal.scan({ words }))
      for (const line of lines) {
        if (!("attempt" in line) || !isWanted(line)) continue;
        attempts.add(line.attempt);
        if ("id" in line && line.id !== undefined) ids.add(line.id);
      }
  };
  await collect(words, isWanted);
  if (attempts.size === 0) return [];
  // Other lines about these attempts may have their ids.
  if (ids.size === 0) await collect([...attempts], ({ attempt }) => attempts.has(attempt));
  const group = createGrouping();
  const entries: Entry[] = [];
  for await (const { lines } of journal.scan({ words: [...words, ...attempts, ...ids] }))
    for (const line of lines) {
      const lines = group(line);
      if (lines && attempts.has(lines[0].attempt)) entries.push(foldEntry(lines));
    }
  return entries;
}
