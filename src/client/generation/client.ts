import { resolve } from "node:path";
import { asVidgenError, VidgenError } from "../../errors.ts";
import type { Io, Machine } from "../../io.ts";
import { findDoubts } from "../../protocol/fields.ts";
import {
  type CompletedGeneration,
  failureReason,
  readCost,
  type StartRequest,
  type WireGeneration,
} from "../../protocol/schema.ts";
import { checkBaseUrl } from "../../protocol/url.ts";
import type { Accounts } from "../http/accounts.ts";
import { createApi } from "../http/api.ts";
import { checkApiKey, createRedaction, redactValue } from "../http/redaction.ts";
import { backoffMs } from "../http/retry.ts";
import { type Event, nextState } from "../ledger/attempt.ts";
import type { Content } from "../ledger/content.ts";
import { accountOf, type Entry, isOpen, isPaidBy, type JournalLine, recordOf } from "../ledger/history.ts";
import { recordPlace } from "../ledger/identity.ts";
import { type Journal, noJournal, withoutSecrets } from "../ledger/journal.ts";
import type { Choice, Earlier } from "../ledger/policy.ts";
import { isComparable, readBalance } from "../ledger/price.ts";
import { withdraw } from "../ledger/withdraw.ts";
import { hasInfo, writeInfo } from "../save/info.ts";
import { createKept, type Kept } from "../save/kept.ts";
import { save } from "../save/save.ts";
import { type Claimed, type ClaimOptions, createTargets, type Target } from "../save/target.ts";
import {
  type BeginOptions,
  begin,
  beginNew,
  beginRun,
  claimOrFind,
  clear,
  lookAt,
  lookAtRun,
  type NewAttempt,
  type ResumedAttempt,
  type Run,
} from "./begin.ts";
import { type Cancelled, cancel } from "./cancel.ts";
import { cancelledReason, failedError, follow, readTimes } from "./follow.ts";
import { poll, pollUntilAnswered } from "./poll.ts";
import { type End, type PaidStartOptions, start, unknownOutcome } from "./start.ts";

/** What a client may use of the outside world. */
export type ClientIo = Machine & Pick<Io, "fetch" | "unsettled">;

export type ServiceClientOptions = {
  /** The service's address; https, except on this machine. */
  baseUrl: string;
  apiKey: string;
  /** Where the key came from and how to replace it, for the error when the service rejects it. */
  keyHint?: string | undefined;
  /** Where each start is written down before it is sent; without one nothing is written down. */
  journal?: Omit<Journal, "path"> | undefined;
  /** Files and folders that no video replaces. */
  kept?: readonly string[] | undefined;
  /** Returns whether a model's videos are previews; `undefined` where that is not known. */
  isPreview?: ((model: string) => boolean | undefined) | undefined;
  /** What makes the videos of a local service, as `--engine` has it. */
  engine?: readonly string[] | undefined;
  /** Whether its credits cost nothing, as those of the local service do. */
  isFree?: boolean | undefined;
  /** Called with news for the user, such as a model that looks like a slip. */
  onNote?: ((text: string) => void) | undefined;
};

/** A new start that has done all that can fail before it is paid for. */
export type ReadyStart = NewAttempt & {
  /** Sends the paid request (interface 4.1), and resolves however that has ended. */
  sendUntilKnown(options: SendOptions): Promise<End>;
};

export type SendOptions = Pick<PaidStartOptions, "signal" | "retriesNotNow" | "label" | "balance"> &
  Partial<Pick<PaidStartOptions, "leave">> & {
    /** Whether a note says what is probably wrong in the request; a batch has told it in its plan. */
    tellsDoubts?: boolean;
  };

export type ClientFollowOptions = {
  signal: AbortSignal;
  /** How long to wait for the end, in milliseconds; 15 minutes by default. */
  timeoutMs?: number | undefined;
  /** Between two polls, in milliseconds; by default what the interface recommends. */
  intervalMs?: number | undefined;
  /**
   * Called at each poll, until it sees the generation completed, with the service's own word for its state and the percent of the video that is
   * made, where the service tells it.
   */
  onState?: ((status: string, percent?: number, node?: string) => void) | undefined;
  /** Called with the reason each time that the service could not be reached, from the third in a row on. */
  onTrouble?: ((reason: string) => void) | undefined;
};

