import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { asVidgenError } from "../errors.ts";
import type { Clock, Io } from "../io.ts";
import { createApi } from "./api.ts";
import { type BeginOptions, type Begun, begin } from "./begin.ts";
import { type ClaimOptions, createClaims } from "./claims.ts";
import { checkApiKey, checkBaseUrl, createRedaction } from "./credentials.ts";
import { type Completed, failedError, follow, readTimes } from "./follow.ts";
import { type Entry, type Line, recordOf } from "./history.ts";
import { hasInfo, writeInfo } from "./info.ts";
import { type Journal, noJournal, withoutSecrets } from "./journal.ts";
import { guessModel } from "./models.ts";
import { pollUntilAnswered } from "./poll.ts";
import { save, wordsOf } from "./save.ts";
import type { Generation, Started, StartRequest } from "./schema.ts";
import { type End, type StartOptions, start } from "./start.ts";
import type { Target } from "./target.ts";
import type { Version } from "./version.ts";

/** What a client may use of the outside world. */
export type ClientIo = Clock & Pick<Io, "fetch" | "unsettled">;

export type ClientOptions = {
  /** The service's address; https, except on this machine. */
  baseUrl: string;
  apiKey: string;
  /** Where each start is written down before it is sent; without one nothing is written down. */
  journal?: Omit<Journal, "path"> | undefined;
  /** Called with news for the user, such as a model that looks like a slip. */
  onNote?: ((text: string) => void) | undefined;
};

/** A start that has done all that can fail before it is paid for. */
export type ReadyStart = Begun & {
  /** Sends the paid request (interface 4.1); only without `earlier`. Rejects with the error that `start.ts` returns. */
  send(options: SendOptions): Promise<SentStart>;
  /** The same, but resolves however it ended. */
  sendUntilKnown(options: SendOptions): Promise<End>;
};

export type SendOptions = Pick<StartOptions, "signal" | "retriesNotNow"> & Partial<Pick<StartOptions, "leave">>;

export type SentStart = Started & { attempt: string };

export type FollowOptions = {
  signal: AbortSignal;
  /** How long to wait for the end, in milliseconds; 15 minutes by default. */
  timeoutMs?: number | undefined;
  /** Between two polls, in milliseconds; by default what the interface recommends. */
  intervalMs?: number | undefined;
  /**
   * Called at each poll, until it sees the generation completed, with the service's own word for its state and the percent of the video that is
   * made, where the service tells it.
   */
  onState?: ((status: string, percent?: number) => void) | undefined;
  /** Called with the reason each time that the service could not be reached, from the third in a row on. */
  onTrouble?: ((reason: string) => void) | undefined;
};

export type DownloadOptions = FollowOptions & {
  overwrite?: boolean | undefined;
  /** Also writes the info file beside the video (see `info.ts`); `credits` is what the generation cost, where that is known. */
  infoJson?: boolean | undefined;
  credits?: number | undefined;
  /** Both in bytes; `total` is `undefined` where the media address does not say. */
  onProgress?: ((received: number, total: number | undefined) => void) | undefined;
};

export type Client = {
  baseUrl: string;
  /** The text without the key of this client. */
  redact(text: string): string;
  /** Does all of a start that can fail before it is paid for, and sends nothing: see `begin.ts`. Rejects as that does. */
  begin(request: StartRequest, options: BeginOptions): Promise<ReadyStart>;
  /** Polls a generation once (interface 4.2); retries for 30 s until there is an answer. Rejects as `pollUntilAnswered` does. */
  status(id: string, options: { signal: AbortSignal }): Promise<Generation>;
  /** Follows a generation until it has completed. Rejects as `follow` does. */
  follow(id: string, options: FollowOptions): Promise<Completed>;
  /** Claims the place for a video before anything is paid: a file, a folder or a template. Rejects with `output` where it cannot be written. */
  claim(place: string, options?: ClaimOptions): Promise<Target>;
  /** Follows a generation and saves its video. The caller releases a target that it passes. Rejects as `follow` does, and with `output`. */
  download(id: string, place: string | Target, options: DownloadOptions): Promise<Completed & { file: string }>;
  /** What the journal knows of this service, newest first; `goOn` as in `Journal.entries`. */
  entries: Journal["entries"];
  /** Where the video of a generation is saved already, if `place` would save it there. */
  findSaved(id: string, place: string): Promise<string | undefined>;
  /** Writes the info file beside a video that is saved already, unless it is there. Rejects with `output` or the signal's reason. */
  addInfo(id: string, file: string, options: { signal: AbortSignal }): Promise<void>;
};

