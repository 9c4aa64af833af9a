import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { isLoopback } from "../../client/credentials.ts";
import type { Entry } from "../../client/history.ts";
import type { Journal } from "../../client/journal.ts";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { type Context, localOption, withDetails } from "../command.ts";
import { type Output, plainLine } from "../terminal/output.ts";

export function addList(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => list(options, context));
}

function declare(program: CommandUnknownOpts) {
  const statuses = [
    "starting",
    "processing",
    "completed",
    "failed",
    "unknown",
    "dismissed",
    "unsent",
    "refused",
  ] as const;
  const command = program
    .command("list")
    .summary("list what this machine has started")
    .description(
      "What this machine has started, newest first, from its journal: id, status, model, age, credits left, file, prompt.",
    )
    .addOption(new Option("--status <name>", "only those of one status").choices(statuses))
    .option("--limit <number>", "how many at the most", "30")
    .addOption(localOption("only those of the local service"))
    .option("--dismiss <attempt>", "close an attempt whose outcome is unknown, once you have looked at your account")
    .option("--forget <id>", "take a generation, or an attempt, out of the journal");
  const examples = ["vidgen list", "vidgen list --status unknown", "vidgen list --dismiss <attempt>"];
  return withDetails(command, { prints: "a table", examples });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Prints what this machine has started, newest first, from the journal. Asks no service. */
async function list(options: Options, { io, output }: Context): Promise<void> {
  const { dismiss, forget } = options;
  if (dismiss !== undefined && forget !== undefined) throw usage("--dismiss and --forget do not go together.");
  const { findJournal } = await import("../context.ts");
  const { journal } = await findJournal(false, { ...io, onNote: output.note });
  if (dismiss !== undefined) return dismissAttempt(dismiss, journal, { io, output });
  if (forget !== undefined) return forgetEntry(forget, journal, output);
  const entries = await choose(options, journal, io);
  const documents = entries.map(({ request, reason, place: _, holder: __, ...entry }) => ({
    ...entry,
    ...{ model: request.model, prompt: request.prompt, error: reason },
  }));
  const width = io.stdout.isTTY ? (io.stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
  await output.result(table(entries, width, io.date()).join("\n"), documents);
  if (entries.length === 0) output.note("Nothing was started here yet.");
  if (entries.some(({ status }) => status === "unknown")) output.note(unclearNote);
}

const unclearNote =
  "Attempts without an id may have been charged: their answer never came. Look at your account for a generation of that time;\n" +
  "`vidgen wait <id>` fetches it, and `vidgen list --dismiss <attempt>` closes the attempt.";

/** The entries that the flags select. An attempt that was killed while its request was out is `unknown`. */
async function choose({ status, limit, local }: Options, journal: Journal, io: Io): Promise<Entry[]> {
  if (!/^[1-9]\d{0,8}$/.test(limit)) throw usage(`--limit takes a whole number from 1, not "${limit}".`);
  const isWanted = (entry: Entry) =>
    (status === undefined || status === entry.status || entry.status === "starting") &&
    (!local || isLoopback(new URL(entry.base_url).hostname));
  let missing = Number(limit);
  const entries = await journal.entries((part) => {
    missing -= part.filter((entry) => isWanted(entry) && entry.status !== "starting").length;
    return missing > 0;
  });
  // A journal that can be read, but not written, is shown as it is.
  const settled = await settleStarting(entries.filter(isWanted), journal, io).catch(() => entries.filter(isWanted));
  return settled.filter((entry) => status === undefined || entry.status === status).slice(0, Number(limit));
}

async function settleStarting(entries: Entry[], journal: Journal, io: Io): Promise<Entry[]> {
  if (!entries.some(({ status }) => status === "starting")) return entries;
  const { isUnclear } = await import("../../client/attempts.ts");
  const settle = async (entry: Entry): Promise<Entry> =>
    (await isUnclear(entry, io.date(), journal.isHeld)) ? { ...entry, status: "unknown" } : entry;
  return journal.lock(async () => {
    const settled: Entry[] = [];
    for (const entry of entries) settled.push(await settle(entry));
    return settled;
  });
}

async function dismissAttempt(typed: string, journal: Journal, { io, output }: Pick<Context, "io" | "output">) {
  const entry = await findEntry(typed, journal);
  const { isUnclear } = await import("../../client/attempts.ts");
  await journal.lock(async () => {
    if (!(await isUnclear(entry, io.date(), journal.isHeld)))
      throw usage(`${typed} is ${entry.status}: only an attempt whose outcome is unknown can be dismissed.`);
    await journal.append({ kind: "dismissed", attempt: entry.attempt });
  });
  output.note(`Dismissed ${entry.attempt}: the same request can be started again.`);
}

async function forgetEntry(typed: string, journal: Journal, output: Output): Promise<void> {
  const entry = await findEntry(typed, journal);
  await journal.lock(() => journal.forget(entry));
  output.note(
    `Forgot ${entry.id ?? entry.attempt}: the journal no longer has it. No file and nothing at the service was deleted.`,
  );
}

/** The entry whose id or attempt is, or alone begins with, what was typed. Throws `not_found` or `usage`. */
async function findEntry(typed: string, journal: Journal): Promise<Entry> {
  const isMeant = ({ id, attempt }: Entry) => attempt.startsWith(typed) || id?.startsWith(typed);
  const [entry, other] = typed === "" ? [] : (await journal.entries()).filter(isMeant);
  if (!entry)
    throw new VidgenError("not_found", `The journal has no attempt or generation ${typed}.`, {
      hint: "`vidgen list` shows them.",
    });
  if (other) throw usage(`Several begin with ${typed}: ${entry.attempt}, ${other.attempt}.`);
  return entry;
}

/** One line per entry, in columns as wide as their longest cell; the prompt comes last and gets the rest of the width. */
function table(entries: Entry[], width: number, now: Date): string[] {
  const rows = entries.map((entry) => {
    const id = entry.id ?? `(${entry.attempt.slice(0, 8)})`;
    const status = entry.status === "unknown" ? "unknown!" : entry.status;
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
