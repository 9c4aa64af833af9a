import { basename, dirname, relative, resolve } from "node:path";
import { asVidgenError, beforePaying, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, Machine } from "../../io.ts";
import { findWarnings } from "../../protocol/fields.ts";
import { roundUsd } from "../../protocol/price.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { type ExpectedCost, fetchPrices, knownAmount, sumCosts } from "../generation/cost.ts";
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
  groupBy,
  type RunLine,
} from "../ledger/history.ts";
import { asRead, differsInPreview } from "../ledger/policy.ts";
import { isSameService, mayBeSameService } from "../ledger/same-service.ts";
import { readAttempts } from "../ledger/search.ts";
import { checkWindowsNames, folderOf } from "../save/output-path.ts";
import { createBesideReader } from "./beside.ts";
import { checkOutputs } from "./collisions.ts";
import { type Costs, createCosts } from "./costs.ts";
import { checkNoOtherRun, holdResults } from "./hold.ts";
import { createLedger, findAttempts, findUnwritten } from "./ledger.ts";
import { checkChanged, type PlanOptions, planRows } from "./plan.ts";
import { findUnwrittenRedos, readRedos } from "./redo-lines.ts";
import { createRowKeys } from "./resend.ts";
import { checkMachines, findResults, lockOf, openResults, type Results, readResults } from "./results.ts";
import { hashRow, type KeyedRow, type Row } from "./row.ts";
import type { PlannedRow } from "./row-state.ts";
import { createFaults } from "./rows/faults.ts";
import { findOtherResults, findRowsFile, type RowsFile } from "./rows-file.ts";
import { type RunEnd, type RunOptions, runRows } from "./run.ts";
import { kindOfRow } from "./status.ts";
import { createWork, type WorkOptions } from "./work.ts";

export type OpenBatchOptions = PlanOptions & {
  /** The path of the results file. */
  results: string;
  /** `file` is the rows file as it was typed; "-" for stdin, and "" for rows of a program. */
  source: Pick<RunLine, "file" | "total" | "shard">;
  /** The keys of all rows of the rows file, if the rows are one shard of it. */
  keys?: readonly string[] | undefined;
  overwrite?: boolean | undefined;
  /** Only plans the batch: takes no lease, and does not change the results file. */
  isDryRun?: boolean | undefined;
  /** Aborts the questions to the service. */
  signal?: AbortSignal | undefined;
  onNote(text: string): void;
};

/** What a batch will do, before anything is sent. */
export type BatchPlan = {
  rows: number;
  /** `deleted` of these were saved, and then deleted by the user. */
  done: number;
  deleted: number;
  running: number;
  /** Refused and failed rows that are left alone; `refused` of them were refused. */
  failed: number;
  refused: number;
  /** Rows that may have been charged. */
  unknown: number;
  /** Rows that were charged, and whose generations the service no longer knows. */
  lost: number;
  /** Rows that are not started, because the row whose last frame they begin with has no video and is not started again. */
  blocked: number;
  to_start: number;
  /**
   * `credits` is the expected cost of all starts, and `cost` that in USD, or null unless every price is
   * known; `credits_each` is set where all prices are equal. `unpriced` starts have no known price.
   */
  models: {
    model: string;
    to_start: number;
    credits_each: number | null;
    credits: number | null;
    cost: number | null;
    unpriced: number;
  }[];
  credits: number | null;
  cost: number | null;
  unpriced: number;
  remaining_credits: number | null;
  /**
   * Chains of rows in which each begins with the last frame of the one before, as line numbers; the first row
   * is new or running.
   */
  chains: number[][];
};

