import { asVidgenError, type VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import {
  type AttemptLines,
  addLine,
  type DatedLine,
  type Entry,
  foldEntry,
  type JournalLine,
} from "../ledger/history.ts";
import type { Journal } from "../ledger/journal.ts";
import { checkOrphans, type Results, type ResultsFile } from "./results.ts";

/**
 * The attempts of results files, with what the journal knows of them. `paths` are those of results files: all
 * attempts of the journal that name one of them are included. Throws `usage` as `checkOrphans` does.
 */
export function findAttempts(
  files: readonly Results[],
  { journalAttempts, paths }: { journalAttempts: readonly AttemptLines[]; paths: ReadonlySet<string> },
): AttemptLines[] {
  checkOrphans(files, journalAttempts);
  const resultsAttempts = files.flatMap(({ attempts }) => attempts);
  const knownNames = new Set(resultsAttempts.map(([{ attempt }]) => attempt));
  const isOurs = ([{ attempt, batch = "" }]: AttemptLines) => knownNames.has(attempt) || paths.has(batch);
  return mergeAttempts([...resultsAttempts, ...journalAttempts.filter(isOurs).reverse()]);
}

/** Merges the attempts of several files, each line once; attempts and lines are sorted from oldest to newest. */
export function mergeAttempts(files: readonly AttemptLines[]): AttemptLines[] {
  const merged = new Map<string, AttemptLines>();
  for (const lines of files) {
    const [intent, ...later] = lines;
    const [first, ...mergedLines] = merged.get(intent.attempt) ?? lines;
    const mergedKeys = new Set(mergedLines.map(lineKey));
    const newLines = later.filter((line) => !mergedKeys.has(lineKey(line)));
    merged.set(intent.attempt, [
      first,
      ...(newLines.length === 0 ? mergedLines : [...mergedLines, ...newLines].sort(byTime)),
    ]);
  }
  return [...merged.values()].sort(([one], [other]) => byTime(one, other));
}

/** Identifies a line among those of its attempt: copies in two files have the same key. */
function lineKey({ kind, at }: DatedLine): string {
  return `${kind} ${at}`;
}

function byTime(one: DatedLine, other: DatedLine): number {
  return one.at.localeCompare(other.at);
}

/**
 * The lines about these rows that are missing in the results file, because another file records them, or a
 * process was killed before it wrote them.
 */
export function findUnwritten(
  attempts: readonly AttemptLines[],
  ownAttempts: readonly AttemptLines[],
  rows: ReadonlySet<string>,
): DatedLine[] {
  const written = new Map(ownAttempts.map((lines) => [lines[0].attempt, new Set(lines.map(lineKey))]));
  return attempts.flatMap((lines) => {
    const [{ attempt, row = "" }] = lines;
    // Partial files exist on this machine only.
    const missingLines = lines.filter((line) => line.kind !== "part" && !written.get(attempt)?.has(lineKey(line)));
    return rows.has(row) ? missingLines.map((line) => ({ ...line, attempt })) : [];
  });
}

/** The attempts of a running batch. */
export type Ledger = {
  /** Returns a journal that also writes each line about an attempt to the results file. */
  mirror(journal: Journal): Journal;
  /** The entry of a generation of the batch. */
  recall(id: string): Entry | undefined;
  /** An attempt's entry, and the error if some of its lines could not be written to the results file. */
  find(attempt: string): { entry: Entry | undefined; failure: VidgenError | undefined };
  /** Frees the memory of an attempt that has ended. */
  forget(attempt: string): void;
};

/** Without a results file the ledger is read-only. */
export function createLedger(
  entries: readonly Entry[],
  results: Pick<ResultsFile, "append" | "withdraw"> | undefined,
  io: Pick<Io, "date">,
): Ledger {
  const byName = new Map(entries.map((entry) => [entry.attempt, entry]));
  const byId = new Map(entries.flatMap((entry) => (entry.id === undefined ? [] : [[entry.id, entry]])));
  /** The journal may not know these attempts: another machine may have started them. */
  const earlierNames = new Set(byName.keys());
  const failures = new Map<string, VidgenError>();

  function find(line: JournalLine): Entry | undefined {
    if (line.kind === "part") return undefined;
    if ("attempt" in line) return byName.get(line.attempt);
    return "id" in line ? byId.get(line.id) : undefined;
  }

  function applyLine(line: DatedLine): Entry | undefined {
    if (line.kind === "intent") byName.set(line.attempt, foldEntry([line]));
    const entry = find(line);
    if (entry) addLine(entry, line);
    if (entry?.id !== undefined) byId.set(entry.id, entry);
    return entry;
  }

  /**
   * Remembers that the results file could not be written. Throws for an intent, so that nothing is sent; the
   * journal has the other lines.
   */
  function recordFailure(line: JournalLine, { attempt }: Entry, error: VidgenError) {
    failures.set(attempt, error);
    if (line.kind === "intent") throw error;
  }

  return {
    mirror: (journal) => ({
      ...journal,
      async append(...lines) {
        const at = io.date().toISOString();
        // With the name of its attempt, a line belongs to a row even if an earlier line is missing from the results file.
        const dated = lines.map((line) => {
          const entryBefore = find(line);
          return { at, ...line, ...(entryBefore && { attempt: entryBefore.attempt }) };
        });
        const failure = await journal.append(...dated).then(() => undefined, asVidgenError);
        // Without the intent in the journal nothing is sent, so it must not be in the results file either.
        if (failure && lines.some(({ kind }) => kind === "intent")) throw failure;
        for (const line of dated) {
          const entry = applyLine(line);
          if (entry) await results?.append(line).catch((error) => recordFailure(line, entry, asVidgenError(error)));
        }
        if (failure) throw failure;
      },
      async withdraw(line) {
        const dated = { at: io.date().toISOString(), ...line };
        // Without an entry, the results file has no intent to withdraw.
        const entry = applyLine(dated);
        const outcomes = await Promise.allSettled([journal.withdraw(dated), entry && results?.withdraw(dated)]);
        for (const each of outcomes) if (each.status === "rejected") throw each.reason;
      },
    }),
    recall: (id) => byId.get(id),
    find: (attempt) => ({ entry: byName.get(attempt), failure: failures.get(attempt) }),
    forget(attempt) {
      if (!earlierNames.has(attempt)) byId.delete(byName.get(attempt)?.id ?? "");
      byName.delete(attempt);
      failures.delete(attempt);
    },
  };
}
