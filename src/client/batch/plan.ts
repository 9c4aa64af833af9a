import { type ErrorCode, usage } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { hasContent } from "../content.ts";
import { shorten } from "../credentials.ts";
import type { Entry } from "../history.ts";
import { kindOfRequest } from "../price.ts";
import type { ResultLine } from "./results.ts";
import { hashRequest, type KeyedRow } from "./row.ts";
import { findDeciding, groupByRow, isUnclear, kindOfRow, mergeLines, rankOf } from "./status.ts";

/** What is to be done about a row. */
export type RowState =
  | { kind: "done"; id: string; file: string | null }
  /** Started and not done: it is followed, and its video saved. */
  | { kind: "running"; attempt: ResultLine & { id: string } }
  /** To be started; `dismissed` are the attempts that may have been charged and are passed over. */
  | { kind: "new"; dismissed: string[] }
  /** May have been charged, was charged and is lost, or was refused or failed: left alone. */
  | { kind: "unknown" | "lost" | "failed"; attempt: ResultLine };

export type PlannedRow = KeyedRow & { state: RowState };

export type PlanOptions = { retryFailed?: boolean | undefined; retryUnknown?: boolean | undefined };

/**
 * The attempts of a batch, the oldest first: what the journal says, which is written before anything else, and what results files add, which
 * another machine may have written. `isOurs` tells of entries that no results file has. `open` leaves out the dismissed ones, which may have
 * been charged all the same.
 */
export function mergeAttempts(
  results: readonly ResultLine[],
  entries: readonly Entry[],
  isOurs: (entry: Entry) => boolean,
): { all: ResultLine[]; open: ResultLine[] } {
  const merged = new Map(mergeLines(results).map((line) => [line.attempt, line]));
  const dismissed = new Set<string>();
  for (const entry of entries) {
    const known = merged.get(entry.attempt);
    if (known === undefined && !isOurs(entry)) continue;
    const line = mergeLine(known ?? lineOf(entry), entry);
    merged.set(entry.attempt, line);
    // Where the journal could not be written, the results file alone may have the id.
    if (entry.dismissed && isUnclear(line)) dismissed.add(entry.attempt);
  }
  const all = mergeLines([...merged.values()]);
  return { all, open: all.filter(({ attempt }) => !dismissed.has(attempt)) };
}

function mergeLine(line: ResultLine, entry: Entry): ResultLine {
  const { status, remaining_credits = line.remaining_credits, account = line.account, reason } = entry;
  if (status === "dismissed" || rankOf(status) < rankOf(line.status)) return { ...line, account };
  const file = entry.file === undefined || entry.file === "-" ? line.file : entry.file;
  const error = reason === undefined ? null : { code: entry.code ?? codeOf(status), message: reason };
  const isSame = status === line.status;
  return {
    ...line,
    status,
    id: entry.id ?? line.id,
    account,
    file,
    content: entry.content ?? line.content,
    credits: line.credits ?? entry.credits ?? null,
    remaining_credits,
    cost: entry.cost ?? line.cost,
    error: isSame ? (line.error ?? error) : error,
  };
}

function codeOf(status: Entry["status"]): ErrorCode {
  if (status === "failed" || status === "unknown") return status;
  return status === "unsent" ? "network" : "rejected";
}

/** What the journal alone knows of an attempt. */
function lineOf({
  attempt,
  at,
  row = "",
  request,
  account,
  is_preview,
  credits,
  remaining_credits,
}: Entry): ResultLine {
  return {
    at,
    row,
    line: 0,
    request: hashRequest(request),
    model: request.model,
    price_kind: kindOfRequest(request),
    attempt,
    account,
    is_preview,
    id: null,
    status: "starting",
    file: null,
    content: null,
    error: null,
    credits: credits ?? null,
    balance_fell: null,
    remaining_credits: remaining_credits ?? null,
    started_at: at,
    ended_at: null,
  };
}

/**
 * Decides what is to be done about each row, by its attempts. Throws `usage`, naming both, for a row that asks for something else than an
 * earlier one of the same id.
 */
