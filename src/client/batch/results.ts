import { dirname, relative, resolve, sep } from "node:path";
import { systemCode, systemHint, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile, Io } from "../../io.ts";
import { parseJson } from "../../protocol/json.ts";
import { isNetworkPath, machineOf } from "../../video/naming.ts";
import type { Service } from "../generation/service.ts";
import { redactValue } from "../http/redaction.ts";
import {
  type AttemptLines,
  type DatedLine,
  type FilmLine,
  groupLines,
  parseLine,
  type RedoLine,
  type RunLine,
} from "../ledger/history.ts";
import { type FileIdentity, findRealPath } from "../ledger/identity.ts";
import { blankAttempts, type WithdrawnLine } from "../ledger/journal.ts";
import { appendLines, openLines, readLines } from "../ledger/lines.ts";
import { kindOf } from "../save/files.ts";

/** The content of a results file. It has the same lines as a journal, a line at the start of each run, and relative paths. */
export type Results = {
  /** The line of the last run. */
  lastRun: RunLine | undefined;
  /** Every path that the file had in a run: it may have been renamed since, or be a hard link. */
  paths: NamedPath[];
  /** Oldest first. */
  attempts: AttemptLines[];
  /** The films that were joined from its videos, oldest first. */
  films: FilmLine[];
  redos: (RedoLine & { at: string })[];
  /** Lines about attempts whose intent is missing, because somebody removed that line. */
  orphans: { path: string; number: number; attempt: string }[];
  /** The videos that are on another machine or a device in Windows. */
  networkVideos: NamedPath[];
};

/** A path that line `number` of the results file `path` contains. */
export type NamedPath = { path: string; number: number; named: string };

