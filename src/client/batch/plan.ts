import type { Disk } from "../../io.ts";
import { shorten } from "../../protocol/text.ts";
import { stopsOthers } from "../ledger/attempt.ts";
import { hasContent } from "../ledger/content.ts";
import type { Entry } from "../ledger/history.ts";
import { isStarted, type StartedEntry } from "../ledger/policy.ts";
import { hashRow, type KeyedRow } from "./row.ts";
import type { Faults } from "./rows/faults.ts";
import { findDeciding, groupByRow, kindOfRow, leftAlone } from "./status.ts";

/** What a run does with a row. */
export type RowState =
  /** `isFound` if the video is in its file although neither the journal nor the results file says so. */
  | { kind: "done"; id: string; file: string | undefined; isFound?: boolean }
  /** Started and not done: it is polled, and its video saved. */
  | { kind: "running"; attempt: StartedEntry }
  /** Will be started; `dismissed` are the attempts that may have been charged and are ignored from now on. */
  | { kind: "new"; dismissed: Entry[] }
  /** May have been charged, was charged and is lost, or was refused or failed: not started again. */
  | { kind: "unknown" | "lost" | "failed"; attempt: Entry }
  /** Not started, because a row that it depends on is not started again. */
  | { kind: "blocked"; by: KeyedRow };

export type PlannedRow = KeyedRow & { state: RowState };

export type PlanOptions = { retryFailed?: boolean | undefined; retryUnknown?: boolean | undefined };

/**
 * Decides about each row by its attempts. Throws `usage` with all faults, such as a row whose request differs from
 * that of an earlier row with the same id.
 */
export async function planRows(
  rows: readonly KeyedRow[],
  attempts: readonly Entry[],
  { faults, ...options }: PlanOptions & { faults: Faults },
  disk: Disk,
): Promise<PlannedRow[]> {
  const byRow = groupByRow(attempts);
  const planned: PlannedRow[] = [];
  const lines = new Map<string, number>();
  for (const row of rows) {
    const other = lines.get(row.key);
    if (other !== undefined) faults.add(`the id "${shorten(row.key)}" is also the id of line ${other}`, row);
    lines.set(row.key, row.line);
    const known = byRow.get(row.key) ?? [];
    const state = await decideState(row, known, options, disk);
    const earlier = findDeciding(known);
    if (earlier && !isSame(row, earlier) && state.kind !== "new") faults.add(changedFault(row, earlier), row);
    planned.push({ ...row, state });
  }
  const byKey = new Map(planned.map((row) => [row.key, row]));
  for (const { source, line } of planned)
    if (source !== undefined && !byKey.has(source))
      faults.add("the row that it begins from is in another shard", { line });
  faults.throwIfAny();
  blockRows(planned, byKey);
  return planned;
}

/** Blocks the rows whose first frame will be missing. */
function blockRows(rows: readonly PlannedRow[], byKey: ReadonlyMap<string, PlannedRow>): void {
  const isChecked = new Set<PlannedRow>();
  for (const row of rows) {
    // Iterative, because a film may be one chain of thousands of rows.
    const chain: PlannedRow[] = [];
    for (let at: PlannedRow | undefined = row; at && !isChecked.has(at); at = byKey.get(at.source ?? "")) {
      chain.push(at);
      isChecked.add(at);
    }
    for (const each of chain.reverse()) {
      const source = byKey.get(each.source ?? "");
      if (each.state.kind !== "new" || source === undefined) continue;
      if (source.state.kind === "blocked") each.state = source.state;
      else if (leftAlone.has(source.state.kind)) each.state = { kind: "blocked", by: source };
    }
  }
}

async function decideState(row: KeyedRow, known: Entry[], options: PlanOptions, disk: Disk): Promise<RowState> {
  const attempt = findDeciding(known);
  if (attempt === undefined) return { kind: "new", dismissed: [] };
  const kind = kindOfRow(attempt);
  if (kind === "missing") return { kind: "new", dismissed: [] };
  if (kind === "failed") {
    return isSame(row, attempt) && !options.retryFailed ? { kind, attempt } : { kind: "new", dismissed: [] };
  }
  // A running attempt without an id: somebody edited the line.
  if (kind === "unknown" || kind === "lost" || !isStarted(attempt)) {
    if (!options.retryUnknown) return { kind: kind === "lost" ? kind : "unknown", attempt };
    return { kind: "new", dismissed: known.filter(({ state }) => stopsOthers(state)) };
  }
  return (await isDone(row, attempt, disk))
    ? { kind: "done", id: attempt.id, file: attempt.file }
    : { kind: "running", attempt };
}

function isSame({ hash }: KeyedRow, { request, from }: Entry): boolean {
  return hashRow(request, from !== undefined) === hash;
}

/** Whether an attempt's file still has its video, or, if no file is wanted, its URL was returned. */
async function isDone({ outputPath }: KeyedRow, { state, place, file, content }: Entry, disk: Disk): Promise<boolean> {
  if (outputPath === undefined) return state === "delivered" || (state === "ready" && place !== undefined);
  return file !== undefined && content !== undefined && hasContent(file, content, disk);
}

function changedFault({ id = "" }: KeyedRow, earlier: Entry): string {
  const outcome = earlier.id === undefined ? `attempt ${earlier.attempt}` : `generation ${earlier.id}`;
  return `"${shorten(id)}" is a different request from line ${earlier.line} of an earlier run, which was started at ${earlier.at.slice(0, 16)}Z (${outcome}); give this row another id`;
}