export async function planRows(
  rows: readonly KeyedRow[],
  attempts: readonly ResultLine[],
  options: PlanOptions,
  disk: Disk,
): Promise<PlannedRow[]> {
  const byRow = groupByRow(attempts);
  const faults: string[] = [];
  const planned: PlannedRow[] = [];
  const lines = new Map<string, number>();
  for (const row of rows) {
    const other = lines.get(row.key);
    if (other !== undefined)
      faults.push(`line ${row.line}: the id "${shorten(row.key)}" is also the id of line ${other}`);
    lines.set(row.key, row.line);
    const known = byRow.get(row.key) ?? [];
    const state = await stateOf(row, known, options, disk);
    const earlier = findDeciding(known);
    if (earlier && earlier.request !== row.hash && state.kind !== "new") faults.push(changedFault(row, earlier));
    planned.push({ ...row, state });
  }
  throwFaults(faults);
  return planned;
}

/**
 * What the journal knows about the rows and the results file does not, because a process was killed between the two, or the results file was
 * lost.
 */
export function findUnwritten(
  rows: readonly PlannedRow[],
  attempts: readonly ResultLine[],
  results: readonly ResultLine[],
): Omit<ResultLine, "at">[] {
  const byKey = new Map(rows.map((row) => [row.key, row]));
  const written = new Map(results.map((line) => [line.attempt, factsOf(line)]));
  return attempts.flatMap(({ at: _, ...attempt }) => {
    const row = byKey.get(attempt.row);
    if (row === undefined) return [];
    const { state } = row;
    const isDone = state.kind === "done" && state.id === attempt.id;
    const found = isDone ? ({ status: "completed", file: state.file, error: null } as const) : {};
    const line = { ...attempt, ...found, line: row.line };
    return factsOf(line) === written.get(line.attempt) ? [] : line;
  });
}

/** Without the path, which the journal has as an absolute one. */
function factsOf({ status, id, file, error }: Pick<ResultLine, "status" | "id" | "file" | "error">): string {
  return [status, id, file === null, error === null].join();
}

async function stateOf(row: KeyedRow, known: ResultLine[], options: PlanOptions, disk: Disk): Promise<RowState> {
  const attempt = findDeciding(known);
  if (attempt === undefined) return { kind: "new", dismissed: [] };
  const { id, status, file } = attempt;
  const kind = kindOfRow(attempt);
  if (kind === "missing") return { kind: "new", dismissed: [] };
  if (kind === "failed") {
    const isSame = attempt.request === row.hash;
    return isSame && !options.retryFailed ? { kind, attempt } : { kind: "new", dismissed: [] };
  }
  // A line that names no generation to follow was changed by hand.
  if (kind === "unknown" || kind === "lost" || id === null) {
    if (!options.retryUnknown) return { kind: kind === "lost" ? kind : "unknown", attempt };
    return { kind: "new", dismissed: known.filter(isUnclear).map((each) => each.attempt) };
  }
  const isDone = status === "completed" && (row.outputPath === undefined || (await isThere(attempt, disk)));
  return isDone ? { kind: "done", id, file } : { kind: "running", attempt: { ...attempt, id } };
}

/** Whether the video of an attempt is where it was saved. Earlier versions have written nothing down that it could be known by. */
async function isThere({ file, content }: ResultLine, disk: Disk): Promise<boolean> {
  if (file === null) return false;
  if (content) return hasContent(file, content, disk);
  return disk.stat(file).then(
    (found) => found.isFile() && found.size > 0,
    () => false,
  );
}

function changedFault({ line, id = "" }: KeyedRow, earlier: ResultLine): string {
  const where = earlier.line > 0 ? `line ${earlier.line} of an earlier run` : "an earlier run";
  const outcome = earlier.id === null ? `attempt ${earlier.attempt}` : `generation ${earlier.id}`;
  return `line ${line}: "${shorten(id)}" is a different request from ${where}, which was started at ${earlier.started_at.slice(0, 16)}Z (${outcome}); give this row another id`;
}

const maxFaults = 50;

/** Throws `usage` with the first faults of a file, a line each; nothing when there are none. */
export function throwFaults(faults: readonly string[]): void {
  if (faults.length === 0) return;
  const more = faults.length > maxFaults ? [`... and ${faults.length - maxFaults} more`] : [];
  const count = faults.length === 1 ? "1 fault" : `${faults.length} faults`;
  throw usage(`The file has ${count}; nothing was sent.`, [...faults.slice(0, maxFaults), ...more].join("\n"));
}