export type ResultsFile = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output`. */
  append(line: DatedLine): Promise<void>;
  /** Withdraws an intent, as a journal does. Throws `output`. */
  withdraw(line: WithdrawnLine & DatedLine): Promise<void>;
  /** Records the start of a run. Throws `output`. */
  begin(): Promise<void>;
};

/** The path of the lease of a results file. */
export function lockOf(path: string): string {
  return `${path}.lock`;
}

/**
 * The real path of a results file, which names its lease and its attempts in the journal. Throws `usage` for a folder,
 * a pipe or a device, since reading those may never end.
 */
export async function findResults(results: string, disk: Disk): Promise<string> {
  const path = await findRealPath(results, disk);
  const kind = await kindOf(path, disk).catch((cause) => {
    throw resultsError(path, cause);
  });
  if (kind === "folder" || kind === "other") throw usage(`${path} is not a file: the results cannot be written there.`);
  return path;
}

type ResultsIo = Pick<Io, "date" | "disk"> & Pick<Service, "redact">;

/** `redact` removes API keys, which a path or the service's error text may contain. */
export function openResults(path: string, source: RunLine, io: ResultsIo): ResultsFile {
  let mayBeTorn = false;
  const runLine = () => ({ at: io.date().toISOString(), ...source });
  const redactLine = (line: DatedLine) => redactValue(line, io.redact);
  const write = async (line: DatedLine, first?: DatedLine) => {
    try {
      await appendLines(path, [redactLine(line)], io.disk, first && redactLine(first));
      mayBeTorn = false;
    } catch (cause) {
      mayBeTorn = true;
      throw resultsError(path, cause);
    }
  };
  const begin = () => write(runLine());
  const append = async (line: DatedLine) => {
    // A full disk may leave half a line. Readers accept a torn line only if the next complete line starts a run.
    if (mayBeTorn) await begin();
    // If somebody deleted the file meanwhile, it starts with the run's line again.
    await write(withoutLocalPaths(line, path), runLine());
  };
  return {
    path,
    begin,
    append,
    withdraw: (line) =>
      append(line).catch(() =>
        blankAttempts(path, [{ attempt: line.attempt }], io.disk).catch((cause) => {
          throw resultsError(path, cause);
        }),
      ),
  };
}

/** A line without absolute paths: the file may be moved together with the videos. */
function withoutLocalPaths(line: DatedLine, path: string): DatedLine {
  if (line.kind === "intent") return withoutPaths(line);
  return hasFile(line) ? { ...line, file: relative(dirname(path), resolve(line.file)).replaceAll(sep, "/") } : line;
}

/** An intent without its paths, which only the machine that started the generation uses. */
function withoutPaths(line: DatedLine & { kind: "intent" }): DatedLine {
  return { ...line, path: undefined, part: undefined, batch: undefined, rows_file: undefined };
}

/**
 * The line with the full path of its video. Drops the paths of an intent: somebody else may have written
 * them, and vidgen would delete files there.
 */
function withFullPath(line: DatedLine | undefined, path: string): DatedLine | undefined {
  if (line?.kind === "intent") return withoutPaths(line);
  return line && hasFile(line) ? { ...line, file: resolve(dirname(path), line.file) } : line;
}

function hasFile(line: DatedLine): line is DatedLine & { kind: "delivered" | "film"; file: string } {
  return line.kind === "film" || (line.kind === "delivered" && line.file !== undefined);
}

/** The error for an unreadable file or folder. It may list rows that would otherwise be paid for twice. */
export function readError(path: string, cause: unknown): VidgenError {
  return new VidgenError("output", `Cannot read ${path}: ${systemReason(cause)}.`, { hint: systemHint(cause), cause });
}

/** The error for a results file that cannot be written. */
export function resultsError(path: string, cause: unknown): VidgenError {
  return new VidgenError("output", `Cannot write ${path}: ${systemReason(cause)}.`, { hint: systemHint(cause), cause });
}

/**
 * Reads a results file; a missing file is empty. Throws `usage` for an unreadable line, without which a row could
 * be paid for twice. Only the last line of a run may be torn by a crash.
 */
export async function readResults(path: string, disk: Disk, { mustExist = false } = {}): Promise<Results> {
  const lines: DatedLine[] = [];
  const chargedLines: Results["orphans"] = [];
  const paths: NamedPath[] = [];
  const films: FilmLine[] = [];
  const redos: Results["redos"] = [];
  const networkVideos: NamedPath[] = [];
  let lastRun: RunLine | undefined;
  let number = 0;
  let tornNumber: number | undefined;
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    for await (const { text } of readLines(file)) {
      number++;
      if (text.trim() === "") continue;
      const parsedLine = parseLine(text);
      const named = parsedLine?.kind === "delivered" ? parsedLine.file : undefined;
      if (named !== undefined && isNetworkPath(named)) networkVideos.push({ path, number, named });
      const line = withFullPath(parsedLine, path);
      // Never written here: a partial file exists on one machine only.
      if (line?.kind === "part") continue;
      if (line?.kind === "batch") {
        tornNumber = undefined;
        lastRun = line;
        paths.push({ path, number, named: line.results });
      } else if (line === undefined && isTorn(text)) tornNumber ??= number;
      else if (lastRun === undefined)
        throw usage(
          `${path} is not a results file of \`vidgen batch\`.`,
          "If this is the file with the rows, it has no results yet.",
        );
      else if (tornNumber !== undefined) throw unreadableError(path, tornNumber);
      else if (line?.kind === "film") films.push(line);
      else if (line?.kind === "redo") redos.push(line);
      else {
        const attempt = line && attemptOf(line);
        if (line === undefined || attempt === undefined) throw unreadableError(path, number);
        if (mayBeCharged(line)) chargedLines.push({ path, number, attempt });
        lines.push(line);
      }
    }
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    const isMissing = systemCode(error) === "ENOENT";
    if (mustExist && isMissing) throw usage(`There is no results file ${path}.`);
    if (!isMissing) throw readError(path, error);
  } finally {
    await file?.close();
  }
  const attempts = groupLines(lines.reverse()).reverse();
  const knownAttempts = new Set(attempts.map(attemptName));
  return {
    lastRun,
    paths,
    attempts,
    films,
    redos,
    orphans: chargedLines.filter(({ attempt }) => !knownAttempts.has(attempt)),
    networkVideos,
  };
}

