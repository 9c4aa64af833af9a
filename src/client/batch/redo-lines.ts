import type { DatedLine, RedoLine, RedoneRow } from "../ledger/history.ts";

type DatedRedo = RedoLine & { at: string };

/** What the results files say about the redos of rows. */
export type Redos = {
  /** The attempts that no longer decide the state of their row. */
  replaced: ReadonlySet<string>;
  /** The newest redo of each row, by key. */
  newest: ReadonlyMap<string, RowRedo>;
};

export type RowRedo = RedoneRow & { redo: string; at: string };

/** Later redos of a row replace more attempts. Their times may be from clocks that were wrong. */
export function readRedos(lines: readonly DatedRedo[]): Redos {
  const replaced = new Set<string>();
  const newest = new Map<string, RowRedo>();
  for (const { redo, at, rows } of lines) {
    for (const row of rows) {
      for (const attempt of row.replaces) replaced.add(attempt);
      if (row.replaces.length >= (newest.get(row.row)?.replaces.length ?? 0)) newest.set(row.row, { ...row, redo, at });
    }
  }
  return { replaced, newest };
}

/** The redos of other results files that are missing in this one. */
export function findUnwrittenRedos(own: readonly DatedRedo[], others: readonly DatedRedo[]): DatedLine[] {
  const written = new Set(own.map(({ redo }) => redo));
  return others.filter(({ redo }) => !written.has(redo));
}
