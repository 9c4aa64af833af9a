import { resolve } from "node:path";
import { asVidgenError, VidgenError } from "../../errors.ts";
import { type CompletedGeneration, readCost, type WireGeneration } from "../../protocol/schema.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { nextState } from "../ledger/attempt.ts";
import type { Content } from "../ledger/content.ts";
import { type Entry, isPaidBy, isUndelivered, type JournalLine } from "../ledger/history.ts";
import { chargedOf, shownCredits, withCharge } from "../ledger/price.ts";
import { claimOutput, releaseOf, removeLeftovers, type WaitOptions } from "../save/claim.ts";
import { writeInfo } from "../save/info.ts";
import { save } from "../save/save.ts";
import type { ClaimOptions, Target } from "../save/target.ts";
import { follow, readTimes } from "./follow.ts";
import { explainRefusal, findEntry, record, type Service } from "./service.ts";

export type FinishOptions = WaitOptions & {
  /** Between two polls, in milliseconds; by default what the interface recommends. */
  intervalMs?: number | undefined;
  overwrite?: boolean | undefined;
  /** Also writes the info file beside the video (see `info.ts`). */
  infoJson?: boolean | undefined;
};

/** A generation that has an id and is followed until it ends. The caller must `close` it. */
export type Attempt = {
  service: Service;
  id: string;
  /** The attempt's name in the journal, and when it was started (ISO 8601, UTC); `undefined` if that is not known here. */
  attempt: string | undefined;
  at: string | undefined;
  /** The value of -o for the command that resumes this one: with the claimed number in place of `{n}`. */
  outputPath: string | undefined;
  /** The file, if the video is already saved. */
  file: string | undefined;
  /** The claimed file for the video; without a file, the result is the URL. */
  target: Target | undefined;
  options: FinishOptions;
  release(): Promise<void>;
};

/** What happens to a generation until it has ended. */
export type Listeners = {
  /**
   * Called at each poll until the generation is completed, with the service's own word for its state, and, if
   * stated, the progress in percent and the running node.
   */
  state?: ((status: string, percent?: number, node?: string) => void) | undefined;
  /** Called with the reason when the service could not be reached at least three times in a row. */
  outage?: ((reason: string) => void) | undefined;
  /** Called with the downloaded bytes of the video; `total` is `undefined` if the server does not state it. */
  progress?: ((received: number, total: number | undefined) => void) | undefined;
};

/** The result of a generation. */
export type Finished = { of: Attempt } & (
  | ({ kind: "url" } & CompletedGeneration)
  | ({ kind: "saved"; file: string; content: Content } & CompletedGeneration)
  /** The video was already saved, so no request was sent. */
  | { kind: "found"; file: string }
);

export function createAttempt(service: Service, fields: Pick<Attempt, "id" | "options"> & Partial<Attempt>): Attempt {
  const { id, options, attempt, at, outputPath, file, target, release = releaseOf(target) } = fields;
  return { service, id, attempt, at, outputPath, file, target, options, release };
}

export type OpenAttemptOptions = FinishOptions &
  Pick<ClaimOptions, "attempt" | "nameParts" | "first"> & {
    /** Where the video is saved; without a path, the result is the URL. */
    outputPath?: string | undefined;
  };

/**
 * Opens an existing generation: claims the file for its video, or finds the video there. Waits while another
 * process uses the file. Throws `output`, `pending` when the other process still uses it, or the signal's
 * reason.
 */
export async function openAttempt(service: Service, id: string, options: OpenAttemptOptions): Promise<Attempt> {
  const { outputPath, attempt } = options;
  if (outputPath === undefined) return createAttempt(service, { id, attempt, options });
  // `findEntry` never fails, so that a paid video can be saved even if the journal cannot be read.
  const entry = await findEntry(service, id);
  const claimed = await claimOutput(outputPath, { ...options, id, entry }, service, service.io).catch((error) => {
    throw withCharge(asVidgenError(error).with({ id }), entry);
  });
  const { target, file } = claimed;
  return createAttempt(service, { id, attempt, target, file, outputPath: target?.outputPath ?? outputPath, options });
}

/**
 * Follows a generation until it has ended, and saves its video if a file was claimed. Throws as `follow`
 * does, and `output`; the attempt stays open then. The error of a listener is thrown after the video is
 * saved.
 */
export async function finish(attempt: Attempt, listeners: Listeners = {}): Promise<Finished> {
  const { id, file, target } = attempt;
  if (file !== undefined) return { of: attempt, kind: "found", file };
  const { notify, check } = guard();
  const guarded: Listeners = {
    state: (...args) => notify(listeners.state, ...args),
    outage: (...args) => notify(listeners.outage, ...args),
    progress: (...args) => notify(listeners.progress, ...args),
  };
  try {
    const finished: Finished = target
      ? { of: attempt, kind: "saved", ...(await followAndSave(attempt, target, guarded)) }
      : { of: attempt, kind: "url", ...(await followAndRecord(attempt, attempt.options.signal, guarded)) };
    check();
    return finished;
  } catch (error) {
    throw withCharge(asVidgenError(error).with({ id }), await findEntry(attempt.service, id));
  }
}

