import { basename, dirname, relative, resolve } from "node:path";
import { asVidgenError, beforePaying, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, Machine } from "../../io.ts";
import { findDoubts } from "../../protocol/fields.ts";
import { createEventFilter, type GenerationEvent } from "../generation/events.ts";
import { type Service, withJournal } from "../generation/service.ts";
import { addInfo, recordSaved } from "../generation/status.ts";
import { redactValue } from "../http/redaction.ts";
import { hasContent } from "../ledger/content.ts";
import { type AttemptLines, type Entry, type FilmLine, foldEntry, type RunLine } from "../ledger/history.ts";
import { isOtherMaking } from "../ledger/policy.ts";
import { scanAttempts } from "../ledger/search.ts";
import { folderOf } from "../save/output-path.ts";
import { checkOutputs } from "./collisions.ts";
import { type Costs, createCosts } from "./costs.ts";
import { checkAlone, holdResults } from "./hold.ts";
import { createLedger, findUnwritten, mergeAttempts } from "./ledger.ts";
import { type PlannedRow, type PlanOptions, planRows } from "./plan.ts";
import { checkOrphans, findResults, lockOf, openResults, type Results, readResults } from "./results.ts";
import { hashRow, type KeyedRow } from "./row.ts";
import { createFaults } from "./rows/faults.ts";
import { findOtherResults, findRowsFile, type RowsFile } from "./rows-file.ts";
import { type RunEnd, type RunOptions, runRows } from "./run.ts";
import { kindOfRow } from "./status.ts";
import { createWork, type WorkOptions } from "./work.ts";

export type OpenBatchOptions = PlanOptions & {
  /** The path of the results file. */
  results: string;
  /** `file` is the rows file as it was typed; "" or "-" where there is none. */
  source: Pick<RunLine, "file" | "total" | "shard">;
  overwrite?: boolean | undefined;
  /** Only plans: takes no lease, and leaves the results file alone. */
  isDryRun?: boolean | undefined;
  onNote(text: string): void;
};

/** What a batch will do, before anything is sent. */
export type Plan = {
  rows: number;
  done: number;
  running: number;
  /** Refused and failed rows that are left alone; `refused` of them were refused. */
  failed: number;
  refused: number;
  /** Rows that may have been charged. */
  unknown: number;
  /** Rows that were charged, and whose generations the service no longer knows. */
  lost: number;
  /** Rows that are not started, as they begin from one that has no video and is left alone. */
  blocked: number;
  to_start: number;
  /** `credits` is what the starts will cost where that is known of each, else null; `credits_each` where they all cost the same. */
  models: { model: string; to_start: number; credits_each: number | null; credits: number | null }[];
  credits: number | null;
  remaining_credits: number | null;
  /** The lines of rows that wait for each other, in the order in which they are started: from one to start or one that runs to the end of its chain. */
  chains: number[][];
};

export type Batch = {
  plan: Plan;
  /** The rows with their states. */
  rows: PlannedRow[];
  costs: Costs;
  /** The keys of rows that began with the frame of another video than the one that they would begin with now. */
  oldFrames: ReadonlySet<string>;
  /**
   * Starts what is to be started, and collects what runs. Rejects, before anything is sent, with `usage` for a bad option, and with `output`
   * when the results file cannot be written.
   */
  run(options: RunOptions & Omit<WorkOptions, "overwrite">): Promise<RunEnd>;
  /** What was recorded of the film at a path, unless it was changed since or this batch has not made it. */
  findFilm(path: string): Promise<FilmLine | undefined>;
  /** Writes down that a film of the videos is about to get its name. Throws `output`. */
  recordFilm(film: Omit<FilmLine, "kind">): Promise<void>;
  /** Refuses a path that is a file which vidgen, or this batch, needs, as `Kept` says. */
  checkKept: Service["checkKept"];
  /** Ends the lease of the results file. */
  close(): Promise<void>;
};

type BatchDependencies = {
  service: Service;
  io: Machine;
};

/**
 * Plans a batch, and holds its results file until `close`. Throws `usage` for rows that contradict an earlier run, or whose output exists,
 * for a results file that is something else or has a line that cannot be read, and while another process runs rows of it; `output` when it
 * cannot be read or written.
 */
