import type { ErrorCode } from "../../errors.ts";
import { type HolderIo, readHolder } from "../../lease.ts";
import { findResults, lockOf, type ResultLine, readResults, type Source } from "./results.ts";

/** How many rows are where. */
export type RowCounts = { done: number; running: number; failed: number; unknown: number; missing: number };

/** What results files say together. */
export type BatchStatus = RowCounts & {
  /** As far as the files say how many there are. */
  rows: number;
  /** The rows that are not done, each at the attempt that tells how it stands. */
  open: ResultLine[];
  shards: { of: number; missing: number[]; double: number[] } | null;
  /** Rows that more than one file has. */
  double_rows: string[];
};

/** Reads what the runs of a batch, or of its shards, have written down. Throws `usage` and `output` as `readResults` does. */
export async function readStatus(paths: readonly string[], io: HolderIo): Promise<BatchStatus> {
  const byRow = new Map<string, ResultLine[]>();
  const doubles = new Set<string>();
  const sources: Source[] = [];
  for (const path of paths) {
    const { source, attempts } = await readResults(path, io.disk, { mustExist: true });
    if (source) sources.push(source);
    for (const row of new Set(attempts.map(({ row }) => row))) if (byRow.has(row)) doubles.add(row);
    const isLive = (await readHolder(lockOf(await findResults(path, io.disk)), io)) !== undefined;
    for (const read of attempts) {
      // While the batch runs, a start that is out is on its way.
      const attempt = isLive && read.status === "starting" ? { ...read, status: "processing" as const } : read;
      const known = byRow.get(attempt.row);
      if (known) known.push(attempt);
      else byRow.set(attempt.row, [attempt]);
    }
  }
  const counts: RowCounts = { done: 0, running: 0, failed: 0, unknown: 0, missing: 0 };
  const open: ResultLine[] = [];
  for (const attempts of byRow.values()) {
    const attempt = findDeciding(attempts);
    if (attempt === undefined) continue;
    const kind = kindOfRow(attempt);
    counts[kind]++;
    if (kind !== "done") open.push(attempt);
  }
  const shards = findShards(sources);
  const rows = Math.max(byRow.size, ...sources.map((source) => (shards ? source.total : source.rows)));
  counts.missing += rows - byRow.size;
  return { rows, ...counts, open, shards, double_rows: [...doubles] };
}

/**
 * The attempt that tells how a row stands: one that was paid for, else one that may have been, else the last. Not the last in any case: the
 * clocks of two machines, or one that is set back, may put a refused attempt after one that was paid for.
 */
export function findDeciding(attempts: readonly ResultLine[]): ResultLine | undefined {
  const isPaid = ({ id, status }: ResultLine) => id !== null && status !== "failed";
  return attempts.findLast(isPaid) ?? attempts.findLast(isUnclear) ?? attempts.at(-1);
}

/** Whether an attempt may have been charged, and has no id. */
export function isUnclear({ id, status }: ResultLine): boolean {
  return id === null && (status === "starting" || status === "unknown");
}

/** A row that was not charged is missing: the next run starts it. */
export function kindOfRow({ status, error, id }: ResultLine): keyof RowCounts {
  if (status === "completed") return error === null ? "done" : "running";
  if (status === "unsent" || (status === "refused" && isGeneral(error?.code))) return "missing";
  if (status === "failed" || status === "refused") return "failed";
  return status === "processing" || id !== null ? "running" : "unknown";
}

/** Whether a start was refused for a reason that is not the row's own, such as the key or the credits: the next run tries again. */
export function isGeneral(code: ErrorCode | undefined): boolean {
  return code !== undefined && code !== "rejected";
}

function findShards(sources: readonly Source[]): BatchStatus["shards"] {
  const given = sources.flatMap(({ shard }) => (shard === null ? [] : [shard.split("/").map(Number)]));
  const of = given[0]?.[1];
  if (of === undefined) return null;
  const counts = new Map<number, number>();
  for (const [index = 0] of given) counts.set(index, (counts.get(index) ?? 0) + 1);
  const all = Array.from({ length: of }, (_, i) => i + 1);
  return {
    of,
    missing: all.filter((index) => !counts.has(index)),
    double: all.filter((index) => (counts.get(index) ?? 0) > 1),
  };
}
