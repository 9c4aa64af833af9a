import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { asVidgenError, usage } from "../errors.ts";
import type { Clock, Io } from "../io.ts";
import { createApi } from "./api.ts";
import { checkApiKey, checkBaseUrl, createRedaction, isLoopback } from "./credentials.ts";
import { type Completed, failedError, follow, localPace, remotePace } from "./follow.ts";
import type { Entry, Line } from "./history.ts";
import type { Journal } from "./journal.ts";
import { guessModel } from "./models.ts";
import { fillWords, type Words } from "./naming.ts";
import { claimPlace, findSaved } from "./place.ts";
import { pollUntilAnswered } from "./poll.ts";
import { save, wordsOf } from "./save.ts";
import type { Generation, Started, StartRequest } from "./schema.ts";
import { type StartOptions as PaidStartOptions, start } from "./start.ts";
import type { Target } from "./target.ts";

/** What a client may use of the outside world. */
export type ClientIo = Clock & Pick<Io, "fetch" | "pid" | "isRunning" | "unsettled">;

export type ClientOptions = {
  /** The service's address; https, except on this machine. */
  baseUrl: string;
  apiKey: string;
  /** Where each start is written down before it is sent; without one nothing is written down. */
  journal?: Omit<Journal, "path"> | undefined;
  /** Called with news for the user, such as that the service is hard to reach. */
  onNote?: ((text: string) => void) | undefined;
};

export type StartOptions = Pick<PaidStartOptions, "signal"> &
  Partial<Pick<PaidStartOptions, "leave" | "attempt" | "place">>;

export type FollowOptions = {
  signal: AbortSignal;
  /** How long to wait for the end, in milliseconds; 15 minutes by default. */
  timeoutMs?: number | undefined;
  /** Between two polls, in milliseconds; by default what the interface recommends. */
  intervalMs?: number | undefined;
  /** Called at each poll that sees the generation running, with the service's own word for its state. */
  onState?: ((status: string) => void) | undefined;
};

export type ClaimOptions = {
  overwrite?: boolean | undefined;
  /** The generation, where it exists already: then the name of the file is known too. */
  id?: string | undefined;
  /** What the file is named after when the journal does not know the generation. */
  words?: Words | undefined;
  /** The first number to try for `{n}`. */
  first?: number | undefined;
  /** Takes over a `.part` that an earlier process left, and leaves an unfinished one for a later process. */
  resume?: boolean | undefined;
};

export type DownloadOptions = FollowOptions & {
  overwrite?: boolean | undefined;
  /** Both in bytes; `total` is `undefined` where the media address does not say. */
  onProgress?: ((received: number, total: number | undefined) => void) | undefined;
};

export type Client = {
  baseUrl: string;
  /** Starts a generation (interface 4.1), after the rules of the paid request: see `start.ts`. Rejects as that does. */
  start(request: StartRequest, options: StartOptions): Promise<Started & { attempt: string }>;
  /** Polls a generation once (interface 4.2); retries for 30 s until there is an answer. Rejects as `pollUntilAnswered` does. */
  status(id: string, options: { signal: AbortSignal }): Promise<Generation>;
  /** Follows a generation until it has completed. Rejects as `follow` does. */
  follow(id: string, options: FollowOptions): Promise<Completed>;
  /** Claims the place for a video before anything is paid: a file, a folder or a template. Rejects with `output` where it cannot be written. */
  claim(place: string, options?: ClaimOptions): Promise<Target>;
  /** Follows a generation and saves its video. The caller releases a target that it passes. Rejects as `follow` does, and with `output`. */
  download(id: string, place: string | Target, options: DownloadOptions): Promise<Completed & { file: string }>;
  /** What the journal knows of this service, newest first. */
  entries(): Promise<Entry[]>;
  /** The whole video that is where `place` would save this generation's, and whether the journal says that it is this one's. */
  findSaved(id: string, place: string): Promise<{ file: string; isWrittenDown: boolean } | undefined>;
};

