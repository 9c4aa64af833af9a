import { asVidgenError, beforePaying, VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest } from "../../protocol/schema.ts";
import type { Label } from "../http/api.ts";
import { blocksRestart } from "../ledger/attempt.ts";
import type { DatedLine, Entry, JournalLine } from "../ledger/history.ts";
import type { FileIdentity } from "../ledger/identity.ts";
import type { AttemptLease, Journal, Lock } from "../ledger/journal.ts";
import {
  asSent,
  type Choice,
  type Earlier,
  isRunDone,
  type KeptKey,
  type RefusedChoice,
  type RunPosition,
  type StartedEntry,
  type WaitChoice,
} from "../ledger/policy.ts";
import { withCharge } from "../ledger/price.ts";
import { refusalError } from "../ledger/refusal.ts";
import { findByRun, findLine, wordOf } from "../ledger/search.ts";
import { firstSendBy } from "../ledger/shared-key.ts";
import { withdraw } from "../ledger/withdraw.ts";
import { claimOutput, dismiss, releaseOf, type WaitOptions, waitUntilFree } from "../save/claim.ts";
import { isExistsError } from "../save/files.ts";
import type { ClaimOptions, Target } from "../save/target.ts";
import { type Attempt, createAttempt, type FinishOptions } from "./attempt.ts";
import { type ChooseOptions, chooseStart, chooseTakes, type WantedStart, wantedOf } from "./choose.ts";
import { createOutcomeWait } from "./outcome-wait.ts";
import { askForKey, type Intent, resendNote, type SendOptions, type SendOutcome, sendPaid } from "./send.ts";
import { entriesOfKey, findBalance, recordedRequest, type Service } from "./service.ts";

export type PaidStartOptions = ChooseOptions &
  Pick<SendOptions, "signal" | "abandon"> & {
    /** Where and how the video is saved; without a path, the result is the URL. */
    save?: SaveOptions | undefined;
    times?: Pick<FinishOptions, "timeoutMs" | "intervalMs"> | undefined;
    /** Whether the caller does not wait for the generation, so that a later run does not resume it. */
    noWait?: boolean | undefined;
    /** The row of a batch that the start belongs to. */
    batch?: StartedRow | undefined;
    /**
     * Throws if a request must not be sent, such as one that would exceed a budget, before anything is
     * recorded or dismissed. Not called if an earlier attempt is resumed; `isResend` is set if its key would
     * be sent again.
     */
    check?: ((request: { isResend: boolean }) => void) | undefined;
    /**
     * Set if `request` is not complete: returns the request to send, with the last frame of a video, or after
     * the yes of a person. Called without a lock, and only if a first choice, which writes nothing, would send
     * the request. Then the choice is made again.
     */
    complete?: (() => Promise<StartRequest>) | undefined;
    /** Called after the intent is written and before the request is sent; if it rejects, nothing is sent. */
    onSending?: ((attempt: string) => void | Promise<void>) | undefined;
  };

type SaveOptions = Pick<ClaimOptions, "overwrite" | "infoJson" | "protectedPaths" | "first"> & {
  /** As typed. */
  outputPath?: string | undefined;
};

export type StartedRow = {
  label: Label;
  /** Returns the balance before the request, if the batch knows it. */
  balance(): number | undefined;
  /** The results file. */
  path: string;
  row: string;
  line: number;
  /** The rows file, if there is one. */
  rowsFile?: FileIdentity | undefined;
  /** Earlier attempts at the row that may have been charged and are dismissed. */
  dismissed: Entry[];
  /** The redo that makes the row again, and the attempts that it replaces: see `IntentLine`. */
  redo?: string | undefined;
  replaces?: readonly string[] | undefined;
  /** The hash of the row as it was typed, and what that does not determine: see `IntentLine`. */
  typed?: string | undefined;
  untyped?: readonly string[] | undefined;
  /** The key of the row's unclear attempt, which the service says that it keeps: it is sent again. */
  resends?: KeptKey | undefined;
};

/** A generation that the service accepted now. */
type AcceptedAttempt = { kind: "accepted"; attempt: Attempt; started: AcceptedStart } & SentKey;

/** An earlier attempt is resumed, and nothing was sent. */
type ResumedAttempt = { kind: "resumed"; attempt: Attempt; earlier: StartedEntry };

/** A generation that was started, now or earlier. The caller closes its `attempt`. */
export type StartedAttempt = AcceptedAttempt | ResumedAttempt;

