import { type HolderIo, readHolder } from "../../lease.ts";
import { isGeneral } from "../events.ts";
import { findResults, lockOf, type ResultLine, type ResultsSource, readResults } from "./results.ts";

/** How many rows are where. */
export type RowCounts = {
  done: number;
  running: number;
  failed: number;
  /** May have been charged. */
  unknown: number;
  /** Charged, and the service no longer knows the generation. */
  lost: number;
  missing: number;
};

/** What results files say together. */
export type BatchStatus = RowCounts & {
  /** As far as the files say how many there are. */
  rows: number;
  /** The rows that are not done, each at the attempt that tells how it stands. */
  open: ResultLine[];
  /** `null` where there are none, and for files of different numbers of shards: then the rows tell what is missing. */
  shards: { of: number; missing: number[]; double: number[] } | null;
  /** Rows that were paid for more than once. */
  double_rows: string[];
};

/** Reads what the runs of a batch, or of its shards, have written down. Throws `usage` and `output` as `readResults` does. */
export async function readStatus(paths: readonly string[], io: HolderIo): Promise<BatchStatus> {
  const attempts: ResultLine[] = [];
  const sources: ResultsSource[] = [];
  for (const path of paths) {
    const results = await readResults(path, io.disk, { mustExist: true });
    if (results.source) sources.push(results.source);
    const isLive = (await readHolder(lockOf(await findResults(path, io.disk)), io)) !== undefined;
    // While the batch runs, a start that is out is on its way.
    for (const attempt of results.attempts)
      attempts.push(isLive && attempt.status === "starting" ? { ...attempt, status: "processing" } : attempt);
  }
  const counts: RowCounts = { done: 0, running: 0, failed: 0, unknown: 0, lost: 0, missing: 0 };
  const open: ResultLine[] = [];
  const double_rows: string[] = [];
  const byRow = groupByRow(mergeLines(attempts));
  for (const [row, known] of byRow) {
    const attempt = findDeciding(known);
    if (attempt === undefined) continue;
    if (known.filter(isPaid).length > 1) double_rows.push(row);
    const kind = kindOfRow(attempt);
    counts[kind]++;
    if (kind !== "done") open.push(attempt);
  }
  const rows = Math.max(byRow.size, ...sources.map(({ total }) => total));
  counts.missing += rows - byRow.size;
  return { rows, ...counts, open, shards: findShards(sources), double_rows };
}

/** From what is least known of an attempt to what is most. */
const ranks = ["starting", "unknown", "unsent", "refused", "processing", "lost", "failed", "completed"] as const;

/** How much a status tells of an attempt, compared with the others. */
export function rankOf(status: ResultLine["status"]): number {
  return ranks.indexOf(status);
}

/** One line for each attempt, the one that tells most, in the order in which they were started: several files may have lines about one. */
export function mergeLines(lines: readonly ResultLine[]): ResultLine[] {
  const merged = new Map<string, ResultLine>();
  const weightOf = ({ status, error }: ResultLine) => rankOf(status) + (error === null ? 0.5 : 0);
  for (const line of lines) {
    const known = merged.get(line.attempt);
    if (known === undefined || weightOf(line) > weightOf(known)) merged.set(line.attempt, line);
  }
  return [...merged.values()].sort((a, b) => a.started_at.localeCompare(b.started_at));
}

export function groupByRow(attempts: readonly ResultLine[]): Map<string, ResultLine[]> {
  const byRow = new Map<string, ResultLine[]>();
  for (const attempt of attempts) {
    const known = byRow.get(attempt.row);
    if (known) known.push(attempt);
    else byRow.set(attempt.row, [attempt]);
  }
  return byRow;
}

/**
 * The attempt that tells how a row stands: one that was paid for, else one that may have been or is lost, else the last. Not the last in any
 * case: the clocks of two machines, or one that is set back, may put a refused attempt after one that was paid for.
 */
export function findDeciding(attempts: readonly ResultLine[]): ResultLine | undefined {
  return attempts.findLast(isPaid) ?? attempts.findLast(isUnclear) ?? attempts.at(-1);
}

/** Whether an attempt has a generation whose video is there, or is to come. */
function isPaid(attempt: ResultLine): boolean {
  return ["done", "running"].includes(kindOfRow(attempt));
}

/** Whether an attempt may have been charged, or was, with nothing to follow: its row is started again only on purpose. */
export function isUnclear(attempt: ResultLine): boolean {
  return ["unknown", "lost"].includes(kindOfRow(attempt));
}

/** How a row stands by its deciding attempt. One that was not charged is missing: the next run starts it. */
export function kindOfRow({ status, error, id }: ResultLine): keyof RowCounts {
  switch (status) {
    case "completed":
      return error === null ? "done" : "running";
    case "processing":
      return "running";
    case "starting":
    case "unknown":
      return "unknown";
    case "lost":
      return status;
    case "failed":
      // Without credits or a key at the engine's provider, or without the engine, nothing was submitted.
      return ["credits", "auth", "network"].includes(error?.code ?? "") ? "missing" : status;
    case "refused":
      // Refused with an id it may have been charged all the same.
      return id === null && isGeneral(error?.code) ? "missing" : "failed";
    case "unsent":
      return "missing";
  }
}

function findShards(sources: readonly ResultsSource[]): BatchStatus["shards"] {
  const given = sources.flatMap(({ shard }) => (shard === null ? [] : [shard.split("/").map(Number)]));
  const of = given[0]?.[1];
  if (of === undefined || given.some(([, count]) => count !== of)) return null;
  const counts = new Map<number, number>();
  for (const [index = 0] of given) counts.set(index, (counts.get(index) ?? 0) + 1);
  const all = Array.from({ length: of }, (_, i) => i + 1);
  return {
    of,
    missing: all.filter((index) => !counts.has(index)),
    double: all.filter((index) => (counts.get(index) ?? 0) > 1),
  };
}
