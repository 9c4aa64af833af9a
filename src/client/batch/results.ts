import { dirname, relative, resolve } from "node:path";
import { type ErrorCode, systemCode, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile, Io } from "../../io.ts";
import type { Client } from "../client.ts";
import { type Content, parseContent } from "../content.ts";
import { redactValue } from "../credentials.ts";
import type { EndStatus } from "../events.ts";
import { kindOf } from "../files.ts";
import { type FileIdentity, findRealPath } from "../identity.ts";
import { isRecord, parseJson } from "../json.ts";
import { appendLine, openLines, readLines } from "../lines.ts";

/** Which rows a results file is about: of which file, which part of it, and the base URL of the service that makes them. */
export type ResultsSource = {
  /** The rows file as a path relative to the results file; "" or "-" where there is none. Earlier versions wrote it as it was typed. */
  file: string;
  rows: number;
  total: number;
  shard: string | null;
  service: string;
  /** Of the rows file; see `FileIdentity`. */
  inode?: number | undefined;
  born?: number | undefined;
  /** The path by which the run knew the results file. */
  results?: string | undefined;
};

/** A line about a row; the newest one about an attempt counts. Times are ISO 8601, UTC. */
export type ResultLine = {
  at: string;
  row: string;
  /** Where the row was in the file. */
  line: number;
  /** As `hashRequest` gives it. */
  request: string;
  model: string;
  /** The kind of request that its price belongs to, as `kindOfRequest` gives it; absent in lines of earlier versions. */
  price_kind?: string | undefined;
  attempt: string;
  /** The account that pays, as `accountOf` gives it; absent in lines of earlier versions. */
  account?: string | undefined;
  /** Whether its video is a preview, where that is known. */
  is_preview?: boolean | null | undefined;
  /** For a refused or unknown start, a generation that the answer named all the same. */
  id: string | null;
  /** `starting` before the request is sent. */
  status: EndStatus | "starting";
  /** An absolute path; in the file itself it is relative to the results file. */
  file: string | null;
  /** What the file is known by; absent in lines of earlier versions. */
  content?: Content | null | undefined;
  error: { code: ErrorCode; message: string } | null;
  /** What the service has stated that it cost. */
  credits: number | null;
  /** Where it has not: by how much less was left after its start than before. Others may have spent too. Absent in lines of earlier versions. */
  balance_fell?: number | null | undefined;
  /** What it cost in USD, where the service has told it; absent in lines of earlier versions. */
  cost?: number | null | undefined;
  remaining_credits: number | null;
  started_at: string;
  ended_at: string | null;
};

/** What a results file says: the newest line of each attempt, in the order in which they were started. */
export type Results = {
  /** Of the last run. */
  source: ResultsSource | undefined;
  /** Every path by which a run has known the file: it may have been renamed, or be a hard link. */
  names: string[];
  attempts: ResultLine[];
};