/** A start without a generation; its file is released. */
export type NotStarted = Exclude<SendOutcome, { kind: "accepted" }> & SentKey;

/** The Idempotency-Key that was sent. */
type SentKey = { key: string };

/**
 * Starts a generation, which costs money, or resumes an earlier one. Returns the outcome of the request.
 * Throws only before the request, when nothing was sent: `unknown` if an earlier attempt may have been
 * charged, `not_found` if the service has lost its generation, `pending` while another process is starting
 * the same request or saving to the same file, `output` if the file or the journal cannot be written,
 * `usage`, the error of `check` or `onSending`, or the signal's reason.
 */
export async function startGeneration(
  service: Service,
  request: StartRequest,
  options: PaidStartOptions,
): Promise<StartedAttempt | NotStarted> {
  // If the process is killed before the intent is written, nothing has happened. If it is killed later, the
  // same command asks the service about the attempt, because the request may have been sent.
  const load = async () => options.noWait || service.io.loadDelivery?.();
  const begun = await load()
    .then(() => beginOrResume(service, request, options))
    .catch((error) => {
      // What is resumed was charged before.
      throw isExistsError(error) && error.id !== undefined ? error : beforePaying(error);
    });
  if (begun.kind === "resumed") return begun;
  const { intent, target, release, request: sentRequest } = begun;
  try {
    // If the start stops here, the attempt is recorded as not sent.
    const balance = await beforeRequest(service, intent, options);
    // If the process is killed now, the start may have been charged. The first Ctrl-C waits 10 s for the id.
    const signal = options.agent?.ending ?? options.signal;
    const { batch, abandon } = options;
    const outcome = await sendPaid(service, sentRequest, intent, { signal, abandon, balance, batch });
    if (outcome.kind !== "accepted") {
      await release();
      return { ...outcome, key: intent.key };
    }
    if (intent.isResend) await dismissEarlier(service, intent);
    // From now on the same command resumes the generation until it is delivered.
    const { id } = outcome.started.generation;
    const { attempt, at, key } = intent;
    const place = { target, outputPath: target?.outputPath ?? options.save?.outputPath };
    const finishing = finishOptionsOf(options);
    return {
      ...outcome,
      key,
      attempt: createAttempt(service, { id, attempt, at, ...place, options: finishing, release }),
    };
  } catch (error) {
    await release();
    throw error;
  }
}

function finishOptionsOf({ save = {}, times, signal }: PaidStartOptions): FinishOptions {
  const { overwrite, infoJson } = save;
  return { ...times, overwrite, infoJson, signal };
}

/**
 * Dismisses earlier attempts with the same key, which are the same generation, unless another process has one
 * of them. Never rejects.
 */
async function dismissEarlier(service: Service, { attempt, key }: Intent): Promise<void> {
  const { journal } = service;
  try {
    await journal.lock(async () => {
      const others = (await entriesOfKey(service, key)).filter((entry) => entry.attempt !== attempt);
      const leases = await Promise.all(others.map((entry) => journal.leaseOf(entry.attempt)));
      if (leases.some((lease) => lease !== "dead")) return;
      await dismiss(
        others.filter(({ state, dismissed }) => blocksRestart(state) && !dismissed),
        service,
      );
    });
  } catch (error) {
    service.note(asVidgenError(error).message);
  }
}

/** Calls `onSending`, and returns the balance. If it fails, the attempt is recorded as not sent. */
async function beforeRequest(service: Service, { attempt }: Intent, { onSending, batch }: PaidStartOptions) {
  try {
    await onSending?.(attempt);
    return batch ? batch.balance() : await findBalance(service);
  } catch (thrown) {
    const error = asVidgenError(thrown);
    const reported = await withdraw(attempt, { kind: "unsent", error }, service.journal);
    if (reported !== error) service.note(`${reported.message} ${reported.hint}`);
    throw thrown;
  }
}

/** An attempt whose intent is written, and whose file is claimed. */
type BegunAttempt = { kind: "new"; intent: Intent; target: Target | undefined; release(): Promise<void> };

/**
 * Begins a new attempt by claiming its file and writing its intent, and returns it with the request to send;
 * or takes over an earlier one.
 */
