import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Batch, BatchPlan } from "../../client/batch/batch.ts";
import type { Budget, Costs } from "../../client/batch/costs.ts";
import type { PlannedRow } from "../../client/batch/row-state.ts";
import type { RunEnd } from "../../client/batch/run.ts";
import { countsCredits, type ExpectedCost } from "../../client/generation/cost.ts";
import { type BatchCounts, isGeneralRefusal } from "../../client/generation/events.ts";
import type { Service } from "../../client/generation/service.ts";
import type { Entry } from "../../client/ledger/history.ts";
import { countRows, formatExpected, nameLines } from "../../connect/format.ts";
import { asVidgenError, type CommandErrorCode, compareSeverity, type ErrorCharge, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { countCredits, formatNumber, formatUsd } from "../../protocol/text.ts";
import type { ShellIo } from "../../shell.ts";
import { flagWords } from "../command.ts";
import { lineOf } from "../resume.ts";

/** The plan of a batch, printed before it starts. */
export function describePlan(
  { plan, rows, upToDate, costs, cost }: Pick<Batch, "plan" | "rows" | "upToDate" | "costs" | "cost">,
  { results, service, budget }: { results: string; service: Service; budget: Budget },
): string {
  const { done, deleted, running, failed, unknown, lost, blocked, to_start, models, remaining_credits, chains } = plan;
  const { unpriced } = plan;
  const parts: [string, number][] = [
    [deleted === 0 ? "done" : `done (${deleted} deleted)`, done],
    ["running", running],
    ["failed", failed],
    ["unknown", unknown],
    ["lost", lost],
    ["blocked", blocked],
    ["to start", to_start],
  ];
  const counts = parts.flatMap(([name, count]) => (count > 0 || name === "to start" ? [`${count} ${name}`] : []));
  const starts = models.map(
    (each) =>
      `  ${each.model}: ${each.to_start} to start${cost.kind === "free" ? "" : describeModelPrice(each, service)}`,
  );
  const hasCredits = models.some(({ model }) => countsCredits(service, model));
  const left = hasCredits && remaining_credits !== null ? `; ${countCredits(remaining_credits)} left` : "";
  const more = unpriced === 0 || unpriced === to_start ? "" : ` (${countRows(unpriced)})`;
  const total = to_start === 0 ? [] : [`Cost: ${formatExpected(cost) ?? "unknown"}${more}${left}.`];
  const limit = hasCredits ? describeLimit(rows, costs, budget) : undefined;
  const unclear = rows.flatMap(({ line, state }) =>
    state.kind === "unknown" || state.kind === "lost" ? [{ ...state.attempt, line }] : [],
  );
  const shown = listSome(unclear.map(describeUnclear));
  const order = to_start === 0 ? [] : listSome(chains.map((lines) => `  in this order: lines ${lines.join(", ")}`));
  const held = listSome(rows.flatMap(describeBlocked));
  const redone = [...describeRedone(rows, cost), ...describeUpToDate(upToDate)];
  const notes = [...redone, ...order, ...(limit === undefined ? [] : [limit]), ...shown, ...held];
  return [`${countRows(rows.length)}: ${counts.join(", ")} (${results})`, ...starts, ...total, ...notes].join("\n");
}

/** The rows that are made again, in this run or because an earlier one was killed, and where their old videos are kept. */
function describeRedone(rows: readonly PlannedRow[], cost: ExpectedCost): string[] {
  const redone = rows.filter(({ state }) => state.kind === "new" && state.redo !== undefined);
  if (redone.length === 0) return [];
  const isContinued = redone.every(({ state }) => state.kind === "new" && state.redoneRow === undefined);
  const what = `Made again${cost.kind === "free" ? "" : ", and paid for again"}`;
  const why = isContinued ? ", as an earlier --redo said" : "";
  const kept = redone.flatMap(({ line, state }) =>
    state.kind === "new" && state.keptVideo ? `  line ${line}: the old video becomes ${state.keptVideo.to}` : [],
  );
  return [`${what}${why}: ${nameLines(redone.map(({ line }) => line))}.`, ...listSome(kept)];
}

function describeUpToDate(rows: readonly PlannedRow[]): string[] {
  if (rows.length === 0) return [];
  const [are, they] = rows.length === 1 ? ["is", "it was"] : ["are", "they were"];
  const lines = nameLines(rows.map(({ line }) => line)).replace("line", "Line");
  return [
    `${lines} ${are} up to date: ${they} made again before. For another one, which is paid for again, add --again.`,
  ];
}

/** How many rows the credits are enough for, if not for all. */
function describeLimit(rows: readonly PlannedRow[], costs: Costs, budget: Budget): string | undefined {
  const { maxCredits = Number.POSITIVE_INFINITY, keepCredits = 0 } = budget;
  const toStart = rows.filter(({ state }) => state.kind === "new");
  let spent = costs.spent();
  let left = costs.remainingCredits() ?? Number.POSITIVE_INFINITY;
  for (const [started, { record }] of toStart.entries()) {
    const cost = costs.expectedMax(record) ?? 0;
    spent += cost;
    left -= cost;
    if (spent <= maxCredits && left >= keepCredits) continue;
    const kept = keepCredits > 0 ? `, with --keep-credits ${keepCredits},` : "";
    const what = spent > maxCredits ? `--max-credits ${maxCredits} is` : `The remaining credits${kept} are`;
    const far = `about ${formatNumber(started)} of ${formatNumber(toStart.length)} rows`;
    return `${what} not enough for all rows: the batch will stop after ${far}.`;
  }
  return undefined;
}

const maxShown = 10;

function listSome(lines: string[]): string[] {
  const more = lines.length > maxShown ? [`  ... and ${lines.length - maxShown} more`] : [];
  return [...lines.slice(0, maxShown), ...more];
}

function describeBlocked({ line, state }: PlannedRow): string[] {
  if (state.kind !== "blocked") return [];
  const { by, isDeleted } = state;
  const why = isDeleted ? `whose video was deleted; --redo ${by.key} makes it again` : "which has no video";
  return [`  line ${line} is not started: it depends on line ${by.line}, ${why}`];
}

function describeUnclear({ line, state, attempt, id, at, base_url }: Entry): string {
  const time = `${at.slice(0, 16)}Z, at ${base_url}`;
  if (state === "lost")
    return `  line ${line} was charged, and the service no longer knows it: generation ${id}, ${time}`;
  const named = id === undefined ? "" : `; \`vidgen wait ${id}\` fetches it`;
  return `  line ${line} may have been charged: attempt ${attempt}, ${time}${named}`;
}

/** The text about the price of a model's rows. */
function describeModelPrice(
  { model, to_start, credits, cost, unpriced }: BatchPlan["models"][number],
  service: Service,
): string {
  if (service.isFree(model)) return ", free";
  if (credits !== null) return `, about ${countCredits(credits)}`;
  if (cost !== null) return `, about ${formatUsd(cost)}`;
  return unpriced === to_start ? ", cost unknown" : `, cost of ${countRows(unpriced)} unknown`;
}

type BatchEnd = { end: RunEnd; counts: BatchCounts };

type ReportOptions = {
  results: string;
  /** Whether starts cost credits. If so, the remaining credits are printed. */
  hasCredits: boolean;
  /** Whether all rows are free. */
  isFree: boolean;
  /** The command line, to be printed again. */
  flags: { file: string; command: CommandUnknownOpts } & Record<string, unknown>;
};

/** The error that a batch ends with, and what to do next; `undefined` if every row is done. */
export function createBatchError(
  { rows, plan }: Batch,
  ended: BatchEnd,
  options: ReportOptions,
  io: ShellIo & Pick<Io, "program" | "signal">,
): VidgenError | undefined {
  const { end, counts } = ended;
  const { results, hasCredits, isFree } = options;
  const { done, total, unknown, lost, failed, refused, running, unsent, to_start, remaining_credits } = counts;
  const [failure] = end.failures;
  if (done === total && failure === undefined) return undefined;
  const code = codeOf(rows, end, io);
  const parts: [string, number][] = [
    ["may have been charged", unknown],
    ["lost", lost],
    ["failed", failed + refused],
    ["running", running],
    ["not started", to_start + unsent],
  ];
  const others = parts.flatMap(([name, count]) => (count > 0 ? [`${count} ${name}`] : []));
  const reason = end.stopError ?? (done === total ? failure?.ended.error : undefined);
  const why = reason ? ` ${reason.message.replace(/\.?$/, ".")}` : "";
  const rowsDone = `${done} of ${countRows(total)} done`;
  const left = remaining_credits === null || !hasCredits ? "" : ` ${formatNumber(remaining_credits)} credits are left.`;
  const message = `${rowsDone}${others.length > 0 ? `; ${others.join(", ")}` : ""}.${why}${left}`;
  // The line without --redo continues it; with --again, the same line could pay once more.
  const { file, command, retryFailed, retryUnknown, redo, again, dryRun, ...flags } = options.flags;
  const typed = ["batch", file, ...flagWords(command, flags)];
  const sameBatch = { argv: ["vidgen", ...typed], pays: true };
  const details = { argv: ["vidgen", "batch", "status", results], pays: false };
  const words = lineOf(sameBatch, io);
  const isOpen = running + unsent + to_start > plan.blocked + end.blocked;
  const isBlocked = wouldStopAgain(end, io);
  const solution = isBlocked ? end.stopError?.hint : undefined;
  // The most urgent hint first, because nobody reads more than a few lines.
  const hints = [
    ...(unknown + lost > 0
      ? [`Check your account. Unknown and lost rows start again only with: ${words} --retry-unknown`]
      : []),
    ...(solution === undefined ? [] : [solution]),
    ...(isOpen ? [`${isBlocked ? "Once that is fixed, continue" : "Continue"} with: ${words}`] : []),
    ...(refused > 0 ? [correctHint(findRefused(rows, end), words)] : []),
    ...(failed > 0
      ? [`Start failed rows again${isFree ? "" : " (each is charged again)"} with: ${words} --retry-failed`]
      : []),
    `Row details: ${lineOf(details, io)}`,
  ];
  const next = [isOpen ? sameBatch : details];
  const charged = chargeOf(counts, isFree) ?? end.stopError?.charged;
  return new VidgenError(code, message, { hint: hints.slice(0, 3).join("\n"), charged, next, cause: end.stopError });
}

/** Whether rows were charged, in this run or before. */
function chargeOf({ done, running, failed, lost, unknown }: BatchCounts, isFree: boolean): ErrorCharge | undefined {
  if (unknown > 0) return "maybe";
  if (done + running + failed + lost === 0) return undefined;
  return isFree ? "no" : "yes";
}

/** The lines of rows that the service refused because of their own request, in this run or before. */
function findRefused(rows: readonly PlannedRow[], { failures }: RunEnd): number[] {
  const before = rows.flatMap(({ line, state }) =>
    state.kind === "failed" && state.attempt.state === "refused" ? line : [],
  );
  const now = failures.flatMap(({ row, ended }) =>
    ended.status === "refused" && !isGeneralRefusal(ended.error?.code) ? row.line : [],
  );
  return [...new Set([...before, ...now])].sort((a, b) => a - b);
}

/** Refused rows cost nothing; unchanged, they would be refused again. */
export function correctHint(lines: readonly number[], command: string): string {
  const shown = `${lines.slice(0, maxShown).join(", ")}${lines.length > maxShown ? ", ..." : ""}`;
  const [what, was] = lines.length === 1 ? ["line", "was"] : ["lines", "were"];
  return `Correct ${what} ${shown}, which ${was} refused and cost nothing, then run: ${command}`;
}

/** Whether the same command would stop at once: no credits, no valid key or no connection. */
function wouldStopAgain({ stopError }: RunEnd, { signal }: Pick<Io, "signal">): boolean {
  return !signal.aborted && stopError !== undefined && ["auth", "credits", "network"].includes(stopError.code);
}

function codeOf(
  rows: readonly PlannedRow[],
  { stopError, failures }: RunEnd,
  { signal }: Pick<Io, "signal">,
): CommandErrorCode {
  const ofRun = failures.map(({ ended }) => codeOfRow(ended.status === "unknown" ? "unknown" : ended.error?.code));
  if (signal.aborted) return ofRun.includes("unknown") ? "unknown" : asVidgenError(signal.reason).code;
  const before = rows.flatMap(({ state }) => {
    if (state.kind === "unknown") return "unknown";
    if (state.kind === "lost") return "not_found";
    return state.kind === "failed" ? codeOfRow(state.attempt.code ?? "failed") : [];
  });
  const codes = [...before, ...ofRun, ...(stopError ? [codeOfRow(stopError.code)] : [])];
  const [worst] = codes.map((code) => ({ code })).sort(compareSeverity);
  return worst?.code ?? "pending";
}

/** A changed image is not an error of the command line, and a bug is reported as one only if it ends the command. */
function codeOfRow(code: CommandErrorCode | undefined): CommandErrorCode {
  return code === undefined || code === "usage" || code === "bug" ? "rejected" : code;
}