export type Batch = {
  plan: BatchPlan;
  /** The rows with their states. */
  rows: PlannedRow[];
  costs: Costs;
  /** What all starts of the plan cost. */
  cost: ExpectedCost;
  /** The keys of rows that began with the last frame of an earlier video of their source row. */
  oldFrameKeys: ReadonlySet<string>;
  /** The rows that are not made again because a redo has already done so. */
  upToDate: readonly PlannedRow[];
  /**
   * Starts the new rows, and saves the videos of all that run. Rejects, before anything is sent, with `usage`
   * for a bad option, and with `output` when the results file cannot be written.
   */
  run(options: RunOptions & Omit<WorkOptions, "overwrite">): Promise<RunEnd>;
  /** The record of the film at a path; `undefined` if this batch did not make that file, or it has changed since. */
  findFilm(path: string): Promise<FilmLine | undefined>;
  /** Records a film just before it is renamed to its final path. Throws `output`. */
  recordFilm(film: Omit<FilmLine, "kind">): Promise<void>;
  /** Throws for a path that vidgen or this batch must not overwrite (see `ProtectedCheck`). */
  checkProtected: Service["checkProtected"];
  /** Ends the lease of the results file. */
  close(): Promise<void>;
};

type BatchDependencies = {
  service: Service;
  io: Machine;
};

/**
 * Plans a batch, and holds the lease of its results file until `close`. Throws `usage` for rows that
 * contradict an earlier run, or whose output exists, for a file that is not a results file or has an
 * unreadable line, and while another process runs the same rows; `output` when the results file cannot be
 * read or written.
 */
