import { asVidgenError, VidgenError } from "../../errors.ts";
import type { RetryIo } from "../http/retry.ts";
import { type Budget, type Costs, checkBudget, isLimited, mustRunAlone } from "./costs.ts";
import type { PlannedRow } from "./row-state.ts";
import { createSlots } from "./slots.ts";
import type { CollectedRow, createWork, RowEnd, RunningRow, Source } from "./work.ts";

export type RunOptions = Budget & {
  /** How many generations may run at once. */
  jobs: number;
  /** Starts nothing more after the first row that was refused or failed. */
  failFast?: boolean | undefined;
  signal: AbortSignal;
  onNote(text: string): void;
};

/** The result of a run. */
export type RunEnd = {
  /** Why some rows were not started, if there is a reason that concerns all of them, such as a spent budget. */
  stopError: VidgenError | undefined;
  /** The rows that are not done, except those that were not started because a row that they depend on failed. */
  failures: { row: PlannedRow; ended: RowEnd }[];
  /** How many rows were not started because the row that they depend on failed, and is not started again without an option. */
  blocked: number;
};

type RunDependencies = {
  work: ReturnType<typeof createWork>;
  costs: Costs;
  io: RetryIo;
  /** Adds the cost of what other shards of the batch have started since the last call. */
  countBeside(): Promise<void>;
  /** The error of a listener; after it nothing more is started. */
  findListenerError(): VidgenError | undefined;
};

/** After this many consecutive failures of one kind, the problem is probably not in the rows. */
const maxConsecutive = 3;
/** The longest Retry-After to wait for; a daily quota is longer. */
const maxRetryAfterMs = 3600_000;
/** How long a service may refuse all starts. */
const refusedLimitMs = 15 * 60_000;

/**
 * Starts rows one after the other, and follows the running ones concurrently. So at most one outcome can be
 * unknown at a time, and the balance after each start shows its cost.
 */
