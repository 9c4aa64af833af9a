import { basename, dirname, relative, resolve } from "node:path";
import { asVidgenError, beforePaying, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, Machine } from "../../io.ts";
import { findWarnings } from "../../protocol/fields.ts";
import { createEventFilter, type GenerationEvent } from "../generation/events.ts";
import { type Service, withJournal } from "../generation/service.ts";
import { addInfo, recordSaved } from "../generation/status.ts";
import { redactValue } from "../http/redaction.ts";
import { hasContent } from "../ledger/content.ts";
import {
  type AttemptLines,
  type DatedLine,
  type Entry,
  type FilmLine,
  foldEntry,
  type RunLine,
} from "../ledger/history.ts";
import { differsInPreview } from "../ledger/policy.ts";
import { scanAttempts } from "../ledger/search.ts";
import { checkWindowsNames, folderOf } from "../save/output-path.ts";
import { checkOutputs } from "./collisions.ts";
import { type Costs, createCosts } from "./costs.ts";
import { checkAlone, holdResults } from "./hold.ts";
import { createLedger, findUnwritten, mergeAttempts } from "./ledger.ts";
import { checkChanged, type PlanOptions, planRows } from "./plan.ts";
import { findUnwrittenRedos, readRedos } from "./redo-lines.ts";
import { checkOrphans, findResults, lockOf, openResults, type Results, readResults } from "./results.ts";
import { hashRow, type KeyedRow } from "./row.ts";
import type { PlannedRow } from "./row-state.ts";
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
export type BatchPlan = {
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
  /** Rows that are not started: the row that they begin from has no video, and is not started again. */
  blocked: number;
  to_start: number;
  /** `credits` is the expected cost of all starts, or null unless every price is known; `credits_each` is set where all prices are equal. */
  models: { model: string; to_start: number; credits_each: number | null; credits: number | null }[];
  credits: number | null;
  remaining_credits: number | null;
  /** Chains of rows that wait for each other, as line numbers in the order of their starts; the first row is new or running. */
  chains: number[][];
};

export type Batch = {
  plan: BatchPlan;
  /** The rows with their states. */
  rows: PlannedRow[];
  costs: Costs;
  /** The keys of rows whose first frame is from an older video of the row that they begin from. */
  oldFrames: ReadonlySet<string>;
  /** The rows that are not made again because a redo has already done so. */
  upToDate: readonly PlannedRow[];
  /**
   * Starts the new rows, and saves the videos of all that run. Rejects, before anything is sent, with `usage` for a bad option, and with `output`
   * when the results file cannot be written.
   */
  run(options: RunOptions & Omit<WorkOptions, "overwrite">): Promise<RunEnd>;
  /** The record of the film at a path; `undefined` if this batch did not make that file, or it has changed since. */
  findFilm(path: string): Promise<FilmLine | undefined>;
  /** Records a film just before it is renamed to its final path. Throws `output`. */
  recordFilm(film: Omit<FilmLine, "kind">): Promise<void>;
  /** Throws for a path that vidgen or this batch must not overwrite (see `ProtectedCheck`). */
  checkKept: Service["checkProtected"];
  /** Ends the lease of the results file. */
  close(): Promise<void>;
};

type BatchDependencies = {
  service: Service;
  io: Machine;
};

/**
 * Plans a batch, and holds the lease of its results file until `close`. Throws `usage` for rows that contradict an earlier run, or whose output exists,
 * for a file that is not a results file or has an unreadable line, and while another process runs the same rows; `output` when the
 * results file cannot be read or written.
 */
