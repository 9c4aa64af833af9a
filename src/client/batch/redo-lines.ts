import type { DatedLine, RedoLine, RedoneRow } from "../ledger/history.ts";

type DatedRedo = RedoLine & { at: string };

/** What the results files say about the redos of rows. */
export type Redos = {
  /** The attempts that no longer decide the state of their row. */
  replacedAttempts: ReadonlySet<string>;
  /** The newest redo of each row, by key. */
  newestOfRow: ReadonlyMap<string, RowRedo>;
};

export type RowRedo = RedoneRow & { redo: string; at: string };

/** The newest redo of a row is the one that replaces the most attempts. Its time does not decide, because clocks may have been wrong. */
export function readRedos(lines: readonly DatedRedo[]): Redos {
  const replacedAttempts = new Set<string>();
  const newestOfRow = new Map<string, RowRedo>();
  for (const { redo, at, rows } of lines) {
    for (const row of rows) {
      for (const attempt of row.replaces) replacedAttempts.add(attempt);
      if (row.replaces.length >= (newestOfRow.get(row.row)?.replaces.length ?? 0))
        newestOfRow.set(row.row, { ...row, redo, at });
    }
  }
  return { replacedAttempts, newestOfRow };
}

/** The redos of other results files that are missing in this one. */
export function findUnwrittenRedos(ownRedos: readonly DatedRedo[], allRedos: readonly DatedRedo[]): DatedLine[] {
  const written = new Set(ownRedos.map(({ redo }) => redo));
  return allRedos.filter(({ redo }) => !written.has(redo));
}