async function beginOrResume(
  service: Service,
  request: StartRequest,
  options: PaidStartOptions,
): Promise<(BegunAttempt & { request: StartRequest }) | ResumedAttempt> {
  let sent = request;
  const wanted = { ...(await wantedOf(service, request, options)), keptKey: options.batch?.resends };
  let chosen = await chooseAndWrite(service, wanted, options);
  // The service is asked without the journal's lock, because its answer may take seconds. After the answer,
  // the choice is made again.
  const keptKey = chosen.kind === "refuse" ? await findKeptKey(service, chosen, options) : undefined;
  const { complete, ...completed } = options;
  if (keptKey && !complete) {
    service.note(resendNote);
    if (chosen.kind === "refuse") sent = asSent(request, chosen.entry.request);
    chosen = await chooseAndWrite(service, { ...wanted, request: recordedRequest(service, sent), keptKey }, options);
  }
  if (chosen.kind === "incomplete" || (keptKey && complete))
    return beginOrResume(service, (await complete?.()) ?? request, completed);
  if (chosen.kind === "refuse") throw withCharge(refusalError(chosen), chosen.entry);
  return chosen.kind === "new" ? { ...chosen, request: sent } : resume(service, wanted, chosen, options);
}

/**
 * The key of a start with an unknown outcome, if the service says that it remembers the key, which is then
 * safe to send again.
 */
async function findKeptKey(
  service: Service,
  { key }: RefusedChoice,
  { signal, check }: PaidStartOptions,
): Promise<KeptKey | undefined> {
  if (key === undefined) return undefined;
  try {
    check?.({ isResend: true });
  } catch {
    // The key is not sent again if that would exceed the budget.
    return undefined;
  }
  const firstSentAt = firstSendBy(service.account, await entriesOfKey(service, key));
  if (firstSentAt === undefined) return undefined;
  const isKept = (await askForKey(service, firstSentAt, signal)) === "kept";
  return isKept ? { key, firstSentAt } : undefined;
}

type IncompleteStart = { kind: "incomplete" };
type TakenOverAttempt = { kind: "resume"; entry: StartedEntry; lease: AttemptLease | undefined };
type Unlocked<Chosen> = Exclude<Chosen, WaitChoice>;

/**
 * Chooses under the journal's lock, so that two processes never choose the same attempt, and begins a new one
 * unless its request is not complete. Waits for other processes as `underLock` does.
 */
function chooseAndWrite(
  service: Service,
  wanted: WantedStart,
  options: PaidStartOptions,
): Promise<BegunAttempt | IncompleteStart | TakenOverAttempt | RefusedChoice> {
  const { save, times, signal, agent } = options;
  const waiting = { outputPath: save?.outputPath, timeoutMs: times?.timeoutMs, signal, agent };
  return underLock(service, wanted, waiting, async ({ lock, waitedFor }) => {
    const choice = await chooseStart(service, { ...wanted, waitedFor });
    if (choice.kind === "wait" || choice.kind === "refuse") return choice;
    if (choice.kind === "new") return writeIntent(service, wanted, choice, { ...options, lock });
    const { entry, isJoined } = choice;
    // If a live process has the attempt's lease, both processes follow the generation.
    return {
      kind: "resume" as const,
      entry,
      lease: isJoined ? undefined : await service.journal.acquire(entry.attempt),
    };
  });
}

type LockedWork<Result> = (locked: { lock: Lock; waitedFor: ReadonlySet<string> }) => Promise<Result | undefined>;

/**
 * Runs `work` under the journal's lock. Repeats it while it returns `undefined` or a wait, which mean that
 * another process must finish first. Returns a refusal if the outcome of an attempt stays unknown for too
 * long.
 */
async function underLock<Result extends { kind: string }>(
  service: Service,
  { request }: Pick<WantedStart, "request">,
  options: Pick<PaidStartOptions, "agent"> & WaitOptions & { outputPath?: string | undefined },
  work: LockedWork<Result | WaitChoice>,
): Promise<Unlocked<Result> | RefusedChoice> {
  const { journal, targets, note, io } = service;
  const { outputPath, timeoutMs, signal } = options;
  const outcomeWait = createOutcomeWait(service, options);
  const { waitedFor } = outcomeWait;
  const tryOnce = async (tries: number) => {
    // From the second try on, takes the lock only when the file may be free.
    if (tries > 1 && outputPath !== undefined && (await targets.isHeld(outputPath, request))) return undefined;
    const result = await journal.lock((lock) => work({ lock, waitedFor }), signal);
    return isWait(result) && result.because === "starting" ? undefined : result;
  };
  const message = "Another process is still starting the same request. Nothing was sent.";
  for (;;) {
    const result = await waitUntilFree(tryOnce, { timeoutMs, signal, note, message }, io);
    const refused = isWait(result) ? await outcomeWait.next(result) : (result as Unlocked<Result>);
    if (refused !== undefined) return refused;
  }
}