export async function openBatch(
  rows: readonly KeyedRow[],
  options: OpenBatchOptions,
  dependencies: BatchDependencies,
): Promise<Batch> {
  const { service, io } = dependencies;
  checkWindowsNames(options.results, io.platform);
  const path = await findResults(options.results, io.disk);
  const leaseOptions = { io, onNote: options.onNote };
  const lease = options.isDryRun ? undefined : await holdResults(path, leaseOptions);
  try {
    const redactedRows = rows.map((row) => redactRow(row, service.redact));
    const ownResults = await readResults(path, io.disk);
    checkService(ownResults.lastRun, path, service.name);
    const rowsFile = await findRowsFile(options.source.file, io.disk);
    const runLine = describeRun(path, { rows: redactedRows, rowsFile, ...options.source, service: service.name });
    const results = openResults(path, runLine, { ...io, redact: service.redact });
    if (lease) await results.begin();
    const journalAttempts = await readJournalAttempts(service);
    const journalEntries = journalAttempts.map(foldEntry);
    const isHere = ({ base_url }: Pick<Entry, "base_url">) => isSameService(base_url, service.name);
    const entries = journalEntries.filter(isHere);
    const otherPaths = rowsFile ? await findOtherResults(path, rowsFile, journalEntries, io.disk) : new Set<string>();
    const trusted = { userPaths: findUserPaths(path, rows, journalEntries), platform: io.platform };
    checkMachines(ownResults.paths, trusted);
    const ownPaths = new Set([path, ...ownResults.paths.map(({ named }) => named)]);
    const pathsOfOtherRuns = [...ownPaths, ...otherPaths].filter((name) => name !== path);
    if (lease) await checkNoOtherRun(pathsOfOtherRuns, options.source.shard, leaseOptions);
    const keys = new Set(redactedRows.map(({ key }) => key));
    const allKeys = new Set([...keys, ...(options.keys ?? []).map(service.redact)]);
    const files = await readAll(ownResults, { keys, otherPaths }, options, dependencies);
    const networkVideos = files.flatMap((file) => file.networkVideos);
    checkMachines(networkVideos, trusted);
    const paths = new Set([...ownPaths, ...otherPaths]);
    const ownNames = new Set(ownResults.attempts.map(([{ attempt }]) => attempt));
    const isOwn = ({ attempt, batch = "" }: Entry) => ownNames.has(attempt) || ownPaths.has(batch);
    // The previews of another results file are not the real videos of this one, nor the other way round.
    const isOfKind = (entry: Entry) => isOwn(entry) || !isOtherKind(entry, service);
    const attemptLines = findAttempts(files, { journalAttempts, paths }).filter((lines) => isOfKind(foldEntry(lines)));
    const ofService = attemptLines.map(foldEntry).filter(({ base_url }) => mayBeSameService(base_url, service.name));
    const allAttempts = ofService.map(createRowFinder(redactedRows, allKeys));
    const attempts = allAttempts.filter(isHere);
    /** Whether an attempt is a part of this batch: all in this results file, and those at rows that the rows file has now. */
    const isOfBatch = (entry: Entry) => isOwn(entry) || allKeys.has(entry.row ?? "");
    const attemptsOfBatch = attempts.filter(isOfBatch);
    const ledger = createLedger(attempts, lease && results, io);
    const protectedPaths = [
      path,
      lockOf(path),
      ...(rowsFile ? [rowsFile.identity.path] : []),
      ...rows.flatMap(({ files = [] }) => files),
    ];
    const batchService = withJournal(service, ledger.mirror, { protectedPaths, recall: ledger.recall });
    const isActive = ({ status }: Entry) => status !== "dismissed";
    const activeAttempts = attempts.filter(isActive);
    checkPreviews(activeAttempts.filter(isOfBatch), path, service);
    const faults = createFaults(rowsName(options.source));
    const redoLines = files.flatMap(({ redos }) => redos);
    const journalNames = journalAttempts.map(([{ attempt }]) => attempt);
    const redos = readRedos(redoLines, activeAttempts, journalNames);
    const { signal = new AbortController().signal } = options;
    const findRowKey = createRowKeys(service, attempts, { signal, isDryRun: options.isDryRun ?? false });
    const planOptions = { ...options, faults, redos, findRowKey, redo: options.redo };
    const elsewhere = allAttempts.filter((entry) => isActive(entry) && !isHere(entry));
    const planAttempts = { here: activeAttempts, elsewhere };
    const { rows: uncheckedRows, upToDate } = await planRows(redactedRows, planAttempts, planOptions, io.disk);
    const isAtOtherRow = ({ row = "" }: Entry) => !allKeys.has(row);
    const atOtherRows = allAttempts.filter((entry) => isActive(entry) && isAtOtherRow(entry));
    checkChanged(uncheckedRows, atOtherRows, { ...options, redact: service.redact, service: service.name });
    const plannedRows = await checkOutputs(uncheckedRows, { ...options, faults }, { service: batchService, io });
    const unwrittenLines = [
      ...findUnwrittenRedos(ownResults.redos, redoLines),
      ...findUnwritten(attemptLines, ownResults.attempts, keys),
    ];
    if (lease) await createFolders(plannedRows, io.disk);
    noteOrphans(activeAttempts.filter(isAtOtherRow), options.onNote);
    const rowsWithOldFrame = findOldFrames(plannedRows, attempts);
    noteOldFrames(rowsWithOldFrame, options.onNote);
    noteOtherAccounts(plannedRows, service.account, options.onNote);
    noteWarnings(plannedRows, options.onNote, service);
    const toStart = plannedRows.filter(({ state }) => state.kind === "new");
    const listed = toStart.length === 0 ? new Map() : await fetchPrices(service, signal);
    const costs = createCosts(attemptsOfBatch, entries, service, listed);
    const { journal } = service;
    const readBeside = rowsFile && createBesideReader({ path, rowsFile, journal, attempts: attemptLines }, io.disk);
    /** Counts what other shards have started meanwhile. */
    const countBeside = async () => {
      const found = (await readBeside?.()) ?? [];
      for (const entry of found) if (isHere(entry) && isOfKind(entry) && !isAtOtherRow(entry)) costs.count(entry);
    };
    return {
      plan: sumUp(plannedRows, costs),
      rows: plannedRows,
      costs,
      cost: sumCosts(
        service,
        toStart.map(({ record }) => record),
        costs.estimate,
      ),
      checkProtected: batchService.checkProtected,
      oldFrameKeys: new Set(rowsWithOldFrame.map(({ key }) => key)),
      upToDate,
      async run(runOptions) {
        if (!(runOptions.jobs >= 1)) throw usage("jobs must be at least 1.");
        for (const line of [...unwrittenLines, ...redoLinesOf(plannedRows, io)])
          await results.append(line).catch((error) => {
            throw beforePaying(error);
          });
        for (const { state } of plannedRows)
          if (state.kind === "done" && state.isFound && state.file !== undefined)
            await recordSaved(batchService, state.id, state.file);
        const shouldReport = createEventFilter(io.now);
        let listenerError: VidgenError | undefined;
        const onEvent = (event: GenerationEvent) => {
          try {
            if (shouldReport(event)) runOptions.onEvent(event);
          } catch (cause) {
            // The batch continues: its videos are paid for.
            listenerError ??= new VidgenError("bug", `A listener of the batch threw an error: ${cause}`, { cause });
          }
        };
        const signal = lease ? AbortSignal.any([runOptions.signal, lease.lost]) : runOptions.signal;
        const confirmLease = async () => lease?.confirm();
        const label = { name: labelOf(runLine, service.redact), size: options.source.total };
        const work = createWork(
          { service: batchService, costs, ledger, results: path, rowsFile, label, confirmLease },
          { ...runOptions, signal, overwrite: options.overwrite, onEvent },
        );
        const running = plannedRows.flatMap((row) =>
          row.state.kind === "running" ? [{ row, id: row.state.attempt.id, attempt: row.state.attempt.attempt }] : [],
        );
        const findListenerError = () => listenerError;
        const sourceKeys = new Set(toStart.map(({ source }) => source));
        const sources = new Map(
          plannedRows.flatMap(({ key, state }) => {
            const isSource = state.kind === "done" && state.file !== undefined && sourceKeys.has(key);
            return isSource ? [[key, { id: state.id, file: state.file as string }]] : [];
          }),
        );
        const end = await runRows(
          { running, toStart, sources },
          { ...runOptions, signal },
          { work, costs, io, countBeside, findListenerError },
        );
        // Written last: starting rows and saving videos is more urgent.
        const failures = runOptions.infoJson ? await addInfos(plannedRows, batchService, signal) : [];
        return { ...end, failures: [...failures, ...end.failures] };
      },
      async findFilm(path) {
        // The newest line may be about a film that never got its name, because the process was killed before:
        // then an earlier film is still there.
        for (const film of ownResults.films.toReversed())
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

/** What messages call the source of the rows: its file, stdin, or the batch of the library. */
function rowsName({ file }: Pick<RunLine, "file">): string {
  if (file === "") return "The batch";
  return file === "-" ? "stdin" : file;
}

/** The attempts in the journal that may be at this service, newest first. */
async function readJournalAttempts({ name, journal }: Service): Promise<AttemptLines[]> {
  return (await readAttempts(journal)).filter(([{ base_url }]) => mayBeSameService(base_url, name));
}

/** The paths that the user has named: in this run, or in an earlier command. */
function findUserPaths(results: string, rows: readonly Row[], entries: readonly Entry[]): string[] {
  const earlierPaths = entries.flatMap(({ batch, file }) => [batch, file]);
  return [results, ...rows.map(({ outputPath }) => outputPath), ...earlierPaths].filter((path) => path !== undefined);
}

type RunSource = Pick<OpenBatchOptions["source"], "file" | "total" | "shard"> & {
  rows: readonly KeyedRow[];
  rowsFile: RowsFile | undefined;
  service: string;
};

function describeRun(path: string, { rows, rowsFile, file, total, shard, service }: RunSource): RunLine {
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
const maxLabelCharacters = 200;

/** The name of the batch at the service: that of its rows file, else of its results file. */
function labelOf({ file, results }: RunLine, redact: Service["redact"]): string {
  const name = redact(basename(file === "" || file === "-" ? results : file));
  return [...name.replace(/[\p{Cc}\p{Surrogate}]/gu, " ")].slice(0, maxLabelCharacters).join("").trim() || "batch";
}

/** The content of this results file and of the other results files of the rows file, with the redos of the rows of these keys. */
async function readAll(
  own: Results,
  { keys, otherPaths }: { keys: ReadonlySet<string>; otherPaths: ReadonlySet<string> },
  { onNote }: OpenBatchOptions,
  { service, io }: BatchDependencies,
): Promise<Results[]> {
  const files = [own];
  for (const other of otherPaths) {
    const { lastRun, redos, ...read } = await readResults(other, io.disk);
    if (lastRun === undefined || mayBeSameService(lastRun.service, service.name))
      files.push({ ...read, lastRun, redos: redos.filter(({ rows }) => rows.some(({ row }) => keys.has(row))) });
    else onNote(`${other} has the results of another service, ${lastRun.service}: they are ignored.`);
  }
  return files;
}

/** The line that records the rows to make again. It is one line for all of them, so that a killed process leaves none out. */
function redoLinesOf(rows: readonly PlannedRow[], io: Pick<Machine, "date">): DatedLine[] {
  const redoneRows = rows.flatMap(({ state }) => (state.kind === "new" && state.redoneRow ? state : []));
  const [first] = redoneRows;
  if (first?.redo === undefined) return [];
  const at = io.date().toISOString();
  return [{ at, kind: "redo", redo: first.redo, rows: redoneRows.flatMap((state) => state.redoneRow ?? []) }];
}

/** The row without API keys, for the results file and the journal. */
function redactRow(row: KeyedRow, redact: Service["redact"]): KeyedRow {
  const { key, source, record, written, from } = row;
  const hash = (request: StartRequest) => hashRow(redactValue(request, redact), from !== undefined);
  const hashes = { hash: hash(record), writtenHash: written && hash(written.record) };
  return { ...row, key: redact(key), source: source && redact(source), ...hashes };
}

/**
 * Returns a function that finds the row of an attempt at a row without an id: another spelling, such as 16:09
 * for 16:9, gives the row another key. Only for an attempt at a row that the file does not have.
 */
function createRowFinder(rows: readonly KeyedRow[], keys: ReadonlySet<string>): (entry: Entry) => Entry {
  const rowsWithoutId = rows.filter(({ nth }) => nth !== undefined);
  const prompts = new Set(rowsWithoutId.map(({ record }) => record.prompt));
  const keyOfRow = new Map(rowsWithoutId.map(({ hash, nth, key }) => [`${hash}-${nth}`, key]));
  return (entry) => {
    const { row = "", request, from } = entry;
    const [, count] = /^[0-9a-f]{16}-(\d+)$/.exec(row) ?? [];
    if (count === undefined || keys.has(row) || !prompts.has(request.prompt)) return entry;
    const key = keyOfRow.get(`${hashRow(asRead(request), from !== undefined)}-${count}`);
    return key === undefined ? entry : { ...entry, row: key };
  };
}

/**
 * Throws `usage` for the results of another service: this one does not know its ids. At another path of the
 * same origin, each row decides.
 */
function checkService(source: RunLine | undefined, path: string, baseUrl: string): void {
  if (source === undefined || mayBeSameService(source.service, baseUrl)) return;
  throw usage(
    `${path} has the results of another service, ${source.service}. Nothing was sent.`,
    "Choose another file with --results.",
  );
}

/** Whether an attempt is a preview, and its model makes real videos now, or the other way round. */
function isOtherKind({ request, is_preview }: Entry, { isPreview }: Pick<Service, "isPreview">): boolean {
  return differsInPreview(is_preview, isPreview(request.model));
}

/** Throws `usage` where earlier rows are previews and new ones would be real videos, or the other way round. */
function checkPreviews(attempts: readonly Entry[], path: string, service: Pick<Service, "isPreview">): void {
  const otherKind = attempts.find((entry) => entry.id !== undefined && isOtherKind(entry, service));
  if (!otherKind) return;
  const [existing, requested] = otherKind.is_preview ? ["previews", "real videos"] : ["real videos", "previews"];
  throw usage(
    `${path} has ${existing}, such as that of row ${otherKind.row}, but this command asks for ${requested}. Nothing was sent.`,
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
  // One iterator for all workers, so that each row is taken once.
  const remainingRows = rows.values();
  let isAnswering = true;
  const add = async () => {
    for (const row of remainingRows) {
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
function noteOrphans(attempts: readonly Entry[], onNote: OpenBatchOptions["onNote"]): void {
  const orphans = attempts.filter((each) => kindOfRow(each) === "running");
  if (orphans.length === 0) return;
  const ids = orphans.slice(0, 3).map(({ id }) => id);
  const count = orphans.length === 1 ? "1 generation" : `${orphans.length} generations`;
  onNote(
    `${count} may be unsaved, from rows that are no longer in the file: ${ids.join(", ")}${orphans.length > 3 ? " ..." : ""}. \`vidgen wait <id> -o ...\` saves one.`,
  );
}

/** The rows that began with the last frame of an earlier video of their source row. */
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
  const begin = lines.length === 1 ? "still begins" : "still begin";
  const shown = `${lines.slice(0, 5).join(", ")}${lines.length > 5 ? " ..." : ""}`;
  onNote(
    `${what} ${shown} ${begin} with the last frame of an earlier video, not of the one that \`from\` names now. --redo with the id of a row makes that row again, which is charged.`,
  );
}

function idOf(state: PlannedRow["state"]): string | undefined {
  if (state.kind === "running") return state.attempt.id;
  return state.kind === "done" ? state.id : undefined;
}

/** Notes running rows of another key. The service answers 404 for them although they are not lost. */
function noteOtherAccounts(rows: PlannedRow[], account: string, onNote: OpenBatchOptions["onNote"]): void {
  const isOther = (accountOfRow: string | undefined) => accountOfRow !== undefined && accountOfRow !== account;
  const attemptsOfOthers = rows.flatMap(({ state }) =>
    state.kind === "running" && isOther(state.attempt.account) ? state.attempt : [],
  );
  if (attemptsOfOthers.length === 0) return;
  const [count, videos] =
    attemptsOfOthers.length === 1
      ? ["1 running row was", "its video"]
      : [`${attemptsOfOthers.length} running rows were`, "their videos"];
  const accounts = [...new Set(attemptsOfOthers.map(({ account }) => account))].join(", ");
  onNote(
    `${count} started with another key (account ${accounts}, not ${account}): only that key can save ${videos}. Nothing is charged again.`,
  );
}

/** Notes what is probably wrong in the new rows. A warning about several rows is one note. */
function noteWarnings(
  rows: readonly PlannedRow[],
  onNote: OpenBatchOptions["onNote"],
  service: Pick<Service, "isLocal">,
): void {
  const lines = new Map<string, number[]>();
  for (const { state, record, line } of rows) {
    for (const warning of state.kind === "new" ? findWarnings(record, service) : []) {
      const linesOfWarning = lines.get(warning);
      if (linesOfWarning) linesOfWarning.push(line);
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
  const newRows = rows.filter(({ state }) => state.kind === "new");
  const models = [...groupBy(newRows, ({ record }) => record.model)].map(([model, rowsOfModel]) => {
    const ofModel = rowsOfModel.map(({ record }) => costs.estimate(record));
    const inCredits = ofModel.map(({ credits }) => knownAmount(credits));
    const credits = sumOf(inCredits);
    const [first = null] = credits === null || inCredits.some((each) => each !== inCredits[0]) ? [] : inCredits;
    const cost = sumOf(ofModel.map(({ usd }) => knownAmount(usd)));
    const unpriced = ofModel.filter(
      ({ credits, usd }) => knownAmount(credits) === undefined && knownAmount(usd) === undefined,
    );
    return { model, to_start: ofModel.length, credits_each: first, credits, cost, unpriced: unpriced.length };
  });
  const refused = rows.filter(({ state }) => state.kind === "failed" && state.attempt.state === "refused").length;
  return {
    rows: rows.length,
    done: count("done") + count("deleted"),
    deleted: count("deleted"),
    running: count("running"),
    failed: count("failed"),
    refused,
    unknown: count("unknown"),
    lost: count("lost"),
    blocked: count("blocked"),
    to_start: count("new"),
    models,
    credits: sumOf(models.map(({ credits }) => credits)),
    cost: sumOf(models.map(({ cost }) => cost)),
    unpriced: models.reduce((sum, { unpriced }) => sum + unpriced, 0),
    remaining_credits: costs.remainingCredits() ?? null,
    chains: findChains(rows),
  };
}

/** The sum of amounts; `null` if one is unknown. */
function sumOf(amounts: readonly (number | null | undefined)[]): number | null {
  let sum = 0;
  for (const amount of amounts) {
    if (amount == null) return null;
    sum += amount;
  }
  return roundUsd(sum);
}

function findChains(rows: readonly PlannedRow[]): number[][] {
  const unfinishedRows = rows.filter(({ state }) => state.kind === "new" || state.kind === "running");
  const byKey = new Map(unfinishedRows.map((row) => [row.key, row]));
  const toStart = unfinishedRows.filter(({ state }) => state.kind === "new");
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
