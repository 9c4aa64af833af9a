import { randomUUID } from "node:crypto";
import { type FileHandle, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import { acquireLease, type Lease, type LockIo, readHolder, withLock } from "../lease.ts";
import { shortenAddresses } from "./credentials.ts";
import { createFolding, type DatedLine, type Entry, type Line, parseLine } from "./history.ts";
import { appendLine, openLines } from "./lines.ts";

export type Journal = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output` when it cannot be written. */
  append(line: Line): Promise<void>;
  /**
   * What this machine has started, newest first. Reads the file from its end, a part at a time: `goOn` gets the entries of each part, and
   * returns whether older ones are wanted too. Lines that a crash has torn are skipped.
   */
  entries(goOn?: (part: Entry[]) => boolean): Promise<Entry[]>;
  /** The newest line that `isWanted` accepts. */
  findLast<Wanted extends DatedLine>(isWanted: (line: DatedLine) => line is Wanted): Promise<Wanted | undefined>;
  /** Runs `work` while no other process does: for looking and writing in one step. Throws `output` when the lock cannot be written. */
  lock<Result>(work: (lock: Pick<Lease, "confirm">) => Promise<Result>): Promise<Result>;
  /** Acquires a lease under a name of its own, to hold attempts and partial files by; the lines about them name it. */
  hold(): Promise<Hold>;
  /**
   * Whether a live process has a lease; "unsure" when that process is elsewhere and has not refreshed it after `since`. Only inside of
   * `lock`: it removes a lease whose process has ended.
   */
  isHeld(holder: string, since?: Date): Promise<boolean | "unsure">;
  /** Overwrites the lines of an attempt with spaces. Only inside of `lock`. */
  forget(entry: Pick<Entry, "attempt" | "id">): Promise<void>;
};

export type Hold = { holder: string } & Lease;

const chunkBytes = 1_000_000;

/**
 * The journal at a path; the first line creates the file. Several processes may append at once: no line ever moves. `earlier` is the path of
 * a journal that can no longer be written: lines about its attempts go to this one.
 */
export function openJournal(path: string, io: LockIo, earlier?: string): Journal {
  const leaseOf = (holder: string, journal = path) => join(`${journal}.leases`, holder);
  const sources = () => [linesBackwards(path), ...(earlier === undefined ? [] : [readableLines(earlier)])];
  const asOutputError = (error: unknown) => {
    if (error instanceof VidgenError || systemCode(error) === undefined) throw error;
    throw new VidgenError("output", `Cannot write the journal ${path}: ${systemReason(error)}.`, {
      hint: "Generations are recorded before they are paid for. Fix permissions, free up disk space, or set VIDGEN_HOME to another folder.",
      cause: error,
    });
  };
  return {
    path,
    async append(line) {
      await appendLine(path, { at: io.date().toISOString(), ...line }).catch(asOutputError);
    },
    async entries(goOn = () => true) {
      const fold = createFolding();
      const entries: Entry[] = [];
      for (const source of sources())
        for await (const lines of source) {
          const part = lines.flatMap((line) => fold(line) ?? []);
          entries.push(...part);
          if (part.length > 0 && !goOn(part)) break;
        }
      return entries;
    },
    async findLast(isWanted) {
      for (const source of sources())
        for await (const lines of source) {
          const found = lines.find(isWanted);
          if (found) return found;
        }
      return undefined;
    },
    lock: (work) => withLock(`${path}.lock`, io, work).catch(asOutputError),
    async hold() {
      const holder = randomUUID();
      const acquired = await acquireLease(leaseOf(holder), io).catch(asOutputError);
      if (acquired.kind === "held") throw new Error(`the lease ${holder} is held`);
      const release = async () => {
        await acquired.lease.release();
        // Fails as long as other processes hold leases.
        await rmdir(dirname(leaseOf(holder))).catch(() => {});
      };
      return { ...acquired.lease, holder, release };
    },
    async isHeld(holder, since) {
      if (earlier !== undefined && (await readHolder(leaseOf(holder, earlier), io).catch(() => {}))) return true;
      const acquired = await acquireLease(leaseOf(holder), io).catch(asOutputError);
      if (acquired.kind === "held")
        return since && (acquired.holder.refreshedMs ?? Number.POSITIVE_INFINITY) <= since.getTime() ? "unsure" : true;
      await acquired.lease.release();
      return false;
    },
    async forget({ attempt, id }) {
      const isGone = (line: DatedLine) =>
        "attempt" in line ? line.attempt === attempt : line.id !== undefined && line.id === id;
      await blank(path, isGone).catch(asOutputError);
    },
  };
}

/** The lines from the newest to the oldest, a chunk at a time; none where there is no file. */
async function* linesBackwards(path: string): AsyncGenerator<DatedLine[]> {
  let file: FileHandle | undefined;
  try {
    file = await openLines(path, "r");
    let end = (await file.stat()).size;
    /** The end of a line that begins in an earlier chunk, with its newline. */
    let rest = Buffer.alloc(0);
    while (end > 0) {
      const start = Math.max(0, end - chunkBytes);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
      const bytes = Buffer.concat([buffer.subarray(0, bytesRead), rest]);
      const first = start === 0 ? 0 : bytes.indexOf(0x0a) + 1;
      rest = bytes.subarray(0, first);
      end = start;
      const texts = bytes.toString("utf8", first).split("\n").reverse();
      yield texts.flatMap((text) => (text === "" ? [] : (parseLine(text) ?? [])));
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return;
    throw new VidgenError("output", `Cannot read the journal ${path}: ${systemReason(error)}.`, { cause: error });
  } finally {
    await file?.close();
  }
}

/** The same as far as the file can be read. */
async function* readableLines(path: string): AsyncGenerator<DatedLine[]> {
  try {
    yield* linesBackwards(path);
  } catch {}
}

/** Overwrites lines in place: other processes may append meanwhile, so nothing may move. */
async function blank(path: string, isGone: (line: DatedLine) => boolean): Promise<void> {
  const file = await openLines(path, "r+");
  try {
    const bytes = await file.readFile();
    for (let start = 0; start < bytes.length; ) {
      const newline = bytes.indexOf(0x0a, start);
      const end = newline === -1 ? bytes.length : newline;
      const line = parseLine(bytes.toString("utf8", start, end));
      if (line && isGone(line)) await file.write(Buffer.alloc(end - start, " "), 0, end - start, start);
      start = end + 1;
    }
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** For a client that writes nothing down. */
export const noJournal: Omit<Journal, "path"> = {
  append: async () => {},
  entries: async () => [],
  findLast: async () => undefined,
  lock: (work) => work({ confirm: async () => {} }),
  hold: async () => ({
    holder: "",
    lost: new AbortController().signal,
    confirm: async () => {},
    release: async () => {},
  }),
  isHeld: async () => false,
  forget: async () => {},
};

/** The reasons in the lines are the service's own words, which may repeat the key, or an address or image of the request. */
export function withoutSecrets(
  journal: Omit<Journal, "path">,
  redact: (text: string) => string,
): Omit<Journal, "path"> {
  const redacted = (line: Line): Line =>
    "reason" in line ? { ...line, reason: shortenAddresses(redact(line.reason)) } : line;
  return { ...journal, append: (line) => journal.append(redacted(line)) };
}