/** Calls listeners, and keeps the first error: it must not end the download of a paid video. */
function guard() {
  /** An object, because a listener may throw `undefined`. */
  let firstFault: { error: unknown } | undefined;
  return {
    notify<Args extends unknown[]>(listener: ((...args: Args) => void) | undefined, ...args: Args): void {
      try {
        listener?.(...args);
      } catch (error) {
        firstFault ??= { error };
      }
    },
    check(): void {
      if (firstFault) throw firstFault.error;
    },
  };
}

async function followAndRecord(
  { service, id, options }: Attempt,
  signal: AbortSignal,
  listeners: Listeners,
): Promise<CompletedGeneration> {
  const { api, account, unfollowed, note, io } = service;
  const times = readTimes(options, service.baseUrl);
  const isNew = unfollowed.has(id);
  const entry = await findEntry(service, id);
  const isKnown = entry !== undefined && !entry.removed && isPaidBy(account, entry);
  /** Otherwise the generation may have ended long before this process asked, and its duration is unknown. */
  let wasSeenRunning = isNew;
  let failed: WireGeneration | undefined;
  const onState = (status: string, percent?: number, node?: string) => {
    if (!wasSeenRunning) void recordFound(service, id, entry);
    wasSeenRunning = true;
    listeners.state?.(status, percent, node);
  };
  const onFailed = (generation: WireGeneration) => {
    failed = generation;
  };
  const onOutage = (reason: string) => listeners.outage?.(reason);
  const isFree = entry !== undefined && chargedOf(entry) === "no";
  const pollOptions = { isNew, isKnown, isFree, signal, onState, onOutage, onFailed, onNote: note };
  const completed = await follow(api, id, { ...times, ...pollOptions }, io)
    .catch(async (thrown) => {
      const error = explainRefusal(service, asVidgenError(thrown));
      if (error.ended) await record(service, failureLine(id, error, failed));
      if (error.ended && entry) await removeLeftovers(entry, service);
      throw await explainNotFound(service, explainUnclear(error, entry), id, entry);
    })
    // The journal knows the generation now.
    .finally(() => unfollowed.delete(id));
  listeners.state?.("completed");
  const cost = readCost(completed.generation);
  // A local service inside the command stops with it, and its generations wait for the next command.
  const maybePaused = !isNew && service.isInProcess();
  const marks = { watched: wasSeenRunning || undefined, paused: maybePaused || undefined };
  await record(service, { kind: "completed", id, ...marks, cost });
  return completed;
}

/**
 * If this process is killed before the file has its name, the next process resumes the partial file; if after
 * that, the next process finds the file.
 */
async function followAndSave(attempt: Attempt, target: Target, listeners: Listeners) {
  const { service, id, options } = attempt;
  const { api, note, io } = service;
  const times = readTimes(options, service.baseUrl);
  const begin = io.now();
  const signal = AbortSignal.any([options.signal, target.lost]);
  const entry = await findEntry(service, id);
  const completed = await followAndRecord(attempt, signal, listeners);
  const renewUrl = async (signal: AbortSignal) =>
    (await follow(api, id, { ...times, isNew: false, isKnown: true, signal, onNote: note }, io)).videoUrl;
  const onWhole = (content: Content) => record(service, { kind: "downloaded", id, ...content });
  const timeoutMs = Math.max(times.timeoutMs - (io.now() - begin), 0);
  const onProgress = (received: number, total: number | undefined) => listeners.progress?.(received, total);
  const saveOptions = { target, entry, timeoutMs, signal, onWhole, renewUrl, onProgress, onNote: note };
  const { file, content } = await save(completed, saveOptions, io);
  const saved = { ...completed, file, content };
  if (target.outputPath === "-") return saved;
  await record(service, { kind: "delivered", id, file: resolve(file), ...content });
  if (entry) await removeLeftovers(entry, service);
  if (options.infoJson) {
    const infoFields = { id, ...(await findInfo(service, id, entry)), generation: completed.generation };
    await writeInfo(file, infoFields, { overwrite: options.overwrite, redact: service.redact }, io);
  }
  return saved;
}

/**
 * Throws `output` for a result that is a video in a `data:` URL: printed or recorded, it would not be
 * delivered, and it may have 90 MB.
 */
export function checkAddress(finished: Finished): void {
  if (finished.kind !== "url" || !isDataUrl(finished.videoUrl)) return;
  const { id } = finished.of;
  const message = "The service sends this video itself, and no address of it: add -o to save it.";
  throw new VidgenError("output", message, saveLater(id));
}

