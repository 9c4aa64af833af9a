import { asVidgenError, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import type { DatedLine, Entry, JournalLine, Take } from "../ledger/history.ts";
import type { FileIdentity, FullPath } from "../ledger/identity.ts";
import type { Hold, Journal, Lock } from "../ledger/journal.ts";
import {
  type Choice,
  choose,
  chooseRun,
  type Earlier,
  type RunChoice,
  refusalError,
  type StartedEntry,
} from "../ledger/policy.ts";
import { withdraw } from "../ledger/withdraw.ts";
import { isExistsError } from "../save/files.ts";
import type { Claimed, ClaimOptions, Target, Targets } from "../save/target.ts";

export type BeginOptions = Pick<ClaimOptions, "overwrite" | "kept" | "infoJson" | "first"> & {
  /** Where the video is to be saved, as it was typed. */
  outputPath?: string | undefined;
  /**
   * The Idempotency-Key: up to 255 letters, digits and `_.:~+/=@-`. With a journal it stands for one start for ever, whatever `earlier` says;
   * without, another one each time.
   */
  idempotencyKey?: string | undefined;
  /** The caller does not wait for the generation, so a later run does not resume it. */
  noWait?: boolean | undefined;
  /** The row of a batch that it is started for. */
  batch?: StartedRow | undefined;
  /** It is started for an AI agent. */
  mcp?: boolean | undefined;
  /** The id of the generation whose request it repeats. */
  parent?: string | undefined;
  /** The id of the generation whose last frame it begins with. */
  from?: string | undefined;
  /** The hash of the command line that was typed. */
  typed?: string | undefined;
  /** Which of several generations it is. */
  take?: Take | undefined;
  /** Throws where a new generation would go beyond a budget, before anything is written down or dismissed. */
  check?: (() => void) | undefined;
  /** How long to wait for another process that starts the same, in milliseconds; at most, and by default, 15 minutes. */
  timeoutMs?: number | undefined;
  signal: AbortSignal;
};

export type StartedRow = {
  /** The results file. */
  path: string;
  row: string;
  line: number;
  /** The file that has the row on that line, where there is one. */
  rowsFile?: FileIdentity | undefined;
  /** Earlier attempts at the row that may have been charged: they are passed over. */
  dismissed: Entry[];
};

type Begun = {
  attempt: string;
  /** Its Idempotency-Key. */
  key: string;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  target: Target | undefined;
  /** Ends the claim of the place, and of the attempt. */
  release(): Promise<void>;
};

/** A new attempt, which is written down and is to be sent. */
export type NewAttempt = Begun & {
  kind: "new";
  /** Rejects where another process has taken the attempt, or may have, or where it was dismissed: then nothing may be sent. */
  confirm(): Promise<void>;
  /** Throws where this process has stood still since `confirm`, so that another one may have taken the attempt. Does not look. */
  assertFresh(): void;
  /** Whether the key is the caller's: then it stands for one start for ever. */
  isNamed: boolean;
  /** Whether an earlier request with its key may have been charged, and the service knows its keys. */
  mayBeCharged: boolean;
};

/** An earlier attempt that is resumed: there is nothing to send. */
export type ResumedAttempt = Begun & {
  kind: "resumed";
  earlier: StartedEntry;
  /** Where its video is saved already. */
  file: string | undefined;
};

type BeginDependencies = {
  baseUrl: string;
  account: string;
  /** The request as the journal keeps it. */
  record: StartRequest;
  /** The place as the journal keeps it. */
  recordedPath: string | undefined;
  fullPath: FullPath | undefined;
  isPreview: boolean | undefined;
  /** What makes the video, as `--engine` has it. */
  engine: readonly string[] | undefined;
  journal: Omit<Journal, "path">;
  targets: Targets;
  /** Whether the service has said that it knows the key of an unclear start. */
  keepsKeys?: boolean | undefined;
  onNote(text: string): void;
};

type Options = BeginOptions & BeginDependencies;

type BeginIo = Pick<Io, "date" | "now" | "sleep" | "uuid">;

/** How often a start looks again at what another process does, and how long at most. */
const pollMs = 250;
const longestWaitMs = 15 * 60_000;
const waitingNote =
  "Another process has started the same request or is saving to the same file. Waiting for it; nothing is sent meanwhile.";

/**
 * Begins a start: chooses between an earlier attempt and a new one, takes its lease, and claims the place. Choosing, and writing down the
 * intent of a new one, are under the journal's lock, so that two processes never choose the same. Sends nothing. Throws `unknown` when an
 * earlier attempt may have been charged, `not_found` when the service has lost the generation of one, `pending` when another process is still
 * starting the same or saving to the same file, `output` when the place or the journal cannot be written, or the signal's reason.
 */
export async function begin(
  options: Options & { earlier: Earlier },
  io: BeginIo,
): Promise<NewAttempt | ResumedAttempt> {
  const { idempotencyKey: key } = options;
  if (key !== undefined && !/^[\w.:~+/=@-]{1,255}$/.test(key))
    throw usage("The idempotency key must be 1 to 255 letters, digits or _.:~+/=@-.");
  const begun = await underLock(options, io, async (lock) => {
    const choice = await lookAt(options, io, lock);
    if (choice.kind === "wait") return undefined;
    if (choice.kind === "refuse") throw refusalError(choice);
    if (choice.kind === "new") return startAnew(choice, { ...options, lock }, io);
    const { entry, isJoined } = choice;
    // Where a live process has its lease, this one follows the generation beside that.
    return { kind: "resumed" as const, entry, hold: isJoined ? undefined : await options.journal.hold(entry.attempt) };
  });
  return begun.kind === "new" ? begun : resumeAttempt(begun, options, io);
}

type Looked = Options & { earlier: Earlier };

/** What a start does about earlier attempts now. Without the lock, which is how `--dry-run` looks, nothing is written. */
export function lookAt(options: Looked, io: Pick<Io, "date">, lock?: Lock): Promise<Choice> {
  const { record: request, take, idempotencyKey: key, keepsKeys } = options;
  return choose({ ...sharedOf(options, io), request, take, key, keepsKeys }, options.journal, lock);
}

/** The same of several generations that one command line asks for: which run it continues. */
export function lookAtRun(options: RunOptions, io: Pick<Io, "date">): Promise<RunChoice> {
  return chooseRun({ ...sharedOf(options, io), requests: options.records }, options.journal);
}

function sharedOf(options: Looked | RunOptions, io: Pick<Io, "date">) {
  const { baseUrl: service, recordedPath: outputPath, fullPath, earlier, mcp, isPreview, parent } = options;
  return { service, outputPath, fullPath, earlier, mcp, isPreview, parent, now: io.date() };
}

/** Begins a start whatever was started before, as a batch does. Throws as `begin` does. */
export function beginNew(options: Options, io: BeginIo): Promise<NewAttempt> {
  const choice = { dismissed: options.batch?.dismissed ?? [], mayBeCharged: false };
  return underLock(options, io, (lock) => startAnew(choice, { ...options, lock }, io));
}

/** Several generations that one command line asks for. */
export type Run = {
  name: string;
  /** The attempt of each position that an earlier process has made, or that runs. */
  made: readonly (Entry | undefined)[];
  release(): Promise<void>;
};

type RunOptions = Omit<Options, "take"> & { records: readonly StartRequest[]; earlier: Earlier };

/**
 * Begins a run of several generations, or takes over the one that the same line has left; until it is released, others see that a live process
 * works on it. Its generations are begun one by one, each as a take of it. Throws as `begin` does.
 */
export async function beginRun(options: RunOptions, io: BeginIo): Promise<Run> {
  // The places of its generations are claimed with each of them.
  return underLock({ ...options, outputPath: undefined }, io, async () => {
    const choice = await lookAtRun(options, io);
    if (choice.kind === "wait") return undefined;
    const { name = io.uuid(), made } = choice;
    const hold = await options.journal.hold(name);
    return hold && { name, made, release: hold.release };
  });
}

/** Runs `work` under the journal's lock, again and again while it returns `undefined`: then it waits for another process. */
function underLock<Result>(
  options: Options,
  io: BeginIo,
  work: (lock: Lock) => Promise<Result | undefined>,
): Promise<Result> {
  const { journal, targets, outputPath, record, signal } = options;
  const message = "Another process is still starting the same request. Nothing was sent.";
  const look = async (looks: number) => {
    // Once it waits, it leaves the lock to others until the file may be free.
    if (looks > 1 && outputPath !== undefined && (await targets.isHeld(outputPath, record))) return undefined;
    return journal.lock(work, signal);
  };
  return lookUntil(look, { ...options, message }, io);
}

type Waiting = Pick<BeginOptions, "timeoutMs" | "signal"> & { onNote(text: string): void; message: string };

/** Looks every 250 ms until a look returns something. Throws `pending` with the message at the end of the time, at most 15 minutes. */
async function lookUntil<Result>(
  look: (looks: number) => Promise<Result | undefined>,
  { timeoutMs = longestWaitMs, signal, onNote, message }: Waiting,
  io: BeginIo,
): Promise<Result> {
  const end = io.now() + Math.min(timeoutMs, longestWaitMs);
  for (let looks = 1; ; looks++) {
    const found = await look(looks);
    if (found !== undefined) return found;
    if (io.now() >= end) throw new VidgenError("pending", message);
    if (looks === 2) onNote(waitingNote);
    await io.sleep(pollMs, signal);
  }
}

/**
 * Writes the intent of a new attempt, if the budget allows one. The lock is confirmed after that: a process that was suspended meanwhile, so that another one has the
 * lock, ends here, and whoever has the lock sees the intent in the journal. Then the partial file is made: each one belongs to an attempt that
 * the journal knows. Nothing is sent unless all of that has happened. `undefined` while another process has the place.
 */
async function startAnew(
  { dismissed, mayBeCharged }: Pick<Choice & { kind: "new" }, "dismissed" | "mayBeCharged">,
  options: Options & { lock: Lock },
  io: BeginIo,
): Promise<NewAttempt | undefined> {
  const { journal, targets, outputPath, idempotencyKey, overwrite, batch } = options;
  options.check?.();
  const [attempt, at] = [io.uuid(), io.date().toISOString()];
  const { kept, infoJson, first } = options;
  const taken = await findTaken(options);
  // Everybody sees the name of a file: no key that stands in the prompt may get into it.
  const claiming = { overwrite, attempt, words: options.record, kept, infoJson, first, taken };
  const target = outputPath === undefined ? undefined : await targets.claim(outputPath, claiming);
  if (outputPath !== undefined && !target) return undefined;
  const intent: JournalLine = {
    kind: "intent",
    attempt,
    key: idempotencyKey,
    base_url: options.baseUrl,
    account: options.account,
    request: options.record,
    place: outputPath,
    path: options.fullPath?.path,
    part: target?.partPath,
    no_wait: options.noWait,
    batch: batch?.path,
    row: batch?.row,
    line: batch?.line,
    rows_file: batch?.rowsFile,
    mcp: options.mcp,
    is_preview: options.isPreview,
    engine: options.engine,
    parent: options.parent,
    from: options.from,
    typed: options.typed,
    ...options.take,
  };
  const record = async () => {
    await journal.append(intent);
    await options.lock.confirm();
    await target?.open();
    for (const entry of dismissed) await dismiss(entry, options);
  };
  let hold: Hold | undefined;
  try {
    hold = await journal.hold(attempt);
    await record().catch(async (error) => {
      throw await withdraw(attempt, { kind: "unsent", error: asVidgenError(error) }, journal);
    });
  } catch (error) {
    await releaseBoth(target, hold)();
    throw error;
  }
  const [key, isNamed] = [idempotencyKey ?? attempt, idempotencyKey !== undefined];
  const own = ownershipOf(attempt, hold, journal);
  return { kind: "new", attempt, key, isNamed, mayBeCharged, at, target, ...own, release: releaseBoth(target, hold) };
}

/** The partial files of the other positions of a run: it gives no name with `{n}` twice, whatever has become of the file. */
async function findTaken({ take, outputPath = "", record, journal }: Options): Promise<string[]> {
  if (take === undefined || !outputPath.includes("{n}")) return [];
  const entries = await journal.entriesOfPrompt(record.prompt, ({ run }) => run === take.run);
  return entries.flatMap(({ position, parts = [] }) => (position === take.position ? [] : parts));
}

/** Whether a process may still send its attempt: it may have been suspended for so long that another one has taken its place. */
function ownershipOf(
  attempt: string,
  hold: Hold | undefined,
  { findLast }: Pick<Journal, "findLast">,
): Pick<NewAttempt, "confirm" | "assertFresh"> {
  const isAboutIt = (line: DatedLine): line is DatedLine & { kind: "intent" | "dismissed" } =>
    (line.kind === "intent" || line.kind === "dismissed") && line.attempt === attempt;
  return {
    async confirm() {
      await hold?.confirm();
      // Whoever dismisses an attempt also takes its lease, but that may have failed.
      if ((await findLast(isAboutIt))?.kind !== "dismissed") return;
      throw new VidgenError("output", `Attempt ${attempt} was dismissed by another process meanwhile.`);
    },
    assertFresh: () => hold?.assertFresh(),
  };
}

type Left = { journal: Pick<Journal, "append" | "hold">; targets: Pick<Targets, "clear"> };

/** Writes down that no later start looks at an attempt, and removes what its process has left. */
export async function dismiss(entry: Pick<Entry, "attempt" | "parts">, left: Left): Promise<void> {
  await left.journal.append({ kind: "dismissed", attempt: entry.attempt });
  await clear(entry, left);
}

/** Removes the lease and the partial files that dead processes have left of an attempt that has ended. Never rejects. */
export async function clear(
  entry: Pick<Entry, "attempt" | "parts">,
  { journal, targets }: Omit<Left, "journal"> & { journal: Pick<Journal, "hold"> },
): Promise<void> {
  await targets.clear(entry);
  await journal.hold(entry.attempt).then(
    (held) => held?.release(),
    () => {},
  );
}

/** Resumes an earlier attempt, whose lease is `hold` unless a live process has it. */
async function resumeAttempt(
  { entry, hold }: { entry: StartedEntry; hold: Hold | undefined },
  options: Options,
  io: BeginIo,
): Promise<ResumedAttempt> {
  const { outputPath, overwrite, kept, infoJson, first } = options;
  const { attempt, at, id } = entry;
  try {
    const taken = await findTaken(options);
    const claimed =
      outputPath === undefined
        ? { target: undefined, file: undefined }
        : await claimOrFind(outputPath, { overwrite, id, entry, kept, infoJson, first, taken }, options, io);
    const { target, file } = claimed;
    const release = releaseBoth(target, hold);
    return { kind: "resumed", attempt, key: entry.key ?? attempt, at, earlier: entry, target, file, release };
  } catch (error) {
    await hold?.release();
    // With the id, a program can resume the generation that was paid for.
    throw asVidgenError(error).with({ id });
  }
}

type Claiming = Pick<Options, "targets" | "journal" | "timeoutMs" | "signal" | "onNote">;

/**
 * Claims the place for the video of a generation that exists, waiting for a process that has it; or finds that video there. Throws as
 * `Targets.claim` does, `pending` when the other process still has the place, or the signal's reason.
 */
export async function claimOrFind(
  outputPath: string,
  claiming: ClaimOptions & { entry: Entry | undefined },
  options: Claiming,
  io: BeginIo,
): Promise<Claimed> {
  const { targets, journal } = options;
  const { entry } = claiming;
  const message = `Another process is still saving to ${outputPath}.`;
  const find = async () => {
    if (entry?.id === undefined) return undefined;
    // In the journal as it is by now: another process may save it at any time.
    const entries = await journal.entriesOf(entry.id).catch(() => []);
    const known = entries.find(({ attempt }) => attempt === entry.attempt);
    const saved = known && { ...known, id: entry.id };
    const file = saved && (await targets.findSaved(saved, outputPath, claiming.first));
    if (saved === undefined || file === undefined) return undefined;
    await targets.recordSaved(saved, file);
    await clear(saved, options);
    return file;
  };
  // Asked first: with `{n}` a claim passes over the name that the video has.
  const saved = outputPath.includes("{n}") ? await find() : undefined;
  if (saved !== undefined) return { file: saved };
  try {
    return { target: await lookUntil(() => targets.claim(outputPath, claiming), { ...options, message }, io) };
  } catch (error) {
    const file = isExistsError(error) ? await find() : undefined;
    if (file === undefined) throw error;
    return { file };
  }
}

function releaseBoth(target: Target | undefined, hold: Hold | undefined): () => Promise<void> {
  return async () => {
    await target?.release();
    await hold?.release();
  };
}