export type ClientDownloadOptions = ClientFollowOptions & {
  overwrite?: boolean | undefined;
  /** Also writes the info file beside the video (see `info.ts`). */
  infoJson?: boolean | undefined;
  /** Both in bytes; `total` is `undefined` where the media address does not say. */
  onProgress?: ((received: number, total: number | undefined) => void) | undefined;
};

export type ClientClaimOptions = Omit<ClaimOptions, "id"> & Pick<BeginOptions, "timeoutMs" | "signal">;

/** A video that was saved: where, and what it is known by. */
export type DownloadedVideo = CompletedGeneration & { file: string; content: Content };

export type ServiceClient = {
  baseUrl: string;
  /** The account that its key stands for, as `accountOf` gives it. */
  account: string;
  /** Whether its credits cost nothing, as those of the local service do. */
  isFree: boolean;
  /** Whether a model's videos are previews, where that is known: they are not the same as real ones. */
  isPreview(model: string): boolean | undefined;
  /** The text without the key of this client. */
  redact(text: string): string;
  /**
   * Does all of a start that can fail before it is paid for, and sends nothing: see `begin.ts`. What is resumed cannot be sent. Rejects as
   * that does.
   */
  begin(request: StartRequest, options: BeginOptions & { earlier: Earlier }): Promise<ReadyStart | ResumedAttempt>;
  /** What `begin` would do about earlier attempts now; of several requests, what each one of such a run would. Changes nothing. */
  look(requests: readonly StartRequest[], options: BeginOptions & { earlier: Earlier }): Promise<Choice[]>;
  /** The same as `begin`, whatever was started before. */
  beginNew(request: StartRequest, options: BeginOptions): Promise<ReadyStart>;
  /** Begins a run of several generations, of each request one: see `begin.ts`. Rejects as that does. */
  beginRun(requests: readonly StartRequest[], options: BeginOptions & { earlier: Earlier }): Promise<Run>;
  /** Writes down that the caller of a start, who does not wait for the generation, has its id. Never rejects. */
  told(attempt: string): Promise<void>;
  /** Writes down that an attempt whose intent is written is not sent, and why. Never rejects. */
  unsent(attempt: string, error: VidgenError): Promise<void>;
  /** Writes down that a video was streamed to its caller. Never rejects. */
  streamed(id: string): Promise<void>;
  /** Writes down that the URL of a generation was handed to the caller, where it was started without an output path. Never rejects. */
  delivered(id: string): Promise<void>;
  /** Polls a generation once (interface 4.2); retries for 30 s until there is an answer. Rejects as `pollUntilAnswered` does. */
  status(id: string, options: { signal: AbortSignal }): Promise<WireGeneration>;
  /**
   * Cancels a generation, where its service can, and writes it down as failed. `wasOver` is set where the journal has its end already. Rejects as
   * `cancel` does.
   */
  cancel(id: string, options: { signal: AbortSignal }): Promise<Cancelled & { wasOver: boolean }>;
  /** The accounts of a `vidgen serve`, for its owner's key. */
  accounts(options: { signal: AbortSignal }): Promise<Accounts>;
  /** Follows a generation until it has completed. Rejects as `follow` does. */
  follow(id: string, options: ClientFollowOptions): Promise<CompletedGeneration>;
  /**
   * Claims the place for the video of a generation, a file, a folder or a template, or finds it saved there. Waits for a process that has the
   * place. Rejects with `output`, with `pending` when the other process still has it, or with the signal's reason.
   */
  claim(id: string, outputPath: string, options: ClientClaimOptions): Promise<Claimed>;
  /** Refuses a path that is a file which vidgen needs, as `Kept` says. */
  checkKept: Kept;
  /** Where the video of a generation is saved already, if `outputPath` would save it there. Changes nothing. */
  findSaved(id: string, outputPath: string): Promise<string | undefined>;
  /** Writes down where that was found, unless the journal knows of a place. Never rejects. */
  recordSaved(id: string, file: string): Promise<void>;
  /** Follows a generation and saves its video at a place that the caller releases. Rejects as `follow` does, and with `output`. */
  download(id: string, target: Target, options: ClientDownloadOptions): Promise<DownloadedVideo>;
  /** What the journal knows of this service, newest first; `goOn` as in `Journal.entries`. */
  entries: Journal["entries"];
  /** The same about one generation. */
  entriesOf: Journal["entriesOf"];
  /** The same, all of them, as their lines. */
  attempts: Journal["attempts"];
  /** The same client with another journal, made of its own; `kept` adds to the files that no video replaces. */
  withJournal(
    change: (journal: Omit<Journal, "path">) => Omit<Journal, "path">,
    how?: Pick<ServiceClientOptions, "kept">,
  ): ServiceClient;
  /** The credits that the account has now, where the journal knows them well enough to compare them with those after a start. Never rejects. */
  balance(): Promise<number | undefined>;
  /**
   * Writes the info file beside a video that is saved already, unless it is there; without `asks` of what the journal knows alone. Returns whether
   * the service answered, if it was asked. Rejects with `output` or the signal's reason.
   */
  addInfo(id: string, file: string, options: { signal: AbortSignal; asks?: boolean }): Promise<boolean>;
};