export async function openBatch(
  rows: readonly KeyedRow[],
  options: OpenBatchOptions,
  known: BatchDependencies,
): Promise<Batch> {
  const { service, io } = known;
  const path = await findResults(options.results, io.disk);
  const holding = { io, onNote: options.onNote };
  const lease = options.isDryRun ? undefined : await holdResults(path, holding);
  try {
    const named = rows.map((row) => redactRow(row, service.redact));
    const own = await readResults(path, io.disk);
    checkService(own.source, path, service.name);
    const rowsFile = await findRowsFile(options.source.file, io.disk);
    const source = describeSource(path, { rows: named, rowsFile, ...options.source, service: service.name });
    const results = openResults(path, source, { ...io, redact: service.redact });
    if (lease) await results.begin();
    const journaled = await readJournaled(service);
    const entries = journaled.map(foldEntry);
    const others = rowsFile ? await findOtherResults(path, rowsFile, entries, io.disk) : new Set<string>();
    const names = new Set([path, ...own.names]);
    const elsewhere = [...names, ...others].filter((name) => name !== path);
    if (lease) await checkAlone(elsewhere, options.source.shard, holding);
    const lines = await findAttempts(own, { rows: named, names, others, journaled }, options, known);
    const attempts = lines.map(foldEntry);
    const ledger = createLedger(attempts, lease && results, io);
    const kept = [
      path,
      lockOf(path),
      ...(rowsFile ? [rowsFile.identity.path] : []),
      ...rows.flatMap(({ files = [] }) => files),
    ];
    const writing = withJournal(service, ledger.beside, { kept, recall: ledger.recall });
    const open = attempts.filter(({ status }) => status !== "dismissed");
    checkMaking(open, path, service);
    const faults = createFaults(nameOf(options.source));
    const unchecked = await planRows(named, open, { ...options, faults }, io.disk);
    const planned = await checkOutputs(unchecked, { ...options, faults }, { service: writing, io });
    const unwritten = findUnwritten(lines, own.attempts, new Set(named.map(({ key }) => key)));
    if (lease) await createFolders(planned, io.disk);
    noteOrphans(planned, open, options.onNote);
    const oldFrames = findOldFrames(planned, attempts);
    noteOldFrames(oldFrames, options.onNote);
    noteOtherAccounts(planned, service.account, options.onNote);
    noteDoubts(planned, options.onNote, service);
    const costs = createCosts(attempts, entries, { account: service.account, now: io.date() });
    return {
      plan: sumUp(planned, costs),
      rows: planned,
      costs,
      checkKept: writing.checkKept,
      oldFrames: new Set(oldFrames.map(({ key }) => key)),
      async run(how) {
        if (!(how.jobs >= 1)) throw usage("jobs must be at least 1.");
        for (const line of unwritten)
          await results.append(line).catch((error) => {
            throw beforePaying(error);
          });
        for (const { state } of planned)
          if (state.kind === "done" && state.isFound && state.file !== undefined)
            await recordSaved(writing, state.id, state.file);
        const isNews = createEventFilter(io.now);
        let listenerError: VidgenError | undefined;
        const onEvent = (event: GenerationEvent) => {
          try {
            if (isNews(event)) how.onEvent(event);
          } catch (cause) {
            // What was paid for is saved all the same.
            listenerError ??= new VidgenError("bug", `A listener of the batch threw an error: ${cause}`, { cause });
          }
        };
        const signal = lease ? AbortSignal.any([how.signal, lease.lost]) : how.signal;
        const confirm = async () => lease?.confirm();
        const label = { name: labelOf(source, service.redact), size: options.source.total };
        const work = createWork(
          { service: writing, costs, ledger, results: path, rowsFile, label, confirm },
          { ...how, signal, overwrite: options.overwrite, onEvent },
        );
        const toStart = planned.filter(({ state }) => state.kind === "new");
        const running = planned.flatMap((row) =>
          row.state.kind === "running" ? [{ row, id: row.state.attempt.id, attempt: row.state.attempt.attempt }] : [],
        );
        const faultOf = () => listenerError;
        const sourceKeys = new Set(toStart.map(({ source }) => source));
        const sources = new Map(
          planned.flatMap(({ key, state }) => {
            const isSource = state.kind === "done" && state.file !== undefined && sourceKeys.has(key);
            return isSource ? [[key, { id: state.id, file: state.file as string }]] : [];
          }),
        );
        const end = await runRows({ running, toStart, sources }, { ...how, signal }, { work, costs, io, faultOf });
        // Last, since nobody waits for them: what is new is started first, and what runs is saved.
        const failures = how.infoJson ? await addInfos(planned, writing, signal) : [];
        return { ...end, failures: [...failures, ...end.failures] };
      },
      async findFilm(path) {
        // A process may have been killed before the last one that it recorded got its name.
        for (const film of own.films.toReversed())
          if (resolve(path) === film.file && (await hasContent(path, film, io.disk))) return film;
        return undefined;
      },
      recordFilm: (film) => results.append({ at: io.date().toISOString(), kind: "film", ...film }),
      close: async () => lease?.release(),
    };
  } catch (error) {
    await lease?.release();
    throw error;
  }
}