export async function runRows(
  { running, toStart, sources }: { running: RunningRow[]; toStart: PlannedRow[]; sources: Map<string, Source> },
  options: RunOptions,
  { work, costs, io, countBeside, findListenerError }: RunDependencies,
): Promise<RunEnd> {
  const { jobs, signal } = options;
  const slots = createSlots(jobs, io);
  const rowsToFollow = [...running].reverse();
  /** The rows that can be started, and those that wait for another row, by the key of that row. */
  const readyRows: PlannedRow[] = [];
  const dependents = new Map<string, PlannedRow[]>();
  for (const row of [...toStart].reverse()) {
    const { source } = row;
    if (source === undefined || sources.has(source)) readyRows.push(row);
    else if (!dependents.get(source)?.push(row)) dependents.set(source, [row]);
  }
  const failures: RunEnd["failures"] = [];
  let blockedRows = 0;
  const consecutiveFailures = { unknown: 0, unsent: 0, unclear: 0, notSubmitted: 0 };
  let stopError: VidgenError | undefined;
  const inFlight = new Set<PlannedRow>();
  let wake = () => {};
  const stop = (error: VidgenError) => {
    stopError ??= error;
  };
  const recordEnd = (row: PlannedRow, ended: RowEnd) => {
    const { error, status } = ended;
    if (status === "completed" && error === undefined) return;
    failures.push({ row, ended });
    if (error?.code === "auth" || (error?.code === "credits" && ["refused", "failed"].includes(status))) stop(error);
    if (options.failFast && error && ["refused", "failed"].includes(status)) stop(error);
  };
  /** After a row has ended: makes the rows that wait for it ready, or blocks them. */
  const releaseDependents = ({ key, line }: PlannedRow, { status, source, isLeftAlone }: CollectedRow) => {
    const next = dependents.get(key) ?? [];
    if (source) {
      sources.set(key, source);
      readyRows.push(...next);
    } else if (!stopError && !signal.aborted) {
      const blocked = next.map((row) => ({ row, by: { line, status } }));
      for (let each = blocked.pop(); each; each = blocked.pop()) {
        const { row } = each;
        if (isLeftAlone) blockedRows++;
        const by = { line: row.line, ...work.block(row, each.by) };
        for (const later of dependents.get(row.key) ?? []) blocked.push({ row: later, by });
      }
    }
  };
  const collect = (running: RunningRow) => {
    inFlight.add(running.row);
    const finish = async () => {
      const ended = await work.collect(running);
      recordEnd(running.row, ended);
      const { status, error } = ended;
      if (status === "completed") Object.assign(consecutiveFailures, { unclear: 0, notSubmitted: 0 });
      if (status === "unknown" && ++consecutiveFailures.unclear === maxConsecutive && error) stop(error);
      if (status === "failed" && error?.code === "network" && ++consecutiveFailures.notSubmitted === maxConsecutive)
        stop(error);
      releaseDependents(running.row, ended);
      inFlight.delete(running.row);
      slots.ended();
      wake();
    };
    void finish();
  };
  const start = async (row: PlannedRow) => {
    if (isLimited(options)) await countBeside();
    const resent = row.state.kind === "new" ? row.state.resends?.entry : undefined;
    const countAgain = resent && costs.leaveOut(resent);
    const reason = findListenerError() ?? checkBudget(row.record, options, costs);
    countAgain?.();
    if (reason) return stop(reason);
    const sent = await work.startRow(row, row.source === undefined ? undefined : sources.get(row.source));
    if (sent.kind === "not now") {
      if (slots.refusedForMs() === 0) options.onNote("The service accepts no more generations at the moment; waiting.");
      slots.refused(inFlight.size, sent.afterMs);
      readyRows.push(row);
      if ((sent.afterMs ?? 0) > maxRetryAfterMs)
        stop(
          new VidgenError(
            "network",
            "The service accepts no generations for more than an hour. Run the batch again later.",
          ),
        );
      if (slots.refusedForMs() > refusedLimitMs)
        stop(
          new VidgenError(
            "network",
            "The service has accepted no generation for 15 minutes. Run the batch again later.",
          ),
        );
      return;
    }
    const { kind } = sent;
    consecutiveFailures.unknown = kind === "ended" && sent.status === "unknown" ? consecutiveFailures.unknown + 1 : 0;
    consecutiveFailures.unsent = kind === "ended" && sent.status === "unsent" ? consecutiveFailures.unsent + 1 : 0;
    if (kind === "running") {
      slots.accepted(inFlight.size);
      return collect(sent.running);
    }
    recordEnd(row, sent);
    if (sent.error && (consecutiveFailures.unknown === maxConsecutive || consecutiveFailures.unsent === maxConsecutive))
      stop(sent.error);
    releaseDependents(row, sent);
  };
  const onAbort = () => {
    stop(asVidgenError(signal.reason));
    wake();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  for (;;) {
    const next = signal.aborted ? undefined : inFlight.size < jobs && rowsToFollow.pop();
    if (next) {
      collect(next);
      continue;
    }
    const row = stopError ? undefined : readyRows.at(-1);
    if (row === undefined && inFlight.size === 0) break;
    const running = Array.from(inFlight, ({ record }) => record);
    const mustWait = row && running.length > 0 && mustRunAlone(row.record, running, options, costs);
    const waitMs = row && !mustWait ? slots.waitMs(running.length) : undefined;
    if (row && waitMs === 0) {
      readyRows.pop();
      await start(row).catch((error) => stop(asVidgenError(error)));
      continue;
    }
    await pause(waitMs);
  }
  signal.removeEventListener("abort", onAbort);
  return { stopError: stopError ?? findListenerError(), failures, blocked: blockedRows };

  /** Resolves when a generation has ended, on abort, or after `waitMs`. */
  async function pause(waitMs: number | undefined) {
    const pauseEnd = new AbortController();
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const slept = waitMs === undefined ? [] : [io.sleep(waitMs, pauseEnd.signal).catch(() => {})];
    await Promise.race([woken, ...slept]);
    pauseEnd.abort();
  }
}