/** A client of the service, for the CLI and for the library. Throws `usage` for an address or a key that cannot be used. */
export function createClient(options: ClientOptions, io: ClientIo): Client {
  const baseUrl = checkBaseUrl(options.baseUrl, "baseUrl");
  const apiKey = checkApiKey(options.apiKey);
  const api = createApi({ baseUrl, apiKey, fetch: io.fetch });
  const journal = withoutKey(options.journal ?? noJournal, apiKey);
  const onNote = options.onNote ?? (() => {});
  const pace = isLoopback(new URL(baseUrl).hostname) ? localPace : remotePace;
  /** The ids that this client has started and not followed yet: a part of the service may not know them. */
  const fresh = new Set<string>();
  /** The `.part` files of this client, and which claim each belongs to. */
  const claimed = new Map<string, string>();
  /** Cached: a command that follows a thousand generations looks each of them up. */
  let cached: Promise<Entry[]> | undefined;

  const entries = async () => {
    cached ??= journal.entries();
    return (await cached).filter((entry) => entry.base_url === baseUrl);
  };
  const find = async (id: string) => (await entries()).find((entry) => entry.id === id);
  /** Appends a line about what has happened already, so a failure to write is only a note. */
  const record = (line: Line) => journal.append(line).catch((error) => onNote(asVidgenError(error).message));

  async function followAndRecord(id: string, how: FollowOptions): Promise<Completed> {
    const { timeoutMs, intervalMs } = readTimes(how, pace);
    const isNew = fresh.delete(id);
    let isWatched = isNew;
    const onState = (status: string) => {
      isWatched = true;
      how.onState?.(status);
    };
    const options = { timeoutMs, intervalMs, isNew, signal: how.signal, onState, onNote };
    const completed = await follow(api, id, options, io).catch(async (thrown) => {
      const error = asVidgenError(thrown);
      if (error.code === "failed") await record({ kind: "failed", id, reason: error.message });
      throw error;
    });
    await record({ kind: "completed", id, ...(isWatched ? { watched: true } : {}) });
    return completed;
  }

  async function claim(place: string, how: ClaimOptions = {}): Promise<Target> {
    if (place === "") throw usage("The place for the video is empty.");
    const { overwrite = false, id, first = 1, resume = false } = how;
    const unique = randomUUID();
    // A video that was paid for can be claimed even where the journal cannot be read.
    const entry = id === undefined ? undefined : await find(id).catch(() => undefined);
    const words = entry ? wordsOf(entry) : (how.words ?? {});
    const naming = id === undefined ? undefined : { id, ...words };
    // Two claims of this client must not share a file. The journal cannot tell them apart: it names their process.
    const isOurs = (file: string) => (claimed.get(file) ?? unique) === unique;
    const isLeftBehind = (pids: number[]) => pids.every((pid) => pid === io.pid || !io.isRunning(pid));
    const mayTakeOver = async (file: string) => {
      const pids = resume && isOurs(file) ? await journal.claimants(file).catch(() => []) : [];
      return pids.length > 0 && isLeftBehind(pids);
    };
    const onPart = async (file: string) => {
      if (isOurs(file)) claimed.set(file, unique);
      // Without this line no later process can take the file over; the video itself does not need it.
      await journal.append({ kind: "claim", file, pid: io.pid }).catch(() => {});
    };
    const date = dayOf(entry, io);
    const target = await claimPlace(place, { overwrite, unique, naming, words, first, date, onPart, mayTakeOver });
    return resume ? target : { ...target, keep() {} };
  }

  async function followAndSave(id: string, target: Target, how: DownloadOptions) {
    const { timeoutMs, intervalMs } = readTimes(how, pace);
    const start = io.now();
    const entry = await find(id).catch(() => undefined);
    await target.settle({ id, ...wordsOf(entry) });
    const completed = await followAndRecord(id, how);
    const freshUrl = async (signal: AbortSignal) =>
      (await follow(api, id, { timeoutMs, intervalMs, isNew: false, signal, onNote }, io)).videoUrl;
    const { signal, onProgress = () => {} } = how;
    const options = { target, entry, timeoutMs: timeoutMs - (io.now() - start), signal, record, freshUrl };
    const file = await save(completed, { ...options, onProgress, onNote }, io);
    await record({ kind: "saved", id, file: resolve(file) });
    return { ...completed, file };
  }

  return {
    baseUrl,
    async start(request, { signal, leave = new AbortController().signal, attempt = randomUUID(), place }) {
      const guess = guessModel(request.model);
      if (guess !== undefined)
        onNote(`vidgen does not know the model "${request.model}"; did you mean ${guess}? Sent as typed.`);
      const started = await start(api, request, { attempt, place, journal, signal, leave, onNote }, io);
      fresh.add(started.generation.id);
      cached = undefined;
      return { ...started, attempt };
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
      cached = undefined;
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
      // With `{n}` each download gets a new file.
      if (!entry || place === "-" || place.includes("{n}")) return undefined;
      const words = wordsOf(entry);
      const file = await findSaved(fillWords(place, words, dayOf(entry, io)), { id, ...words });
      return file === undefined ? undefined : { file, isWrittenDown: resolve(file) === entry.file };
    },
  };
}

const usualTimeoutMs = 15 * 60_000;

function readTimes({ timeoutMs = usualTimeoutMs, intervalMs }: FollowOptions, pace: typeof remotePace) {
  if (!(timeoutMs > 0)) throw usage("timeoutMs is a number above 0.");
  if (intervalMs !== undefined && !(intervalMs >= 1000)) throw usage("intervalMs is 1000 at the least.");
  return { timeoutMs, intervalMs: intervalMs === undefined ? pace : () => intervalMs };
}

const noJournal = { append: async () => {}, entries: async () => [], claimants: async () => [] };

/** The reasons in the lines are the service's own words, which may repeat the key. */
function withoutKey(journal: Omit<Journal, "path">, apiKey: string): Omit<Journal, "path"> {
  const { hide, redact } = createRedaction();
  hide(apiKey);
  const redacted = (line: Line): Line => ("reason" in line ? { ...line, reason: redact(line.reason) } : line);
  return { ...journal, append: (line) => journal.append(redacted(line)) };
}

/** The UTC day when the generation was started, today without one: `{date}` is the same in each process that saves it. */
function dayOf(entry: Entry | undefined, io: Pick<Io, "date">): string {
  return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}
