import {
  createGrouping,
  type DatedLine,
  datedEntries,
  type Entry,
  foldEntry,
  isUnfinished,
  type JournalLine,
  reusableMs,
  type UnfinishedLine,
} from "./history.ts";
import type { Journal, Lock, Part } from "./journal.ts";
import { findLine } from "./search.ts";

/**
 * The attempts that another start may have to do something about, newest first: those of the last 24 hours, and the unfinished ones before
 * that. With the lock it copies older lines about unfinished attempts to the end, so that the next start reads no further back; without it
 * nothing is written.
 */
export async function readCandidates(
  journal: Pick<Journal, "scan" | "append">,
  now: Date,
  lock?: Lock,
): Promise<Entry[]> {
  const copy = await findLine(journal, isCopy, ['"kind":"unfinished"']);
  const read = (copy && (await readBack(journal, now, copy))) ?? (await readBack(journal, now));
  // Without this line the next start reads further back: no harm is done.
  if (read?.unfinished && lock) await journal.append(read.unfinished).catch(() => {});
  return read?.entries ?? [];
}

function isCopy(line: DatedLine): line is DatedLine & UnfinishedLine {
  return line.kind === "unfinished";
}

/** The lines about unfinished attempts are copied once this many bytes were read for them. */
const copiedBytes = 250_000;

type Read = { entries: Entry[]; unfinished?: JournalLine };

/**
 * Reads back to where a copy of lines says, then that copy; without one to the beginning. `unfinished` is the copy for the next reader, where it
 * would save it some reading. `undefined` for a copy that does not count: somebody has edited the file since.
 */
async function readBack(journal: Pick<Journal, "scan">, now: Date, copy?: UnfinishedLine): Promise<Read | undefined> {
  const group = createGrouping();
  const entries: Entry[] = [];
  /** Where the part begins from which on lines are of the last 24 hours, or after those; and where the last part that was read begins. */
  let recent: Pick<Part, "start" | "head"> | undefined;
  let oldest: Pick<Part, "start" | "head"> | undefined;
  const newer = new Set<DatedLine>();
  const kept: DatedLine[][] = [];
  const take = (lines: DatedLine[]) => {
    const found: Entry[] = [];
    for (const line of lines) {
      if (recent === undefined) newer.add(line);
      const attempt = group(line);
      if (attempt === undefined) continue;
      const entry = foldEntry(attempt);
      if (recent !== undefined && !isUnfinished(entry)) continue;
      found.push(entry);
      if (recent !== undefined) kept.push(attempt.filter((each) => !newer.has(each)));
    }
    entries.push(...found);
    return found;
  };
  for await (const { lines, ...place } of journal.scan({ from: copy?.end })) {
    const found = datedEntries(take(lines), now);
    if (found.length > 0 && found.every(({ ageMs }) => ageMs >= reusableMs)) recent ??= place;
    oldest = place;
  }
  if (copy && oldest?.head !== copy.next) return undefined;
  take(copy?.lines.toReversed() ?? []);
  if (recent === undefined || recent.start - (copy?.end ?? 0) < copiedBytes) return { entries };
  const { start: end, head: next } = recent;
  return { entries, unfinished: { kind: "unfinished", end, next, lines: kept.reverse().flat() } };
}
