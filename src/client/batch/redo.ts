import { usage } from "../../errors.ts";
import { findSimilar } from "../../protocol/models.ts";
import { shorten } from "../../protocol/text.ts";
import { type Entry, groupBy } from "../ledger/history.ts";
import type { Redos } from "./redo-lines.ts";
import type { KeyedRow } from "./row.ts";
import type { PlannedRow } from "./row-state.ts";
import type { Faults } from "./rows/faults.ts";
import { kindOfRow } from "./status.ts";

/** The rows that `--redo` names. */
export type RedoOptions = {
  rows: "all" | readonly string[];
  /** Also makes rows again that a redo has made and that have not been edited since. */
  again?: boolean | undefined;
  /** The name of this redo in the results file. */
  name: string;
};

/** Throws `usage` for a name that no row has. */
export function checkRedoNames(
  { rows: names }: Pick<RedoOptions, "rows">,
  rows: readonly Pick<KeyedRow, "key">[],
): void {
  const keys = new Set(rows.map(({ key }) => key));
  if (names === "all") {
    if (keys.has("all") && keys.size > 1)
      throw usage(
        '--redo all means every row, but a row has the id "all". Nothing was sent.',
        "Name the rows instead.",
      );
    return;
  }
  for (const name of names) {
    if (keys.has(name)) continue;
    const guess = findSimilar(name, [...keys]);
    const hint = guess === undefined ? "--redo takes the ids of rows, with commas between them." : undefined;
    throw usage(
      `--redo: no row has the id "${shorten(name)}".${guess === undefined ? "" : ` Did you mean ${guess}?`} Nothing was sent.`,
      hint,
    );
  }
}

export function isNamed({ key }: Pick<KeyedRow, "key">, redo: RedoOptions | undefined): boolean {
  return redo !== undefined && (redo.rows === "all" || redo.rows.includes(key));
}

/** The attempts at a row. `current` decides the state of the row; `all` includes the attempts that a redo has replaced. */
export type RowAttempts = { current: Entry | undefined; all: readonly Entry[] };

type RedoDependencies = {
  redos: Redos;
  attemptsOf(row: KeyedRow): RowAttempts;
  /** Whether the row's request differs from that of an attempt. */
  isEdited(row: KeyedRow, attempt: Entry): boolean;
  faults: Faults;
};

/**
 * Marks the rows that a redo makes again: the named rows that have a video, and all rows with one that begin
 * with the frame of a marked row. An earlier redo that has not ended is continued instead. Returns the named
 * rows that a redo has already made. A row that cannot be made again now becomes a fault.
 */
export function markRedone(
  rows: readonly PlannedRow[],
  redo: RedoOptions,
  { redos: { newestOfRow }, attemptsOf, isEdited, faults }: RedoDependencies,
): PlannedRow[] {
  const { again = false, name } = redo;
  const redoOf = ({ key }: PlannedRow) => newestOfRow.get(key)?.redo;
  const unfinishedRedos = new Set(rows.map((row) => (hasRedoEnded(row, attemptsOf(row)) ? undefined : redoOf(row))));
  const isContinued = (row: PlannedRow) => redoOf(row) !== undefined && unfinishedRedos.has(redoOf(row));
  const dependents = groupBy(rows, ({ source }) => source);
  const namedRows = rows.filter((row) => isNamed(row, redo));
  const upToDate: PlannedRow[] = [];
  const rowsToRedo = new Set<PlannedRow>();
  for (const row of namedRows) {
    if (isContinued(row)) continue;
    const { current } = attemptsOf(row);
    if (!hasVideo(row, current)) {
      if (row.state.kind === "running") faults.add(`is not finished; ${finishFirst}`, row);
    } else if (!again && wasRedone(row, current) && !isEdited(row, current)) upToDate.push(row);
    else rowsToRedo.add(row);
  }
  // The loop also reaches rows that it adds to the set.
  for (const { key, line } of rowsToRedo) {
    for (const next of dependents.get(key) ?? []) {
      const isRunning = next.state.kind === "running" && !hasVideo(next, attemptsOf(next).current);
      if (isContinued(next) || isRunning)
        faults.add(`is not finished, and begins with the frame of line ${line}; ${finishFirst}`, next);
      else if (hasVideo(next, attemptsOf(next).current)) rowsToRedo.add(next);
    }
  }
  for (const row of rowsToRedo) {
    const { current, all } = attemptsOf(row);
    const replaces = all.map(({ attempt }) => attempt);
    const redoneRow = { row: row.key, request: row.hash, replaces };
    row.state = { kind: "new", dismissed: [], redo: name, redoneRow, replaces, replacedAttempt: current };
  }
  return upToDate.filter((row) => !rowsToRedo.has(row));

  function wasRedone({ key }: PlannedRow, { redo }: Entry): boolean {
    return redo !== undefined || newestOfRow.has(key);
  }
}

const finishFirst = "run the same line without --redo first. Nothing was sent";

/** Whether the newest redo of a row has ended. */
function hasRedoEnded(row: PlannedRow, { current }: RowAttempts): boolean {
  return hasVideo(row, current) || (current !== undefined && kindOfRow(current) === "failed");
}

/** Whether a row's video was delivered. Its file may have been deleted since. */
function hasVideo({ state }: PlannedRow, current: Entry | undefined): current is Entry {
  return current !== undefined && (state.kind === "done" || current.state === "delivered");
}
