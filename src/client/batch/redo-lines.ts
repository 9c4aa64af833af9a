import type { DatedLine, Entry, RedoLine, RedoneRow } from "../ledger/history.ts";
import { hashRow } from "./row.ts";

type DatedRedo = RedoLine & { at: string };

/** What the results files and the intents say about the redos of rows. */
export type Redos = {
  /** The attempts that no longer decide the state of their row. */
  replacedAttempts: ReadonlySet<string>;
  /** The newest redo of each row, by key. */
  newestOfRow: ReadonlyMap<string, RowRedo>;
};

export type RowRedo = RedoneRow & { redo: string; at: string };

/**
 * An attempt is replaced if the line of a redo names it, or the intent of a redo that was or may have been
 * charged: a results file may be lost, or restored as it was before its redo line. `attempts` are those at
 * the rows without the dismissed ones, and `journalNames` all names in the journal, newest first. The newest
 * redo of a row is the one that replaces the most attempts. Its time does not decide, because clocks may have
 * been wrong.
 */
export function readRedos(
  lines: readonly DatedRedo[],
  attempts: readonly Entry[],
  journalNames: readonly string[] = [],
): Redos {
  const rowRedos = lines.flatMap(({ redo, at, rows }) => rows.map((row): RowRedo => ({ ...row, redo, at })));
  const knownRedos = new Set(lines.map(({ redo }) => redo));
  for (const entry of attempts) {
    const { row = "", redo, at } = entry;
    if (redo === undefined || !mayBePaid(entry)) continue;
    if (entry.replaces === undefined && knownRedos.has(redo)) continue;
    const replaces = [...(entry.replaces ?? findEarlier(entry, { rowRedos, attempts, journalNames }))];
    rowRedos.push({ row, request: hashRow(entry.request, entry.from !== undefined), replaces, redo, at });
  }
  const newestOfRow = new Map<string, RowRedo>();
  for (const each of rowRedos)
    if (each.replaces.length >= (newestOfRow.get(each.row)?.replaces.length ?? 0)) newestOfRow.set(each.row, each);
  return { replacedAttempts: new Set(rowRedos.flatMap(({ replaces }) => replaces)), newestOfRow };
}

function mayBePaid({ state }: Entry): boolean {
  return state !== "unsent" && state !== "refused" && state !== "failed";
}

type EarlierSources = {
  rowRedos: readonly RowRedo[];
  attempts: readonly Entry[];
  journalNames: readonly string[];
};

/**
 * The attempts that the intent of an older version replaces, which does not name them: those at its row that
 * stand before it in the journal, without those that name it, or whose redo line does.
 */
function findEarlier({ attempt, row }: Entry, { rowRedos, attempts, journalNames }: EarlierSources): string[] {
  const position = journalNames.indexOf(attempt);
  const olderNames = new Set(position === -1 ? [] : journalNames.slice(position + 1));
  const redosAfter = new Set(rowRedos.flatMap(({ redo, replaces }) => (replaces.includes(attempt) ? redo : [])));
  const isAfter = ({ redo = "", replaces = [] }: Entry) => replaces.includes(attempt) || redosAfter.has(redo);
  return attempts
    .filter((each) => each.row === row && olderNames.has(each.attempt) && !isAfter(each))
    .map((each) => each.attempt);
}

/** The redos of other results files that are missing in this one. */
export function findUnwrittenRedos(ownRedos: readonly DatedRedo[], allRedos: readonly DatedRedo[]): DatedLine[] {
  const written = new Set(ownRedos.map(({ redo }) => redo));
  return allRedos.filter(({ redo }) => !written.has(redo));
}
