import type { Disk } from "../../io.ts";
import { shorten } from "../../protocol/text.ts";
import { stopsOthers } from "../ledger/attempt.ts";
import { hasContent } from "../ledger/content.ts";
import type { Entry } from "../ledger/history.ts";
import { isStarted, type StartedEntry } from "../ledger/policy.ts";
import { hashRow, type KeyedRow } from "./row.ts";
import type { Faults } from "./rows/faults.ts";
import { findDeciding, groupByRow, kindOfRow, leftAlone } from "./status.ts";

/** What is to be done about a row. */
export type RowState =
  /** `isFound` where its video was found at its place, and nothing that is written down says so. */
  | { kind: "done"; id: string; file: string | undefined; isFound?: boolean }
  /** Started and not done: it is followed, and its video saved. */
  | { kind: "running"; attempt: StartedEntry }
  /** To be started; `dismissed` are the attempts that may have been charged and are passed over. */
  | { kind: "new"; dismissed: Entry[] }
  /** May have been charged, was charged and is lost, or was refused or failed: left alone. */
  | { kind: "unknown" | "lost" | "failed"; attempt: Entry }
  /** To be started, but the row that it begins from, or one before that, is left alone. */
  | { kind: "blocked"; by: KeyedRow };

export type PlannedRow = KeyedRow & { state: RowState };

export type PlanOptions = { retryFailed?: boolean | undefined; retryUnknown?: boolean | undefined };

/**
 * Decides what is to be done about each row, by its attempts. Throws `usage` with all faults: such as a row that asks for something else than
 * an earlier one of the same id.
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
    const state = await stateOf(row, known, options, disk);
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

/** Rows that cannot be started, since there will be no frame to begin with. */
function blockRows(rows: readonly PlannedRow[], byKey: ReadonlyMap<string, PlannedRow>): void {
  const isChecked = new Set<PlannedRow>();
  for (const row of rows) {
    // From the row backwards, until one that is known: a film may be one chain of thousands of rows.
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

async function stateOf(row: KeyedRow, known: Entry[], options: PlanOptions, disk: Disk): Promise<RowState> {
  const attempt = findDeciding(known);
  if (attempt === undefined) return { kind: "new", dismissed: [] };
  const kind = kindOfRow(attempt);
  if (kind === "missing") return { kind: "new", dismissed: [] };
  if (kind === "failed") {
    return isSame(row, attempt) && !options.retryFailed ? { kind, attempt } : { kind: "new", dismissed: [] };
  }
  // A line that names no generation to follow was changed by hand.
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

/** Whether the video of an attempt is where it was saved; where it is to be saved nowhere, whether its address was told. */
async function isDone({ outputPath }: KeyedRow, { state, place, file, content }: Entry, disk: Disk): Promise<boolean> {
  if (outputPath === undefined) return state === "delivered" || (state === "ready" && place !== undefined);
  return file !== undefined && content !== undefined && hasContent(file, content, disk);
}

function changedFault({ id = "" }: KeyedRow, earlier: Entry): string {
  const outcome = earlier.id === undefined ? `attempt ${earlier.attempt}` : `generation ${earlier.id}`;
  return `"${shorten(id)}" is a different request from line ${earlier.line} of an earlier run, which was started at ${earlier.at.slice(0, 16)}Z (${outcome}); give this row another id`;
}
