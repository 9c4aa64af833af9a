import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { type ErrorCode, systemCode, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import type { Client } from "../client.ts";
import { redactValue } from "../credentials.ts";
import type { EndStatus } from "../events.ts";
import { appendLine, openLines } from "../lines.ts";
import { isRecord, parseJson } from "../schema.ts";
import { kindOf } from "../target.ts";

/** Which rows a results file is about: of which file, which part of it, and the base URL of the service that makes them. */
export type Source = { file: string; rows: number; total: number; shard: string | null; service: string };

/** A line about a row; the newest one about an attempt counts. Times are ISO 8601, UTC. */
export type ResultLine = {
  at: string;
  row: string;
  /** Where the row was in the file. */
  line: number;
  /** As `hashRequest` gives it. */
  request: string;
  model: string;
  attempt: string;
  id: string | null;
  /** `starting` before the request is sent. */
  status: EndStatus | "starting";
  file: string | null;
  error: { code: ErrorCode; message: string } | null;
  /** What it cost, where that is known. */
  credits: number | null;
  remaining_credits: number | null;
  started_at: string;
  ended_at: string | null;
};

/** What a results file says: the newest line of each attempt, in the order in which they were started. */
export type Results = { source: Source | undefined; attempts: ResultLine[]; unreadable: number };

export type ResultsFile = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output`. */
  append(line: Omit<ResultLine, "at">): Promise<void>;
  /** Writes down that a run begins. Throws `output`. */
  begin(source: Source): Promise<void>;
};

/** The lease of the process that runs the batch. */
export function lockOf(path: string): string {
  return `${path}.lock`;
}

/**
 * The real path of a results file, under which it is held and the journal names it, whatever links lead to it. Throws `usage` for a folder,
 * a pipe or a device: to read one may wait for ever.
 */
export async function findResults(results: string): Promise<string> {
  const path = await findRealPath(resolve(results));
  const kind = await kindOf(path).catch((cause) => {
    throw resultsError(path, cause);
  });
  if (kind === "folder" || kind === "other") throw usage(`${path} is not a file: the results cannot be written there.`);
  return path;
}

/** Also of a file that does not exist yet. */
async function findRealPath(path: string): Promise<string> {
  const found = await realpath(path).catch(() => undefined);
  if (found !== undefined || dirname(path) === path) return found ?? path;
  return join(await findRealPath(dirname(path)), basename(path));
}

/** `redact` keeps the key out of the lines: a path, or the service's own words in an error, may hold it. */
export function openResults(path: string, io: Pick<Clock, "date">, redact: Client["redact"]): ResultsFile {
  const append = (line: object) =>
    appendLine(path, redactValue({ at: io.date().toISOString(), ...line }, redact)).catch((cause) => {
      throw resultsError(path, cause);
    });
  return { path, append, begin: (batch) => append({ batch }) };
}

/** The error for a results file that cannot be written. */
export function resultsError(path: string, cause: unknown): VidgenError {
  return new VidgenError("output", `Cannot write ${path}: ${systemReason(cause)}.`, { cause });
}

/** How each line begins. */
const lineStart = '{"at":';

/**
 * Reads a results file; one that does not exist is empty. Lines that a crash has torn, or that are of something else, are counted. Throws
 * `usage` for a file that holds nothing but such lines: it is another file, which must not be appended to.
 */
export async function readResults(path: string, { mustExist = false } = {}): Promise<Results> {
  const attempts = new Map<string, ResultLine>();
  let source: Source | undefined;
  let unreadable = 0;
  let first = "";
  try {
    const input = (await openLines(path, "r")).createReadStream();
    for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (text.trim() === "") continue;
      first ||= text;
      const line = parseJson(text);
      if (isResultLine(line)) {
        const before = attempts.get(line.attempt);
        attempts.set(line.attempt, { ...line, credits: line.credits ?? before?.credits ?? null });
      } else if (isRecord(line) && isSource(line.batch)) source = line.batch;
      else unreadable++;
    }
  } catch (error) {
    const isMissing = systemCode(error) === "ENOENT";
    if (mustExist && isMissing) throw usage(`There is no results file ${path}.`);
    if (!isMissing) throw new VidgenError("output", `Cannot read ${path}: ${systemReason(error)}.`, { cause: error });
  }
  // A crash may have torn the first line.
  const isTorn = unreadable === 1 && (first.startsWith(lineStart) || lineStart.startsWith(first));
  if (unreadable > 0 && attempts.size === 0 && source === undefined && !isTorn)
    throw usage(`${path} is not a results file of \`vidgen batch\`.`);
  return { source, attempts: [...attempts.values()], unreadable };
}

const statuses = ["starting", "processing", "completed", "failed", "refused", "unsent", "unknown"];

function isResultLine(line: unknown): line is ResultLine {
  if (!isRecord(line)) return false;
  const { row, attempt, request, model, id, file, error, credits, remaining_credits, started_at } = line;
  const isText = [line.at, row, attempt, request, model, started_at].every((value) => typeof value === "string");
  const isRead = [id, file].every((value) => value === null || typeof value === "string");
  const isNumber = [credits, remaining_credits].every((value) => value === null || typeof value === "number");
  const isError = error === null || (isRecord(error) && typeof error.message === "string");
  return isText && isRead && isNumber && isError && statuses.includes(String(line.status));
}

function isSource(value: unknown): value is Source {
  if (!isRecord(value)) return false;
  const { rows, total, shard, service } = value;
  const isNumber = typeof rows === "number" && typeof total === "number";
  return isNumber && (shard === null || typeof shard === "string") && typeof service === "string";
}
