import { type FileHandle, mkdir, open, readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import { isRecord, parseJson, type StartRequest } from "./schema.ts";

/** What is written down, one JSON object a line, with the time as `at`. It never holds a key, nor an address that may hold a secret. */
export type Line =
  /** Before the request that costs money. `place` is `-o` as it was typed. */
  | { kind: "intent"; attempt: string; base_url: string; request: StartRequest; place?: string | undefined }
  | { kind: "accepted"; attempt: string; id: string; remaining_credits?: number | undefined }
  | { kind: "refused" | "unsent" | "unknown"; attempt: string; reason: string }
  /** `watched`: it was seen running before, so that the line's time is that of its end. */
  | { kind: "completed"; id: string; watched?: boolean }
  | { kind: "failed"; id: string; reason: string }
  /** A `.part` file and the process that writes it. */
  | { kind: "claim"; file: string; pid: number }
  /** A video has begun to come into its `.part`; by the strong ETag it can be gone on with. */
  | { kind: "part"; id: string; file: string; etag: string }
  | { kind: "saved"; id: string; file: string };

/** One generation, or the attempt at one, as the lines about it add up. */
export type Entry = {
  attempt: string;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  base_url: string;
  request: StartRequest;
  place: string | undefined;
  /** `starting` while the request is out, and for good where its process died before it knew more. */
  status: "starting" | "refused" | "unsent" | "unknown" | "processing" | "completed" | "failed";
  id: string | undefined;
  remaining_credits: number | undefined;
  /** From its start to its end, in milliseconds, where that was watched. */
  took_ms: number | undefined;
  /** Why it was refused, is unknown, or failed. */
  reason: string | undefined;
  part: { file: string; etag: string } | undefined;
  /** Where it was saved. */
  file: string | undefined;
};

export type Journal = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output` when it cannot be written. */
  append(line: Line): Promise<void>;
  /** What this machine has started, newest first. Lines that a crash has torn are passed over. */
  entries(): Promise<Entry[]>;
  /** The processes that have claimed, or tried to claim, a `.part` file. */
  claimants(file: string): Promise<number[]>;
};

/** The journal at a path; it comes into being with its first line. Several processes may append at once. */
export function openJournal(path: string, clock: Pick<Clock, "date">): Journal {
  return {
    path,
    async append(line) {
      try {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await appendText(path, `${JSON.stringify({ at: clock.date().toISOString(), ...line })}\n`);
      } catch (error) {
        throw new VidgenError("output", `Cannot write the journal ${path}: ${systemReason(error)}.`, {
          hint: "vidgen writes down what it starts before it pays; VIDGEN_HOME names another folder for that.",
          cause: error,
        });
      }
    },
    entries: async () => foldLines(parseLines(await readJournal(path))).reverse(),
    async claimants(file) {
      const lines = parseLines(await readJournal(path));
      return lines.flatMap((line) => (line.kind === "claim" && line.file === file ? [line.pid] : []));
    },
  };
}

/**
 * Appends with one write and one fsync, to whichever file bears the name once that is done: a compaction may have put another in its
 * place meanwhile.
 */
export async function appendText(path: string, text: string): Promise<void> {
  for (let isThere = false; !isThere; ) {
    const file = await open(path, "a+", 0o600);
    try {
      const { size, ino, mode } = await file.stat();
      if ((mode & 0o077) !== 0) await file.chmod(0o600);
      const bytes = Buffer.from((await endsTorn(file, size)) ? `\n${text}` : text);
      const { bytesWritten } = await file.write(bytes);
      await file.datasync();
      if (bytesWritten < bytes.length) throw Object.assign(new Error("short write"), { code: "ENOSPC" });
      isThere = (await inodeOf(path)) === ino;
    } finally {
      await file.close();
    }
  }
}

/** Whether a crash has left a line without its end. */
async function endsTorn(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return false;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] !== 0x0a;
}

async function inodeOf(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.ino;
}

/** Where a compaction keeps the file it replaces, until nothing of it can be missing any more. */
export function oldPath(path: string): string {
  return `${path}.old`;
}

/** The whole text, with that of a compaction under way or broken off before it; lines may come twice. Empty when there is none. */
export async function readJournal(path: string): Promise<string> {
  const [old, now] = await Promise.all([oldPath(path), path].map(readOptional));
  return `${old}\n${now}`;
}

async function readOptional(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return "";
    throw new VidgenError("output", `Cannot read the journal ${path}: ${systemReason(error)}.`, {
      cause: error,
    });
  }
}

export type DatedLine = Line & { at: string };

export function parseLines(text: string): DatedLine[] {
  return text.split("\n").flatMap((line) => parseLine(line) ?? []);
}

export function parseLine(text: string): DatedLine | undefined {
  const json = text === "" ? undefined : parseJson(text);
  const isLine = isRecord(json) && typeof json.kind === "string" && typeof json.at === "string";
  return isLine ? (json as DatedLine) : undefined;
}

/** The generations that the lines tell of, oldest first. A state that ends a generation stays. */
export function foldLines(lines: DatedLine[]): Entry[] {
  const attempts = new Map<string, Entry>();
  const ids = new Map<string, Entry>();
  for (const line of lines) {
    if (line.kind === "intent" && !attempts.has(line.attempt)) attempts.set(line.attempt, newEntry(line));
    let entry: Entry | undefined;
    if ("attempt" in line) entry = attempts.get(line.attempt);
    else if ("id" in line) entry = ids.get(line.id);
    if (!entry) continue;
    if (line.kind === "accepted") ids.set(line.id, entry);
    fold(entry, line);
  }
  return [...attempts.values()];
}

function newEntry({ attempt, at, base_url, request, place }: DatedLine & { kind: "intent" }): Entry {
  const nothing = { id: undefined, remaining_credits: undefined, took_ms: undefined, reason: undefined };
  const blank = { ...nothing, part: undefined, file: undefined };
  return { attempt, at, base_url, request, place, status: "starting", ...blank };
}

function fold(entry: Entry, line: DatedLine): void {
  const hasEnded = entry.status === "completed" || entry.status === "failed";
  switch (line.kind) {
    case "accepted":
      entry.id = line.id;
      entry.remaining_credits = line.remaining_credits;
      if (!hasEnded) entry.status = "processing";
      break;
    case "refused":
    case "unsent":
    case "unknown":
      if (entry.id !== undefined) break;
      entry.status = line.kind;
      entry.reason = line.reason;
      break;
    case "completed":
      if (hasEnded) break;
      entry.status = "completed";
      if (line.watched) entry.took_ms = new Date(line.at).getTime() - new Date(entry.at).getTime();
      break;
    case "failed":
      if (hasEnded) break;
      entry.status = "failed";
      entry.reason = line.reason;
      break;
    case "part":
      entry.part = { file: line.file, etag: line.etag };
      break;
    case "saved":
      entry.file = line.file;
      break;
  }
}

/** Whether there is still something to do for it: it runs, or its video was to be saved and is not. */
export function isOpen(entry: Entry): boolean {
  if (entry.id === undefined) return false;
  if (entry.status === "processing") return true;
  return entry.status === "completed" && entry.place !== undefined && entry.file === undefined;
}
