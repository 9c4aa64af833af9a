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
import type { Journal, JournalPart, Lock } from "./journal.ts";
import { findLine } from "./search.ts";

/**
 * The attempts that a start must consider, newest first: those of the last 24 hours, and older unfinished ones. With `lock`, copies older lines about
 * unfinished attempts to the end of the journal, so that the next start reads less; without it, writes nothing.
 */
export async function readCandidates(
  journal: Pick<Journal, "scan" | "append">,
  now: Date,
  lock?: Lock,
): Promise<Entry[]> {
  const copy = await findLine(journal, isCopy, ['"kind":"unfinished"']);
  const result = (copy && (await readBack(journal, now, copy))) ?? (await readBack(journal, now));
  // This line is optional. Without it, the next start only reads further back.
  if (result?.unfinished && lock) await journal.append(result.unfinished).catch(() => {});
  return result?.entries ?? [];
}

function isCopy(line: DatedLine): line is DatedLine & UnfinishedLine {
  return line.kind === "unfinished";
}

/** Lines about unfinished attempts are copied when this many bytes had to be read for them. */
const minCopiedBytes = 250_000;

type ReadBack = { entries: Entry[]; unfinished?: JournalLine };

/**
 * Reads the journal backwards. With `copy`, it stops at the end of the copied range, and takes older unfinished attempts from the copy; without
 * it, it reads to the beginning. `unfinished` is the copy for the next reader, if that would save enough reading. Returns `undefined` if the copy
 * is invalid because somebody edited the file since.
 */
async function readBack(
  journal: Pick<Journal, "scan">,
  now: Date,
  copy?: UnfinishedLine,
): Promise<ReadBack | undefined> {
  const group = createGrouping();
  const entries: Entry[] = [];
  /** The newest part in which all attempts are older than 24 hours. Further back, only unfinished attempts count. */
  let oldPart: Pick<JournalPart, "start" | "head"> | undefined;
  /** The oldest part that was read. */
  let oldest: Pick<JournalPart, "start" | "head"> | undefined;
  /** The lines of `oldPart` and of all newer parts. The next reader reads them itself, so the copy needs only older lines. */
  const recentLines = new Set<DatedLine>();
  const unfinishedLines: DatedLine[][] = [];
  const take = (lines: DatedLine[]) => {
    const found: Entry[] = [];
    for (const line of lines) {
      if (oldPart === undefined) recentLines.add(line);
      const attempt = group(line);
      if (attempt === undefined) continue;
      const entry = foldEntry(attempt);
      if (oldPart !== undefined && !isUnfinished(entry)) continue;
      found.push(entry);
      if (oldPart !== undefined) unfinishedLines.push(attempt.filter((each) => !recentLines.has(each)));
    }
    entries.push(...found);
    return found;
  };
  for await (const { lines, ...part } of journal.scan({ from: copy?.end })) {
    const found = datedEntries(take(lines), now);
    if (found.length > 0 && found.every(({ ageMs }) => ageMs >= reusableMs)) oldPart ??= part;
    oldest = part;
  }
  // `next` is the beginning of the part that followed the copied range. If it differs, somebody edited the file.
  if (copy && oldest?.head !== copy.next) return undefined;
  take(copy?.lines.toReversed() ?? []);
  if (oldPart === undefined || oldPart.start - (copy?.end ?? 0) < minCopiedBytes) return { entries };
  const { start: end, head: next } = oldPart;
  return { entries, unfinished: { kind: "unfinished", end, next, lines: unfinishedLines.reverse().flat() } };
}
