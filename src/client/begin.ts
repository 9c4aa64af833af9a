import { asVidgenError, usage } from "../errors.ts";
import type { Io } from "../io.ts";
import {
  type Choice,
  chooseAttempt,
  chooseNamed,
  type Earlier,
  findCandidates,
  isHeldBy,
  type StartedEntry,
  type Wanted,
} from "./attempts.ts";
import type { Claim, ClaimOptions, Claims } from "./claims.ts";
import type { JournalLine } from "./history.ts";
import type { FileIdentity } from "./identity.ts";
import type { Hold, Journal } from "./journal.ts";
import type { StartRequest } from "./schema.ts";
import { isExistsError } from "./target.ts";

export type BeginOptions = Pick<ClaimOptions, "overwrite"> & {
  /** Where the video is to be saved, as it was typed. */
  outputPath?: string | undefined;
  /**
   * The name of the attempt, and its Idempotency-Key: up to 255 letters, digits and `_.:~+/=@-`. With a journal it stands for one start for
   * ever, whatever `earlier` says; without, another one each time.
   */
  idempotencyKey?: string | undefined;
  /** The caller does not wait for the generation, so a later run does not resume it. */
  noWait?: boolean | undefined;
  /** The results file of the batch, and the row, that it is started for; and the file that has the row, where there is one. */
  batch?: { path: string; row: string; rowsFile?: FileIdentity | undefined } | undefined;
  /** It is started for an AI agent. */
  mcp?: boolean | undefined;
  signal: AbortSignal;
};

type Begun = {
  attempt: string;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  target: Claim | undefined;
  /** Ends the claim of the place, and of the attempt. */
  release(): Promise<void>;
};

/** A new attempt, which is written down and is to be sent. */
export type NewAttempt = Begun & {
  kind: "new";
  /** Whether a program has named it: the name is its key, for ever. */
  isNamed: boolean;
  /** Whether an earlier request with its key may have been charged, and the service knows its keys. */
  mayBeCharged?: boolean | undefined;
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
  /** Those of this service. */
  candidates: Journal["candidates"];
  unawaitedOf: Journal["unawaitedOf"];
  /** Those of this service and account. */
  attemptsOf: Journal["attemptsOf"];
  claims: Claims;
  /** Whether the service has said that it knows the key of an unclear start. */
  keepsKeys?: boolean | undefined;
  onNote(text: string): void;
};

type Options = BeginOptions & BeginDependencies;

type BeginIo = Pick<Io, "date" | "sleep" | "uuid">;

/** How often a start looks again at what another process does. */
const pollMs = 250;
const waitingNote =
  "Another process has started the same request or is saving to the same file. Waiting for it; nothing is sent meanwhile.";

/**
 * Begins a start: chooses between an earlier attempt and a new one, claims the place, and writes down the claim or the intent. All of that
 * is under the journal's lock, so that two processes never choose the same. Sends nothing. Throws `unknown` when an earlier attempt may have
 * been charged, `not_found` when the service has lost the generation of one, `output` when the place or the journal cannot be written, or
 * the signal's reason.
 */
export async function begin(
  request: StartRequest,
  options: Options & { earlier: Earlier },
  io: BeginIo,
): Promise<NewAttempt | ResumedAttempt> {
  const { idempotencyKey } = options;
  if (idempotencyKey !== undefined && !/^[\w.:~+/=@-]{1,255}$/.test(idempotencyKey))
    throw usage("The idempotency key must be 1 to 255 letters, digits or _.:~+/=@-.");
  return underLock(options, io, async (locked) => {
    const { record, recordedPath: outputPath, earlier, mcp, isPreview } = options;
    const wanted = {
      request: record,
      outputPath,
      earlier,
      mcp,
      isPreview,
      now: io.date(),
      isHeld: options.journal.isHeld,
      keepsKeys: options.keepsKeys,
    };
    const choice =
      idempotencyKey === undefined
        ? await choose(wanted, options)
        : await chooseNamed(await options.attemptsOf(idempotencyKey), wanted);
    if (choice.kind === "wait") return undefined;
    if (choice.kind === "resume") return resume(request, choice.entry, { ...options, ...locked });
    return startAnew(request, choice, { ...options, ...locked }, io);
  });
}

/** Begins a start whatever was started before. Throws as `begin` does. */
export function beginNew(request: StartRequest, options: Options, io: BeginIo): Promise<NewAttempt> {
  const choice = { dismissed: [] };
  return underLock(options, io, (locked) => startAnew(request, choice, { ...options, ...locked }, io));
}

type Locked = { hold: Hold; confirm(): Promise<void> };