/** In a results file, unlike in the journal, lines about an id have the attempt too. */
function attemptOf(line: DatedLine): string | undefined {
  return "attempt" in line ? line.attempt : undefined;
}

function mayBeCharged({ kind }: DatedLine): boolean {
  return kind !== "intent" && kind !== "unsent" && kind !== "dismissed";
}

/** Throws `usage` for a line about an attempt whose row is in none of these files, nor in the journal. */
export function checkOrphans(files: readonly Results[], journalAttempts: readonly AttemptLines[]): void {
  const orphans = files.flatMap((file) => file.orphans);
  if (orphans.length === 0) return;
  const knownAttempts = new Set([...files.flatMap((file) => file.attempts), ...journalAttempts].map(attemptName));
  const orphan = orphans.find(({ attempt }) => !knownAttempts.has(attempt));
  if (orphan) throw unreadableError(orphan.path, orphan.number);
}

/**
 * On Windows, throws `usage` for a path on another machine, or on a device, unless one of `userPaths` is on
 * that machine. Somebody else may have written the results files, and Windows may send the user's credentials
 * to a machine when it opens a file there.
 */
export function checkMachines(
  paths: readonly NamedPath[],
  { userPaths, platform }: { userPaths: readonly string[]; platform: string },
): void {
  if (platform !== "win32") return;
  const userMachines = new Set(userPaths.map(machineOf));
  for (const { path, number, named } of paths) {
    const machine = machineOf(named);
    if (!isNetworkPath(named) || (machine !== undefined && userMachines.has(machine))) continue;
    throw usage(
      `Line ${number} of ${path} has the path ${named}: only a flag may name a path on another machine or a device. Nothing was sent.`,
      machine === undefined
        ? "Restore the file as it was: vidgen does not save videos on devices."
        : `Windows would sign in to ${machine}. If you trust it, name a folder on it with -o.`,
    );
  }
}

function attemptName([{ attempt }]: AttemptLines): string {
  return attempt;
}

function unreadableError(path: string, number: number): VidgenError {
  return usage(
    `Cannot read line ${number} of ${path}: without it, a row could be paid for twice. Nothing was sent.`,
    "Restore the file as it was, or use the version of vidgen that wrote the line. Delete the line only if its row was not started.",
  );
}

/** Enough for the first lines of a results file, which include that of its first run. */
const headBytes = 65_536;

/** The rows file of a results file's first run; `undefined` if the file cannot be read or is not a results file. */
export async function readRowsFile(path: string, disk: Disk): Promise<FileIdentity | undefined> {
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    for (const text of buffer.toString("utf8", 0, bytesRead).split("\n")) {
      const line = parseLine(text);
      if (line?.kind !== "batch") continue;
      const { file, inode, born } = line;
      // Somebody else may have written the file: Windows would connect to the machine that it names.
      const rowsPath = isNetworkPath(file) ? file : await findRealPath(resolve(dirname(path), file), disk);
      return { path: rowsPath, inode, born };
    }
  } catch {
  } finally {
    await file?.close();
  }
  return undefined;
}

/** How each line begins. */
const lineStart = '{"at":';

/** Whether a crash may have cut off this line. After a power failure, the rest of a line may be zeros. */
function isTorn(text: string): boolean {
  if (parseJson(text.replace(/^\ufeff/, "")) !== undefined) return false;
  const begin = text.replace(/^\ufeff/, "").replace(/[\0\r]+$/, "");
  // Quotes inside a field are escaped, so a second `{"at":` is the start of another line.
  return lineStart.startsWith(begin) || begin.lastIndexOf(lineStart) === 0;
}
