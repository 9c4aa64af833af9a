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
import type { ResultsFile } from "./results.ts";

/** The lines of each attempt from several files, each line once. The oldest come first, of the lines and of the attempts. */
export function mergeAttempts(files: readonly AttemptLines[]): AttemptLines[] {
  const merged = new Map<string, AttemptLines>();
  for (const lines of files) {
    const [intent, ...later] = lines;
    const [first, ...known] = merged.get(intent.attempt) ?? lines;
    const names = new Set(known.map(nameOf));
    const others = later.filter((line) => !names.has(nameOf(line)));
    merged.set(intent.attempt, [first, ...(others.length === 0 ? known : [...known, ...others].sort(byTime))]);
  }
  return [...merged.values()].sort(([one], [other]) => byTime(one, other));
}

/** The same for the copies of a line in two files, and for no other line about the attempt. */
function nameOf({ kind, at }: DatedLine): string {
  return `${kind} ${at}`;
}

function byTime(one: DatedLine, other: DatedLine): number {
  return one.at.localeCompare(other.at);
}

/** The lines about these rows that a results file has not: another file has them, or a process was killed between the two. */
export function findUnwritten(
  attempts: readonly AttemptLines[],
  own: readonly AttemptLines[],
  rows: ReadonlySet<string>,
): DatedLine[] {
  const written = new Map(own.map((lines) => [lines[0].attempt, new Set(lines.map(nameOf))]));
  return attempts.flatMap((lines) => {
    const [{ attempt, row = "" }] = lines;
    // Partial files are of use on this machine alone.
    const missing = lines.filter((line) => line.kind !== "part" && !written.get(attempt)?.has(nameOf(line)));
    return rows.has(row) ? missing.map((line) => ({ ...line, attempt })) : [];
  });
}

/** What is known of the attempts of a batch, while it runs. */
export type Ledger = {
  /** A journal for the batch's client: each line about an attempt goes to the results file too. */
  beside(journal: Journal): Journal;
  /** What is known of a generation of the batch. */
  recall(id: string): Entry | undefined;
  /** An attempt of the batch, as its lines until now tell of it, and why some of them are not in the results file, if so. */
  find(attempt: string): { entry: Entry | undefined; failure: VidgenError | undefined };
  /** Nothing more happens to the attempt in this run: a long batch keeps no memory of it. */
  forget(attempt: string): void;
};

/** Without a results file it only reads. */
export function createLedger(
  entries: readonly Entry[],
  results: Pick<ResultsFile, "append" | "withdraw"> | undefined,
  io: Pick<Io, "date">,
): Ledger {
  const byName = new Map(entries.map((entry) => [entry.attempt, entry]));
  const byId = new Map(entries.flatMap((entry) => (entry.id === undefined ? [] : [[entry.id, entry]])));
  /** Another machine may have started them: then this one's journal does not know whose their ids are. */
  const earlier = new Set(byName.keys());
  const failures = new Map<string, VidgenError>();

  function find(line: JournalLine): Entry | undefined {
    if (line.kind === "part") return undefined;
    if ("attempt" in line) return byName.get(line.attempt);
    return "id" in line ? byId.get(line.id) : undefined;
  }

  function take(line: DatedLine): Entry | undefined {
    if (line.kind === "intent") byName.set(line.attempt, foldEntry([line]));
    const entry = find(line);
    if (entry) addLine(entry, line);
    if (entry?.id !== undefined) byId.set(entry.id, entry);
    return entry;
  }

  /** What has happened is in the journal; what is to be sent is not sent. */
  function leaveOut(line: JournalLine, { attempt }: Entry, error: VidgenError) {
    failures.set(attempt, error);
    if (line.kind === "intent") throw error;
  }

  return {
    beside: (journal) => ({
      ...journal,
      async append(line) {
        // By its attempt, each line tells of a row, even where one before it could not be written.
        const known = find(line);
        const dated = { at: io.date().toISOString(), ...line, ...(known && { attempt: known.attempt }) };
        const failure = await journal.append(dated).then(() => undefined, asVidgenError);
        // Without it nothing is sent, and it is not in the results file alone.
        if (failure && line.kind === "intent") throw failure;
        const entry = take(dated);
        if (entry) await results?.append(dated).catch((error) => leaveOut(line, entry, asVidgenError(error)));
        if (failure) throw failure;
      },
      async withdraw(line) {
        const dated = { at: io.date().toISOString(), ...line };
        // Without an entry its intent is not in the results file.
        const entry = take(dated);
        const written = await Promise.allSettled([journal.withdraw(dated), entry && results?.withdraw(dated)]);
        for (const each of written) if (each.status === "rejected") throw each.reason;
      },
    }),
    recall: (id) => byId.get(id),
    find: (attempt) => ({ entry: byName.get(attempt), failure: failures.get(attempt) }),
    forget(attempt) {
      if (!earlier.has(attempt)) byId.delete(byName.get(attempt)?.id ?? "");
      byName.delete(attempt);
      failures.delete(attempt);
    },
  };
}
