import type { CommandErrorCode } from "../../errors.ts";
import { type HolderIo, readHolder } from "../../lease.ts";
import { isGeneralRefusal } from "../generation/events.ts";
import { type AttemptState, blocksRestart, type Status, statusOf } from "../ledger/attempt.ts";
import { hasContent } from "../ledger/content.ts";
import { type AttemptLines, type Entry, foldEntry, type RunLine } from "../ledger/history.ts";
import { distinctStarts } from "../ledger/price.ts";
import { findAttempts } from "./ledger.ts";
import { readRedos } from "./redo-lines.ts";
import { findResults, lockOf, type Results, readResults } from "./results.ts";

/** The number of rows in each state; `deleted` of those that are done were saved and then deleted. */
export type RowCounts = {
  done: number;
  deleted: number;
  running: number;
  failed: number;
  /** May have been charged. */
  unknown: number;
  /** Charged, and the service no longer knows the generation. */
  lost: number;
  missing: number;
};

/** The combined status of several results files. */
export type BatchStatus = RowCounts & {
  /** The number of rows, as stated in the files. */
  rows: number;
  /** The rows without a saved video, each with its deciding attempt. */
  open: OpenRow[];
  /** `null` without shards, and for files with different numbers of shards. */
  shards: { of: number; missing: number[]; double: number[] } | null;
  /** Rows that were paid for more than once. */
  double_rows: string[];
};

/** A row's deciding attempt, with the field names of `--json`. */
export type OpenRow = {
  row: string;
  line: number;
  attempt: string;
  started_at: string;
  model: string;
  id: string | null;
  status: Status;
  file: string | null;
  error: { code: CommandErrorCode; message: string } | null;
  credits: number | null;
  cost: number | null;
};

/**
 * Reads the results files of a batch, or of its shards, and what the journal knows of their attempts. Throws
 * `usage` and `output` as `readResults` does.
 */
export async function readStatus(
  paths: readonly string[],
  io: HolderIo,
  journalAttempts: readonly AttemptLines[] = [],
): Promise<BatchStatus> {
  const files: Results[] = [];
  const realPaths = new Set<string>();
  const liveAttempts = new Set<string>();
  for (const path of paths) {
    const results = await readResults(path, io.disk, { mustExist: true });
    const realPath = await findResults(path, io.disk);
    realPaths.add(realPath);
    const isLive = (await readHolder(lockOf(realPath), io)) !== undefined;
    for (const [{ attempt }] of isLive ? results.attempts : []) liveAttempts.add(attempt);
    files.push(results);
  }
  const sources = files.flatMap(({ lastRun }) => lastRun ?? []);
  const entries = findAttempts(files, { journalAttempts, paths: realPaths }).map(foldEntry);
  for (const entry of entries) {
    // The batch still runs, and its process waits for the reply.
    if (entry.state === "sending" && liveAttempts.has(entry.attempt)) entry.state = "running";
  }
  const counts: RowCounts = { done: 0, deleted: 0, running: 0, failed: 0, unknown: 0, lost: 0, missing: 0 };
  const openRows: OpenRow[] = [];
  const double_rows: string[] = [];
  const activeEntries = entries.filter(({ status }) => status !== "dismissed");
  const journalNames = journalAttempts.map(([{ attempt }]) => attempt);
  const redoLines = files.flatMap(({ redos }) => redos);
  const { replacedAttempts } = readRedos(redoLines, activeEntries, journalNames);
  const byRow = groupByRow(activeEntries.filter(({ attempt }) => !replacedAttempts.has(attempt)));
  const services = new Set(sources.map(({ service }) => service));
  for (const [row, attempts] of byRow) {
    const here = attempts.filter(({ base_url }) => services.has(base_url));
    const current = findDeciding(here);
    const isStarted = current !== undefined && kindOfRow(current) !== "missing";
    const attempt = isStarted ? current : (findElsewhere(attempts.filter((each) => !here.includes(each))) ?? current);
    if (distinctStarts(here).filter(isPaid).length > 1) double_rows.push(row);
    if (attempt === undefined) {
      counts.missing++;
      continue;
    }
    const kind = kindOfRow(attempt);
    counts[kind]++;
    const isDeleted = kind === "done" && (await isFileDeleted(attempt, io));
    if (isDeleted) counts.deleted++;
    if (kind !== "done" || isDeleted) openRows.push(describeRow(attempt));
  }
  const rows = Math.max(byRow.size, ...sources.map(({ total }) => total));
  counts.missing += rows - byRow.size;
  return { rows, ...counts, open: openRows, shards: findShards(sources), double_rows };
}