/** Runs `work` under the journal's lock, again and again while it returns `undefined`: then it waits for another process. */
async function underLock<Result>(
  { journal, outputPath, signal, onNote }: Options,
  io: BeginIo,
  work: (locked: Locked) => Promise<Result | undefined>,
): Promise<Result> {
  if (outputPath === "") throw usage("The output path is empty.");
  const hold = await journal.hold();
  try {
    for (let looks = 1; ; looks++) {
      const begun = await journal.lock(({ confirm }) => work({ hold, confirm }), signal);
      if (begun) return begun;
      if (looks === 2) onNote(waitingNote);
      await io.sleep(pollMs, signal);
    }
  } catch (error) {
    await hold.release();
    throw error;
  }
}

/**
 * Writes the intent of a new attempt. The lock is confirmed after that: a process that was suspended meanwhile, so that another one has the
 * lock, ends here, and whoever has the lock sees the intent in the journal. Nothing is sent unless both have happened.
 */
async function startAnew(
  request: StartRequest,
  { dismissed, mayBeCharged }: Omit<Choice & { kind: "new" }, "kind">,
  options: Options & Locked,
  io: BeginIo,
): Promise<NewAttempt | undefined> {
  const { journal, claims, outputPath, hold, overwrite, batch } = options;
  const [attempt, at] = [options.idempotencyKey ?? io.uuid(), io.date().toISOString()];
  const claiming = { overwrite, id: undefined, entry: undefined, words: request, resume: true, hold };
  const target = outputPath === undefined ? undefined : await claims.claim(outputPath, claiming);
  if (outputPath !== undefined && !target) return undefined;
  const intent: JournalLine = {
    kind: "intent",
    attempt,
    base_url: options.baseUrl,
    account: options.account,
    request: options.record,
    place: outputPath,
    no_wait: options.noWait,
    batch: batch?.path,
    row: batch?.row,
    rows_file: batch?.rowsFile,
    mcp: options.mcp,
    is_preview: options.isPreview,
    holder: hold.holder,
  };
  try {
    await journal.append(intent);
    await options.confirm().catch(async (error) => {
      const { message: reason, code } = asVidgenError(error);
      await journal.append({ kind: "unsent", attempt, reason, code });
      throw error;
    });
    for (const entry of dismissed) await journal.append({ kind: "dismissed", attempt: entry.attempt });
  } catch (error) {
    await target?.release();
    throw error;
  }
  const isNamed = options.idempotencyKey !== undefined;
  return { kind: "new", attempt, isNamed, mayBeCharged, at, target, release: releaseBoth(target, hold) };
}

/** Claims an earlier attempt, so that no other process resumes it, unless its video is saved already. */
async function resume(
  request: StartRequest,
  earlier: StartedEntry,
  options: Options & Locked,
): Promise<ResumedAttempt | undefined> {
  const { journal, claims, outputPath, overwrite, hold } = options;
  const { attempt, at, id } = earlier;
  const claiming = { overwrite, id, entry: earlier, words: request, resume: true, hold };
  const claimed = outputPath === undefined ? undefined : claims.claim(outputPath, claiming);
  const target = await claimed?.catch(async (error) => {
    const saved = await findSaved(earlier, options, error);
    // With the id, a program can go on with the generation that was paid for.
    if (saved === undefined) throw asVidgenError(error).with({ id });
    return saved;
  });
  if (typeof target === "string")
    return { kind: "resumed", attempt, at, earlier, file: target, target: undefined, release: hold.release };
  if (outputPath !== undefined && !target) return undefined;
  try {
    // What another process waits for stays that one's: `reuse` only waits beside it.
    if ((await isHeldBy(earlier, journal.isHeld)) === false)
      await journal.append({ kind: "claim", attempt, holder: hold.holder });
    await options.confirm();
  } catch (error) {
    await target?.release();
    throw error;
  }
  return { kind: "resumed", attempt, at, earlier, file: undefined, target, release: releaseBoth(target, hold) };
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

/** What a process writes just before it ends must count: chooses again when a holder has ended since the journal was read. */
async function choose(wanted: Wanted, journal: Pick<Journal, "candidates" | "unawaitedOf">): Promise<Choice> {
  const ended = new Set<string>();
  const isHeld = async (holder: string) => {
    const held = !ended.has(holder) && (await wanted.isHeld(holder));
    if (held === false) ended.add(holder);
    return held;
  };
  for (;;) {
    const before = ended.size;
    const known = await findCandidates(wanted, journal);
    const [choice] = await Promise.allSettled([chooseAttempt(known, { ...wanted, isHeld })]);
    if (ended.size > before) continue;
    if (choice.status === "rejected") throw choice.reason;
    return choice.value;
  }
}
