import { dirname, relative, resolve } from "node:path";
import { systemCode, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile, Io } from "../../io.ts";
import { parseJson } from "../../protocol/json.ts";
import type { Service } from "../generation/service.ts";
import { redactValue } from "../http/redaction.ts";
import {
  type AttemptLines,
  type DatedLine,
  type FilmLine,
  groupLines,
  parseLine,
  type RunLine,
} from "../ledger/history.ts";
import { type FileIdentity, findRealPath } from "../ledger/identity.ts";
import { blankAttempt, type WithdrawnLine } from "../ledger/journal.ts";
import { appendLine, openLines, readLines } from "../ledger/lines.ts";
import { kindOf } from "../save/files.ts";

/** What a results file says. It is a journal: it has the same lines, each run of the batch begins with one of its own, and paths are relative to it. */
export type Results = {
  /** Of the last run. */
  source: RunLine | undefined;
  /** Every path by which a run has known the file: it may have been renamed, or be a hard link. */
  names: ReadonlySet<string>;
  /** The oldest first. */
  attempts: AttemptLines[];
  /** The films that were joined of its videos, the oldest first. */
  films: FilmLine[];
  /** Which lines are about attempts whose row is not in the file: somebody has removed the line with it. */
  orphans: { path: string; number: number; attempt: string }[];
};

export type ResultsFile = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output`. */
  append(line: DatedLine): Promise<void>;
  /** As that of a journal. Throws `output`. */
  withdraw(line: WithdrawnLine & DatedLine): Promise<void>;
  /** Writes down that a run begins. Throws `output`. */
  begin(): Promise<void>;
};

/** The lease of the process that runs the batch. */
export function lockOf(path: string): string {
  return `${path}.lock`;
}

/**
 * The real path of a results file, under which it is held and the journal names it, whatever links lead to it. Throws `usage` for a folder,
 * a pipe or a device: to read one may wait for ever.
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

/** `redact` keeps the key out of the lines: a path, or the service's own words in an error, may hold it. */
export function openResults(path: string, source: RunLine, io: ResultsIo): ResultsFile {
  let isTorn = false;
  const beginning = () => ({ at: io.date().toISOString(), ...source });
  const hidden = (line: DatedLine) => redactValue(line, io.redact);
  const write = async (line: DatedLine, first?: DatedLine) => {
    try {
      await appendLine(path, hidden(line), io.disk, first && hidden(first));
      isTorn = false;
    } catch (cause) {
      isTorn = true;
      throw resultsError(path, cause);
    }
  };
  const begin = () => write(beginning());
  const append = async (line: DatedLine) => {
    // On a full disk half of the last line may be written: readers accept that where a run begins, and nowhere else.
    if (isTorn) await begin();
    // Somebody may have deleted the file meanwhile.
    await write(withoutPlace(line, path), beginning());
  };
  return {
    path,
    begin,
    append,
    withdraw: (line) =>
      append(line).catch(() =>
        blankAttempt(path, { attempt: line.attempt }, io.disk).catch((cause) => {
          throw resultsError(path, cause);
        }),
      ),
  };
}

/** A line without what holds on this machine alone: the file may be moved, together with the videos. */
function withoutPlace(line: DatedLine, path: string): DatedLine {
  if (line.kind === "intent")
    return { ...line, path: undefined, part: undefined, batch: undefined, rows_file: undefined };
  return hasFile(line) ? { ...line, file: relative(dirname(path), resolve(line.file)) } : line;
}

function hasFile(line: DatedLine): line is DatedLine & { kind: "delivered" | "film"; file: string } {
  return line.kind === "film" || (line.kind === "delivered" && line.file !== undefined);
}

/** The error for a file or folder that another start depends on: a row that it tells of could be paid for twice. */
export function readError(path: string, cause: unknown): VidgenError {
  return new VidgenError("output", `Cannot read ${path}: ${systemReason(cause)}.`, { cause });
}

/** The error for a results file that cannot be written. */
export function resultsError(path: string, cause: unknown): VidgenError {
  return new VidgenError("output", `Cannot write ${path}: ${systemReason(cause)}.`, { cause });
}

/**
 * Reads a results file; one that does not exist is empty. Throws `usage` for a line that cannot be read, since a row that it tells of could
 * be paid for twice. Only the last line of a run may be torn, by a crash.
 */
export async function readResults(path: string, disk: Disk, { mustExist = false } = {}): Promise<Results> {
  const lines: DatedLine[] = [];
  const charged: Results["orphans"] = [];
  const names = new Set<string>();
  const films: FilmLine[] = [];
  let source: RunLine | undefined;
  let number = 0;
  let tornNumber: number | undefined;
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    for await (const { text } of readLines(file)) {
      number++;
      if (text.trim() === "") continue;
      const read = parseLine(text);
      const line = read && hasFile(read) ? { ...read, file: resolve(dirname(path), read.file) } : read;
      if (line?.kind === "batch") {
        tornNumber = undefined;
        source = line;
        names.add(line.results);
      } else if (line === undefined && isTorn(text)) tornNumber ??= number;
      else if (source === undefined)
        throw usage(
          `${path} is not a results file of \`vidgen batch\`.`,
          "If this is the batch file, it has no results yet.",
        );
      else if (tornNumber !== undefined) throw unreadableError(path, tornNumber);
      else if (line?.kind === "film") films.push(line);
      else {
        const attempt = line && attemptOf(line);
        if (line === undefined || attempt === undefined) throw unreadableError(path, number);
        if (mayBeCharged(line)) charged.push({ path, number, attempt });
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
  const known = new Set(attempts.map(nameOf));
  return { source, names, attempts, films, orphans: charged.filter(({ attempt }) => !known.has(attempt)) };
}