/** A client of the service, for the CLI and for the library. Throws `usage` for an address or a key that cannot be used. */
export function createClient(options: ClientOptions, io: ClientIo): Client {
  const baseUrl = checkBaseUrl(options.baseUrl, "baseUrl");
  const apiKey = checkApiKey(options.apiKey);
  const api = createApi({ baseUrl, apiKey, fetch: io.fetch });
  const { hide, redact } = createRedaction();
  hide(apiKey);
  const journal = withoutSecrets(options.journal ?? noJournal, redact);
  const onNote = options.onNote ?? (() => {});
  /** The generations that this client has started and not followed to an end yet: a part of the service may not know them. */
  const fresh = new Map<string, Entry>();
  const claims = createClaims(journal, io);
  /** The models that a note was given about: a batch sends the same one a thousand times. */
  const doubted = new Set<string>();
  /** Cached: a command that follows a thousand generations looks each of them up. */
  let recent: Promise<Entry[]> | undefined;
  let all: Promise<Entry[]> | undefined;

  async function sendUntilKnown(request: StartRequest, { attempt, at }: Begun, how: SendOptions): Promise<End> {
    const guess = guessModel(request.model);
    if (guess !== undefined && !doubted.has(request.model))
      onNote(`Unknown model "${request.model}"; did you mean ${guess}? Sent as typed.`);
    doubted.add(request.model);
    const leave = how.leave ?? new AbortController().signal;
    const end = await start(api, request, { ...how, leave, attempt, journal, onNote }, io);
    if (end.kind !== "accepted") return end;
    const { generation, remaining_credits } = end.started;
    const entry = { attempt, at, base_url: baseUrl, request: recordOf(request), remaining_credits };
    fresh.set(generation.id, { ...entry, id: generation.id, status: "processing" });
    return end;
  }

  async function send(request: StartRequest, begun: Begun, how: SendOptions): Promise<SentStart> {
    const end = await sendUntilKnown(request, begun, how);
    if (end.kind !== "accepted") throw end.error;
    return { ...end.started, attempt: begun.attempt };
  }

  const entries: Journal["entries"] = async (goOn) =>
    (await journal.entries(goOn)).filter((entry) => entry.base_url === baseUrl);
  const find = async (id: string) => {
    const isIt = (entry: Entry) => entry.id === id;
    const started = fresh.get(id);
    if (started) return started;
    recent ??= entries(() => false);
    const found = (await recent).find(isIt);
    if (found) return found;
    all ??= entries();
    return (await all).find(isIt);
  };
  /** Appends a line about what has happened already, so a failure to write is only a note. */
  const record = (line: Line) => journal.append(line).catch((error) => onNote(asVidgenError(error).message));

  async function followAndRecord(id: string, how: FollowOptions): Promise<Completed> {
    const { timeoutMs, intervalMs } = readTimes(how, baseUrl);
    const isNew = fresh.has(id);
    const isKnown = isNew || (await find(id).catch(() => undefined)) !== undefined;
    let isWatched = isNew;
    const onState = (status: string, percent?: number) => {
      isWatched = true;
      how.onState?.(status, percent);
    };
    const onTrouble = (reason: string) => how.onTrouble?.(reason);
    const options = { timeoutMs, intervalMs, isNew, isKnown, signal: how.signal, onState, onTrouble, onNote };
    const completed = await follow(api, id, options, io)
      .catch(async (thrown) => {
        const error = asVidgenError(thrown);
        if (error.code === "failed") await record({ kind: "failed", id, reason: error.message });
        // The next start of the same request, and `wait --all`, must not stop at it for ever.
        if (error.code === "not_found" && (await find(id).catch(() => undefined)))
          await record({ kind: "failed", id, reason: "the service no longer has it" });
        throw error;
      })
      .finally(() => {
        // From here on the journal has it.
        if (fresh.delete(id)) recent = all = undefined;
      });
    how.onState?.("completed");
    await record({ kind: "completed", id, ...(isWatched ? { watched: true } : {}) });
    return completed;
  }

  async function claim(place: string, how: ClaimOptions = {}): Promise<Target> {
    // A video that was paid for can be claimed even where the journal cannot be read or written.
    const entry = how.id === undefined ? undefined : await find(how.id).catch(() => undefined);
    return claims.claimUnderLock(place, { ...how, entry });
  }

  async function followAndSave(id: string, target: Target, how: DownloadOptions) {
    const { timeoutMs, intervalMs } = readTimes(how, baseUrl);
    const start = io.now();
    const hold = await claims.hold().catch(() => undefined);
    const signal = hold ? AbortSignal.any([how.signal, hold.lost]) : how.signal;
    try {
      const entry = await find(id).catch(() => undefined);
      await target.settle({ id, ...wordsOf(entry) });
      const completed = await followAndRecord(id, { ...how, signal });
      const freshUrl = async (signal: AbortSignal) =>
        (await follow(api, id, { timeoutMs, intervalMs, isNew: false, isKnown: true, signal, onNote }, io)).videoUrl;
      const onVersion = async (version: Version) => {
        // Without a lease no later process could tell whether this one still writes the file.
        if (!hold) return;
        const [file, { ino: inode }] = [target.partPath(), await target.part.stat()];
        await record({ kind: "part", id, file, holder: hold.holder, inode, ...version });
      };
      const version = await claims.versionIn(target);
      const leftMs = timeoutMs - (io.now() - start);
      const options = { target, entry, version, timeoutMs: leftMs, signal, onVersion, freshUrl };
      const file = await save(completed, { ...options, onProgress: how.onProgress ?? (() => {}), onNote }, io);
      if (target.place === "-") return { ...completed, file };
      await record({ kind: "saved", id, file: resolve(file), size: (await stat(file)).size });
      const known = { id, entry, generation: completed.generation, credits: how.credits };
      if (how.infoJson) await writeInfo(file, known, { overwrite: how.overwrite, redact });
      return { ...completed, file };
    } finally {
      await hold?.release();
    }
  }

  return {
    baseUrl,
    redact,
    async begin(request, how) {
      const begun = await begin(request, { ...how, baseUrl, journal, entries, claims, onNote }, io);
      const sent = (how: SendOptions) => send(request, begun, how);
      return { ...begun, send: sent, sendUntilKnown: (how) => sendUntilKnown(request, begun, how) };
    },
    async status(id, { signal }) {
      const generation = await pollUntilAnswered(api, id, io, signal, onNote);
      const { status } = generation;
      if (status !== "completed" && status !== "failed") return generation;
      const entry = await find(id).catch(() => undefined);
      if (entry?.status !== "processing") return generation;
      // The journal still has it as running.
      const reason = failedError(id, generation).message;
      const line: Line = status === "completed" ? { kind: status, id } : { kind: status, id, reason };
      await journal.append(line).catch(() => {});
      fresh.delete(id);
      recent = all = undefined;
      return generation;
    },
    follow: followAndRecord,
    claim,
    async download(id, place, how) {
      if (typeof place !== "string") return followAndSave(id, place, how);
      const target = await claim(place, { id, overwrite: how.overwrite });
      return followAndSave(id, target, how).finally(target.release);
    },
    entries,
    async findSaved(id, place) {
      const entry = await find(id);
      return entry && claims.findSaved({ ...entry, id }, place);
    },
    async addInfo(id, file, { signal }) {
      if (await hasInfo(file, id)) return;
      // The journal knows enough when the service cannot be asked.
      const generation = await pollUntilAnswered(api, id, io, signal, onNote).catch(() => undefined);
      signal.throwIfAborted();
      await writeInfo(file, { id, entry: await find(id), generation }, { redact });
    },
  };
}