function isWait(result: { kind: string } | undefined): result is WaitChoice {
  return result?.kind === "wait";
}

/**
 * Claims the file and writes the intent of a new attempt, if the budget allows it. Then confirms the lock, so
 * that a process that was suspended and lost the lock stops here, and the new holder sees the intent in the
 * journal. Creates the partial file last, so that each partial file belongs to an attempt in the journal.
 * Returns `undefined` while another process uses the file. Writes nothing if the request is not complete.
 */
async function writeIntent(
  service: Service,
  wanted: WantedStart,
  { dismissed, resends, firstSentAt = resends?.firstSentAt }: Choice & { kind: "new" },
  options: PaidStartOptions & { lock: Lock },
): Promise<BegunAttempt | IncompleteStart | undefined> {
  const { journal, targets, io } = service;
  const { save: { outputPath, ...claiming } = {}, idempotencyKey, batch } = options;
  options.check?.({ isResend: resends !== undefined });
  if (options.complete) return { kind: "incomplete" };
  const [attempt, at] = [io.uuid(), io.date().toISOString()];
  const takenParts = await findTakenParts(service, wanted, outputPath);
  // The parts of the name come from `wanted.request`, which is redacted, because a key in the prompt must not
  // get into the file name.
  const claimOptions = { ...claiming, attempt, nameParts: wanted.request, takenParts };
  const target = outputPath === undefined ? undefined : await targets.claim(outputPath, claimOptions);
  if (outputPath !== undefined && !target) return undefined;
  let lease: AttemptLease | undefined;
  try {
    lease = await journal.acquire(attempt);
    const writeAndDismiss = async () => {
      await journal.append(
        intentLine(service, wanted, { resends, firstSentAt }, { ...options, attempt, part: target?.partPath }),
      );
      await options.lock.confirm();
      await target?.open();
      await dismiss([...dismissed, ...(batch?.dismissed ?? [])], service);
    };
    await writeAndDismiss().catch(async (error) => {
      throw await withdraw(attempt, { kind: "unsent", error: asVidgenError(error) }, journal);
    });
  } catch (error) {
    await releaseOf(target, lease)();
    throw error;
  }
  const key = idempotencyKey ?? resends?.key ?? attempt;
  const keyHistory = { firstSentAt: firstSentAt ?? at, isResend: resends !== undefined };
  const hasCallerKey = idempotencyKey !== undefined;
  const intent = { attempt, key, at, hasCallerKey, ...keyHistory, ...ownershipOf(attempt, lease, journal) };
  return { kind: "new", intent, target, release: releaseOf(target, lease) };
}

function intentLine(
  { account, engine, servedBy }: Service,
  wanted: WantedStart,
  { resends, firstSentAt }: { resends: KeptKey | undefined; firstSentAt: string | undefined },
  { attempt, part, save, noWait, batch }: PaidStartOptions & { attempt: string; part: string | undefined },
): JournalLine {
  return {
    kind: "intent",
    attempt,
    key: wanted.key,
    resend_of: wanted.key === undefined ? resends?.key : undefined,
    first_sent_at: firstSentAt,
    base_url: wanted.service,
    account,
    request: wanted.request,
    place: save?.outputPath,
    path: wanted.fullPath?.path,
    part,
    no_wait: noWait,
    batch: batch?.path,
    row: batch?.row,
    line: batch?.line,
    redo: batch?.redo,
    replaces: batch?.replaces,
    rows_file: batch?.rowsFile,
    mcp: wanted.mcp,
    is_preview: wanted.isPreview,
    engine,
    served_by: servedBy,
    parent: wanted.parent,
    from: wanted.from,
    typed: wanted.line?.hash ?? batch?.typed,
    place_typed: wanted.line?.isPlaceTyped,
    project: wanted.line?.project,
    folder: wanted.line?.folder,
    untyped: batch?.untyped,
    ...wanted.take,
  };
}

/** The partial files of the run's other positions, so that a number for `{n}` is never used twice. */
async function findTakenParts({ journal }: Service, { take }: WantedStart, outputPath = ""): Promise<string[]> {
  if (take === undefined || !outputPath.includes("{n}")) return [];
  const entries = await findByRun(journal, take.run);
  return entries.flatMap(({ position, parts = [] }) => (position === take.position ? [] : parts));
}