/** What an error says of a generation whose video must be saved, because its URL cannot be printed. */
export function saveLater(id: string) {
  const argv = ["vidgen", "wait", ...(id.startsWith("-") ? ["-o", "video.mp4", "--", id] : [id, "-o", "video.mp4"])];
  return { id, next: [{ argv, pays: false }], hint: `\`${argv.join(" ")}\` saves it at no cost.` };
}

/**
 * Records that the result was delivered: the URL was printed or returned, or the video streamed. A saved file was delivered
 * when it got its name. Until then the same command resumes the generation. Never rejects.
 */
export async function handOver(finished: Finished): Promise<void> {
  const { service, id, outputPath } = finished.of;
  if (finished.kind === "url") await recordDelivered(service, id);
  if (finished.kind === "saved" && outputPath === "-") await record(service, { kind: "delivered", id, file: "-" });
}

/**
 * Records that a caller who does not wait has the id, so that from now on the same command starts a new
 * generation. Never rejects.
 */
export async function handOverId({ service, attempt }: Attempt): Promise<void> {
  if (attempt !== undefined) await record(service, { kind: "told", attempt });
}

/** Releases the file and the lease. A generation that has not ended is resumed later. Does nothing the second time. */
export async function close(attempt: Attempt): Promise<void> {
  await attempt.release();
}

/** Records that the URL of a generation was delivered, if it was started without an output path. Never rejects. */
export async function recordDelivered(service: Service, id: string): Promise<void> {
  const entry = await findEntry(service, id);
  // With an output path only a file counts as delivered. Without an entry it is unknown whether there was one.
  if (entry === undefined || entry.place !== undefined || entry.state === "delivered") return;
  await record(service, { kind: "delivered", id });
  await removeLeftovers(entry, service);
}

/** Records that an unknown or lost generation is running. Never rejects. */
export async function recordFound(service: Service, id: string, entry: Entry | undefined): Promise<void> {
  if (entry !== undefined && nextState(entry.state, "found") !== entry.state)
    await record(service, { kind: "found", id });
}

/** The journal's data for the info file of a generation; if it cannot be read, `before`. */
export async function findInfo(service: Service, id: string, before?: Entry) {
  const entry = (await findEntry(service, id)) ?? before;
  return { entry, credits: entry && shownCredits(entry) };
}

/** Explains a `not_found` error. Only a generation that this key started is recorded as lost, until it is found again. */
export async function explainNotFound(
  service: Service,
  error: VidgenError,
  id: string,
  entry: Entry | undefined,
): Promise<VidgenError> {
  const { account } = service;
  if (error.code !== "not_found" || entry === undefined) return error;
  if (!isPaidBy(account, entry)) {
    const message = `The service has no generation ${id} for this key (account ${account}); it was started with another key (account ${entry.account}).`;
    const hint = "Nothing was changed. Use the key that started the generation.";
    return new VidgenError("not_found", message, { id, httpStatus: error.httpStatus, hint });
  }
  if (entry.removed) {
    const again = `\`vidgen again ${id}\` starts the same request once more`;
    const hint = chargedOf(entry) === "no" ? `${again}.` : `${again}, and is charged.`;
    return new VidgenError("not_found", `The video of ${id} was deleted.`, { id, httpStatus: error.httpStatus, hint });
  }
  if (!isUndelivered(entry)) return error;
  await record(service, { kind: "lost", id });
  const message = `The service accepted generation ${id} but no longer knows it: the generation is lost.`;
  const charged = chargedOf(entry) === "no" ? "" : "It was charged. ";
  const hint = `${charged}\`vidgen wait ${id}\` asks the service again. The same command does not start another one unless you add --again.`;
  return new VidgenError("not_found", message, { id, httpStatus: error.httpStatus, hint });
}

/**
 * Whether an error means that the service no longer has a video: its generation is unknown, or the address of
 * the video is empty.
 */
export function isGone({ code, httpStatus = 0 }: VidgenError): boolean {
  return code === "not_found" || (code === "output" && [404, 410].includes(httpStatus));
}

/** The journal line for a failed generation. */
export function failureLine(
  id: string,
  { ended, code, message: reason }: VidgenError,
  generation: WireGeneration | undefined,
): JournalLine & { kind: "failed" | "unclear" } {
  if (ended === "unknown") return { kind: "unclear", id, reason };
  // A cost of 0 for a failed generation is not a price.
  const cost = (generation && readCost(generation)) || undefined;
  return { kind: "failed", id, reason, code: code === "failed" ? undefined : code, cost };
}

/** Adds the attempt to the error of a generation that may have been charged, because the user needs its name to dismiss it. */
function explainUnclear(error: VidgenError, entry: Entry | undefined): VidgenError {
  if (error.code !== "unknown" || entry === undefined) return error;
  const { attempt } = entry;
  return error.with({
    attempt,
    hint: `\`vidgen list --dismiss ${attempt}\` closes the attempt once you have checked the account.`,
  });
}
