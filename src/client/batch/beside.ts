import type { Disk } from "../../io.ts";
import { type AttemptLines, type Entry, foldEntry, type IntentLine } from "../ledger/history.ts";
import type { Journal } from "../ledger/journal.ts";
import { createTail } from "../ledger/search.ts";
import { mergeAttempts } from "./ledger.ts";
import { readResults } from "./results.ts";
import { findOtherResults, type RowsFile } from "./rows-file.ts";

type BesideSources = {
  /** The path of this run's results file. */
  path: string;
  rowsFile: RowsFile;
  journal: Pick<Journal, "scan">;
  /** The attempts that were known when this run began. */
  attempts: readonly AttemptLines[];
};

/**
 * Returns a function that reads what runs of other shards have written to their results files since its last
 * call: the attempts in the files that have changed. Another run may also have begun since then; the journal
 * names its results file if that is in another folder. Throws as `readResults` does.
 */
export function createBesideReader(
  { path, rowsFile, journal, attempts }: BesideSources,
  disk: Disk,
): () => Promise<Entry[]> {
  const versions = new Map<string, string>();
  const known = new Map(attempts.map((lines) => [lines[0].attempt, lines]));
  const named = new Map<string, Pick<IntentLine, "batch" | "rows_file">>();
  const readNewLines = createTail(journal);
  return async () => {
    for (const line of await readNewLines())
      if (line.kind === "intent" && line.batch !== undefined) named.set(line.batch, line);
    const changed: AttemptLines[] = [];
    for (const other of await findOtherResults(path, rowsFile, [...named.values()], disk)) {
      const found = await disk.stat(other).catch(() => undefined);
      const version = `${found?.size} ${found?.mtimeMs}`;
      if (versions.get(other) === version) continue;
      versions.set(other, version);
      for (const lines of (await readResults(other, disk)).attempts)
        changed.push(...mergeAttempts([known.get(lines[0].attempt) ?? lines, lines]));
    }
    return changed.map(foldEntry);
  };
}
