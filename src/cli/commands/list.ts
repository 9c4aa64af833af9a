import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { datedEntries, isUnclear, listAttempts } from "../../client/attempts.ts";
import { type Entry, statuses } from "../../client/history.ts";
import type { Journal } from "../../client/journal.ts";
import { usage, VidgenError } from "../../errors.ts";
import { localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { localBaseUrl } from "../local.ts";
import { type Output, plainLine } from "../terminal/output.ts";

export function addList(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => list(options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("list")
    .summary("list the generations started on this machine")
    .description(
      "Lists the generations started on this machine, newest first, from its journal: id, status, model, age, credits left, the file or why there is none, the service where there are two, prompt.",
    )
    .addOption(new Option("--status <name>", "only generations with this status").choices(statuses))
    .option("--limit <number>", "maximum number of generations", "30")
    .addOption(localOption("local generations only"))
    .option("--dismiss <attempt>", "close an attempt with an unknown outcome, after you have checked your account")
    .option("--forget <id>", "remove a generation or an attempt from the journal")
    .option("-y, --yes", "with --forget, also one that may have been charged and whose video is not saved");
  const examples = ["vidgen list", "vidgen list --status unknown", "vidgen list --dismiss <attempt>"];
  return withDetails(command, { prints: "a table", examples });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Prints what this machine has started, newest first, from the journal. Asks no service. */
async function list(options: Options, { io, output }: Context): Promise<void> {
  const { dismiss, forget, yes } = options;
  if (dismiss !== undefined && forget !== undefined) throw usage("--dismiss and --forget cannot be combined.");
  if (yes && forget === undefined) throw usage("--yes works with --forget only.");
  const { findJournal } = await import("../services.ts");
  const { journal } = await findJournal(false, { ...io, onNote: output.note });
  if (dismiss !== undefined) return dismissAttempt(dismiss, journal, { io, output });
  if (forget !== undefined) return forgetEntry(forget, { yes, journal, output });
  if (!/^[1-9]\d{0,8}$/.test(options.limit))
    throw usage(`--limit must be a whole number above 0, not "${options.limit}".`);
  const entries = await listAttempts({ ...options, limit: Number(options.limit) }, journal, io);
  const documents = entries.map(({ request, reason, place: _, holder: __, content, ...entry }) => ({
    ...entry,
    sha256: content?.sha256,
    ...{ model: request.model, prompt: request.prompt, error: reason },
  }));
  const width = io.stdout.isTTY ? (io.stdout.columns ?? 80) : undefined;
  // Redacted before it is laid out and cut: half of a key would not be recognised.
  const show = (text: string) => output.redact(plainLine(text));
  await output.result(table(entries, { width, now: io.date(), show }).join("\n"), documents);
  if (entries.length === 0) output.note("No generations have been started on this machine yet.");
  if (entries.some(({ status }) => status === "unknown")) output.note(unclearNote);
}

const unclearNote =
  "Attempts without an id may have been charged: the service never replied. Check your account for a generation from that time;\n" +
  "`vidgen wait <id>` fetches it, `vidgen list --dismiss <attempt>` closes the attempt.";

export async function dismissAttempt(typed: string, journal: Journal, { io, output }: Pick<Context, "io" | "output">) {
  const isOver = async (entry: Entry) => {
    const [dated] = datedEntries([entry], io.date());
    return entry.status === "lost" || (dated !== undefined && (await isUnclear(dated, journal.isHeld)));
  };
  const attempt = await journal.lock(async () => {
    await isOver(await findEntry(typed, journal));
    // Read again now that the lease has been asked: a process may have written its outcome just before it ended.
    const entry = await findEntry(typed, journal);
    if (!(await isOver(entry)))
      throw usage(
        `${typed} is ${entry.status}: only an attempt that is lost, or whose outcome is unknown, can be dismissed.`,
      );
    await journal.append({ kind: "dismissed", attempt: entry.attempt });
    return entry.attempt;
  });
  output.note(`Dismissed ${attempt}: the same request can be started again.`);
}

type Forgetting = { yes: boolean | undefined; journal: Journal; output: Output };

/** Throws `usage`, without `yes`, for what only the journal leads to: the id of a video that was paid for, or an attempt that may have been. */
async function forgetEntry(typed: string, { yes, journal, output }: Forgetting): Promise<void> {
  const entry = await journal.lock(async () => {
    const found = await findEntry(typed, journal);
    if (!yes && !isSettled(found)) throw lossError(found);
    await journal.forget(found);
    return found;
  });
  output.note(
    `Removed ${entry.id ?? entry.attempt} from the journal. No file was deleted, and nothing at the service.`,
  );
}

/** Whether nothing is to be done about an entry any more: it cost nothing, has failed, or its video is saved. */
function isSettled({ status, id, file }: Entry): boolean {
  if (status === "completed") return file !== undefined;
  if (status === "refused") return id === undefined;
  return ["failed", "unsent", "dismissed"].includes(status);
}

function lossError({ attempt, id, status }: Entry): VidgenError {
  const typed = `vidgen list --forget ${id ?? attempt} --yes`;
  if (id === undefined)
    return usage(
      `Attempt ${attempt} may have been charged: once it is forgotten, the same command starts, and pays for, another one. Nothing was removed.`,
      `\`vidgen list --dismiss ${attempt}\` closes it and keeps it on record. To remove it all the same: ${typed}`,
    );
  return usage(
    `${id} is ${status}, and its video is not saved: without its id, a video that was paid for is lost. Nothing was removed.`,
    `\`vidgen wait ${id} -o <file>\` saves it. To remove the id all the same: ${typed}`,
  );
}

/** As many as `list` shows of an id at a terminal; fewer may be a slip. */
const minTyped = 8;

/**
 * The entry whose id or attempt begins with the typed text, if it is the only one. Throws `not_found`, and `usage` for less than eight
 * characters of an id that has more.
 */
async function findEntry(typed: string, journal: Journal): Promise<Entry> {
  const isNamed = (name: string | undefined) => name === typed || (typed.length >= minTyped && name?.startsWith(typed));
  const isMeant = ({ id, attempt }: Entry) => isNamed(attempt) || isNamed(id);
  const [entry, other] = typed === "" ? [] : (await journal.entries()).filter(isMeant);
  if (!entry && typed.length < minTyped)
    throw usage(`"${typed}" is too short: give at least ${minTyped} characters of an id or an attempt.`);
  if (!entry)
    throw new VidgenError("not_found", `The journal has no attempt or generation ${typed}.`, {
      hint: "`vidgen list` shows them.",
    });
  if (other) throw usage(`More than one begins with ${typed}: ${entry.attempt}, ${other.attempt}.`);
  return entry;
}

const headers = ["ID", "STATUS", "MODEL", "AGE", "CREDITS", "FILE OR REASON", "SERVICE", "PROMPT"];

/** `show` makes a text fit to be shown: one line without keys. */
type Layout = { width: number | undefined; now: Date; show(text: string): string };

/**
 * One line per entry, in columns as wide as their longest cell; the last of them, the prompt, is the one that is cut. A terminal, which is
 * `width` wide, gets a header, short ids, and paths cut at their beginning: a script that reads the lines gets all of each entry.
 */
function table(entries: Entry[], { width, now, show }: Layout): string[] {
  const isOneService = new Set(entries.map(({ base_url }) => base_url)).size < 2;
  const rows = entries.map((entry) => {
    const { attempt, id = `(${attempt.slice(0, 8)})`, base_url, request, file, reason = "" } = entry;
    const isLocal = base_url === localBaseUrl;
    const age = formatAge(now.getTime() - new Date(entry.at).getTime());
    const credits = isLocal ? "free" : String(entry.remaining_credits ?? "-");
    const result = show(file ?? reason);
    const shownResult = width === undefined ? result : shortenResult(result, { isPath: file !== undefined, width });
    const service = isLocal ? "local" : new URL(base_url).host;
    const status = entry.status === "unknown" ? "unknown!" : entry.status;
    const shownId = width === undefined ? id : shortenId(id);
    return [shownId, status, request.model, age, credits, shownResult, isOneService ? "" : service, request.prompt].map(
      show,
    );
  });
  const isUsed = (column: number) => rows.some((row) => row[column] !== "");
  const lines = width === undefined || rows.length === 0 ? rows : [headers, ...rows];
  const used = lines.map((row) => row.filter((_, column) => isUsed(column)));
  const widths = (used[0] ?? []).map((_, column) => Math.max(...used.map((row) => row[column]?.length ?? 0)));
  const join = (row: string[]) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ");
  return used.map((row) => cut(join(row).trimEnd(), width ?? Number.POSITIVE_INFINITY));
}

/** The beginning of a UUID stands for it in every command. */
function shortenId(id: string): string {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id) ? id.slice(0, 8) : id;
}

/** A quarter of the width at the most, so that some of the prompt is seen; of a path the end is kept. */
function shortenResult(text: string, { isPath, width }: { isPath: boolean; width: number }): string {
  const most = Math.max(12, Math.floor(width / 4));
  if (!isPath) return cut(text, most);
  return text.length <= most ? text : `…${text.slice(1 - most)}`;
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
