import { dirname, join } from "node:path";
import { openFilesHint, systemCode, systemReason, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile } from "../../io.ts";
import { type Lease, type LockIo, readHolder, tryLease, type Watch, withLock } from "../../lease.ts";
import { createMutex } from "../../mutex.ts";
import { isSameId } from "../../protocol/id.ts";
import { shortenAddresses } from "../../protocol/url.ts";
import { redactValue } from "../http/redaction.ts";
import {
  type AttemptLines,
  createGrouping,
  type DatedLine,
  datedEntries,
  type Entry,
  foldEntry,
  isUnfinished,
  type JournalLine,
  parseLine,
  reusableMs,
  type UnfinishedLine,
} from "./history.ts";
import { appendLine, openLines, readLines } from "./lines.ts";

export type Journal = {
  path: string;
  /** Resolves when the line is on the disk. Throws `output` when it cannot be written. */
  append(line: JournalLine): Promise<void>;
  /**
   * What this machine has started, newest first. Reads the file from its end, a part at a time: `goOn` gets the entries of each part, and
   * returns whether older ones are wanted too. Lines that a crash has torn are skipped.
   */
  entries(goOn?: (part: Entry[]) => boolean): Promise<Entry[]>;
  /** The same, all of them, as their lines. */
  attempts(): Promise<AttemptLines[]>;
  /**
   * The attempts that another start may have to do something about, newest first: those of the last 24 hours, and the unfinished ones before
   * that. With the lock it copies older lines about unfinished attempts to the end, so that the next start reads no further back; without it
   * nothing is written.
   */
  candidates(now: Date, lock?: Lock): Promise<Entry[]>;
  /** The attempts of a prompt whose intent is wanted, newest first. As `entriesOf` reads it. */
  entriesOfPrompt(prompt: string, isWanted: (intent: Intent) => boolean): Promise<Entry[]>;
  /** The attempts of a typed line, by its hash, newest first. As `entriesOf` reads it. */
  entriesOfLine(typed: string): Promise<Entry[]>;
  /** The attempts that have a generation of this id, at any service, newest first. Reads the whole file, but only lines that name them. */
  entriesOf(id: string): Promise<Entry[]>;
  /** Those of an Idempotency-Key, newest first: several may have been sent with it. As `entriesOf` reads it. */
  attemptsOf(key: string): Promise<Entry[]>;
  /** The newest line that `isWanted` accepts. */
  findLast<Wanted extends DatedLine>(isWanted: (line: DatedLine) => line is Wanted): Promise<Wanted | undefined>;
  /**
   * Runs `work` while no other process does: for looking and writing in one step. Those of this process take turns. Throws `output` when the
   * lock cannot be written, or the signal's reason while it waits.
   */
  lock<Result>(work: (lock: Lock) => Promise<Result>, signal?: AbortSignal): Promise<Result>;
  /** Takes the lease of an attempt: until it is released, others see that a live process works on it. `undefined` while another one has it. */
  hold(attempt: string): Promise<Hold | undefined>;
  /** Whether a live process has a lease; "unsure" while that process is elsewhere: further looks tell, within a minute. Changes nothing. */
  leaseOf(name: string): Promise<LeaseState>;
  /**
   * Writes down that an attempt was not sent, or was refused; where that fails, overwrites its lines with spaces. Throws `output` where neither
   * can be written, and the journal has its intent.
   */
  withdraw(line: WithdrawnLine): Promise<void>;
  /** Overwrites the lines of an attempt with spaces. Only inside of `lock`. */
  forget(entry: Pick<Entry, "attempt" | "id">): Promise<void>;
};

/** The journal's lock, for as long as the work lasts that it was given to. `confirm` rejects when another process has taken it over. */
export type Lock = Pick<Lease, "confirm">;

export type Hold = { name: string } & Lease;

/** Whether a live process has a lease, as far as this one has seen. */
export type LeaseState = "alive" | "unsure" | "dead";

export type WithdrawnLine = JournalLine & { kind: "unsent" | "refused" };

type AttemptLine = DatedLine & { attempt: string };

/** What an attempt begins with. */
export type Intent = DatedLine & { kind: "intent" };

/** `signal` ends the wait for the lock where a call has none of its own; `onNote` says what it waits for. */
export type JournalIo = LockIo & { signal?: AbortSignal | undefined; onNote?: ((text: string) => void) | undefined };

const chunkBytes = 1_000_000;

