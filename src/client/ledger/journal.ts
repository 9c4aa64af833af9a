import { dirname, join } from "node:path";
import { systemCode, systemHint, systemReason, VidgenError } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { type Holder, type Lease, type LockIo, readHolder, tryLease, type Watch, withLock } from "../../lease.ts";
import { createMutex } from "../../mutex.ts";
import { removeUrlSecrets } from "../../protocol/url.ts";
import { redactValue } from "../http/redaction.ts";
import { type DatedLine, type Entry, type JournalLine, parseLine } from "./history.ts";
import { appendLines, blankLines, type Range, readLinesBackwards, type TextPart } from "./lines.ts";

/**
 * The record of everything that this machine started, as lines of a file. Several processes may append at
 * once. A line never moves: it is overwritten with spaces instead of being removed. `search.ts` has the
 * queries.
 */
export type Journal = {
  /** Writes the lines at once, and resolves when they are on the disk. Throws `output` when they cannot be written. */
  append(...lines: JournalLine[]): Promise<void>;
  /**
   * Reads the file backwards, a part at a time; a missing file has none. Lines that a crash has torn are
   * skipped. Throws `output` if it cannot be read.
   */
  scan(range?: Range): AsyncIterable<JournalPart>;
  /**
   * Runs `work` under an exclusive lock, to read and write in one step. Calls of this process take turns. Throws `output` if the
   * lock cannot be written, or the signal's reason while it waits.
   */
  lock<Result>(work: (lock: Lock) => Promise<Result>, signal?: AbortSignal): Promise<Result>;
  /**
   * Whether a live process has a lease; "unsure" for a process on another machine, until later calls within a
   * minute decide. Changes nothing.
   */
  leaseOf(name: string): Promise<LeaseState>;
  /** The process that has a lease, or may have it; `undefined` if none does. Changes nothing. */
  holderOf(name: string): Promise<Holder | undefined>;
  /**
   * Acquires the lease of an attempt, by which other processes see that a live process works on it.
   * `undefined` while another process holds it.
   */
  acquire(attempt: string): Promise<AttemptLease | undefined>;
  /**
   * Records that an attempt was not sent, or was refused; if that fails, overwrites its lines with spaces.
   * Throws `output` if neither can be written and the journal has its intent.
   */
  withdraw(line: WithdrawnLine): Promise<void>;
  /** Overwrites the lines of attempts with spaces. Only inside `lock`. */
  forget(entries: readonly NamedAttempt[]): Promise<void>;
};

/** Some lines, newest first; see `TextPart`. */
export type JournalPart = Omit<TextPart, "texts"> & { lines: DatedLine[] };

/** The journal's lock, while `work` runs. `confirm` rejects if another process has taken it over. */
export type Lock = Pick<Lease, "confirm">;

export type AttemptLease = { name: string } & Lease;

/** Whether a live process has a lease, as far as this process knows. */
export type LeaseState = "alive" | "unsure" | "dead";

export type WithdrawnLine = JournalLine & { kind: "unsent" | "refused" };

/** `signal` is the default signal for the wait for the lock; `onNote` is called with the reason for the wait. */
export type JournalIo = LockIo & { signal?: AbortSignal | undefined; onNote?: ((text: string) => void) | undefined };

