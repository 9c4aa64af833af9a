import { type FileHandle, mkdir, open, readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import { type Entry, foldLines, type Line, parseLines } from "./history.ts";

export type Journal = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output` when it cannot be written. */
  append(line: Line): Promise<void>;
  /** What this machine has started, newest first. Lines that a crash has torn are skipped. */
  entries(): Promise<Entry[]>;
  /** The process ids that have claimed, or tried to claim, a `.part` file. */
  claimants(file: string): Promise<number[]>;
};

/** The journal at a path; the first line creates the file. Several processes may append at once. */
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

/** Appends with one write and one fsync, and once more when a compaction has replaced the file meanwhile. */
export async function appendText(path: string, text: string): Promise<void> {
  for (let isAppended = false; !isAppended; ) {
    const file = await open(path, "a+", 0o600);
    try {
      const { size, ino, mode } = await file.stat();
      if ((mode & 0o077) !== 0) await file.chmod(0o600);
      const bytes = Buffer.from((await endsTorn(file, size)) ? `\n${text}` : text);
      const { bytesWritten } = await file.write(bytes);
      await file.datasync();
      if (bytesWritten < bytes.length) throw Object.assign(new Error("short write"), { code: "ENOSPC" });
      isAppended = (await stat(path).catch(() => undefined))?.ino === ino;
    } finally {
      await file.close();
    }
  }
}

/** Whether a crash has left the last line without its newline. */
async function endsTorn(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return false;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] !== 0x0a;
}

/** Where a compaction keeps the file that it replaces, until all lines of that are known to be in the new one. */
export function oldPath(path: string): string {
  return `${path}.old`;
}

/** The whole text, after that of the file that an unfinished compaction replaces; lines may come twice. Empty when there is none. */
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