/** The journal at a path; the first line creates the file. Several processes may append at once: no line ever moves. */
export function openJournal(path: string, io: JournalIo): Journal {
  const { disk } = io;
  const leaseOf = (name: string) => join(`${path}.leases`, name);
  const read = (words?: readonly string[]) => linesBackwards(path, disk, { words });
  const inTurn = createMutex();
  const watch: Watch = new Map();
  const asOutputError = (error: unknown) => {
    if (error instanceof VidgenError || systemCode(error) === undefined) throw error;
    throw new VidgenError("output", `Cannot write the journal ${path}: ${systemReason(error)}.`, {
      hint:
        openFilesHint(error) ??
        "Generations are recorded before they are paid for. Fix permissions, free up disk space, or set VIDGEN_HOME to another folder.",
      cause: error,
    });
  };
  /** The entries of the attempts that one line is wanted of. Each such line has one of `words` in it. */
  const findEntries = async (words: string[], isWanted: (line: AttemptLine) => boolean) => {
    // A batch asks at each start, and the answer is nearly always no.
    if (!(await holdsAny(path, words, disk))) return [];
    const attempts = new Set<string>();
    const ids = new Set<string>();
    const collect = async (words: string[], isWanted: (line: AttemptLine) => boolean) => {
      for await (const { lines } of read(words))
        for (const line of lines) {
          if (!("attempt" in line) || !isWanted(line)) continue;
          attempts.add(line.attempt);
          if ("id" in line && line.id !== undefined) ids.add(line.id);
        }
    };
    await collect(words, isWanted);
    if (attempts.size === 0) return [];
    // Other lines about these attempts may have their ids.
    if (ids.size === 0) await collect([...attempts], ({ attempt }) => attempts.has(attempt));
    const fold = createFolding();
    const entries: Entry[] = [];
    for await (const { lines } of read([...words, ...attempts, ...ids]))
      entries.push(...lines.flatMap((line) => fold(line) ?? []));
    return entries.filter(({ attempt }) => attempts.has(attempt));
  };
  const append = (line: JournalLine) =>
    appendLine(path, { at: io.date().toISOString(), ...line }, disk).catch(asOutputError);
  return {
    path,
    append,
    withdraw: (line) => append(line).catch(() => blankAttempt(path, line.attempt, disk).catch(asOutputError)),
    async entries(goOn = () => true) {
      const fold = createFolding();
      const entries: Entry[] = [];
      for await (const { lines } of read()) {
        const part = lines.flatMap((line) => fold(line) ?? []);
        entries.push(...part);
        if (part.length > 0 && !goOn(part)) break;
      }
      return entries;
    },
    async attempts() {
      const group = createGrouping();
      const attempts: AttemptLines[] = [];
      for await (const { lines } of read())
        for (const line of lines) {
          const found = group(line);
          if (found) attempts.push(found);
        }
      return attempts;
    },
    entriesOf: (id) =>
      findEntries([id, id.toLowerCase(), id.toUpperCase()], (line) => "id" in line && isSameId(line.id ?? "", id)),
    async candidates(now, lock) {
      const { entries, unfinished } = await readCandidates(path, { now, disk });
      // Without this line the next start reads further back: no harm is done.
      if (unfinished && lock)
        await appendLine(path, { at: io.date().toISOString(), ...unfinished }, disk).catch(() => {});
      return entries;
    },
    entriesOfPrompt: (prompt, isWanted) =>
      findEntries(
        [`"prompt":${JSON.stringify(prompt)}`],
        (line) => line.kind === "intent" && line.request.prompt === prompt && isWanted(line),
      ),
    entriesOfLine: (typed) => findEntries([typed], (line) => line.kind === "intent" && line.typed === typed),
    attemptsOf: (key) => findEntries([key], (line) => line.kind === "intent" && (line.key ?? line.attempt) === key),
    async findLast(isWanted) {
      for await (const { lines } of read()) {
        const found = lines.find(isWanted);
        if (found) return found;
      }
      return undefined;
    },
    lock(work, signal = io.signal) {
      const locked = (lease: Lease) => work({ confirm: () => lease.confirm().catch(asOutputError) });
      const wait = { io, signal, onNote: io.onNote };
      return inTurn(() => withLock(`${path}.lock`, wait, locked), signal).catch(asOutputError);
    },
    async hold(name) {
      const acquired = await tryLease(leaseOf(name), io, watch).catch(asOutputError);
      if (acquired.kind === "held") return undefined;
      const release = async () => {
        await acquired.lease.release();
        // Fails as long as other processes hold leases.
        await disk.rmdir(dirname(leaseOf(name))).catch(() => {});
      };
      const confirm = () => acquired.lease.confirm().catch(asOutputError);
      return { ...acquired.lease, confirm, name, release };
    },
    async leaseOf(name) {
      const holder = await readHolder(leaseOf(name), io, watch).catch(asOutputError);
      if (holder === undefined) return "dead";
      return holder.isSure ? "alive" : "unsure";
    },
    async forget({ attempt, id }) {
      await blankAttempt(path, attempt, disk, id).catch(asOutputError);
    },
  };
}

