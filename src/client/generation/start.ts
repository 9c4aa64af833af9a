import { asVidgenError, beforePaying, VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import { stopsOthers } from "../ledger/attempt.ts";
import type { DatedLine, Entry, JournalLine } from "../ledger/history.ts";
import type { FileIdentity } from "../ledger/identity.ts";
import type { Hold, Journal, Lock } from "../ledger/journal.ts";
import { type Choice, type Earlier, type KeptKey, refusalError, type StartedEntry } from "../ledger/policy.ts";
import { findByPrompt, findLine } from "../ledger/search.ts";
import { withdraw } from "../ledger/withdraw.ts";
import { claimPlace, dismiss, releaseOf, untilFree, type WaitOptions } from "../save/claim.ts";
import type { ClaimOptions, Target } from "../save/target.ts";
import { type Attempt, createAttempt, type FinishOptions } from "./attempt.ts";
import { type ChooseOptions, chooseStart, chooseTakes, type WantedStart, wantedOf } from "./choose.ts";
import { askForKey, type Intent, resendNote, type SendOptions, type SendOutcome, sendPaid } from "./send.ts";
import { entriesOfKey, type Service } from "./service.ts";

export type PaidStartOptions = ChooseOptions &
  FinishOptions &
  Pick<ClaimOptions, "kept" | "first"> &
  Omit<SendOptions, "balance"> & {
    /** The caller does not wait for the generation, so a later run does not resume it. */
    noWait?: boolean | undefined;
    /** The row of a batch that it is started for. */
    batch?: StartedRow | undefined;
    /** The id of the generation whose last frame it begins with. */
    from?: string | undefined;
    /** The hash of the command line that was typed. */
    typed?: string | undefined;
    /** Throws where a new generation would go beyond a budget, before anything is written down or dismissed. */
    check?: (() => void) | undefined;
    /** Called when the intent is written, and the request goes out next: where it rejects, nothing is sent. */
    onSending?: ((attempt: string) => void | Promise<void>) | undefined;
    /** Returns the credits that the account has, right before the request: with them a start tells by how much they have fallen. */
    balance?: (() => number | undefined | Promise<number | undefined>) | undefined;
    /** Aborts the request that is out; by default `signal` does. A call of an agent that is cancelled must not lose the id. */
    sendSignal?: AbortSignal | undefined;
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

/** A generation that the service has accepted now. */
type Accepted = { kind: "accepted"; attempt: Attempt; started: AcceptedStart };

/** A generation that was started, now or earlier. The caller closes its `attempt`. */
export type StartedAttempt =
  | Accepted
  /** An earlier attempt is resumed: nothing was sent. */
  | { kind: "resumed"; attempt: Attempt; earlier: StartedEntry };

/** A start that has no generation, with its place released. */
export type NotStarted = Exclude<SendOutcome, { kind: "accepted" }>;

/**
 * Starts a generation, which costs money, or resumes an earlier one. What comes of the request is returned. What is thrown was thrown before the
 * request: nothing was sent. Throws `unknown` where an earlier attempt may have been charged, `not_found` where the service has lost
 * the generation of one, `pending` where another process is still starting the same or saving to the same file, `output` where the place or the
 * journal cannot be written, `usage`, the error of `check` or `onSending`, or the signal's reason.
 */
export async function start(
  service: Service,
  request: StartRequest,
  options: PaidStartOptions & { earlier?: undefined },
): Promise<Accepted | NotStarted>;
export async function start(
  service: Service,
  request: StartRequest,
  options: PaidStartOptions,
): Promise<StartedAttempt | NotStarted>;
export async function start(
  service: Service,
  request: StartRequest,
  options: PaidStartOptions,
): Promise<StartedAttempt | NotStarted> {
  // Killed before the intent is written: nothing has happened. Killed after it: the same command refuses, since the request may have been sent.
  const prepared = await prepare(service, request, options).catch((error) => {
    throw beforePaying(error);
  });
  if (prepared.kind === "resumed") return prepared;
  const { intent, target, release } = prepared;
  try {
    // Stopped before this: it is written down as not sent.
    const balance = await lastStep(service, intent, options);
    // Killed during this: nobody knows whether it was charged, and the same command refuses. The first Ctrl-C waits 10 s for the id.
    const signal = options.sendSignal ?? options.signal;
    const outcome = await sendPaid(service, request, intent, { ...options, signal, balance });
    if (outcome.kind !== "accepted") {
      await release();
      return outcome;
    }
    if (intent.firstSentAt !== undefined) await dismissEarlier(service, intent);
    // From here on the same command resumes it, until it is handed over.
    const { id } = outcome.started.generation;
    const { attempt, at } = intent;
    const place = { target, outputPath: target?.outputPath ?? options.outputPath };
    return { ...outcome, attempt: createAttempt(service, { id, attempt, at, ...place, options, release }) };
  } catch (error) {
    await release();
    throw error;
  }
}

/** The earlier attempts with its key are the same generation: they stop no later start. Those of live processes are left to them. Never rejects. */
async function dismissEarlier(service: Service, { attempt, key }: Intent): Promise<void> {
  try {
    for (const entry of await entriesOfKey(service, key)) {
      const isOpen = entry.attempt !== attempt && stopsOthers(entry.state) && !entry.dismissed;
      if (isOpen && (await service.journal.leaseOf(entry.attempt)) === "dead") await dismiss(entry, service);
    }
  } catch (error) {
    service.note(asVidgenError(error).message);
  }
}

/** What comes between the intent and the request. Where it fails, the attempt is written down as not sent. */
async function lastStep(service: Service, { attempt }: Intent, { onSending, balance }: PaidStartOptions) {
  try {
    await onSending?.(attempt);
    return await balance?.();
  } catch (thrown) {
    const error = asVidgenError(thrown);
    const told = await withdraw(attempt, { kind: "unsent", error }, service.journal);
    if (told !== error) service.note(`${told.message} ${told.hint}`);
    throw thrown;
  }
}

type Prepared = { kind: "new"; intent: Intent; target: Target | undefined; release(): Promise<void> };

/** Chooses, claims the place, and writes the intent of a new attempt, or takes over an earlier one. */
async function prepare(
  service: Service,
  request: StartRequest,
  options: PaidStartOptions,
): Promise<Prepared | (StartedAttempt & { kind: "resumed" })> {
  const wanted = await wantedOf(service, request, options);
  let chosen = await chooseAndWrite(service, wanted, options);
  // Asked without the journal's lock: an answer may take seconds. Then it is chosen again.
  const kept = chosen.kind === "refuse" ? await findKeptKey(service, chosen, options) : undefined;
  if (kept) {
    service.note(resendNote);
    chosen = await chooseAndWrite(service, { ...wanted, kept }, options);
  }
  if (chosen.kind === "refuse") throw refusalError(chosen);
  return chosen.kind === "new" ? chosen : resume(service, wanted, chosen, options);
}

/**
 * The key of an unclear start, where the service says that it keeps it: then it is safe to send again, with the API key that the oldest attempt was
 * sent with. To another account the same key may be a new one.
 */
async function findKeptKey(
  service: Service,
  { key }: Refusal,
  { signal, check }: PaidStartOptions,
): Promise<KeptKey | undefined> {
  if (key === undefined) return undefined;
  try {
    check?.();
  } catch {
    // Beyond the budget, the earlier start stays unclear.
    return undefined;
  }
  const attempts = await entriesOfKey(service, key);
  const oldest = attempts.at(-1);
  if (oldest?.account !== service.account) return undefined;
  // A process that got no usable response is still asking the service itself.
  for (const { attempt } of attempts) if ((await service.journal.leaseOf(attempt)) === "alive") return undefined;
  const isKept = (await askForKey(service, oldest.at, signal)) === "kept";
  return isKept ? { key, firstSentAt: oldest.at } : undefined;
}

type Taken = { kind: "resume"; entry: StartedEntry; hold: Hold | undefined };
type Refusal = Choice & { kind: "refuse" };

/** Under the journal's lock, so that two processes never choose the same. Looks again while another process starts the same, or has the place. */
function chooseAndWrite(
  service: Service,
  wanted: WantedStart,
  options: PaidStartOptions,
): Promise<Prepared | Taken | Refusal> {
  return underLock(service, wanted, options, async (lock) => {
    const choice = await chooseStart(service, wanted, lock);
    if (choice.kind === "wait") return undefined;
    if (choice.kind === "refuse") return choice;
    if (choice.kind === "new") return writeIntent(service, wanted, choice, { ...options, lock });
    const { entry, isJoined } = choice;
    // Where a live process has its lease, this one follows the generation beside that.
    return { kind: "resume" as const, entry, hold: isJoined ? undefined : await service.journal.hold(entry.attempt) };
  });
}

/** Runs `work` under the journal's lock, again and again while it returns `undefined`: then it waits for another process. */
function underLock<Result>(
  { journal, targets, note, io }: Service,
  { request }: Pick<WantedStart, "request">,
  { outputPath, timeoutMs, signal }: Pick<PaidStartOptions, "outputPath"> & WaitOptions,
  work: (lock: Lock) => Promise<Result | undefined>,
): Promise<Result> {
  const look = async (looks: number) => {
    // Once it waits, it leaves the lock to others until the file may be free.
    if (looks > 1 && outputPath !== undefined && (await targets.isHeld(outputPath, request))) return undefined;
    return journal.lock(work, signal);
  };
  const message = "Another process is still starting the same request. Nothing was sent.";
  return untilFree(look, { timeoutMs, signal, note, message }, io);
}

/**
 * Claims the place and writes the intent of a new attempt, if the budget allows one. The lock is confirmed after that: a process that was suspended
 * meanwhile, so that another one has the lock, ends here, and whoever has the lock sees the intent in the journal. Then the partial file is made: each
 * one belongs to an attempt that the journal knows. `undefined` while another process has the place.
 */
async function writeIntent(
  service: Service,
  wanted: WantedStart,
  { dismissed, resends }: Choice & { kind: "new" },
  options: PaidStartOptions & { lock: Lock },
): Promise<Prepared | undefined> {
  const { journal, targets, io } = service;
  const { outputPath, idempotencyKey, overwrite, kept, infoJson, first, batch } = options;
  options.check?.();
  const [attempt, at] = [io.uuid(), io.date().toISOString()];
  const taken = await findTaken(service, wanted, outputPath);
  // Everybody sees the name of a file: no key that stands in the prompt may get into it.
  const claiming = { overwrite, attempt, words: wanted.request, kept, infoJson, first, taken };
  const target = outputPath === undefined ? undefined : await targets.claim(outputPath, claiming);
  if (outputPath !== undefined && !target) return undefined;
  let hold: Hold | undefined;
  try {
    hold = await journal.hold(attempt);
    const record = async () => {
      await journal.append(intentLine(service, wanted, { attempt, resends, part: target?.partPath, ...options }));
      await options.lock.confirm();
      await target?.open();
      for (const entry of [...dismissed, ...(batch?.dismissed ?? [])]) await dismiss(entry, service);
    };
    await record().catch(async (error) => {
      throw await withdraw(attempt, { kind: "unsent", error: asVidgenError(error) }, journal);
    });
  } catch (error) {
    await releaseOf(target, hold)();
    throw error;
  }
  const key = idempotencyKey ?? resends?.key ?? attempt;
  const sent = { isNamed: idempotencyKey !== undefined, firstSentAt: resends?.firstSentAt };
  const intent = { attempt, key, at, ...sent, ...ownershipOf(attempt, hold, journal) };
  return { kind: "new", intent, target, release: releaseOf(target, hold) };
}

function intentLine(
  { account, engine }: Service,
  wanted: WantedStart,
  {
    attempt,
    resends,
    part,
    outputPath,
    noWait,
    batch,
    from,
    typed,
  }: PaidStartOptions & { attempt: string; resends: KeptKey | undefined; part: string | undefined },
): JournalLine {
  return {
    kind: "intent",
    attempt,
    key: wanted.key,
    resend_of: wanted.key === undefined ? resends?.key : undefined,
    base_url: wanted.service,
    account,
    request: wanted.request,
    place: outputPath,
    path: wanted.fullPath?.path,
    part,
    no_wait: noWait,
    batch: batch?.path,
    row: batch?.row,
    line: batch?.line,
    rows_file: batch?.rowsFile,
    mcp: wanted.mcp,
    is_preview: wanted.isPreview,
    engine,
    parent: wanted.parent,
    from,
    typed,
    ...wanted.take,
  };
}

/** The partial files of the other positions of a run: it gives no name with `{n}` twice, whatever has become of the file. */
async function findTaken({ journal }: Service, { take, request }: WantedStart, outputPath = ""): Promise<string[]> {
  if (take === undefined || !outputPath.includes("{n}")) return [];
  const entries = await findByPrompt(journal, request.prompt, ({ run }) => run === take.run);
  return entries.flatMap(({ position, parts = [] }) => (position === take.position ? [] : parts));
}

/** Whether a process may still send its attempt: it may have been suspended for so long that another one has taken its place. */
function ownershipOf(
  attempt: string,
  hold: Hold | undefined,
  journal: Pick<Journal, "scan">,
): Pick<Intent, "confirm" | "assertFresh"> {
  const isAboutIt = (line: DatedLine): line is DatedLine & { kind: "intent" | "dismissed" } =>
    (line.kind === "intent" || line.kind === "dismissed") && line.attempt === attempt;
  return {
    async confirm() {
      await hold?.confirm();
      // Whoever dismisses an attempt also takes its lease, but that may have failed.
      if ((await findLine(journal, isAboutIt))?.kind !== "dismissed") return;
      throw new VidgenError("output", `Attempt ${attempt} was dismissed by another process meanwhile.`);
    },
    assertFresh: () => hold?.assertFresh(),
  };
}

/** Takes over an earlier attempt: claims the place for its video, or finds it there. */
async function resume(
  service: Service,
  wanted: WantedStart,
  { entry, hold }: Taken,
  options: PaidStartOptions,
): Promise<StartedAttempt & { kind: "resumed" }> {
  const { outputPath, overwrite, kept, infoJson, first, timeoutMs, signal } = options;
  const { attempt, at, id } = entry;
  try {
    const taken = await findTaken(service, wanted, outputPath);
    const claiming = { overwrite, id, entry, kept, infoJson, first, taken, timeoutMs, signal };
    const claimed = outputPath === undefined ? undefined : await claimPlace(outputPath, claiming, service, service.io);
    const { target, file } = claimed ?? {};
    const place = { target, file, outputPath: target?.outputPath ?? outputPath };
    const held = { id, attempt, at, ...place, options, release: releaseOf(target, hold) };
    return { kind: "resumed", earlier: entry, attempt: createAttempt(service, held) };
  } catch (error) {
    await hold?.release();
    // With the id, a program can resume the generation that was paid for.
    throw asVidgenError(error).with({ id });
  }
}

/** Several generations that one command line asks for. */
export type Takes = {
  /** The name of their run. */
  name: string;
  /** The attempt of each position that an earlier process has made, or that runs. */
  made: readonly (Entry | undefined)[];
  release(): Promise<void>;
};

/**
 * Begins a run of several generations, or takes over the one that the same command has left; until it is released, others see that a live process
 * works on it. Its generations are started one by one, each as a take of it. `requests` has at least one. Throws as `start` does.
 */
export async function openTakes(
  service: Service,
  requests: readonly StartRequest[],
  options: ChooseOptions & { earlier: Earlier } & WaitOptions,
): Promise<Takes> {
  const wanted = await wantedOf(service, requests[0] as StartRequest, options);
  // The places of its generations are claimed with each of them.
  return underLock(service, wanted, { ...options, outputPath: undefined }, async () => {
    const choice = await chooseTakes(service, requests, options);
    if (choice.kind === "wait") return undefined;
    const { name = service.io.uuid(), made } = choice;
    const hold = await service.journal.hold(name);
    return hold && { name, made, release: hold.release };
  });
}