/** For this long after a generation has completed its video may be downloaded, however little of the time to wait is left. */
const downloadMs = 5 * 60_000;

/** A key counts as known for so much less than the service says: their clocks may differ, and the request takes time. */
const keyMarginSeconds = 3_600;

/** How often an unclear start is sent again with its key, within some 8 s: a later call may go on with it. */
const settleLimit = 4;
const lookMs = 10_000;

/** How many generations that nobody follows a client remembers to have started, and how many doubts it has told. */
const maxRemembered = 1_000;

/** A client of the service, for the CLI and for the library. Throws `usage` for an address or a key that cannot be used. */
export function createServiceClient(options: ServiceClientOptions, io: ClientIo): ServiceClient {
  const baseUrl = checkBaseUrl(options.baseUrl, "baseUrl");
  const apiKey = checkApiKey(options.apiKey);
  const api = createApi({ baseUrl, apiKey, fetch: io.fetch });
  const account = accountOf(baseUrl, apiKey);
  const { hide, redact } = createRedaction();
  hide(apiKey);
  const journal = withoutSecrets(options.journal ?? noJournal, redact);
  /** As the journal has it. */
  const service = redact(baseUrl);
  const { onNote = () => {}, isPreview = () => undefined, isFree = false, engine } = options;
  /** The generations that this client has started and not followed to an end yet: a part of the service may not know them. */
  const fresh = new Map<string, Entry>();
  const targets = createTargets(options.journal && journal, io, options.kept);
  /** The doubts that were told: the same request may be started a thousand times. */
  const doubted = new Map<string, true>();

  /**
   * Whether the service says that a start with the key of one that was sent at this time (ISO 8601) is the same start: it is asked now, for
   * nothing, since another service may have been at this address.
   */
  async function keepsKey(at: string, signal: AbortSignal): Promise<boolean> {
    const limit = io.limit(lookMs, signal, new Error("no answer"));
    const asked = api.probe(limit.signal).finally(limit.clear);
    const reply = await asked.catch(() => undefined);
    const seconds = Number(reply?.headers?.["idempotency-key-lifetime"] ?? 0);
    const age = (io.date().getTime() - Date.parse(at)) / 1_000;
    // By a clock that is behind that of the attempt nobody can tell its age.
    return age > -keyMarginSeconds && age < seconds - keyMarginSeconds;
  }

  async function sendUntilKnown(request: StartRequest, begun: NewAttempt, how: SendOptions): Promise<End> {
    const end = await sendOnce(request, begun, how);
    if (!begun.isNamed) return end;
    let settled = end;
    for (let failures = 0; settled.kind === "unknown" && failures < settleLimit; failures++) {
      const isWaitedFor = await io.sleep(backoffMs(failures, io.random()), how.signal).then(
        () => true,
        () => false,
      );
      if (!isWaitedFor || !(await keepsKey(begun.at, how.signal))) return settled;
      settled = await sendOnce(request, { ...begun, mayBeCharged: true }, how);
    }
    return settled;
  }

  async function sendOnce(request: StartRequest, begun: NewAttempt, how: SendOptions): Promise<End> {
    const { attempt, key, at, mayBeCharged, confirm, assertFresh } = begun;
    for (const doubt of how.tellsDoubts === false ? [] : findDoubts(request, { isLocal: isFree })) {
      if (!doubted.has(doubt)) onNote(`${doubt} Sent as typed.`);
      remember(doubted, doubt, true);
    }
    const leave = how.leave ?? new AbortController().signal;
    const record = recordFor(request);
    const isForeign = async (id: string) => (await entriesOf(id)).some((entry) => (entry.key ?? entry.attempt) !== key);
    const sent = await start(
      api,
      request,
      { ...how, leave, attempt, key, mayBeCharged, confirm, assertFresh, isForeign, journal, onNote },
      io,
    );
    const end = sent.kind === "refused" ? await settleRefused(sent, { attempt, leave }) : sent;
    if (end.kind !== "accepted") return { ...end, error: explainKey(end.error) };
    const { generation, credits_charged: credits, remaining_credits } = end.started;
    const entry = { attempt, at, base_url: service, account, request: record, credits, remaining_credits };
    remember(fresh, generation.id, { ...entry, id: generation.id, state: "running", status: "processing" });
    return end;
  }

  /** A refusal that named a generation is final only where the service does not know that, or says for certain that it failed: it is asked once. */
  async function settleRefused(
    refused: End & { kind: "refused" },
    { attempt, leave }: { attempt: string; leave: AbortSignal },
  ): Promise<End> {
    const { id } = refused.error;
    if (id === undefined) return refused;
    const limit = io.limit(lookMs, leave, new Error("no answer"));
    const answer = await poll(api, id, io, limit.signal).catch(asVidgenError).finally(limit.clear);
    let reason = `it was refused, and the service did not say whether generation ${id} exists`;
    if ("generation" in answer && answer.generation.status === "failed") {
      if (failedError(id, answer.generation).ended !== "unknown") return refused;
      reason = `it was refused, and the service cannot say whether generation ${id} was charged (${failureReason(answer.generation) ?? "it gave no reason"})`;
    } else if ("generation" in answer) {
      const { generation } = answer;
      await record({ kind: generation.status === "completed" ? "completed" : "found", id });
      return { kind: "accepted", started: { generation, remaining_credits: undefined } };
    }
    if ("error" in answer && answer.error.code === "not_found") return refused;
    await record({ kind: "unclear", id, reason });
    io.unsettled.add(attempt);
    return unknownOutcome(reason, attempt, { id });
  }

  /** The request as the journal keeps it. */
  const recordFor = (request: StartRequest) => redactValue(recordOf(request), redact);
  const ready = (request: StartRequest, begun: NewAttempt): ReadyStart => ({
    ...begun,
    sendUntilKnown: (how) => sendUntilKnown(request, begun, how),
  });
  const forBegin = async (request: StartRequest, how: BeginOptions) => {
    const record = recordFor(request);
    const { outputPath: recordedPath, fullPath } = await recordPlace(how.outputPath, redact, io.disk);
    const known = {
      baseUrl: service,
      account,
      record,
      recordedPath,
      fullPath,
      isPreview: isPreview(request.model),
      engine,
    };
    return { ...how, ...known, journal, targets, onNote };
  };

  /** Whether a start with a caller's key failed because an earlier one is unclear, and the service keeps that key: then it is safe to send again. */
  async function canSendAgain(error: unknown, { idempotencyKey, signal }: BeginOptions): Promise<boolean> {
    if (idempotencyKey === undefined || asVidgenError(error).code !== "unknown") return false;
    const oldest = (await attemptsOf(idempotencyKey)).at(-1);
    return oldest !== undefined && keepsKey(oldest.at, signal);
  }

  const isOurs = (entry: Entry) => entry.base_url === service;
  const entries: Journal["entries"] = async (goOn) => (await journal.entries(goOn)).filter(isOurs);
  const entriesOf = async (id: string) => (await journal.entriesOf(id)).filter(isOurs);
  const attemptsOf = async (key: string) => (await journal.attemptsOf(key)).filter(isOurs);
  const find = async (id: string) => fresh.get(id) ?? (await entriesOf(id))[0];
  /** Appends a line about what has happened already, so a failure to write is only a note. */
  const record = (line: JournalLine) => journal.append(line).catch((error) => onNote(asVidgenError(error).message));

  const explainKey = (error: VidgenError) =>
    error.code === "auth" && error.ended === undefined && options.keyHint !== undefined
      ? new VidgenError(error.code, error.message, { ...error, hint: options.keyHint, cause: error.cause })
      : error;

  /** A 404 means something for what this key has started alone: it is lost then, and stays so until it is found or started again. */
  async function explainNotFound(error: VidgenError, id: string, entry: Entry | undefined): Promise<VidgenError> {
    if (error.code !== "not_found" || entry === undefined) return error;
    if (!isPaidBy(account, entry)) {
      const message = `The service has no generation ${id} for this key (account ${account}); it was started with another key (account ${entry.account}).`;
      const hint = "Nothing was changed. Use the key that started the generation.";
      return new VidgenError("not_found", message, { id, httpStatus: error.httpStatus, hint });
    }
    if (!isOpen(entry)) return error;
    await record({ kind: "lost", id });
    const message = `The service accepted generation ${id} but no longer knows it: the generation is lost.`;
    const hint = `It was charged. \`vidgen wait ${id}\` asks the service again. The same command does not start another one unless you add --again.`;
    return new VidgenError("not_found", message, { id, httpStatus: error.httpStatus, hint });
  }

  /** Writes down that a generation runs which was not known, or had been lost. */
  async function recordFound(id: string, entry: Entry | undefined): Promise<void> {
    if (entry !== undefined && nextState(entry.state, "found") !== entry.state) await record({ kind: "found", id });
  }

  async function look(id: string, { signal }: { signal: AbortSignal }): Promise<WireGeneration> {
    const entry = await find(id).catch(() => undefined);
    const generation = await pollUntilAnswered(api, id, io, signal, onNote).catch(async (thrown) => {
      const error = explainKey(asVidgenError(thrown));
      const isOther = entry !== undefined && !isPaidBy(account, entry);
      // One look tells too little to call it lost.
      throw isOther ? await explainNotFound(error, id, entry) : error;
    });
    const { status } = generation;
    if (status !== "completed" && status !== "failed") {
      await recordFound(id, entry);
      return generation;
    }
    if (entry === undefined) return generation;
    const line: JournalLine & { kind: Event } =
      status === "completed"
        ? { kind: status, id, cost: readCost(generation) }
        : failureLine(id, failedError(id, generation), generation);
    // The journal may have its end from an earlier look.
    if (nextState(entry.state, line.kind) === entry.state) return generation;
    await journal.append(line).catch(() => {});
    if (line.kind === "failed") await clear(entry, { journal, targets });
    fresh.delete(id);
    return generation;
  }

  async function followAndRecord(id: string, how: ClientFollowOptions): Promise<CompletedGeneration> {
    const { timeoutMs, intervalMs } = readTimes(how, baseUrl);
    const isNew = fresh.has(id);
    const entry = await find(id).catch(() => undefined);
    const isKnown = entry !== undefined && isPaidBy(account, entry);
    let isWatched = isNew;
    const onState = (status: string, percent?: number, node?: string) => {
      if (!isWatched) void recordFound(id, entry);
      isWatched = true;
      how.onState?.(status, percent, node);
    };
    const onTrouble = (reason: string) => how.onTrouble?.(reason);
    let failed: WireGeneration | undefined;
    const onFailed = (generation: WireGeneration) => {
      failed = generation;
    };
    const options = { timeoutMs, intervalMs, isNew, isKnown, signal: how.signal, onState, onTrouble, onFailed, onNote };
    const completed = await follow(api, id, options, io)
      .catch(async (thrown) => {
        const error = explainKey(asVidgenError(thrown));
        if (error.ended) await record(failureLine(id, error, failed));
        if (error.ended && entry) await clear(entry, { journal, targets });
        throw await explainNotFound(explainUnclear(error, entry), id, entry);
      })
      // From here on the journal has it.
      .finally(() => fresh.delete(id));
    how.onState?.("completed");
    const cost = readCost(completed.generation);
    await record({ kind: "completed", id, watched: isWatched || undefined, cost });
    return completed;
  }

  async function claim(id: string, outputPath: string, how: ClientClaimOptions): Promise<Claimed> {
    // A video that was paid for can be claimed even where the journal cannot be read or written.
    const entry = await find(id).catch(() => undefined);
    return claimOrFind(outputPath, { ...how, id, entry }, { ...how, journal, targets, onNote }, io);
  }

  async function followAndSave(id: string, target: Target, how: ClientDownloadOptions): Promise<DownloadedVideo> {
    const { timeoutMs, intervalMs } = readTimes(how, baseUrl);
    const start = io.now();
    const signal = AbortSignal.any([how.signal, target.lost]);
    const entry = await find(id).catch(() => undefined);
    const completed = await followAndRecord(id, { ...how, signal });
    const freshUrl = async (signal: AbortSignal) =>
      (await follow(api, id, { timeoutMs, intervalMs, isNew: false, isKnown: true, signal, onNote }, io)).videoUrl;
    const onWhole = (content: Content) => record({ kind: "downloaded", id, ...content });
    const leftMs = Math.max(timeoutMs - (io.now() - start), downloadMs);
    const options = { target, entry, timeoutMs: leftMs, signal, onWhole, freshUrl };
    const { file, content } = await save(
      completed,
      { ...options, onProgress: how.onProgress ?? (() => {}), onNote },
      io,
    );
    const downloaded = { ...completed, file, content };
    if (target.outputPath === "-") return downloaded;
    await record({ kind: "delivered", id, file: resolve(file), ...content });
    if (entry) await clear(entry, { journal, targets });
    if (how.infoJson) {
      const known = { id, ...(await forInfo(id, entry)), generation: completed.generation };
      await writeInfo(file, known, { overwrite: how.overwrite, redact }, io);
    }
    return downloaded;
  }

  /** What the journal tells of a generation for its info file; where it cannot, what was known before. */
  async function forInfo(id: string, before?: Entry) {
    const entry = (await find(id).catch(() => undefined)) ?? before;
    return { entry, credits: isFree ? 0 : entry?.credits };
  }

  return {
    baseUrl,
    account,
    isFree,
    isPreview,
    redact,
    async begin(request, how) {
      const options = { ...(await forBegin(request, how)), earlier: how.earlier };
      const begun = await begin(options, io).catch(async (error) => {
        if (!(await canSendAgain(error, how))) throw error;
        return begin({ ...options, keepsKeys: true }, io);
      });
      return begun.kind === "resumed" ? begun : ready(request, begun);
    },
    beginNew: async (request, how) => ready(request, await beginNew(await forBegin(request, how), io)),
    async look(requests, how) {
      const [first] = requests;
      if (first === undefined) return [];
      const { earlier } = how;
      const records = requests.map(recordFor);
      const count = records.length;
      const run = count === 1 ? undefined : await lookAtRun({ ...(await forBegin(first, how)), records, earlier }, io);
      if (run?.kind === "wait") return records.map(() => run);
      const choices: Choice[] = [];
      for (const [index, request] of requests.entries()) {
        const take = run && { run: run.name ?? "", position: index + 1, count };
        choices.push(await lookAt({ ...(await forBegin(request, how)), earlier, take }, io));
      }
      return choices;
    },
    async beginRun(requests, how) {
      const [first] = requests;
      if (first === undefined) throw new Error("a run has a request");
      return beginRun({ ...(await forBegin(first, how)), records: requests.map(recordFor), earlier: how.earlier }, io);
    },
    told: (attempt) => record({ kind: "told", attempt }),
    async unsent(attempt, error) {
      const told = await withdraw(attempt, { kind: "unsent", error }, journal);
      if (told !== error) onNote(`${told.message} ${told.hint}`);
    },
    streamed: (id) => record({ kind: "delivered", id, file: "-" }),
    async delivered(id) {
      const entry = await find(id).catch(() => undefined);
      // A file alone delivers what was started with an output path; of what cannot be read nobody knows that.
      if (entry === undefined || entry.place !== undefined || entry.state === "delivered") return;
      await record({ kind: "delivered", id });
      await clear(entry, { journal, targets });
    },
    status: look,
    async cancel(id, { signal }) {
      const entry = await find(id).catch(() => undefined);
      const wasOver = entry?.status === "failed";
      const cancelled = await cancel(api, id, { signal, look: () => look(id, { signal }) }, io);
      if (!wasOver) await record({ kind: "failed", id, reason: cancelledReason });
      if (entry) await clear(entry, { journal, targets });
      fresh.delete(id);
      return { ...cancelled, wasOver };
    },
    accounts: async (how) => (await import("../http/accounts.ts")).createAccounts(api, how, io),
    follow: followAndRecord,
    claim,
    checkKept: createKept(options.kept ?? [], io.disk),
    download: followAndSave,
    entries,
    attempts: async () => (await journal.attempts()).filter(([intent]) => intent.base_url === service),
    withJournal(change, { kept = [] } = {}) {
      const journal = change(options.journal ?? noJournal);
      return createServiceClient({ ...options, journal, kept: [...(options.kept ?? []), ...kept] }, io);
    },
    entriesOf,
    async balance() {
      const balance = readBalance(await entries(() => false).catch(() => []), account);
      return balance && isComparable(balance, io.date()) ? balance.credits : undefined;
    },
    async findSaved(id, outputPath) {
      const entry = await find(id);
      return entry && targets.findSaved({ ...entry, id }, outputPath);
    },
    async recordSaved(id, file) {
      const entry = await find(id).catch(() => undefined);
      if (entry) await targets.recordSaved({ ...entry, id }, file);
    },
    async addInfo(id, file, { signal, asks = true }) {
      if (await hasInfo(file, id, io.disk)) return true;
      let answers = true;
      // The journal knows enough when the service cannot be asked.
      const asked = asks ? pollUntilAnswered(api, id, io, signal, onNote) : Promise.resolve(undefined);
      const generation = await asked.catch((error) => {
        answers = asVidgenError(error).code !== "network";
        return undefined;
      });
      signal.throwIfAborted();
      await writeInfo(file, { id, ...(await forInfo(id)), generation }, { redact }, io);
      return answers;
    },
  };
}

/** The line about the end of a generation that has failed. */
function failureLine(
  id: string,
  { ended, code, message: reason }: VidgenError,
  generation: WireGeneration | undefined,
): JournalLine & { kind: "failed" | "unclear" } {
  if (ended === "unknown") return { kind: "unclear", id, reason };
  // What a failed one has not cost is no price.
  const cost = (generation && readCost(generation)) || undefined;
  return { kind: "failed", id, reason, code: code === "failed" ? undefined : code, cost };
}

/** Adds the attempt to the error of a generation that may have been charged: by it, the user says that the matter is settled. */
function explainUnclear(error: VidgenError, entry: Entry | undefined): VidgenError {
  if (error.code !== "unknown" || entry === undefined) return error;
  const { attempt } = entry;
  return error.with({
    attempt,
    hint: `\`vidgen list --dismiss ${attempt}\` closes the attempt once you have checked the account.`,
  });
}

/** Adds to a map, which never has more than the newest thousand. */
function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
}