/** Takes the lines one by one, the newest first, and returns the entry of an attempt with its oldest line, the intent. */
function createFolding(): (line: DatedLine) => Entry | undefined {
  const group = createGrouping();
  return (line) => {
    const lines = group(line);
    return lines && foldEntry(lines);
  };
}

/** The lines about unfinished attempts are copied once this many bytes were read for them. */
const copiedBytes = 250_000;

/**
 * The attempts of the last 24 hours and the unfinished ones before that, newest first. Reads back to where the newest copy of lines about
 * unfinished attempts says, then that copy. `unfinished` is the copy for the next reader, where it would save it some reading.
 */
async function readCandidates(path: string, { now, disk }: { now: Date; disk: Disk }) {
  const copy = await findCopy(path, disk);
  const group = createGrouping();
  const entries: Entry[] = [];
  /** Lines from here on are of the last 24 hours, or after those. */
  let end: number | undefined;
  const newer = new Set<DatedLine>();
  const kept: DatedLine[][] = [];
  const take = (lines: DatedLine[]) => {
    const found: Entry[] = [];
    for (const line of lines) {
      if (end === undefined) newer.add(line);
      const attempt = group(line);
      if (attempt === undefined) continue;
      const entry = foldEntry(attempt);
      if (end !== undefined && !isUnfinished(entry)) continue;
      found.push(entry);
      if (end !== undefined) kept.push(attempt.filter((each) => !newer.has(each)));
    }
    entries.push(...found);
    return found;
  };
  for await (const { lines, start } of linesBackwards(path, disk, { from: copy?.end })) {
    const found = datedEntries(take(lines), now);
    if (found.length > 0 && found.every(({ ageMs }) => ageMs >= reusableMs)) end ??= start;
  }
  take(copy?.lines.toReversed() ?? []);
  if (end === undefined || end - (copy?.end ?? 0) < copiedBytes) return { entries };
  const unfinished: JournalLine = {
    kind: "unfinished",
    end,
    next: await readNext(path, end, disk),
    lines: kept.reverse().flat(),
  };
  return { entries, unfinished };
}

/** The newest copy of lines about unfinished attempts that still tells where it ends. */
async function findCopy(path: string, disk: Disk): Promise<UnfinishedLine | undefined> {
  for await (const { lines } of linesBackwards(path, disk, { words: ['"kind":"unfinished"'] }))
    for (const line of lines)
      if (line.kind === "unfinished" && line.next === (await readNext(path, line.end, disk))) return line;
  return undefined;
}

const nextBytes = 120;

/** How the line begins that begins at a byte of a file; "" where none does. */
async function readNext(path: string, at: number, disk: Disk): Promise<string> {
  const file = await openLines(path, "r", { disk });
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(nextBytes + 1), 0, nextBytes + 1, at - 1);
    return buffer[0] === 0x0a ? buffer.toString("latin1", 1, bytesRead) : "";
  } finally {
    await file.close();
  }
}

/** Some lines, the newest first, and at which byte of the file the oldest of them begins. */
type Part = { lines: DatedLine[]; start: number };

type Range = {
  /** Only lines that have one of these in them: the others are not parsed. */
  words?: readonly string[] | undefined;
  /** No line that begins before this byte. */
  from?: number | undefined;
};