export type ResultsFile = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output`. */
  append(line: Omit<ResultLine, "at">): Promise<void>;
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

type ResultsIo = Pick<Io, "date" | "disk"> & Pick<Client, "redact">;

/** `redact` keeps the key out of the lines: a path, or the service's own words in an error, may hold it. */
export function openResults(path: string, source: ResultsSource, io: ResultsIo): ResultsFile {
  let isTorn = false;
  const write = async (line: object) => {
    try {
      await appendLine(path, redactValue({ at: io.date().toISOString(), ...line }, io.redact), io.disk);
      isTorn = false;
    } catch (cause) {
      isTorn = true;
      throw resultsError(path, cause);
    }
  };
  const begin = () => write({ batch: source });
  return {
    path,
    begin,
    async append(line) {
      // On a full disk half of the last line may be written: readers accept that where a run begins, and nowhere else.
      if (isTorn) await begin();
      await write({ ...line, file: line.file === null ? null : relative(dirname(path), resolve(line.file)) });
    },
  };
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
  const attempts = new Map<string, ResultLine>();
  const names = new Set<string>();
  let source: ResultsSource | undefined;
  let number = 0;
  let tornNumber: number | undefined;
  const checkTorn = () => {
    if (tornNumber !== undefined) throw unreadableError(path, tornNumber);
  };
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    for await (const { text } of readLines(file)) {
      number++;
      if (text.trim() === "") continue;
      const line = parseLine(text);
      if (isResultLine(line)) {
        checkTorn();
        const before = attempts.get(line.attempt);
        const { credits, balance_fell } = before ?? line;
        const told = { credits: line.credits ?? credits, balance_fell: line.balance_fell ?? balance_fell };
        const content = parseContent(line.content) ?? null;
        attempts.set(line.attempt, { ...line, ...told, file: findFile(line, path), content });
      } else if (isRecord(line) && isSource(line.batch)) {
        tornNumber = undefined;
        source = line.batch;
        if (source.results !== undefined) names.add(source.results);
      } else if (line === undefined && isTorn(text)) tornNumber ??= number;
      else if (source === undefined && attempts.size === 0)
        throw usage(
          `${path} is not a results file of \`vidgen batch\`.`,
          "If this is the batch file, it has no results yet.",
        );
      else throw unreadableError(path, number);
    }
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    const isMissing = systemCode(error) === "ENOENT";
    if (mustExist && isMissing) throw usage(`There is no results file ${path}.`);
    if (!isMissing) throw readError(path, error);
  } finally {
    await file?.close();
  }
  return { source, names: [...names], attempts: [...attempts.values()] };
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
      if (!isRecord(line) || !isSource(line.batch)) continue;
      const { file, inode, born } = line.batch;
      const named = inode === undefined ? resolve(file) : resolve(dirname(path), file);
      return { path: await findRealPath(named, disk), inode, born };
    }
  } catch {
  } finally {
    await file?.close();
  }
  return undefined;
}

/** How each line begins. */
const lineStart = '{"at":';

/** Some editors put a byte order mark at the beginning of a file. */
function parseLine(text: string): unknown {
  return parseJson(text.startsWith("\ufeff") ? text.slice(1) : text);
}

/** Whether a crash may have left this of one line. A power failure may leave zeros, too. */
function isTorn(text: string): boolean {
  const begin = text.replace(/^\ufeff/, "").replace(/[\0\r]+$/, "");
  // In the text of a field each quote has a backslash before it, so that a second beginning is that of another line.
  return lineStart.startsWith(begin) || begin.lastIndexOf(lineStart) === 0;
}

/** Earlier versions, which did not write the account, wrote a path as it was typed. */
function findFile({ file, account }: ResultLine, path: string): string | null {
  if (file === null) return null;
  return account === undefined ? resolve(file) : resolve(dirname(path), file);
}

const statuses = ["starting", "processing", "completed", "failed", "lost", "refused", "unsent", "unknown"];

function isResultLine(line: unknown): line is ResultLine {
  if (!isRecord(line)) return false;
  const {
    row,
    attempt,
    request,
    model,
    price_kind = "",
    account = "",
    id,
    file,
    error,
    credits,
    remaining_credits,
    started_at,
  } = line;
  const { balance_fell = null, cost = null, is_preview = null } = line;
  const isText = [line.at, row, attempt, request, model, price_kind, account, started_at].every(
    (value) => typeof value === "string",
  );
  const isRead = [id, file].every((value) => value === null || typeof value === "string");
  const isNumber = [credits, remaining_credits, balance_fell, cost].every(
    (value) => value === null || typeof value === "number",
  );
  const isFlag = is_preview === null || typeof is_preview === "boolean";
  const isError = error === null || (isRecord(error) && typeof error.message === "string");
  return isText && isRead && isNumber && isFlag && isError && statuses.includes(String(line.status));
}

function isSource(value: unknown): value is ResultsSource {
  if (!isRecord(value)) return false;
  const { file, rows, total, shard, service, results = "" } = value;
  const isNumber = typeof rows === "number" && typeof total === "number";
  const isText = [file, service, results].every((text) => typeof text === "string");
  return isNumber && isText && (shard === null || typeof shard === "string");
}
