import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { BatchStatus } from "../../client/batch/status.ts";
import { countRows } from "../../connect/format.ts";
import { type CommandErrorCode, VidgenError } from "../../errors.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { correctHint } from "../terminal/batch-report.ts";

export function addBatchStatus(batch: CommandUnknownOpts, { io, output }: Context): void {
  const command = batch
    .command("status")
    .summary("show the progress of a batch")
    .description(
      "Counts the rows in the results files of a batch or of its shards, and lists the rows that are not done.",
    )
    .argument("<results...>", "results files, or the batch file, which means all of its results files")
    .action(async (typed) => {
      const { readStatus } = await import("../../client/batch/status.ts");
      const { findResultsOf } = await import("../../client/batch/rows-file.ts");
      const { findJournal } = await import("../../connect/services.ts");
      const { readAttempts } = await import("../../client/ledger/search.ts");
      const { foldEntry } = await import("../../client/ledger/history.ts");
      const journal = findJournal({ ...io, onNote: output.note });
      const attempts = await readAttempts(journal);
      const entries = attempts.map(foldEntry);
      const paths = await Promise.all(typed.map((path) => findResultsOf(path, entries, io.disk)));
      const status = await readStatus([...new Set(paths.flat())], io, attempts);
      await output.result(describe(status), status);
      const error = endOf(status);
      if (error) throw error;
    });
  withDetails(command, {
    examples: ["vidgen batch status shots.csv", "vidgen batch status shots.csv.*.results.jsonl"],
  });
}

function describe({ rows, open, shards, double_rows, ...counts }: BatchStatus): string {
  const list = (numbers: number[]) => numbers.map((number) => `${number}/${shards?.of}`).join(", ");
  const notes = [
    ...(shards && shards.missing.length > 0 ? [`missing shards: ${list(shards.missing)}`] : []),
    ...(shards && shards.double.length > 0 ? [`duplicate shards: ${list(shards.double)}`] : []),
    ...(double_rows.length > 0 ? [`paid for more than once: ${double_rows.slice(0, 10).join(", ")}`] : []),
  ];
  const lines = open.map(
    ({ line, row, status, id, attempt, error }) =>
      `line ${line}\t${row}\t${wordOf(status)}\t${id ?? attempt}\t${error?.message ?? ""}`,
  );
  const { done, deleted, running, failed, unknown, lost, missing } = counts;
  const deletedRows = deleted === 0 ? "" : ` (${deleted} deleted)`;
  const lostRows = lost === 0 ? "" : `, ${lost} lost`;
  const first = `${countRows(rows)}: ${done} done${deletedRows}, ${running} running, ${failed} failed, ${unknown} unknown${lostRows}, ${missing} missing`;
  return [first, ...notes, ...lines].join("\n");
}

/**
 * The status of a row that is not done, as one or two words. If its generation is completed, its video is not
 * saved; if it is still starting, nobody knows whether the start was charged.
 */
function wordOf(status: BatchStatus["open"][number]["status"]): string {
  if (status === "completed") return "not saved";
  if (status === "starting") return "unknown";
  return status === "processing" ? "running" : status;
}

/**
 * Whether a row was refused because of its request, which must be corrected: no run starts it again by
 * itself. A refusal with an id, which may have been charged, has the code "unknown".
 */
function isRequestRefused(error: BatchStatus["open"][number]["error"]): boolean {
  return error?.code === "rejected" || error?.code === "unknown";
}

/** The error that `batch` would end with: `pending` if rows only remain to be started or followed. */
function endOf({
  rows,
  done,
  unknown,
  lost,
  failed,
  missing,
  running,
  open,
  shards,
  double_rows,
}: BatchStatus): VidgenError | undefined {
  const areShardsIncomplete = shards !== null && shards.missing.length + shards.double.length > 0;
  const isSetIncomplete = double_rows.length > 0 || areShardsIncomplete;
  if (done === rows && !isSetIncomplete) return undefined;
  const codes: [CommandErrorCode, number][] = [
    ["unknown", unknown],
    ["not_found", lost],
    ["failed", failed],
    ["pending", missing + running + Number(isSetIncomplete)],
  ];
  const code = codes.find(([, count]) => count > 0)?.[0] ?? "pending";
  const message = done === rows ? "The results files are not one complete set." : `${done} of ${countRows(rows)} done.`;
  const sameCommand = "the same `vidgen batch` command";
  const refused = open
    .filter(({ status, error }) => status === "refused" && isRequestRefused(error))
    .map(({ line }) => line);
  const hints = [
    ...(unknown + lost > 0
      ? [`Check your account. Unknown and lost rows start again only if you add --retry-unknown to ${sameCommand}.`]
      : []),
    ...(refused.length > 0 ? [correctHint(refused, sameCommand)] : []),
    ...(failed > refused.length
      ? [`To start failed rows again (each is charged again), add --retry-failed to ${sameCommand}.`]
      : []),
    ...(missing + running > 0 ? [`To continue, run ${sameCommand}: no row is paid for twice.`] : []),
    ...(areShardsIncomplete ? ["Name the results file of each shard exactly once."] : []),
  ];
  return new VidgenError(code, message, { hint: hints.join("\n") });
}
