import { resolve } from "node:path";
import { asVidgenError, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import type { Claim, ClaimOptions, Claims } from "./claims.ts";
import type { Entry, JournalLine } from "./history.ts";
import type { FileIdentity } from "./identity.ts";
import type { Hold, Journal } from "./journal.ts";
import { type Choice, choose, type Earlier, refusalError, type StartedEntry } from "./ledger/policy.ts";
import type { StartRequest } from "./schema.ts";
import { isExistsError } from "./target.ts";

export type BeginOptions = Pick<ClaimOptions, "overwrite"> & {
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
  batch?: BatchRow | undefined;
  /** It is started for an AI agent. */
  mcp?: boolean | undefined;
  /** How long to wait for another process that starts the same, in milliseconds; at most, and by default, 15 minutes. */
  timeoutMs?: number | undefined;
  signal: AbortSignal;
};

export type BatchRow = {
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
  target: Claim | undefined;
  /** Ends the claim of the place, and of the attempt. */
  release(): Promise<void>;
};

/** A new attempt, which is written down and is to be sent. */
export type NewAttempt = Begun & {
  kind: "new";
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
  isPreview: boolean | undefined;
  journal: Omit<Journal, "path">;
  claims: Claims;
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
 * Begins a start: chooses between an earlier attempt and a new one, takes its lease, claims the place, and writes down the intent. All of that
 * is under the journal's lock, so that two processes never choose the same. Sends nothing. Throws `unknown` when an earlier attempt may have
 * been charged, `not_found` when the service has lost the generation of one, `pending` when another process is still starting the same,
 * `output` when the place or the journal cannot be written, or the signal's reason.
 */
export async function begin(
  request: StartRequest,
  options: Options & { earlier: Earlier },
  io: BeginIo,
): Promise<NewAttempt | ResumedAttempt> {
  const { idempotencyKey: key } = options;
  if (key !== undefined && !/^[\w.:~+/=@-]{1,255}$/.test(key))
    throw usage("The idempotency key must be 1 to 255 letters, digits or _.:~+/=@-.");
  return underLock(options, io, async (confirm) => {
    const { baseUrl: service, record, recordedPath: outputPath, earlier, mcp, isPreview, keepsKeys } = options;
    const wanted = { service, request: record, outputPath, earlier, key, mcp, isPreview, keepsKeys, now: io.date() };
    const choice = await choose(wanted, options.journal);
    if (choice.kind === "wait") return undefined;
    if (choice.kind === "refuse") throw refusalError(choice);
    if (choice.kind === "resume") return resumeAttempt(request, choice, { ...options, confirm });
    return startAnew(request, choice, { ...options, confirm }, io);
  });
}

/** Begins a start whatever was started before, as a batch does. Throws as `begin` does. */
export function beginNew(request: StartRequest, options: Options, io: BeginIo): Promise<NewAttempt> {
  const choice = { dismissed: options.batch?.dismissed ?? [], mayBeCharged: false };
  return underLock(options, io, (confirm) => startAnew(request, choice, { ...options, confirm }, io));
}

/** `confirm` rejects when another process has taken over the journal's lock. */
type Locked = { confirm(): Promise<void> };

/** Runs `work` under the journal's lock, again and again while it returns `undefined`: then it waits for another process. */
async function underLock<Result>(
  { journal, outputPath, signal, onNote, timeoutMs = longestWaitMs }: Options,
  io: BeginIo,
  work: (confirm: Locked["confirm"]) => Promise<Result | undefined>,
): Promise<Result> {
  if (outputPath === "") throw usage("The output path is empty.");
  const end = io.now() + Math.min(timeoutMs, longestWaitMs);
  for (let looks = 1; ; looks++) {
    const begun = await journal.lock(({ confirm }) => work(confirm), signal);
    if (begun) return begun;
    if (io.now() >= end)
      throw new VidgenError("pending", "Another process is still starting the same request. Nothing was sent.");
    if (looks === 2) onNote(waitingNote);
    await io.sleep(pollMs, signal);
  }
}

/** Runs `work` with a lease, and releases that if it fails or returns `undefined`. */
async function withHold<Result>(
  hold: Hold | undefined,
  work: (hold: Hold) => Promise<Result | undefined>,
): Promise<Result | undefined> {
  if (hold === undefined) return undefined;
  let result: Result | undefined;
  try {
    result = await work(hold);
    return result;
  } finally {
    if (result === undefined) await hold.release();
  }
}

/**
 * Writes the intent of a new attempt. The lock is confirmed after that: a process that was suspended meanwhile, so that another one has the
 * lock, ends here, and whoever has the lock sees the intent in the journal. Nothing is sent unless both have happened.
 */
async function startAnew(
  request: StartRequest,
  { dismissed, mayBeCharged }: Pick<Choice & { kind: "new" }, "dismissed" | "mayBeCharged">,
  options: Options & Locked,
  io: BeginIo,
): Promise<NewAttempt | undefined> {
  const { journal, claims, outputPath, idempotencyKey, overwrite, batch } = options;
  const [attempt, at] = [io.uuid(), io.date().toISOString()];
  return withHold(await journal.hold(attempt), async (hold) => {
    const claiming = { overwrite, id: undefined, entry: undefined, words: request, resume: true, hold };
    const target = outputPath === undefined ? undefined : await claims.claim(outputPath, claiming);
    if (outputPath !== undefined && !target) return undefined;
    const intent: JournalLine = {
      kind: "intent",
      attempt,
      key: idempotencyKey,
      base_url: options.baseUrl,
      account: options.account,
      request: options.record,
      place: outputPath,
      path: absolutePath(outputPath),
      no_wait: options.noWait,
      batch: batch?.path,
      row: batch?.row,
      line: batch?.line,
      rows_file: batch?.rowsFile,
      mcp: options.mcp,
      is_preview: options.isPreview,
    };
    try {
      await journal.append(intent);
      await options.confirm().catch(async (error) => {
        const { message: reason, code } = asVidgenError(error);
        await journal.append({ kind: "unsent", attempt, reason, code });
        throw error;
      });
      for (const entry of dismissed) await dismiss(entry.attempt, journal);
    } catch (error) {
      await target?.release();
      throw error;
    }
    const [key, isNamed] = [idempotencyKey ?? attempt, idempotencyKey !== undefined];
    return { kind: "new", attempt, key, isNamed, mayBeCharged, at, target, release: releaseBoth(target, hold) };
  });
}

/** A folder keeps its slash at the end. */
function absolutePath(outputPath: string | undefined): string | undefined {
  if (outputPath === undefined || outputPath === "-") return undefined;
  return resolve(outputPath) + (outputPath.endsWith("/") ? "/" : "");
}

/** Writes down that no later start looks at an attempt, and removes the lease that its process has left. */
export async function dismiss(attempt: string, journal: Pick<Journal, "append" | "hold">): Promise<void> {
  await journal.append({ kind: "dismissed", attempt });
  await clearLease(attempt, journal);
}

/** Removes the lease that a dead process has left of an attempt. Never rejects. */
export async function clearLease(attempt: string, { hold }: Pick<Journal, "hold">): Promise<void> {
  await hold(attempt).then(
    (held) => held?.release(),
    () => {},
  );
}

/** Resumes an earlier attempt, unless its video is saved already. `undefined` while another process may write the same partial file. */
async function resumeAttempt(
  request: StartRequest,
  { entry, isJoined }: Choice & { kind: "resume" },
  options: Options & Locked,
): Promise<ResumedAttempt | undefined> {
  const { journal, claims, outputPath, overwrite } = options;
  const { attempt, at, id } = entry;
  const begun = { kind: "resumed" as const, attempt, key: entry.key ?? attempt, at, earlier: entry };
  // Where a live process has its lease, this one follows the generation beside that.
  const free = isJoined ? undefined : await journal.hold(attempt);
  return withHold(free ?? (await journal.hold()), async (hold) => {
    const claiming = { overwrite, id, entry, words: request, resume: true, hold };
    const claimed = outputPath === undefined ? undefined : claims.claim(outputPath, claiming);
    const target = await claimed?.catch(async (error) => {
      const saved = await findSaved(entry, options, error);
      // With the id, a program can resume the generation that was paid for.
      if (saved === undefined) throw asVidgenError(error).with({ id });
      return saved;
    });
    if (typeof target === "string") return { ...begun, file: target, target: undefined, release: hold.release };
    if (outputPath !== undefined && !target) return undefined;
    await options.confirm().catch(async (error) => {
      await target?.release();
      throw error;
    });
    return { ...begun, file: undefined, target, release: releaseBoth(target, hold) };
  });
}

/**
 * The video of an attempt, where its place could not be claimed because that exists. Looked for only then, and in the journal as it is by now:
 * another process may save it at any time.
 */
async function findSaved({ attempt, id }: StartedEntry, { journal, claims, outputPath }: Options, error: unknown) {
  if (outputPath === undefined || !isExistsError(error)) return undefined;
  const entry = (await journal.entriesOf(id)).find((each) => each.attempt === attempt);
  return entry && claims.findSaved({ ...entry, id }, outputPath);
}

function releaseBoth(target: Claim | undefined, hold: Hold): () => Promise<void> {
  return async () => {
    await target?.release();
    await hold.release();
  };
}
