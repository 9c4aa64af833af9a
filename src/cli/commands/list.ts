import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { isLoopback } from "../../client/credentials.ts";
import type { Entry } from "../../client/history.ts";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { type Context, localOption, withDetails } from "../command.ts";
import { plainLine } from "../terminal/output.ts";

export function addList(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => list(options, context));
}

function declare(program: CommandUnknownOpts) {
  const statuses = ["starting", "processing", "completed", "failed", "unknown", "unsent", "refused"] as const;
  const command = program
    .command("list")
    .summary("list what this machine has started")
    .description(
      "What this machine has started, newest first, from its journal: id, status, model, age, credits left, file, prompt.",
    )
    .addOption(new Option("--status <name>", "only those of one status").choices(statuses))
    .option("--limit <number>", "how many at the most", "30")
    .addOption(localOption("only those of the local service"));
  return withDetails(command, { prints: "a table", examples: ["vidgen list", "vidgen list --status unknown"] });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Prints what this machine has started, newest first, from the journal. Asks no service. */
async function list(options: Options, { io, output }: Context): Promise<void> {
  const entries = await choose(options, io);
  const documents = entries.map(({ request, reason, part: _, place: __, ...entry }) => ({
    ...entry,
    ...{ model: request.model, prompt: request.prompt, error: reason },
  }));
  const width = io.stdout.isTTY ? (io.stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
  await output.result(table(entries, width, io.date()).join("\n"), documents);
  if (entries.length === 0) output.note("Nothing was started here yet.");
  if (entries.some(({ status }) => isUnclear(status))) output.note(unclearNote);
}

const unclearNote =
  "Attempts without an id may have been charged: their answer never came. Look at your account for a generation of that time;\n" +
  "`vidgen wait <id>` fetches it. Starting the same again may pay twice.";

async function choose({ status, limit, local }: Options, io: Io): Promise<Entry[]> {
  if (!/^[1-9]\d{0,8}$/.test(limit)) throw usage(`--limit takes a whole number from 1, not "${limit}".`);
  const { findJournal } = await import("../context.ts");
  const entries = await (await findJournal(false, io)).journal.entries();
  const isWanted = (entry: Entry) =>
    (status === undefined || entry.status === status) && (!local || isLoopback(new URL(entry.base_url).hostname));
  return entries.filter(isWanted).slice(0, Number(limit));
}

/** One line per entry, in columns as wide as their longest cell; the prompt comes last and gets the rest of the width. */
function table(entries: Entry[], width: number, now: Date): string[] {
  const rows = entries.map((entry) => {
    const id = entry.id ?? `(${entry.attempt.slice(0, 8)})`;
    const status = isUnclear(entry.status) ? `${entry.status}!` : entry.status;
    const age = formatAge(now.getTime() - new Date(entry.at).getTime());
    const { remaining_credits: credits = "-", file = "", request } = entry;
    return [id, status, request.model, age, String(credits), file, request.prompt].map(plainLine);
  });
  const widths = [0, 1, 2, 3, 4, 5].map((i) => Math.max(0, ...rows.map((row) => row[i]?.length ?? 0)));
  const minWidth = widths.reduce((sum, each) => sum + each + 2, 0);
  if (minWidth > width) return rows.flatMap((row) => formatStacked(row, width));
  return rows.map((row) => {
    const columns = widths.map((columnWidth, i) => (row[i] ?? "").padEnd(columnWidth)).filter((cell) => cell !== "");
    const start = columns.join("  ");
    return `${start}  ${cut(row.at(-1) ?? "", width - start.length - 2)}`.trimEnd();
  });
}

/** An entry as several lines, for a terminal that is too narrow for columns. The file is never cut: half a path is of no use. */
function formatStacked(
  [id = "", status = "", model = "", age = "", credits = "", file = "", prompt = ""]: string[],
  width: number,
) {
  const facts = `  ${status}  ${model}  ${age}${credits === "-" ? "" : `  ${credits} left`}`;
  return [cut(id, width), cut(facts, width), ...(file === "" ? [] : [`  ${file}`]), cut(`  ${prompt}`, width)];
}

function isUnclear(status: string): boolean {
  return status === "unknown" || status === "starting";
}

function cut(text: string, width: number): string {
  if (text.length <= width) return text;
  return width < 2 ? "" : `${text.slice(0, width - 1)}…`;
}

function formatAge(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}