export function groupByRow(attempts: readonly Entry[]): Map<string, Entry[]> {
  const byRow = new Map<string, Entry[]>();
  for (const attempt of attempts) {
    const { row = "" } = attempt;
    const attemptsOfRow = byRow.get(row);
    if (attemptsOfRow) attemptsOfRow.push(attempt);
    else byRow.set(row, [attempt]);
  }
  return byRow;
}

/**
 * The attempt that decides a row's state: a paid attempt, else an attempt that may have been paid for or is
 * lost, else the last attempt. The last is not enough, because with wrong clocks a refused attempt may come
 * after a paid one. Attempts that share a key are one.
 */
export function findDeciding(attempts: readonly Entry[]): Entry | undefined {
  const starts = distinctStarts(attempts);
  return starts.findLast(isPaid) ?? starts.findLast(({ state }) => blocksRestart(state)) ?? starts.at(-1);
}

/**
 * Returns the attempt at another path of the same origin that stops the row here: one that may have been
 * charged, else a lost one, else one whose video was not delivered. That path may be the same service, which
 * would charge for the row twice. A finished attempt there does not stop the row.
 */
export function findElsewhere(attempts: readonly Entry[]): Entry | undefined {
  const kinds: readonly (keyof RowCounts)[] = ["unknown", "lost", "running"];
  const open = kinds.map((kind) => attempts.find((each) => !each.removed && kindOfRow(each) === kind));
  return open.find((each) => each !== undefined);
}

/** Whether the video of an attempt was saved, and then deleted at the service and here, as `vidgen delete --files` does. */
async function isFileDeleted({ removed, file, content }: Entry, { disk }: HolderIo): Promise<boolean> {
  if (!removed || file === undefined) return false;
  return content === undefined || !(await hasContent(file, content, disk));
}

/** Whether an attempt has a video, or will get one. */
function isPaid(attempt: Entry): boolean {
  return ["done", "running"].includes(kindOfRow(attempt));
}

/** The state of a row by that of its deciding attempt. */
const kindOfState: Readonly<Record<AttemptState, keyof RowCounts>> = {
  sending: "unknown",
  unsent: "missing",
  refused: "failed",
  unknown: "unknown",
  running: "running",
  ready: "running",
  delivered: "done",
  failed: "failed",
  lost: "lost",
};

/**
 * The state of a row. An uncharged attempt that ended for a general reason, such as a wrong key, counts as
 * missing: the next run starts the row.
 */
export function kindOfRow({ state, id, code, removed }: Entry): keyof RowCounts {
  if (removed && kindOfState[state] === "running") return "lost";
  // A refusal with an id may have been charged. A failure has a code only if nothing was charged.
  const isUncharged =
    state === "refused" ? id === undefined && isGeneralRefusal(code) : state === "failed" && code !== undefined;
  return isUncharged ? "missing" : kindOfState[state];
}

/** Rows in these states are not started again without --retry-failed, --retry-unknown or --redo. */
export const kindsLeftAlone: ReadonlySet<string> = new Set<keyof RowCounts>(["unknown", "lost", "failed", "deleted"]);

function describeRow(entry: Entry): OpenRow {
  const { row = "", line = 0, attempt, at, request, state, code, reason } = entry;
  const hasError = state === "refused" || state === "unsent" || state === "unknown" || state === "failed";
  const error = { code: code ?? (state === "failed" ? state : "unknown"), message: reason ?? "" };
  return {
    row,
    line,
    attempt,
    started_at: at,
    model: request.model,
    id: entry.id ?? null,
    status: statusOf(state, { isRemoved: entry.removed }),
    file: entry.file ?? null,
    error: hasError ? error : null,
    credits: entry.credits ?? null,
    cost: entry.cost ?? null,
  };
}

function findShards(sources: readonly RunLine[]): BatchStatus["shards"] {
  const shards = sources.flatMap(({ shard }) => (shard === null ? [] : [shard.split("/").map(Number)]));
  const of = shards[0]?.[1];
  if (of === undefined || shards.some(([, count]) => count !== of)) return null;
  const counts = new Map<number, number>();
  for (const [index = 0] of shards) counts.set(index, (counts.get(index) ?? 0) + 1);
  const all = Array.from({ length: of }, (_, i) => i + 1);
  return {
    of,
    missing: all.filter((index) => !counts.has(index)),
    double: all.filter((index) => (counts.get(index) ?? 0) > 1),
  };
}