/** The checks whether this process still owns its attempt, because another one may have taken over during a long suspension. */
function ownershipOf(
  attempt: string,
  lease: AttemptLease | undefined,
  journal: Pick<Journal, "scan">,
): Pick<Intent, "confirm" | "assertFresh"> {
  const isAboutAttempt = (line: DatedLine): line is DatedLine & { kind: "intent" | "dismissed" } =>
    (line.kind === "intent" || line.kind === "dismissed") && line.attempt === attempt;
  return {
    async confirm() {
      await lease?.confirm();
      // A process that dismisses an attempt also takes its lease, but that may have failed.
      if ((await findLine(journal, isAboutAttempt, [wordOf(attempt)]))?.kind !== "dismissed") return;
      throw new VidgenError("output", `Attempt ${attempt} was dismissed by another process meanwhile.`);
    },
    assertFresh: () => lease?.assertFresh(),
  };
}

/** Takes over an earlier attempt: claims the file for its video, or finds the video there. */
async function resume(
  service: Service,
  wanted: WantedStart,
  { entry, lease }: TakenOverAttempt,
  options: PaidStartOptions,
): Promise<ResumedAttempt> {
  const { save: { outputPath, ...claiming } = {}, times, signal } = options;
  const { attempt, at, id } = entry;
  try {
    const takenParts = await findTakenParts(service, wanted, outputPath);
    const claimOptions = { ...claiming, id, entry, takenParts, timeoutMs: times?.timeoutMs, signal };
    const claimed =
      outputPath === undefined ? undefined : await claimOutput(outputPath, claimOptions, service, service.io);
    const { target, file } = claimed ?? {};
    const place = { target, file, outputPath: target?.outputPath ?? outputPath };
    const resumed = { id, attempt, at, ...place, options: finishOptionsOf(options), release: releaseOf(target, lease) };
    return { kind: "resumed", earlier: entry, attempt: createAttempt(service, resumed) };
  } catch (error) {
    await lease?.release();
    // With the id, a program can resume the generation that was paid for. The same line with another -o would start another one.
    const known = asVidgenError(error);
    const hint = `\`vidgen wait ${id} -o <another name>\` saves it, which costs nothing.`;
    const resumable = isExistsError(error)
      ? new VidgenError(known.code, known.message, { hint, cause: known.cause })
      : known;
    throw withCharge(resumable.with({ id }), entry);
  }
}

/** The generations of one command, such as `-n 3`. */
export type TakesRun = {
  /** The name of their run. */
  name: string;
  /** The position of each request, with its completed or running attempt. */
  positions: readonly RunPosition[];
  /** Whether all positions are done now, so that the same command would start a new run; false if the journal cannot be read. */
  isDone(): Promise<boolean>;
  release(): Promise<void>;
};

/**
 * Begins a run of several generations, or takes over an interrupted run of the same command. Until the run is
 * released, other processes see that a live process has it. The generations are started one by one, each as a
 * take of the run. `requests` must not be empty. Throws as `startGeneration` does.
 */
export async function openTakes(
  service: Service,
  requests: readonly StartRequest[],
  options: ChooseOptions & { earlier: Earlier } & Pick<PaidStartOptions, "times" | "signal">,
): Promise<TakesRun> {
  const wanted = await wantedOf(service, requests[0] as StartRequest, options);
  // Each generation claims its own file later.
  const { times, signal } = options;
  const opened = await underLock(service, wanted, { timeoutMs: times?.timeoutMs, signal }, async ({ waitedFor }) => {
    const choice = await chooseTakes(service, requests, { ...options, waitedFor });
    if (choice.kind !== "run") return choice;
    const { name = service.io.uuid(), positions, isJoined } = choice;
    const isDone = async () => {
      const takes = await findByRun(service.journal, name).catch(() => []);
      return isRunDone({ run: name, count: requests.length }, takes);
    };
    // Each position is started once under the lock, so that two processes can follow a run.
    if (isJoined) return { kind: "opened" as const, name, positions, isDone, release: async () => {} };
    const lease = await service.journal.acquire(name);
    return lease && { kind: "opened" as const, name, positions, isDone, release: lease.release };
  });
  if (opened.kind === "refuse") throw withCharge(refusalError(opened), opened.entry);
  return opened;
}