/** The lines from the newest to the oldest, a chunk at a time; none where there is no file. */
async function* linesBackwards(path: string, disk: Disk, { words, from = 0 }: Range = {}): AsyncGenerator<Part> {
  const isWanted = (text: string) => text !== "" && (words === undefined || words.some((word) => text.includes(word)));
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    let end = (await file.stat()).size;
    /** The end of a line that begins in an earlier chunk, with its newline. */
    let rest = Buffer.alloc(0);
    while (end > from) {
      const start = Math.max(from, end - chunkBytes);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
      const bytes = Buffer.concat([buffer.subarray(0, bytesRead), rest]);
      const first = start === from ? 0 : bytes.indexOf(0x0a) + 1;
      rest = bytes.subarray(0, first);
      end = start;
      // Text is made of few parts of a long file.
      if (words?.some((word) => bytes.includes(word, first)) === false) continue;
      const texts = bytes.toString("utf8", first).split("\n").reverse();
      yield { lines: texts.flatMap((text) => (isWanted(text) ? (parseLine(text) ?? []) : [])), start: start + first };
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return;
    throw new VidgenError("output", `Cannot read the journal ${path}: ${systemReason(error)}.`, { cause: error });
  } finally {
    await file?.close();
  }
}

/** Whether one of the words stands in a file; true where that cannot be told. */
async function holdsAny(path: string, words: readonly string[], disk: Disk): Promise<boolean> {
  const file = await openLines(path, "r", { disk }).catch(() => undefined);
  if (file === undefined) return true;
  const overlap = Math.max(...words.map((word) => Buffer.byteLength(word)));
  // Made once: to make one for each part is half of the work.
  const part = Buffer.alloc(chunkBytes + overlap);
  try {
    const { size } = await file.stat();
    for (let start = 0; start < size; start += chunkBytes) {
      const { bytesRead } = await file.read(part, 0, part.length, start);
      const bytes = part.subarray(0, bytesRead);
      if (words.some((word) => bytes.includes(word))) return true;
    }
    return false;
  } catch {
    return true;
  } finally {
    await file.close();
  }
}

/** Overwrites the lines about an attempt, and about the generation of this id, with spaces. Rejects with the system's error. */
export async function blankAttempt(path: string, attempt: string, disk: Disk, id?: string): Promise<void> {
  const isGone = (line: DatedLine): boolean => {
    if (line.kind === "unfinished") return line.lines.some(isGone);
    return "attempt" in line ? line.attempt === attempt : "id" in line && line.id !== undefined && line.id === id;
  };
  await blank(path, isGone, disk);
}

/** Overwrites lines in place: other processes may append meanwhile, so nothing may move. */
async function blank(path: string, isGone: (line: DatedLine) => boolean, disk: Disk): Promise<void> {
  const found = await findLines(path, isGone, disk);
  // A file that cannot be written may have none of them.
  if (found.length === 0) return;
  const file = await openLines(path, "r+", { disk });
  try {
    for (const { start, length } of found) await file.write(Buffer.alloc(length, " "), 0, length, start);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Where some lines are in a file; none where there is no file. */
async function findLines(path: string, isWanted: (line: DatedLine) => boolean, disk: Disk) {
  const found: { start: number; length: number }[] = [];
  let file: DiskFile | undefined;
  try {
    file = await openLines(path, "r", { disk });
    for await (const { text, start, length } of readLines(file)) {
      const line = parseLine(text);
      if (line && isWanted(line)) found.push({ start, length });
    }
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  } finally {
    await file?.close();
  }
  return found;
}

/** For a client that writes nothing down. */
export const noJournal: Omit<Journal, "path"> = {
  append: async () => {},
  entries: async () => [],
  attempts: async () => [],
  candidates: async () => [],
  entriesOfPrompt: async () => [],
  entriesOfLine: async () => [],
  entriesOf: async () => [],
  attemptsOf: async () => [],
  findLast: async () => undefined,
  lock: (work) => work({ confirm: async () => {} }),
  hold: async () => ({
    name: "",
    lost: new AbortController().signal,
    confirm: async () => {},
    assertFresh: () => {},
    release: async () => {},
  }),
  leaseOf: async () => "dead",
  withdraw: async () => {},
  forget: async () => {},
};

/**
 * A journal into which no key is written, wherever in a line it stands: a prompt, a path or the service's own words may have it in them.
 * These words may also repeat an address or an image of the request.
 */
export function withoutSecrets(
  journal: Omit<Journal, "path">,
  redact: (text: string) => string,
): Omit<Journal, "path"> {
  const redacted = <Line extends JournalLine>(line: Line): Line => {
    const hidden = redactValue(line, redact);
    return "reason" in hidden ? { ...hidden, reason: shortenAddresses(hidden.reason) } : hidden;
  };
  return {
    ...journal,
    append: (line) => journal.append(redacted(line)),
    withdraw: (line) => journal.withdraw(redacted(line)),
  };
}