/** The journal at a path; the first line creates the file. */
export function openJournal(path: string, io: JournalIo): Journal {
  const { disk } = io;
  const leasePath = (name: string) => join(`${path}.leases`, name);
  const inTurn = createMutex();
  const watch: Watch = new Map();
  const throwOutputError = (error: unknown) => {
    if (error instanceof VidgenError || systemCode(error) === undefined) throw error;
    throw new VidgenError("output", `Cannot write the journal ${path}: ${systemReason(error)}.`, {
      hint:
        systemHint(error) ??
        "Generations are recorded before they are paid for. Fix permissions, free up disk space, or set VIDGEN_HOME to another folder.",
      cause: error,
    });
  };
  const append = (...lines: JournalLine[]) => {
    const dated = lines.map((line) => ({ at: io.date().toISOString(), ...line }));
    return appendLines(path, dated, disk).catch(throwOutputError);
  };
  const holderOf = (name: string) => readHolder(leasePath(name), io, watch).catch(throwOutputError);
  return {
    append,
    async *scan(range = {}) {
      try {
        for await (const { texts, ...position } of readLinesBackwards(path, range, disk))
          yield { lines: texts.flatMap((text) => parseLine(text) ?? []), ...position };
      } catch (error) {
        if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return;
        throw new VidgenError("output", `Cannot read the journal ${path}: ${systemReason(error)}.`, {
          hint: systemHint(error),
          cause: error,
        });
      }
    },
    lock(work, signal = io.signal) {
      const workLocked = (lease: Lease) => work({ confirm: () => lease.confirm().catch(throwOutputError) });
      const lockOptions = { io, signal, onNote: io.onNote };
      return inTurn(() => withLock(`${path}.lock`, lockOptions, workLocked), signal).catch(throwOutputError);
    },
    holderOf,
    async leaseOf(name) {
      const holder = await holderOf(name);
      if (holder === undefined) return "dead";
      return holder.isSure ? "alive" : "unsure";
    },
    async acquire(name) {
      const acquired = await tryLease(leasePath(name), io, watch).catch(throwOutputError);
      if (acquired.kind === "held") return undefined;
      const release = async () => {
        await acquired.lease.release();
        // Fails while other processes hold leases.
        await disk.rmdir(dirname(leasePath(name))).catch(() => {});
      };
      const confirm = () => acquired.lease.confirm().catch(throwOutputError);
      return { ...acquired.lease, confirm, name, release };
    },
    withdraw: (line) =>
      append(line).catch(() => blankAttempts(path, [{ attempt: line.attempt }], disk).catch(throwOutputError)),
    forget: (entries) => blankAttempts(path, entries, disk).catch(throwOutputError),
  };
}

type NamedAttempt = Pick<Entry, "attempt" | "id">;

/**
 * Overwrites with spaces the lines about attempts, and those about their generations where `id` is set.
 * Rejects with the system's error.
 */
export async function blankAttempts(path: string, entries: readonly NamedAttempt[], disk: Disk): Promise<void> {
  const attempts = new Set(entries.map(({ attempt }) => attempt));
  const ids = new Set(entries.flatMap(({ id }) => id ?? []));
  const isAboutOne = (line: DatedLine | undefined): boolean => {
    if (line === undefined) return false;
    return "attempt" in line ? attempts.has(line.attempt) : "id" in line && line.id !== undefined && ids.has(line.id);
  };
  // Older versions copied the lines about unfinished attempts. Nobody reads these copies.
  const isCopy = (text: string) =>
    text.includes('"kind":"unfinished"') && entries.some(({ attempt }) => text.includes(JSON.stringify(attempt)));
  await blankLines(path, (text) => isAboutOne(parseLine(text)) || isCopy(text), disk);
}

/** For a client without a journal. */
export const noJournal: Journal = {
  append: async () => {},
  async *scan() {},
  lock: (work) => work({ confirm: async () => {} }),
  leaseOf: async () => "dead",
  holderOf: async () => undefined,
  acquire: async () => ({
    name: "",
    lost: new AbortController().signal,
    confirm: async () => {},
    assertFresh: () => {},
    release: async () => {},
  }),
  withdraw: async () => {},
  forget: async () => {},
};

/**
 * A journal that redacts keys in all fields, because a prompt, a path or the service's error text may contain
 * one. Also shortens URLs and images that an error text repeats.
 */
export function withoutSecrets(journal: Journal, redact: (text: string) => string): Journal {
  const redacted = <Line extends JournalLine>(line: Line): Line => {
    const redactedLine = redactValue(line, redact);
    return "reason" in redactedLine ? { ...redactedLine, reason: removeUrlSecrets(redactedLine.reason) } : redactedLine;
  };
  return {
    ...journal,
    append: (...lines) => journal.append(...lines.map(redacted)),
    withdraw: (line) => journal.withdraw(redacted(line)),
  };
}