/** What a message calls the rows. */
function nameOf({ file }: Pick<RunLine, "file">): string {
  if (file === "") return "The batch";
  return file === "-" ? "stdin" : file;
}

/** The attempts that the journal has of this service, newest first. */
async function readJournaled({ name, journal }: Service): Promise<AttemptLines[]> {
  const attempts: AttemptLines[] = [];
  for await (const part of scanAttempts(journal)) attempts.push(...part.filter(([intent]) => intent.base_url === name));
  return attempts;
}

type Sourced = Pick<OpenBatchOptions["source"], "file" | "total" | "shard"> & {
  rows: readonly KeyedRow[];
  rowsFile: RowsFile | undefined;
  service: string;
};

function describeSource(path: string, { rows, rowsFile, file, total, shard, service }: Sourced): RunLine {
  return {
    kind: "batch",
    file: rowsFile === undefined ? file : relative(dirname(path), rowsFile.identity.path),
    rows: rows.length,
    total,
    shard,
    service,
    inode: rowsFile?.identity.inode,
    born: rowsFile?.identity.born,
    results: path,
  };
}

/** The longest name of a batch that a service takes. */
const labelCharacters = 200;

/** How the service shows the batch: the name of its rows file, or of its results file where it has none. */
function labelOf({ file, results }: RunLine, redact: Service["redact"]): string {
  const name = redact(basename(file === "" || file === "-" ? results : file));
  return [...name.replace(/[\p{Cc}\p{Surrogate}]/gu, " ")].slice(0, labelCharacters).join("").trim() || "batch";
}

type Written = {
  rows: readonly KeyedRow[];
  /** Every path of this batch's results file. */
  names: ReadonlySet<string>;
  /** The other results files of the rows file. */
  others: ReadonlySet<string>;
  /** The attempts in the journal, newest first. */
  journaled: readonly AttemptLines[];
};

/** All attempts of this results file, and those of the rows that other results files and the journal have. */
async function findAttempts(
  own: Results,
  written: Written,
  { onNote }: OpenBatchOptions,
  { service, io }: BatchDependencies,
): Promise<AttemptLines[]> {
  const { rows, names, others, journaled } = written;
  const keys = new Set(rows.map(({ key }) => key));
  const files = [own];
  for (const other of others) {
    const { source, attempts, ...read } = await readResults(other, io.disk);
    if (source === undefined || source.service === service.name)
      files.push({ ...read, source, attempts: attempts.filter(([{ row = "" }]) => keys.has(row)) });
    else onNote(`${other} has the results of another service, ${source.service}: they are ignored.`);
  }
  checkOrphans(files, journaled);
  const found = files.flatMap(({ attempts }) => attempts);
  const known = new Set(found.map(([{ attempt }]) => attempt));
  const isOurs = ([{ attempt, batch = "", row = "" }]: AttemptLines) =>
    known.has(attempt) || names.has(batch) || (others.has(batch) && keys.has(row));
  return mergeAttempts([...found, ...journaled.filter(isOurs).reverse()]);
}

/** The row as the results file and the journal know it: without a key in it. */
function redactRow(row: KeyedRow, redact: Service["redact"]): KeyedRow {
  const { key, source, record, from } = row;
  const hash = hashRow(redactValue(record, redact), from !== undefined);
  return { ...row, key: redact(key), source: source && redact(source), hash };
}

