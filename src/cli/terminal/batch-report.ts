import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Batch } from "../../client/batch/batch.ts";
import type { BatchCounts } from "../../client/batch/counts.ts";
import type { PlannedRow } from "../../client/batch/plan.ts";
import type { RunEnd } from "../../client/batch/run.ts";
import { asVidgenError, type ErrorCode, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { flagWords } from "../command.ts";
import { quote } from "../context.ts";
import { programName } from "./output.ts";
import { formatNumber } from "./tally.ts";

/** What a batch will do, as a person reads it before it does so. */
export function describePlan(
  { plan, rows }: Batch,
  { results, isLocal }: { results: string; isLocal: boolean },
): string {
  const { done, running, failed, unknown, to_start, models, credits, remaining_credits } = plan;
  const parts: [string, number][] = [
    ["done", done],
    ["running", running],
    ["failed", failed],
    ["unknown", unknown],
    ["to start", to_start],
  ];
  const counts = parts.flatMap(([name, count]) => (count > 0 || name === "to start" ? [`${count} ${name}`] : []));
  const starts = models.map(
    ({ model, to_start, credits }) => `  ${model}: ${to_start} to start${isLocal ? "" : `, ${formatCost(credits)}`}`,
  );
  const left = remaining_credits === null ? "" : `; ${formatNumber(remaining_credits)} credits left`;
  const total = isLocal || to_start === 0 ? [] : [`Cost: ${formatCost(credits)}${left}.`];
  const unclear = rows.flatMap(({ line, state }) => (state.kind === "unknown" ? [{ ...state.attempt, line }] : []));
  const notes = unclear
    .slice(0, maxShown)
    .map(
      ({ line, attempt, started_at }) =>
        `  line ${line} may have been charged: attempt ${attempt}, ${started_at.slice(0, 16)}Z`,
    );
  return [`${rows.length} rows: ${counts.join(", ")} (${results})`, ...starts, ...total, ...notes].join("\n");
}

const maxShown = 10;

function formatCost(credits: number | null): string {
  return credits === null ? "cost unknown" : `about ${formatNumber(credits)} credits`;
}

/** When several apply, the first of these decides the exit code. */
const order: readonly ErrorCode[] = [
  "unknown",
  "auth",
  "credits",
  "failed",
  "output",
  "network",
  "rejected",
  "pending",
];

type Ended = { end: RunEnd; counts: BatchCounts };

type How = { file: string; command: CommandUnknownOpts } & Record<string, unknown>;

/** The error that a batch ends with, with what to do next; `undefined` when every row is done. */
export function endOfBatch(
  { rows }: Batch,
  ended: Ended,
  how: How,
  io: Pick<Io, "env" | "signal">,
): VidgenError | undefined {
  const { end, counts } = ended;
  const { done, total, unknown, failed, refused, running, unsent, to_start } = counts;
  const [failure] = end.failures;
  if (done === total && failure === undefined) return undefined;
  const code = codeOf(rows, end, io);
  const parts: [string, number][] = [
    ["may have been charged", unknown],
    ["failed", failed + refused],
    ["running", running],
    ["not started", to_start + unsent],
  ];
  const others = parts.flatMap(([name, count]) => (count > 0 ? [`${count} ${name}`] : []));
  const reason = end.stopped ?? (done === total ? failure?.ended.error : undefined);
  const why = reason ? ` ${reason.message}` : "";
  const message = `${done} of ${total} rows are done${others.length > 0 ? `; ${others.join(", ")}` : ""}.${why}`;
  const { file, command, retryFailed, retryUnknown, dryRun, ...flags } = how;
  const words = ["batch", file, ...flagWords(command, flags)].map(quote).join(" ");
  const hints = [
    ...(unknown > 0
      ? [
          "Check your account for the rows that may have been charged: they are left alone. `vidgen list --dismiss <attempt>` clears one, --retry-unknown starts them all again.",
        ]
      : []),
    ...(failed + refused > 0 ? ["--retry-failed starts refused and failed rows again; each start is charged."] : []),
    `Go on with: ${programName(io.env)} ${words}`,
  ];
  return new VidgenError(code, message, { hint: hints.join("\n"), cause: end.stopped });
}

function codeOf(rows: readonly PlannedRow[], { stopped, failures }: RunEnd, { signal }: Pick<Io, "signal">): ErrorCode {
  const ofRun = failures.map(({ ended }) => codeOfRow(ended.status === "unknown" ? "unknown" : ended.error?.code));
  if (signal.aborted) return ofRun.includes("unknown") ? "unknown" : asVidgenError(signal.reason).code;
  const before = rows.flatMap(({ state }) => {
    if (state.kind === "unknown") return "unknown";
    return state.kind === "failed" ? codeOfRow(state.attempt.error?.code) : [];
  });
  const codes = [...before, ...ofRun, ...(stopped ? [codeOfRow(stopped.code)] : [])];
  return order.find((code) => codes.includes(code)) ?? "pending";
}

/** As one of those that decide: a generation that the service no longer has is lost like a failed one. */
function codeOfRow(code: ErrorCode | undefined): ErrorCode {
  if (code === "not_found") return "failed";
  return code !== undefined && order.includes(code) ? code : "rejected";
}