/** Here each line has it, as in no other journal: those about an id too. */
function attemptOf(line: DatedLine): string | undefined {
  return "attempt" in line ? line.attempt : undefined;
}

function mayBeCharged({ kind }: DatedLine): boolean {
  return kind !== "intent" && kind !== "unsent" && kind !== "dismissed";
}

/** Throws `usage` for a line about an attempt whose row neither these files nor the journal tell. */
export function checkOrphans(files: readonly Results[], journaled: readonly AttemptLines[]): void {
  const orphans = files.flatMap((file) => file.orphans);
  if (orphans.length === 0) return;
  const known = new Set([...files.flatMap((file) => file.attempts), ...journaled].map(nameOf));
  const orphan = orphans.find(({ attempt }) => !known.has(attempt));
  if (orphan) throw unreadableError(orphan.path, orphan.number);
}

function nameOf([{ attempt }]: AttemptLines): string {
  return attempt;
}

function unreadableError(path: string, number: number): VidgenError {
  return usage(
    `Cannot read line ${number} of ${path}: without it, a row could be paid for twice. Nothing was sent.`,
    "Restore the file as it was, or use the version of vidgen that wrote the line. Delete the line only if its row was not started.",
  );
}

const headBytes = 65_536;

/** The rows file that a results file is about, by its first run; `undefined` for a file that is no results file, or cannot be read. */
export async function readRowsFile(path: string, disk: Disk): Promise<FileIdentity | undefined> {
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    for (const text of buffer.toString("utf8", 0, bytesRead).split("\n")) {
      const line = parseLine(text);
      if (line?.kind !== "batch") continue;
      const { file, inode, born } = line;
      return { path: await findRealPath(resolve(dirname(path), file), disk), inode, born };
    }
  } catch {
  } finally {
    await file?.close();
  }
  return undefined;
}

/** How each line begins. */
const lineStart = '{"at":';

/** Whether a crash may have left this of one line. A power failure may leave zeros, too. */
function isTorn(text: string): boolean {
  if (parseJson(text.replace(/^\ufeff/, "")) !== undefined) return false;
  const begin = text.replace(/^\ufeff/, "").replace(/[\0\r]+$/, "");
  // In the text of a field each quote has a backslash before it, so that a second beginning is that of another line.
  return lineStart.startsWith(begin) || begin.lastIndexOf(lineStart) === 0;
}