/** Throws `usage` for the results of another service, such as the local one: its videos are not this one's, and it does not know their ids. */
function checkService(source: RunLine | undefined, path: string, baseUrl: string): void {
  if (source === undefined || source.service === baseUrl) return;
  throw usage(
    `${path} has the results of another service, ${source.service}. Nothing was sent.`,
    "Choose another file with --results.",
  );
}

/** Throws `usage` where rows have previews and would get real videos now, or the other way round. */
function checkMaking(attempts: readonly Entry[], path: string, { isPreview }: Pick<Service, "isPreview">): void {
  const other = attempts.find(
    ({ request, is_preview, id }) => id !== undefined && isOtherMaking(is_preview, isPreview(request.model)),
  );
  if (!other) return;
  const [has, asked] = other.is_preview ? ["previews", "real videos"] : ["real videos", "previews"];
  throw usage(
    `${path} has ${has}, such as that of row ${other.row}, but this command asks for ${asked}. Nothing was sent.`,
    "Choose another file with --results, and another folder with -o.",
  );
}

/** How many info files are written side by side. */
const maxInfos = 4;

/** Writes the info files that videos of earlier runs lack. A service that does not answer for one of them is asked for no other. */
async function addInfos(
  rows: readonly PlannedRow[],
  service: Service,
  signal: AbortSignal,
): Promise<RunEnd["failures"]> {
  const failures: RunEnd["failures"] = [];
  const left = rows.values();
  let asks = true;
  const add = async () => {
    for (const row of left) {
      const { state } = row;
      if (state.kind !== "done" || state.file === undefined || signal.aborted) continue;
      try {
        const answers = await addInfo(service, state.id, state.file, { signal, asks });
        asks &&= answers;
      } catch (error) {
        failures.push({ row, ended: { status: "completed", error: asVidgenError(error) } });
      }
    }
  };
  await Promise.all(Array.from({ length: maxInfos }, add));
  return failures;
}

/** Tells of generations that were paid for, are not saved, and belong to no row any more: the user has changed or removed it. */
function noteOrphans(rows: PlannedRow[], attempts: readonly Entry[], onNote: OpenBatchOptions["onNote"]): void {
  const keys = new Set(rows.map(({ key }) => key));
  const orphans = attempts.filter((each) => !keys.has(each.row ?? "") && kindOfRow(each) === "running");
  if (orphans.length === 0) return;
  const ids = orphans.slice(0, 3).map(({ id }) => id);
  const count = orphans.length === 1 ? "1 generation" : `${orphans.length} generations`;
  onNote(
    `${count} may be unsaved, from rows that are no longer in the file: ${ids.join(", ")}${orphans.length > 3 ? " ..." : ""}. \`vidgen wait <id> -o ...\` saves one.`,
  );
}

/** The rows that began with the frame of another video than the one that they would begin with now. */
function findOldFrames(rows: readonly PlannedRow[], attempts: readonly Entry[]): PlannedRow[] {
  if (rows.every(({ source }) => source === undefined)) return [];
  const froms = new Map(attempts.map(({ id, from }) => [id, from]));
  const ids = new Map(rows.map(({ key, state }) => [key, idOf(state)]));
  return rows.filter(({ source, state }) => {
    const id = idOf(state);
    return source !== undefined && id !== undefined && froms.get(id) !== ids.get(source);
  });
}

/** They are not made anew: that would be paid for. */
function noteOldFrames(rows: readonly PlannedRow[], onNote: OpenBatchOptions["onNote"]): void {
  const lines = rows.map(({ line }) => line);
  if (lines.length === 0) return;
  const what = lines.length === 1 ? "Line" : "Lines";
  const start = lines.length === 1 ? "still starts" : "still start";
  const shown = `${lines.slice(0, 5).join(", ")}${lines.length > 5 ? " ..." : ""}`;
  onNote(
    `${what} ${shown} ${start} where an earlier video ended, not the one that \`from\` names now. To redo a row, give it a new id: it is charged again.`,
  );
}

function idOf(state: PlannedRow["state"]): string | undefined {
  if (state.kind === "running") return state.attempt.id;
  return state.kind === "done" ? state.id : undefined;
}