export async function openBatch(
  rows: readonly KeyedRow[],
  options: OpenBatchOptions,
  known: BatchDependencies,
): Promise<Batch> {
  const { service, io } = known;
  checkWindowsNames(options.results, io.platform);
  const path = await findResults(options.results, io.disk);
  const leaseOptions = { io, onNote: options.onNote };
  const lease = options.isDryRun ? undefined : await holdResults(path, leaseOptions);
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
    if (lease) await checkAlone(elsewhere, options.source.shard, leaseOptions);
    const keys = new Set(named.map(({ key }) => key));
    const files = await readAll(own, { keys, others }, options, known);
    const lines = findAttempts(files, { keys, names, others, journaled });
    const attempts = lines.map(foldEntry);
    const ledger = createLedger(attempts, lease && results, io);
    const protectedPaths = [
      path,
      lockOf(path),
      ...(rowsFile ? [rowsFile.identity.path] : []),
      ...rows.flatMap(({ files = [] }) => files),
    ];
    const journaling = withJournal(service, ledger.mirror, { protectedPaths, recall: ledger.recall });
    const open = attempts.filter(({ status }) => status !== "dismissed");
    checkPreviews(open, path, service);
    const faults = createFaults(rowsName(options.source));
    const redoLines = files.flatMap(({ redos }) => redos);
    const planning = { ...options, faults, redos: readRedos(redoLines), redo: options.redo };
    const { rows: unchecked, upToDate } = await planRows(named, open, planning, io.disk);
    checkChanged(unchecked, open, { ...options, redact: service.redact });
    const planned = await checkOutputs(unchecked, { ...options, faults }, { service: journaling, io });
    const unwritten = [...findUnwrittenRedos(own.redos, redoLines), ...findUnwritten(lines, own.attempts, keys)];
    if (lease) await createFolders(planned, io.disk);
    noteOrphans(planned, open, options.onNote);
    const oldFrames = findOldFrames(planned, attempts);
    noteOldFrames(oldFrames, options.onNote);
    noteOtherAccounts(planned, service.account, options.onNote);
    noteWarnings(planned, options.onNote, service);
    const costs = createCosts(attempts, entries, service);
    return {
      plan: sumUp(planned, costs),
      rows: planned,
      costs,
      checkKept: journaling.checkProtected,
      oldFrames: new Set(oldFrames.map(({ key }) => key)),
      upToDate,
      async run(runOptions) {
        if (!(runOptions.jobs >= 1)) throw usage("jobs must be at least 1.");
        for (const line of [...unwritten, ...redoLinesOf(planned, io)])
          await results.append(line).catch((error) => {
            throw beforePaying(error);
          });
        for (const { state } of planned)
          if (state.kind === "done" && state.isFound && state.file !== undefined)
            await recordSaved(journaling, state.id, state.file);
        const isNews = createEventFilter(io.now);
        let listenerError: VidgenError | undefined;
        const onEvent = (event: GenerationEvent) => {
          try {
            if (isNews(event)) runOptions.onEvent(event);
          } catch (cause) {
            // The batch continues: its videos are paid for.
            listenerError ??= new VidgenError("bug", `A listener of the batch threw an error: ${cause}`, { cause });
          }
        };
        const signal = lease ? AbortSignal.any([runOptions.signal, lease.lost]) : runOptions.signal;
        const confirm = async () => lease?.confirm();
        const label = { name: labelOf(source, service.redact), size: options.source.total };
        const work = createWork(
          { service: journaling, costs, ledger, results: path, rowsFile, label, confirm },
          { ...runOptions, signal, overwrite: options.overwrite, onEvent },
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
        const end = await runRows(
          { running, toStart, sources },
          { ...runOptions, signal },
          { work, costs, io, faultOf },
        );
        // Written last: starting rows and saving videos is more urgent.
        const failures = runOptions.infoJson ? await addInfos(planned, journaling, signal) : [];
        return { ...end, failures: [...failures, ...end.failures] };
      },
      async findFilm(path) {
        // A process may have been killed after it recorded a film, and before it renamed the file.
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

/** The name of the rows in messages. */
function rowsName({ file }: Pick<RunLine, "file">): string {
  if (file === "") return "The batch";
  return file === "-" ? "stdin" : file;
}

/** The attempts at this service in the journal, newest first. */
async function readJournaled({ name, journal }: Service): Promise<AttemptLines[]> {
  const attempts: AttemptLines[] = [];
  for await (const part of scanAttempts(journal)) attempts.push(...part.filter(([intent]) => intent.base_url === name));
  return attempts;
}

type RunSource = Pick<OpenBatchOptions["source"], "file" | "total" | "shard"> & {
  rows: readonly KeyedRow[];
  rowsFile: RowsFile | undefined;
  service: string;
};

function describeSource(path: string, { rows, rowsFile, file, total, shard, service }: RunSource): RunLine {
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

/** The maximum length of a batch's name at a service. */
const labelCharacters = 200;

/** The name of the batch at the service: that of its rows file, else of its results file. */
function labelOf({ file, results }: RunLine, redact: Service["redact"]): string {
  const name = redact(basename(file === "" || file === "-" ? results : file));
  return [...name.replace(/[\p{Cc}\p{Surrogate}]/gu, " ")].slice(0, labelCharacters).join("").trim() || "batch";
}

type AttemptSources = {
  /** The keys of the rows. */
  keys: ReadonlySet<string>;
  /** Every path of this batch's results file. */
  names: ReadonlySet<string>;
  /** The other results files of the rows file. */
  others: ReadonlySet<string>;
  /** The attempts in the journal, newest first. */
  journaled: readonly AttemptLines[];
};

/** This results file, and what the other ones say about these rows. */
async function readAll(
  own: Results,
  { keys, others }: Pick<AttemptSources, "keys" | "others">,
  { onNote }: OpenBatchOptions,
  { service, io }: BatchDependencies,
): Promise<Results[]> {
  const files = [own];
  for (const other of others) {
    const { source, attempts, redos, ...read } = await readResults(other, io.disk);
    if (source === undefined || source.service === service.name)
      files.push({
        ...read,
        source,
        attempts: attempts.filter(([{ row = "" }]) => keys.has(row)),
        redos: redos.filter(({ rows }) => rows.some(({ row }) => keys.has(row))),
      });
    else onNote(`${other} has the results of another service, ${source.service}: they are ignored.`);
  }
  return files;
}

/** The attempts at these rows: from the results files, and the journal. */
function findAttempts(files: readonly Results[], { keys, names, others, journaled }: AttemptSources): AttemptLines[] {
  checkOrphans(files, journaled);
  const found = files.flatMap(({ attempts }) => attempts);
  const known = new Set(found.map(([{ attempt }]) => attempt));
  const isOurs = ([{ attempt, batch = "", row = "" }]: AttemptLines) =>
    known.has(attempt) || names.has(batch) || (others.has(batch) && keys.has(row));
  return mergeAttempts([...found, ...journaled.filter(isOurs).reverse()]);
}

/** The line that records the rows to make again. It is one line for all of them, so that a killed process leaves none out. */
function redoLinesOf(rows: readonly PlannedRow[], io: Pick<Machine, "date">): DatedLine[] {
  const redone = rows.flatMap(({ state }) => (state.kind === "new" && state.redone ? state : []));
  const [first] = redone;
  if (first?.redo === undefined) return [];
  const at = io.date().toISOString();
  return [{ at, kind: "redo", redo: first.redo, rows: redone.flatMap((state) => state.redone ?? []) }];
}

/** The row without API keys, for the results file and the journal. */
function redactRow(row: KeyedRow, redact: Service["redact"]): KeyedRow {
  const { key, source, record, from } = row;
  const hash = hashRow(redactValue(record, redact), from !== undefined);
  return { ...row, key: redact(key), source: source && redact(source), hash };
}

/** Throws `usage` for the results of another service: this one does not know its ids. */
function checkService(source: RunLine | undefined, path: string, baseUrl: string): void {
  if (source === undefined || source.service === baseUrl) return;
  throw usage(
    `${path} has the results of another service, ${source.service}. Nothing was sent.`,
    "Choose another file with --results.",
  );
}

/** Throws `usage` where earlier rows are previews and new ones would be real videos, or the other way round. */
function checkPreviews(attempts: readonly Entry[], path: string, { isPreview }: Pick<Service, "isPreview">): void {
  const other = attempts.find(
    ({ request, is_preview, id }) => id !== undefined && differsInPreview(is_preview, isPreview(request.model)),
  );
  if (!other) return;
  const [has, asked] = other.is_preview ? ["previews", "real videos"] : ["real videos", "previews"];
  throw usage(
    `${path} has ${has}, such as that of row ${other.row}, but this command asks for ${asked}. Nothing was sent.`,
    "Choose another file with --results, and another folder with -o.",
  );
}

/** How many info files are written concurrently. */
const maxInfos = 4;

/** Writes the missing info files of earlier videos. Stops asking the service after the first request without an answer. */
async function addInfos(
  rows: readonly PlannedRow[],
  service: Service,
  signal: AbortSignal,
): Promise<RunEnd["failures"]> {
  const failures: RunEnd["failures"] = [];
  const left = rows.values();
  let isAnswering = true;
  const add = async () => {
    for (const row of left) {
      const { state } = row;
      if (state.kind !== "done" || state.file === undefined || signal.aborted) continue;
      try {
        const answers = await addInfo(service, state.id, state.file, { signal, asksService: isAnswering });
        isAnswering &&= answers;
      } catch (error) {
        failures.push({ row, ended: { status: "completed", error: asVidgenError(error) } });
      }
    }
  };
  await Promise.all(Array.from({ length: maxInfos }, add));
  return failures;
}

/** Notes paid generations that are not saved and whose row was changed or removed. */
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

/** The rows whose first frame is from an older video of the row that they begin from. */
function findOldFrames(rows: readonly PlannedRow[], attempts: readonly Entry[]): PlannedRow[] {
  if (rows.every(({ source }) => source === undefined)) return [];
  const froms = new Map(attempts.map(({ id, from }) => [id, from]));
  const ids = new Map(rows.map(({ key, state }) => [key, idOf(state)]));
  return rows.filter(({ source, state }) => {
    const id = idOf(state);
    return source !== undefined && id !== undefined && froms.get(id) !== ids.get(source);
  });
}

/** Notes the rows with old frames. They are not started again, because that would be charged. */
function noteOldFrames(rows: readonly PlannedRow[], onNote: OpenBatchOptions["onNote"]): void {
  const lines = rows.map(({ line }) => line);
  if (lines.length === 0) return;
  const what = lines.length === 1 ? "Line" : "Lines";
  const start = lines.length === 1 ? "still starts" : "still start";
  const shown = `${lines.slice(0, 5).join(", ")}${lines.length > 5 ? " ..." : ""}`;
  onNote(
    `${what} ${shown} ${start} where an earlier video ended, not the one that \`from\` names now. --redo with the id of a row makes it again, which is charged.`,
  );
}

function idOf(state: PlannedRow["state"]): string | undefined {
  if (state.kind === "running") return state.attempt.id;
  return state.kind === "done" ? state.id : undefined;
}

/** Notes running rows of another key. The service answers 404 for them although they are not lost. */
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

/** Notes what is probably wrong in the new rows. A warning about several rows is one note. */
function noteWarnings(
  rows: readonly PlannedRow[],
  onNote: OpenBatchOptions["onNote"],
  service: Pick<Service, "isLocal" | "isPreview">,
): void {
  const lines = new Map<string, number[]>();
  for (const { state, record, line } of rows) {
    for (const warning of state.kind === "new" ? findWarnings(record, service) : []) {
      const known = lines.get(warning);
      if (known) known.push(line);
      else lines.set(warning, [line]);
    }
  }
  for (const [warning, [first, ...others]] of lines)
    onNote(`Line ${first}${others.length > 0 ? ` and ${others.length} more` : ""}: ${warning}`);
}

/** Creates the output folders before anything is paid for. Folders with names in braces are created with their first file. */
async function createFolders(rows: readonly PlannedRow[], disk: Disk): Promise<void> {
  const folders = new Set(rows.flatMap(({ outputPath }) => (outputPath === undefined ? [] : folderOf(outputPath))));
  for (const folder of folders) {
    await disk.mkdir(folder, { recursive: true }).catch((cause) => {
      const reason = systemReason(cause, { EEXIST: "a file has this name" });
      throw new VidgenError("output", `Cannot create the folder ${folder}: ${reason}.`, { cause });
    });
  }
}

function sumUp(rows: PlannedRow[], costs: Costs): BatchPlan {
  const count = (kind: PlannedRow["state"]["kind"]) => rows.filter(({ state }) => state.kind === kind).length;
  const starts = new Map<string, number>();
  /** The known prices of the rows of each model. */
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
    // A running row does not wait for another row.
    for (
      let at: PlannedRow | undefined = end;
      at;
      at = at.state.kind === "new" ? byKey.get(at.source ?? "") : undefined
    )
      lines.push(at.line);
    return lines.reverse();
  });
}
