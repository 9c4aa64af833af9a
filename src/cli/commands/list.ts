import { basename, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { type AttemptState, blocksRestart, statuses } from "../../client/ledger/attempt.ts";
import { findUnfollowed, listAttempts } from "../../client/ledger/attempts.ts";
import { type Entry, keyOf } from "../../client/ledger/history.ts";
import type { Journal } from "../../client/ledger/journal.ts";
import { distinctStarts, shownCredits } from "../../client/ledger/price.ts";
import { isLocal } from "../../client/ledger/same-service.ts";
import { findByBeginning, findByKey, readRecent } from "../../client/ledger/search.ts";
import { sharesKey } from "../../client/ledger/shared-key.ts";
import { dismiss } from "../../client/save/claim.ts";
import { createTargets } from "../../client/save/target.ts";
import { formatAge } from "../../connect/format.ts";
import { readTime } from "../../connect/values.ts";
import { asVidgenError, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { isUuid } from "../../protocol/id.ts";
import { models } from "../../protocol/models.ts";
import { errorText } from "../../protocol/schema.ts";
import { countCredits, formatNumber, formatUsd, trimInvisible } from "../../protocol/text.ts";
import { videoFileName } from "../../video/naming.ts";
import { localOption, withDetails, withSuggestions } from "../command.ts";
import type { Context } from "../context.ts";
import { findLast, findNamed, hintForName, isNamedBy, minTypedChars, namesOf, tooShortError } from "../generations.ts";
import { checkNotFolder, findByFile, isSavedFile, lastWord } from "../saved-file.ts";
import {
  findListedPrice,
  isNotSubmitted,
  type ListedPrice,
  type Spent,
  type SumKey,
  sumBy,
  sumKeys,
  sumSpent,
} from "../sums.ts";
import { plainLine } from "../terminal/output.ts";
import { displayPath } from "../terminal/result.ts";
import { type Cell, ellipsisFor, formatRows } from "../terminal/text.ts";
import { noteUnsaved } from "../unsaved.ts";

export function addList(program: CommandUnknownOpts, context: Context): void {
  declare(program).action(async (words, options) => {
    await list(words, options, context);
    await noteUnsaved(context);
  });
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("list")
    .helpGroup("Get information:")
    .summary("list the generations started on this machine")
    .description(
      "Lists the generations started on this machine, newest first, from its journal: id, status, model, age, cost, the file or the reason why it was not saved, the service if there are several, and the prompt.",
    )
    .argument(
      "[words...]",
      "only generations with these words in their prompt, or the name of their file; with --open, an id too (default: the newest one)",
    )
    .addOption(new Option("--status <name>", "only generations with this status").choices(statuses))
    .addOption(modelOption())
    .option("--since <time>", "only generations started within this time, e.g. 7d, 12h, yesterday or 2026-01-31")
    .option("-L, --limit <number>", "maximum number of generations (default: 30)")
    .addOption(localOption("local generations only"))
    .addOption(
      new Option("--sum <key>", "print the sum of the stated costs by model, day, label or service").choices(sumKeys),
    )
    .option("--csv", "with --sum: print comma-separated values")
    .option("--open", "open the saved video of a generation")
    .option("--dismiss <attempt>", "close an attempt with an unknown outcome, after you have checked your account")
    .option("--forget <id>", "remove a generation (also last) or an attempt from the journal")
    .option(
      "-y, --yes",
      "with --forget, also remove a generation that may have been charged and whose video is not saved",
    );
  const examples = [
    "vidgen list",
    "vidgen list red fox --since 7d",
    "vidgen list --open last",
    "vidgen list --status unknown",
    "vidgen list --sum model --since 30d --csv",
  ];
  return withDetails(command, { examples });
}

const modelOption = () =>
  withSuggestions(new Option("-m, --model <id>", "only generations of this model"), () =>
    models.map(({ id, characteristic }) => [id, characteristic]),
  );

type ListFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/**
 * Prints the generations started on this machine, newest first, from the journal; with `--open` opens a
 * video. Sends no request.
 */
async function list(words: string[], options: ListFlags, context: Context): Promise<void> {
  const { io, output } = context;
  const { open, dismiss, forget, yes, sum, csv, limit = "30" } = options;
  const [action, otherAction] = Object.entries({ open, dismiss, forget, sum }).flatMap(([name, value]) =>
    value === undefined ? [] : name,
  );
  if (otherAction !== undefined) throw usage(`--${action} and --${otherAction} cannot be combined.`);
  const [word] = words;
  if (word !== undefined && (dismiss !== undefined || forget !== undefined))
    throw usage(`--${action} takes one id: "${word}" is one word too many.`);
  if (csv && sum === undefined) throw usage("--csv works with --sum only.");
  if (csv && output.json) throw usage("--csv and --json cannot be combined.");
  if (sum !== undefined && options.limit !== undefined)
    throw usage("--sum and --limit cannot be combined: the sums are of all generations. --since limits them.");
  if (yes && forget === undefined) throw usage("--yes works with --forget only.");
  const { findJournal } = await import("../../connect/services.ts");
  const journal = findJournal({ ...io, onNote: output.note });
  if (dismiss !== undefined) return dismissAttempt(dismiss, journal, context);
  if (forget !== undefined) return forgetEntry(forget, { yes, journal, context });
  if (!/^[1-9]\d{0,8}$/.test(limit)) throw usage(`--limit must be a whole number above 0, not "${limit}".`);
  const matches = createFilter(words, options, io.date());
  if (open) return openSaved({ matches, words, options, journal }, { io, output });
  if (sum !== undefined) return printSums(sum, { matches, words, options, journal }, { io, output });
  const entries = await listAttempts({ ...options, limit: Number(limit), matches }, journal, io);
  const unfollowed = await findUnfollowed(entries, journal);
  const documents = entries.map((entry) => entryDocument(entry, unfollowed));
  const width = io.stdout.isTTY ? (io.stdout.columns ?? 80) : undefined;
  // Redacted before it is cut: half of a key would not be recognized.
  const show = (text: string) => output.redact(plainLine(text));
  const layout = { width, ellipsis: ellipsisFor(io.env), date: io.date, show, unfollowed };
  // In the table, the second column.
  const states = width === undefined ? {} : { states: /(?<=^\S+ +)(not submitted|[a-z]+!?)(?= )/gm };
  await output.result((await formatEntries(entries, layout)).join("\n"), documents, states);
  if (entries.some(({ status }) => status === "unknown")) output.note(unknownNote);
  if (entries.length === 0) output.note(emptyNote(words, options));
  else if (width !== undefined && !output.json) output.note(await summarize(entries, journal, Number(limit)));
  const rows = entries.filter(({ attempt, batch }) => batch !== undefined && unfollowed.has(attempt));
  if (unfollowed.size > 0) output.note(`${unfollowedNote} ${rows.length > 0 ? batchNote : waitNote}`);
}

/**
 * Creates a filter from the words and flags. A word matches the prompt, the id, the attempt or the file of an
 * entry. Throws `usage` for an invalid time.
 */
function createFilter(
  words: readonly string[],
  { local, model, since }: ListFlags,
  now: Date,
): (entry: Entry) => boolean {
  const earliest = since === undefined ? undefined : readSince(since, now);
  const matchesWord = (word: string, entry: Entry) =>
    entry.request.prompt.toLowerCase().includes(word.toLowerCase()) || isNamedBy(word, entry) || isSavedAs(word, entry);
  return (entry) =>
    (!local || isLocal(entry)) &&
    (model === undefined || entry.request.model === model) &&
    (earliest === undefined || Date.parse(entry.at) >= earliest) &&
    words.every((word) => matchesWord(word, entry));
}

function isSavedAs(word: string, { file }: Entry): boolean {
  return file !== undefined && file !== "-" && (file === resolve(word) || basename(file) === word);
}

/** The days with a name, and how many days ago each was. */
const namedDays = new Map([
  ["today", 0],
  ["yesterday", 1],
]);

/** The start of `--since` in milliseconds since 1970: a duration ago, or local midnight of a day. Throws `usage`. */
function readSince(text: string, now: Date): number {
  const daysAgo = namedDays.get(text.toLowerCase());
  if (daysAgo !== undefined) return new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).getTime();
  const day = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00`) : Number.NaN;
  return Number.isNaN(day) ? now.getTime() - readTime(text, "--since") : day;
}

function omit(entry: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(entry).filter(([name]) => !names.includes(name)));
}

function emptyNote(words: readonly string[], { status, local, model, since }: ListFlags): string {
  const conditions = [
    local ? "is local" : "",
    status ? `is ${status}` : "",
    model ? `is by ${model}` : "",
    since ? `was started ${/^(\d+-|[a-z])/i.test(since) ? "since" : "in the last"} ${since}` : "",
    words.length > 0 ? `has "${words.join(" ")}" in its prompt` : "",
  ].filter(Boolean);
  if (conditions.length === 0) return "No generations have been started on this machine yet.";
  return `No generation that was started here ${conditions.join(" and ")}.`;
}

/** Such as "3 generations: 20 credits, $0.40, 1 of unknown cost; 960 credits left". */
async function summarize(entries: readonly Entry[], journal: Pick<Journal, "scan">, limit: number): Promise<string> {
  const costs = describeSpent(sumSpent(distinctStarts(entries)));
  const count = countGenerations(entries.length);
  const shown = entries.length < limit ? count : `The newest ${count} (-L shows more)`;
  const recent = await readRecent(journal);
  const services = [...new Set(entries.filter((entry) => !isLocal(entry)).map(({ base_url }) => base_url))];
  const left = services.flatMap((service) => {
    const newest = recent.find(
      ({ base_url, remaining_credits }) => base_url === service && remaining_credits !== undefined,
    );
    const where = services.length > 1 ? ` at ${new URL(service).host}` : "";
    return newest?.remaining_credits === undefined ? [] : `${countCredits(newest.remaining_credits)} left${where}`;
  });
  return [`${shown}${costs}`, ...left].join("; ");
}

function countGenerations(count: number): string {
  return count === 1 ? "1 generation" : `${formatNumber(count)} generations`;
}

/** Such as ": 20 credits, $0.40, 1 of unknown cost"; "" if nothing was charged. */
function describeSpent({ credits, cost, unknown }: Spent): string {
  const costs = [
    credits ? countCredits(credits) : "",
    cost ? formatUsd(cost) : "",
    unknown > 0 ? `${formatNumber(unknown)} of unknown cost` : "",
  ].filter(Boolean);
  return costs.length > 0 ? `: ${costs.join(", ")}` : "";
}

type Selection = {
  matches(entry: Entry): boolean;
  words: readonly string[];
  options: ListFlags;
  journal: Journal;
};

/**
 * Prints what the generations cost. A cost that no service stated is not guessed: the generations without one
 * are counted separately.
 */
async function printSums(
  by: SumKey,
  { matches, words, options, journal }: Selection,
  { io, output }: Pick<Context, "io" | "output">,
): Promise<void> {
  const { status, csv } = options;
  const entries = await listAttempts({ status, limit: Number.POSITIVE_INFINITY, matches }, journal, io);
  const rows = sumBy(entries, by);
  const total = sumSpent(distinctStarts(entries));
  const show = (text: string) => output.redact(plainLine(text));
  const showCost = (cost: number) => (csv || !io.stdout.isTTY ? cost : formatUsd(cost));
  const cells = rows.map(({ key, generations, credits, cost, unknown }): Cell[] => [
    ...[show(key ?? ""), generations, credits ?? "", cost === null ? "" : showCost(cost), unknown],
  ]);
  const header = [by, "generations", "credits", "cost", "unknown"];
  const headers = header.map((name) => name.toUpperCase());
  const text = csv ? formatCsv([header, ...cells]) : await formatRows(headers, cells, io);
  await output.result(text, { by, rows, total });
  if (rows.length === 0) output.note(emptyNote(words, options));
  else output.note(`${countGenerations(total.generations)}${describeSpent(total)}`);
}

/** RFC 4180. */
function formatCsv(rows: readonly (readonly Cell[])[]): string {
  const quoted = (cell: Cell) => (/[",\r\n]/.test(`${cell}`) ? `"${`${cell}`.replaceAll('"', '""')}"` : cell);
  return rows.map((row) => row.map(quoted).join(",")).join("\n");
}

/**
 * What to open: the generation with this id or file; else the newest saved one that `list` shows for these
 * words and flags, or the newest of them; else a video of this name, such as a film.
 */
async function findToOpen({ matches, words, options, journal }: Selection, io: Io): Promise<Partial<Entry>> {
  const { status, local, model, since } = options;
  const isFiltered = words.length > 1 || [status, local, model, since].some((flag) => flag !== undefined);
  const [word = lastWord] = words;
  if (!isFiltered && /[/\\]/.test(word)) await checkNotFolder(word, io);
  const named = isFiltered ? undefined : await findEntry(word, journal, io).catch(asVidgenError);
  if (named !== undefined && !(named instanceof VidgenError)) return named;
  // A word that names no generation is one of its prompt.
  if (named !== undefined && !["usage", "not_found"].includes(named.code)) throw named;
  const entries = await listAttempts({ status, limit: Number.POSITIVE_INFINITY, matches }, journal, io);
  const found = entries.find(({ file }) => file !== undefined && file !== "-") ?? entries[0];
  if (found) return found;
  if (!isFiltered && videoFileName.test(word) && (await isThere(word, io))) return { file: resolve(word) };
  throw new VidgenError("not_found", emptyNote(words, options), { hint: hintForName(word) });
}

async function isThere(file: string, { disk }: Io): Promise<boolean> {
  return (await disk.stat(file).catch(() => undefined))?.isFile() ?? false;
}

/** Opens a saved video in the default player, and prints its path. Throws `output` if the file is gone. */
async function openSaved(selection: Selection, { io, output }: Pick<Context, "io" | "output">): Promise<void> {
  const { id, attempt, status, reason, file } = await findToOpen(selection, io);
  if (file === undefined || file === "-") {
    const isNeverMade = status === "failed" || id === undefined;
    const why =
      isNeverMade && reason ? ` has no video: ${reason}` : ` is ${status}, and its video was not saved to a file here.`;
    const hint = isNeverMade ? undefined : `\`vidgen wait ${id} -o <file> --open\` saves and opens it.`;
    throw new VidgenError("output", `${id ?? attempt}${why}`, { hint });
  }
  if (!(await isThere(file, io))) throw new VidgenError("output", `The video of ${id} is no longer at ${file}.`);
  const { openExternally } = await import("../terminal/opener.ts");
  await output.result(file, { id, file });
  const notOpened = await openExternally(file, io);
  if (notOpened !== undefined) output.note(`Not opened: ${notOpened}.`);
}

const unknownNote =
  "Attempts with the status unknown may have been charged: the service sent no usable response. Check your account for a generation from that time;\n" +
  "`vidgen wait <id>` fetches it, `vidgen list --dismiss <attempt>` closes the attempt.";

const unfollowedNote = "No command on this machine follows the generations marked `processing!`.";
const waitNote = "`vidgen wait --all -o ./` waits for them and saves them.";
const batchNote =
  "To save rows of a batch under their own names, run the same batch command again. `vidgen wait --all -o ./` saves all of them in this folder.";

async function dismissAttempt(typed: string, journal: Journal, { io, output }: Context): Promise<void> {
  const check = ({ entry, sharing }: Named) => {
    const started = sharing.find(({ id, state }) => id !== undefined && startedStates.has(state));
    if (started && started.attempt !== entry.attempt)
      throw usage(
        `${typed} was sent with the same key as generation ${started.id}, which is ${started.status}. Nothing was dismissed.`,
      );
    if (started || !sharing.some(({ state }) => blocksRestart(state)))
      throw usage(`${typed} is ${entry.status}: only an attempt with the status unknown or lost can be dismissed.`);
  };
  await withoutProcess(typed, journal, { io, output, check }, async (sharing) => {
    const blocking = sharing.filter(({ state }) => blocksRestart(state));
    await dismiss(blocking, { journal, targets: createTargets(journal, io) });
    const names = blocking.map(({ attempt }) => attempt).join(", ");
    output.note(`Dismissed ${names}: the same request can be started again.`);
  });
}

/** The states of an attempt whose generation the service has accepted, and which did not fail. */
const startedStates: ReadonlySet<AttemptState> = new Set(["running", "ready", "delivered"]);

/** The attempt that a word names, and all attempts with its key at its service, which are one start. */
type Named = { entry: Entry; sharing: readonly Entry[] };

async function findNamedKey(typed: string, journal: Journal, io: Io): Promise<Named> {
  const entry = await findEntry(typed, journal, io);
  const withKey = await findByKey(journal, keyOf(entry));
  return { entry, sharing: withKey.filter((each) => sharesKey(each, entry)) };
}

type FreeOptions = Pick<Context, "io" | "output"> & { check(named: Named): void | Promise<void> };

/**
 * Runs `work` under the journal's lock, with all attempts that share the key of the named one, if no live
 * process has any of them and `check` permits it. Throws `usage` if a live process has one, or the error of
 * `check`.
 */
async function withoutProcess(
  typed: string,
  journal: Journal,
  { io, output, check }: FreeOptions,
  work: (sharing: readonly Entry[]) => Promise<void>,
): Promise<void> {
  const { findAlive } = await import("../../client/generation/outcome-wait.ts");
  for (let isDone = false; !isDone; ) {
    const named = await findNamedKey(typed, journal, io);
    const names = named.sharing.map(({ attempt }) => attempt);
    const alive = await findAlive(names, { journal, io, note: output.note }, io.signal);
    if (alive !== undefined) throw await workedOnError(typed, alive, named, journal);
    await check(named);
    isDone = await journal.lock(async () => {
      // Looks again: its process may have written the outcome just before it ended.
      const found = await findNamedKey(typed, journal, io);
      const leases = await Promise.all(names.map(journal.leaseOf));
      if (!isDeepStrictEqual(found, named) || leases.some((lease) => lease !== "dead")) return false;
      await work(found.sharing);
      return true;
    });
  }
}

async function workedOnError(typed: string, attempt: string, { entry }: Named, journal: Journal): Promise<VidgenError> {
  const holder = await journal.holderOf(attempt);
  return usage(
    `${typed} is ${entry.status}, and process ${holder?.pid} works on it (attempt ${attempt}). Nothing was changed.`,
    "Try again when that process has ended.",
  );
}

type ForgetOptions = { yes: boolean | undefined; journal: Journal; context: Context };

/**
 * Removes all attempts with the key of the named one. Without `yes`, asks about those that must not get lost:
 * the id of a paid video that is not saved, or an attempt that may have been charged. Throws `usage` if
 * nobody can be asked.
 */
async function forgetEntry(typed: string, { yes = false, journal, context }: ForgetOptions): Promise<void> {
  const { io, output } = context;
  const agreed = new Set<string>();
  const check = async ({ sharing }: Named) => {
    const unsettled = sharing.filter((each) => !isSettled(each) && !agreed.has(each.attempt));
    if (yes || unsettled.length === 0) return;
    await askToForget(unsettled, context);
    for (const { attempt } of unsettled) agreed.add(attempt);
  };
  await withoutProcess(typed, journal, { io, output, check }, async (sharing) => {
    await journal.forget(sharing);
    const names = sharing.map(nameOf).join(", ");
    output.note(`Removed ${names} from the journal. No file was deleted, and nothing at the service.`);
  });
}

function nameOf({ id, attempt }: Entry): string {
  return id ?? attempt;
}

async function askToForget(unsettled: readonly Entry[], context: Context): Promise<void> {
  const { io } = context;
  const { askWhether, canAsk } = await import("../terminal/prompts.ts");
  if (!canAsk(context, io)) throw notSettledError(unsettled);
  const question = `May have been charged, and no video is saved: ${unsettled.map(nameOf).join(", ")}. Remove from the journal anyway?`;
  if (!(await askWhether(question, false, io))) throw new VidgenError("interrupted", "Nothing was removed.");
}

/** Whether nothing is left to do for an entry: it cost nothing, has failed, was deleted or dismissed, or its video is saved. */
function isSettled({ status, id, file }: Entry): boolean {
  if (status === "completed") return file !== undefined;
  // A service that refuses a start, but gives it an id, may have charged it.
  if (status === "refused") return id === undefined;
  return ["failed", "unsent", "dismissed", "deleted"].includes(status);
}

function notSettledError([entry, ...others]: readonly Entry[]): VidgenError {
  const { attempt, id, status } = entry as Entry;
  const typed = `vidgen list --forget ${id ?? attempt} --yes`;
  if (others.length > 0)
    return usage(
      `${[entry as Entry, ...others].map(nameOf).join(", ")} were sent with the same key, which may have been charged, and no video of it is saved. Nothing was removed.`,
      `To remove them anyway: ${typed}`,
    );
  if (id === undefined)
    return usage(
      `Attempt ${attempt} may have been charged: once it is removed, the same command starts another generation, which is charged too. Nothing was removed.`,
      `\`vidgen list --dismiss ${attempt}\` closes it and keeps it on record. To remove it anyway: ${typed}`,
    );
  return usage(
    `${id} is ${status}, and its video is not saved: without its id, a video that was paid for is lost. Nothing was removed.`,
    `\`vidgen wait ${id} -o <file>\` saves it. To remove the id anyway: ${typed}`,
  );
}

/**
 * The only entry whose id or attempt begins with the typed text, or whose video is in this file; "last" is the newest generation.
 * Throws `not_found`, and `usage` for fewer than eight characters of a longer id.
 */
async function findEntry(word: string, journal: Journal, io: Io): Promise<Entry> {
  const typed = trimInvisible(word);
  if (typed === lastWord) return findLast(journal);
  const entries = typed === "" ? [] : await findByBeginning(journal, typed);
  const [entry, other] = findNamed(typed, entries, { namesOf, minChars: minTypedChars });
  if (other) throw usage(`More than one id begins with ${typed}: ${entry?.attempt}, ${other.attempt}.`);
  if (entry) return entry;
  const isFile = typed !== "" && (await isSavedFile(typed, io));
  if (!isFile && typed.length < minTypedChars) throw tooShortError(typed);
  const saved = isFile ? await findByFile(typed, journal, io) : undefined;
  if (saved) return saved;
  throw new VidgenError("not_found", `The journal has no attempt or generation ${typed}.`, {
    hint: hintForName(typed),
  });
}

/** `show` returns a text on one line, without keys. */
type ListLayout = {
  width: number | undefined;
  ellipsis: ReturnType<typeof ellipsisFor>;
  date: Io["date"];
  show(text: string): string;
  /** The attempts that no process follows. */
  unfollowed: ReadonlySet<string>;
};

/**
 * A line per entry: at a terminal a table that fits its width, with short ids; for a script the whole ids and
 * texts, separated by tabs.
 */
async function formatEntries(
  entries: Entry[],
  { width, ellipsis, date, show, unfollowed }: ListLayout,
): Promise<string[]> {
  const cells = entries.map((entry) => {
    const { attempt, id = `(${shortenId(attempt)})`, base_url, request, file, reason } = entry;
    const status = isNotSubmitted(entry) ? "not submitted" : statusText(entry, unfollowed);
    const service = isLocal(entry) ? "local" : new URL(base_url).host;
    const age = formatAge(entry, { date });
    return [
      id,
      status,
      request.model,
      age,
      formatPrice(findListedPrice(entry), width === undefined ? String : formatNumber),
      file ?? errorText(reason) ?? "",
      service,
      request.prompt,
    ].map(show);
  });
  if (width === undefined) return cells.map((row) => row.join("\t"));
  if (entries.length === 0) return [];
  const { cut, formatTable, longCellWidth } = await import("../terminal/table.ts");
  const column = (index: number) => cells.map((row) => row[index] ?? "");
  // A path is cut at its beginning, because its end says more.
  const results = entries.map(({ file }, row) =>
    file === undefined
      ? cut(column(5)[row] ?? "", longCellWidth(width), { ellipsis })
      : cut(show(displayPath(file)), longCellWidth(width), { position: "start", ellipsis }),
  );
  const isOneService = new Set(entries.map(({ base_url }) => base_url)).size < 2;
  // A table that is too wide loses the column with the highest rank first.
  return formatTable(
    [
      { header: "ID", cells: column(0).map(shortenId) },
      { header: "STATUS", cells: column(1) },
      { header: "MODEL", cells: column(2), rank: 2 },
      { header: "AGE", cells: column(3), rank: 1 },
      { header: "COST", cells: column(4), rank: 5 },
      { header: "FILE OR REASON", cells: results, rank: 3 },
      { header: "SERVICE", cells: isOneService ? [] : column(6), rank: 4 },
      { header: "PROMPT", cells: column(7) },
    ],
    width,
    { ellipsis },
  );
}

/** An entry as `--json` shows it. */
function entryDocument(entry: Entry, unfollowed: ReadonlySet<string>): object {
  const { request, reason, content, ...shown } = entry;
  return {
    // Only vidgen itself needs these fields of the journal.
    ...omit(shown, ["place", "path", "typed", "parts", "told", "paused", "state"]),
    credits: shownCredits(entry),
    ...(isNotSubmitted(entry) && { cost: 0 }),
    ...(entry.status === "processing" && { followed: !unfollowed.has(entry.attempt) }),
    sha256: content?.sha256,
    size: content?.size,
    model: request.model,
    prompt: request.prompt,
    error: errorText(reason),
  };
}

/** The status, with an exclamation mark if the user should do something. */
function statusText({ status, attempt }: Entry, unfollowed: ReadonlySet<string>): string {
  return status === "unknown" || unfollowed.has(attempt) ? `${status}!` : status;
}

function formatPrice(price: ListedPrice, formatCredits: (credits: number) => string): string {
  if (typeof price === "string") return price;
  return price.usd === undefined ? formatCredits(price.credits ?? 0) : formatUsd(price.usd);
}

/** Every command accepts the beginning of a UUID. */
function shortenId(id: string): string {
  return isUuid(id) ? id.slice(0, 8) : id;
}