/** Tells of running rows that the service may not find with this key: a 404 changes nothing about them. */
function noteOtherAccounts(rows: PlannedRow[], account: string, onNote: OpenBatchOptions["onNote"]): void {
  const isOther = (own: string | undefined) => own !== undefined && own !== account;
  const found = rows.flatMap(({ state }) =>
    state.kind === "running" && isOther(state.attempt.account) ? state.attempt : [],
  );
  if (found.length === 0) return;
  const count = found.length === 1 ? "1 running row was" : `${found.length} running rows were`;
  const accounts = [...new Set(found.map(({ account }) => account))].join(", ");
  onNote(
    `${count} started with another key (account ${accounts}, not ${account}): only that key can collect them. They are not charged again.`,
  );
}

/** Tells what is probably wrong in the rows that are to be started, once for all rows with the same. */
function noteDoubts(
  rows: readonly PlannedRow[],
  onNote: OpenBatchOptions["onNote"],
  { isLocal }: Pick<Service, "isLocal">,
): void {
  const lines = new Map<string, number[]>();
  for (const { state, record, line } of rows) {
    for (const doubt of state.kind === "new" ? findDoubts(record, { isLocal }) : []) {
      const known = lines.get(doubt);
      if (known) known.push(line);
      else lines.set(doubt, [line]);
    }
  }
  for (const [doubt, [first, ...others]] of lines)
    onNote(`Line ${first}${others.length > 0 ? ` and ${others.length} more` : ""}: ${doubt}`);
}

/** Creates the folders that videos go to, before anything is paid; those with names in braces are created with their first file. */
async function createFolders(rows: readonly PlannedRow[], disk: Disk): Promise<void> {
  const folders = new Set(rows.flatMap(({ outputPath }) => (outputPath === undefined ? [] : folderOf(outputPath))));
  for (const folder of folders) {
    await disk.mkdir(folder, { recursive: true }).catch((cause) => {
      const reason = systemReason(cause, { EEXIST: "a file has this name" });
      throw new VidgenError("output", `Cannot create the folder ${folder}: ${reason}.`, { cause });
    });
  }
}

function sumUp(rows: PlannedRow[], costs: Costs): Plan {
  const count = (kind: PlannedRow["state"]["kind"]) => rows.filter(({ state }) => state.kind === kind).length;
  const starts = new Map<string, number>();
  /** The prices of the rows of each model that are known. */
  const known = new Map<string, number[]>();
  for (const { state, record } of rows) {
    if (state.kind !== "new") continue;
    const price = costs.price(record);
    starts.set(record.model, (starts.get(record.model) ?? 0) + 1);
    if (price !== undefined) known.set(record.model, [...(known.get(record.model) ?? []), price]);
  }
  const models = [...starts].map(([model, to_start]) => {
    const prices = known.get(model) ?? [];
    const sum = prices.length < to_start ? null : prices.reduce((sum, price) => sum + price, 0);
    const isOnePrice = sum !== null && prices.every((price) => price === prices[0]);
    return { model, to_start, credits_each: isOnePrice ? (prices[0] ?? null) : null, credits: sum };
  });
  const refused = rows.filter(({ state }) => state.kind === "failed" && state.attempt.state === "refused").length;
  const isKnown = models.every(({ credits }) => credits !== null);
  const credits = isKnown ? models.reduce((sum, { credits }) => sum + (credits ?? 0), 0) : null;
  return {
    rows: rows.length,
    done: count("done"),
    running: count("running"),
    failed: count("failed"),
    refused,
    unknown: count("unknown"),
    lost: count("lost"),
    blocked: count("blocked"),
    to_start: count("new"),
    models,
    credits,
    remaining_credits: costs.remaining() ?? null,
    chains: findChains(rows),
  };
}

function findChains(rows: readonly PlannedRow[]): number[][] {
  const open = rows.filter(({ state }) => state.kind === "new" || state.kind === "running");
  const byKey = new Map(open.map((row) => [row.key, row]));
  const toStart = open.filter(({ state }) => state.kind === "new");
  const sources = new Set(toStart.map(({ source }) => source));
  const ends = toStart.filter(({ key, source }) => byKey.has(source ?? "") && !sources.has(key));
  return ends.map((end) => {
    const lines: number[] = [];
    // A row that runs waits for no other.
    for (
      let at: PlannedRow | undefined = end;
      at;
      at = at.state.kind === "new" ? byKey.get(at.source ?? "") : undefined
    )
      lines.push(at.line);
    return lines.reverse();
  });
}
