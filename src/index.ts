import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { journalIn, storageFolder } from "./cli/storage.ts";
import { listAttempts } from "./client/attempts.ts";
import { openBatch } from "./client/batch/batch.ts";
import { iterateBatch } from "./client/batch/iterate.ts";
import type { PlanOptions } from "./client/batch/plan.ts";
import { keyRows, type Row } from "./client/batch/row.ts";
import type { RunOptions } from "./client/batch/run.ts";
import { type ClientDownloadOptions, createServiceClient } from "./client/client.ts";
import { createRedaction, plain } from "./client/credentials.ts";
import { type Entry, isOpen, isPaidBy, recordOf } from "./client/history.ts";
import { createFetch, unlessAborted } from "./client/http.ts";
import { openJournal } from "./client/journal.ts";
import type { Earlier } from "./client/ledger/policy.ts";
import type { Generation as WireGeneration } from "./client/schema.ts";
import { asVidgenError, VidgenError as InternalError, type LibraryErrorCode, systemReason, usage } from "./errors.ts";
import { type Machine, RequestError, systemMachine } from "./io.ts";
import { type BatchEvent, toBatchEvent } from "./library/events.ts";
import { type GenerationRequest, readRequest } from "./library/request.ts";
import {
  type Completed,
  type Downloaded,
  type Generation,
  type Saved,
  type Started,
  type StartRecord,
  toCompleted,
  toGeneration,
  toRecord,
  toSaved,
  toVideo,
} from "./library/results.ts";

export { defaultModel, type KnownModel, type Model, models } from "./client/models.ts";
export { type CallbackEvent, type CallbackRequest, verifyCallback } from "./library/callback.ts";
export type {
  BatchEvent,
  Completed,
  Downloaded,
  Generation,
  GenerationRequest,
  LibraryErrorCode as ErrorCode,
  Saved,
  Started,
  StartRecord,
  WireGeneration,
};

/** What every call rejects with: `code` names what happened, and is one of the names of the exit codes. */
export interface VidgenError extends Error {
  readonly code: LibraryErrorCode;
  /** What to do next. */
  readonly hint: string | undefined;
  readonly id: string | undefined;
  readonly httpStatus: number | undefined;
  /** The service's name of the request that has failed (X-Request-Id). */
  readonly requestId: string | undefined;
  /** Those of its reply that help to find out why, by their names in small letters. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The start request that may have been charged, by its Idempotency-Key; set for `unknown` alone. */
  readonly attempt: string | undefined;
}

/** For `instanceof`; the library makes them. */
export const VidgenError = InternalError as unknown as {
  readonly prototype: VidgenError;
  [Symbol.hasInstance](value: unknown): value is VidgenError;
};

export type ClientOptions = {
  /** The service's address; https, except on this machine. VIDGEN_BASE_URL by default. */
  baseUrl?: string | undefined;
  /** VIDGEN_API_KEY by default. */
  apiKey?: string | undefined;
  /** Called with messages for the user, such as a warning that a model name looks misspelled. */
  onNote?: ((text: string) => void) | undefined;
  /**
   * The path of a journal, a file in which each start is recorded before it is sent; `true` is the CLI's journal. Without a journal nothing is
   * recorded, and the client does not know what other processes have started.
   */
  journal?: string | true | undefined;
  /**
   * Sends the requests, instead of vidgen's own fetch. If it rejects a start, the start counts as sent and possibly charged, unless the error
   * has `sent: false`.
   */
  fetch?: typeof globalThis.fetch | undefined;
};

/** The option of every call: its promise rejects with an error named "AbortError" once `signal` aborts. */
export type CallOptions = { signal?: AbortSignal | undefined };

export type StartOptions = CallOptions & {
  /**
   * A name for this start: up to 255 letters, digits and `_.:~+/=@-`. It is sent as the Idempotency-Key. With a journal, the same name always
   * means the same start, in any process: nothing is sent again, and the call returns the earlier id.
   */
  idempotencyKey?: string | undefined;
  /**
   * What to do about an earlier start of the same request in the journal: `resume` resumes an interrupted one, `reuse` returns any that did not
   * fail (a finished one for 24 hours), and `again` starts a new one.
   */
  earlier?: Earlier | undefined;
};

export type FollowOptions = CallOptions & Pick<ClientDownloadOptions, "timeoutMs" | "intervalMs" | "onState">;

export type DownloadOptions = FollowOptions & Pick<ClientDownloadOptions, "overwrite" | "onProgress">;

export type GenerateOptions = DownloadOptions &
  StartOptions & {
    /** Where the video is saved, as in `download`; without it the video is not saved. */
    output?: string | undefined;
    /** Called as soon as the id is known. */
    onStarted?: ((started: Started) => void) | undefined;
  };

/** What `generate` resolves with; `file` and what follows from it are set with `output`. */
export type Generated = Started & { videoUrl: string | undefined; cost: number | undefined } & {
  [name in keyof Saved]: Saved[name] | undefined;
};

export type ResumeOptions = FollowOptions & Pick<DownloadOptions, "overwrite">;

/** What became of a generation that `resume` went on with: `error` where it failed, or could not be followed or saved. */
export type Resumed = {
  id: string;
  attempt: string;
  /** Where its video was saved, if its start said where. */
  file: string | undefined;
  videoUrl: string | undefined;
  error: VidgenError | undefined;
};

export type Client = {
  /**
   * Starts a generation, waits for it and saves its video, like the CLI's `generate`. With a journal, the same call after a crash resumes the
   * same generation (`earlier` is `resume` by default), which is charged once. Rejects like `start`, `follow` and `download`; the error has the
   * `id` if it is known.
   */
  generate(request: GenerationRequest, options?: GenerateOptions): Promise<Generated>;
  /**
   * Starts a generation (interface 4.1). It costs credits, so the request is sent once; it is retried only if no byte of it was written,
   * or if the service answered "not now" (429, 421, 425). Rejects with `unknown` if and only if it may have been charged: the error's `attempt`
   * names it in the journal. Otherwise rejects with `usage`, `auth`, `credits`, `rejected` or `network`. If `signal` aborts after
   * the request was sent, the call waits up to 10 s for the id.
   */
  start(request: GenerationRequest, options?: StartOptions): Promise<Started>;
  /**
   * Returns the status of a generation (interface 4.2), and retries for 30 s until there is an answer. Costs nothing. Rejects with `not_found`,
   * `auth`, or `network` if there was no answer.
   */
  status(id: string, options?: CallOptions): Promise<Generation>;
  /**
   * Polls a generation until it has completed. Costs nothing. Rejects with `failed`; with `unknown` if the service says that an engine may have
   * charged for it; with `network` or `auth` if the service says that no engine accepted it and nothing was charged. At the timeout it rejects
   * with `pending`, or with `network` if there was no answer.
   */
  follow(id: string, options?: FollowOptions): Promise<Completed>;
  /**
   * Waits for a generation and returns its video as bytes, or writes it to a stream and closes the stream. The video is saved to a temporary
   * file first: a stream gets its first byte when the video is complete, and only the stream can fail after that. Costs nothing. Rejects like
   * `follow`, or with `output`.
   */
  download(id: string, output: { to: "bytes" }, options?: DownloadOptions): Promise<Completed & { bytes: Uint8Array }>;
  download(id: string, output: { to: WritableStream<Uint8Array> }, options?: DownloadOptions): Promise<Completed>;
  /**
   * Waits for a generation and saves its video to a file or a folder (one that exists, or a name that ends in a slash). Names in braces work
   * as in the CLI's -o. The file gets its name only when it is complete. Costs nothing. Rejects like `follow`, or with `output` if the file
   * exists or cannot be saved.
   */
  download(id: string, outputPath: string, options?: DownloadOptions): Promise<Downloaded>;
  /**
   * Starts a generation for each row and saves the videos, like the CLI's `batch`. Called again with the same results file, it resumes, and
   * no row is paid for twice. Yields events, and a `summary` as the last one. If the caller stops iterating, no more rows are started. Throws
   * `usage`, before anything is sent, if a row contradicts an earlier run or its output file exists.
   */
  batch(rows: readonly BatchRow[], options: BatchOptions): AsyncIterable<BatchEvent>;
  /**
   * Aborts the running calls, and resolves when they have released their locks. Costs nothing, and never rejects. A program can end without it.
   */
  close(): Promise<void>;
  /** What the journal has of this service. */
  generations: {
    /**
     * Returns the newest starts, 20 by default. A start is `unknown` if its process was killed before the answer arrived. Costs nothing.
     * Rejects with `usage` without a journal.
     */
    list(options?: { status?: StartRecord["status"] | undefined; limit?: number | undefined }): Promise<StartRecord[]>;
    /** Returns the start of a generation by its id, or `undefined` if the journal has no such start. Costs nothing. Rejects with `usage` without a journal. */
    get(id: string): Promise<StartRecord | undefined>;
    /**
     * Resumes each unfinished generation of this account: waits for it, and saves its video where its start asked for. Skips the generations of
     * batches, and those that another live process is following. Resolves when all have ended, with the error of each one that failed. Costs
     * nothing. Rejects with `usage` without a journal.
     */
    resume(options?: ResumeOptions): Promise<Resumed[]>;
  };
};

export type BatchRow = {
  /** The caller's name for the row, by which a later run knows it; without one the request itself and how often it occurred before. */
  id?: string;
  request: GenerationRequest;
  /** Where its video is saved, as in `download`; without it the video is not downloaded. */
  output?: string;
};

export type BatchOptions = FollowOptions &
  Pick<PlanOptions, "retryFailed" | "retryUnknown"> &
  Pick<RunOptions, "maxCredits" | "keepCredits" | "failFast"> & {
    /** The file in which results are written, and from which a later run resumes. */
    results: string;
    /** How many generations run at once; 4 by default. */
    jobs?: number;
    overwrite?: boolean;
  };

/**
 * Creates a client of the service, the one that the CLI uses. It sends nothing and costs nothing until a call. Throws `usage` for invalid
 * options. Its calls reject with a `VidgenError`.
 */
export function createClient(options?: ClientOptions): Client;
// The second parameter is the machine that a test simulates: no declaration shows it.
export function createClient(options: ClientOptions = {}, machine: Machine = systemMachine): Client {
  const { env } = process;
  const { hide, redact } = createRedaction();
  const apiKey = String(options.apiKey ?? env.VIDGEN_API_KEY ?? "");
  const baseUrl = String(options.baseUrl ?? env.VIDGEN_BASE_URL ?? "");
  hide(apiKey.trim());
  if (baseUrl === "") throw usage("No base URL: pass baseUrl, or set VIDGEN_BASE_URL.");
  const onNote = harmless((text: string) => options.onNote?.(plain(redact(text))));
  // Signals, streams and the exit of the process belong to the program that uses the library.
  const fetch = options.fetch === undefined ? createFetch(env) : foreignFetch(options.fetch, machine);
  const io = { ...machine, fetch, unsettled: new Set<string>() };
  const path = findJournal(options.journal, env);
  const opened = path === undefined ? undefined : openJournal(path, io);
  const client = createServiceClient({ baseUrl, apiKey, journal: opened, onNote }, io);
  const restate = (error: InternalError) => restateError(error, path, redact);
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  const withClosing = ({ signal }: CallOptions) => ({
    signal: AbortSignal.any(signal === undefined ? [closing.signal] : [signal, closing.signal]),
  });
  const call = <Result>(how: CallOptions & { id?: string }, work: (signal: AbortSignal) => Promise<Result>) => {
    const result = run({ ...how, ...withClosing(how) }, restate, work);
    const ended = result.catch(() => {}).finally(() => running.delete(ended));
    running.add(ended);
    return result;
  };

  async function begin(request: GenerationRequest, { earlier, idempotencyKey, ...how }: BeginHow) {
    const { output, overwrite, noWait, signal } = how;
    const wire = await readRequest(request, onNote);
    const begun = { outputPath: asPath(output), overwrite, idempotencyKey, noWait, signal };
    return earlier === undefined && idempotencyKey === undefined
      ? client.beginNew(wire, begun)
      : client.begin(wire, { ...begun, earlier: earlier ?? "again" });
  }

  type Begun = Awaited<ReturnType<typeof begin>>;

  async function startBegun(begun: Begun, signal: AbortSignal): Promise<Started> {
    const { attempt } = begun;
    if (begun.kind === "resumed") {
      const { id, credits, remaining_credits } = begun.earlier;
      return { id, attempt, isEarlier: true, credits, remainingCredits: remaining_credits };
    }
    const { generation, credits_charged: credits, remaining_credits } = await begun.send({ signal });
    return { id: generation.id, attempt, isEarlier: false, credits, remainingCredits: remaining_credits };
  }

  async function generate(
    request: GenerationRequest,
    how: GenerateOptions & { signal: AbortSignal },
  ): Promise<Generated> {
    const { signal, earlier = "resume" } = how;
    const begun = await begin(request, { ...how, earlier, noWait: false, signal });
    let id = begun.kind === "resumed" ? begun.earlier.id : undefined;
    try {
      const started = await startBegun(begun, signal);
      id = started.id;
      harmless(how.onStarted ?? (() => {}))(started);
      const following = { ...how, ...listeners(how), signal };
      const file = begun.kind === "resumed" ? begun.file : undefined;
      if (file !== undefined) {
        const [entry] = await client.entriesOf(id);
        return { ...started, ...noVideo, file, sha256: entry?.content?.sha256, size: entry?.content?.size };
      }
      const { target } = begun;
      if (target) {
        const done = await client.download(id, target, following);
        return { ...started, ...toVideo(done), ...toSaved(done) };
      }
      return { ...started, ...toVideo(await followToEnd(id, following)), ...noFile };
    } catch (error) {
      throw asVidgenError(error).with({ id });
    } finally {
      await begun.release();
    }
  }

  /** The caller gets the URL: with that it is delivered. */
  async function followToEnd(...call: Parameters<typeof client.follow>) {
    const completed = await client.follow(...call);
    await client.delivered(call[0]);
    return completed;
  }

  async function download(id: string, output: string | { to: "bytes" | WritableStream<Uint8Array> }, how = {}) {
    return call({ ...how, id }, async (signal) => {
      const options = { ...how, ...listeners(how), signal };
      if (typeof output === "string") {
        const done = await client.download(id, asPath(output) ?? "", options);
        return { ...toCompleted(done), ...toSaved(done) };
      }
      const { to } = output;
      // The same as for standard output: a temporary file.
      const target = await client.claim("-", { id, signal });
      try {
        const done = await client.download(id, target, options);
        const bytes = to === "bytes" ? await readFile(done.file) : undefined;
        if (to !== "bytes") await pipeTo(done.file, to, signal);
        await opened
          ?.append({ kind: "delivered", id, file: "-" })
          .catch((error) => onNote(asVidgenError(error).message));
        return { ...toCompleted(done), ...(bytes && { bytes: new Uint8Array(bytes) }) };
      } finally {
        await target.release();
      }
    });
  }

  function needJournal() {
    if (!opened) throw usage("The client has no journal: createClient({ journal: true }) uses the CLI's own.");
    return opened;
  }

  async function resumeOne(
    entry: Entry & { id: string },
    how: ResumeOptions & { signal: AbortSignal },
  ): Promise<Resumed> {
    const { id, attempt, place } = entry;
    const path = entry.path ?? place;
    try {
      if (path === undefined || path === "-") {
        const { videoUrl } = await followToEnd(id, how);
        return { id, attempt, file: undefined, videoUrl, error: undefined };
      }
      const target = await client.claim(path, { id, resume: true, signal: how.signal });
      const { file, videoUrl } = await client.download(id, target, how).finally(target.release);
      return { id, attempt, file, videoUrl, error: undefined };
    } catch (error) {
      how.signal.throwIfAborted();
      const failure = restate(asVidgenError(error).with({ id })) as VidgenError;
      return { id, attempt, file: undefined, videoUrl: undefined, error: failure };
    }
  }

  return {
    generate: (request, how = {}) => call(how, (signal) => generate(request, { ...how, signal })),
    start: (request, how = {}) =>
      call(how, async (signal) => {
        const noWait = how.earlier === undefined;
        const begun = await begin(request, { ...how, noWait, signal });
        try {
          const started = await startBegun(begun, signal);
          if (noWait) await client.told(started.attempt);
          return started;
        } finally {
          await begun.release();
        }
      }),
    status: (id, how = {}) => call({ ...how, id }, async (signal) => toGeneration(await client.status(id, { signal }))),
    follow: (id, how = {}) =>
      call({ ...how, id }, async (signal) => toCompleted(await followToEnd(id, { ...how, ...listeners(how), signal }))),
    download: download as Client["download"],
    async *batch(rows, how) {
      const stop = new AbortController();
      const { signal } = withClosing(how);
      const onAbort = () => stop.abort(new InternalError("interrupted", "Interrupted.", { cause: signal.reason }));
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) onAbort();
      const leave = new AbortController().signal;
      const { jobs = 4 } = how;
      try {
        const keyed = keyRows(await Promise.all(rows.map((row, index) => asRow(row, { index, onNote }))));
        const source = { file: "", total: keyed.length, shard: null };
        const batch = await openBatch(keyed, { ...how, source, onNote }, { client, journal: opened, io });
        try {
          const events = iterateBatch(batch, { ...how, jobs, signal: stop.signal, leave, onNote }, io.date);
          for await (const event of events) yield toBatchEvent(event);
        } finally {
          await batch.close();
        }
      } catch (error) {
        throw restate(asVidgenError(error));
      } finally {
        signal.removeEventListener("abort", onAbort);
      }
    },
    async close() {
      closing.abort(new Error("the client was closed"));
      await Promise.all(running);
    },
    generations: {
      list: ({ status, limit = 20 } = {}) =>
        call({}, async () => {
          const { leaseOf } = needJournal();
          const found = await listAttempts({ status, limit }, { entries: client.entries, leaseOf }, io);
          return found.map(toRecord);
        }),
      get: (id) =>
        call({ id }, async () => {
          needJournal();
          const [entry] = await client.entriesOf(id);
          return entry && toRecord(entry);
        }),
      resume: (how = {}) =>
        call(how, async (signal) => {
          const { leaseOf } = needJournal();
          const left = (await client.entries()).filter(isLeft).filter((entry) => isPaidBy(client.account, entry));
          const leases = await Promise.all(left.map(({ attempt }) => leaseOf(attempt)));
          const free = left.filter((_, index) => leases[index] === "dead");
          const results: Resumed[] = [];
          const next = free.entries();
          const resumeNext = async () => {
            for (const [index, entry] of next)
              results[index] = await resumeOne(entry, { ...how, ...listeners(how), signal });
          };
          await Promise.all(Array.from({ length: maxResumed }, resumeNext));
          return results;
        }),
    },
  };
}

/** How long a body may take to end once its request was aborted. */
const lateMs = 1_000;

/** So many generations are resumed at once. */
const maxResumed = 4;

type BeginHow = StartOptions & Pick<GenerateOptions, "output" | "overwrite"> & { noWait: boolean; signal: AbortSignal };

const noFile = { file: undefined, sha256: undefined, size: undefined };
const noVideo = { videoUrl: undefined, cost: undefined };

/** A listener that throws must not stop a download that was paid for. */
function listeners({ onState, onProgress }: Pick<DownloadOptions, "onState" | "onProgress">) {
  return { onState: onState && harmless(onState), onProgress: onProgress && harmless(onProgress) };
}

function isLeft(entry: Entry): entry is Entry & { id: string } {
  return entry.id !== undefined && entry.batch === undefined && entry.mcp !== true && isOpen(entry);
}

/** "-" is no standard output here. */
function asPath(path: string | undefined): string | undefined {
  return path === "-" ? "./-" : path;
}

function findJournal(journal: ClientOptions["journal"], env: NodeJS.ProcessEnv): string | undefined {
  if (journal === "") throw usage("The path of the journal is empty.");
  if (journal !== true) return journal === undefined ? undefined : resolve(journal);
  return journalIn(storageFolder("state", { env, home: homedir(), platform: process.platform }));
}

/** What the program's own `fetch` rejects with may have been sent, unless it says otherwise. */
function foreignFetch(
  fetch: typeof globalThis.fetch,
  { sleep }: Pick<Machine, "sleep">,
): ReturnType<typeof createFetch> {
  return async (url, { body, headers = {}, method = "GET", signal } = {}) => {
    try {
      const init: RequestInit = { method, headers, signal: signal ?? null, redirect: "manual" };
      if (body !== undefined) init.body = body as string;
      const response = await fetch(url, init);
      const chunks = response.body && signal ? untilAborted(response.body, { signal, sleep }) : response.body;
      const { status, headers: told } = response;
      return { status, headers: told, body: chunks, text: async () => (chunks === null ? "" : text(chunks)) };
    } catch (error) {
      const isUnsent = typeof error === "object" && error !== null && "sent" in error && error.sent === false;
      throw isUnsent ? new RequestError(error, { sent: false }) : error;
    }
  };
}

/** The chunks of a body, also where its program does not end it when the signal aborts. */
async function* untilAborted(
  body: AsyncIterable<Uint8Array>,
  { signal, sleep }: { signal: AbortSignal } & Pick<Machine, "sleep">,
): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = chunks.next();
      // A chunk that has arrived may have the id of what was paid for.
      const { done, value } = await unlessAborted(next, signal).catch(() => unlessLate(next, { signal, sleep }));
      if (done) return;
      yield value;
    }
  } finally {
    void chunks.return?.().catch(() => {});
  }
}

/** The chunk, if it comes within a second; else rejects with the signal's reason. */
function unlessLate<Chunk>(next: Promise<Chunk>, { signal, sleep }: { signal: AbortSignal } & Pick<Machine, "sleep">) {
  const isLate = sleep(lateMs).then(() => Promise.reject(signal.reason));
  return Promise.race([next, isLate]);
}

async function pipeTo(file: string, to: WritableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
  const bytes = Readable.toWeb(createReadStream(file)) as ReadableStream<Uint8Array>;
  await bytes.pipeTo(to, { signal }).catch((cause) => {
    signal.throwIfAborted();
    throw new InternalError("output", `Cannot write the video to the stream: ${systemReason(cause)}.`, { cause });
  });
}

async function asRow(
  { id, request, output }: BatchRow,
  { index, onNote }: { index: number; onNote(text: string): void },
): Promise<Row> {
  const wire = await readRequest(request, onNote);
  return { id, line: index + 1, record: recordOf(wire), load: async () => wire, outputPath: asPath(output) };
}

/** Runs one call with a signal whose reason is a `VidgenError`, and rejects with nothing else. */
async function run<Result>(
  call: CallOptions & { id?: string },
  restate: (error: InternalError) => InternalError,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const onAbort = () =>
    controller.abort(new InternalError("interrupted", "Interrupted.", { cause: call.signal?.reason }));
  call.signal?.addEventListener("abort", onAbort, { once: true });
  try {
    if (call.signal?.aborted) onAbort();
    if ("id" in call && (typeof call.id !== "string" || call.id === "")) throw usage("The id is empty.");
    return await work(controller.signal);
  } catch (thrown) {
    throw restate(asVidgenError(thrown).with({ id: call.id }));
  } finally {
    call.signal?.removeEventListener("abort", onAbort);
  }
}

/** A copy without the original's hints, which name commands of the CLI. */
function restateError(
  error: InternalError,
  journal: string | undefined,
  redact: (text: string) => string,
): InternalError {
  const { id, httpStatus, headers, attempt, cause } = error;
  const message = plain(redact(error.message));
  if (attempt === undefined) {
    const restated = new InternalError(error.code, message, { id, httpStatus, headers, cause });
    // As every other library calls it.
    if (error.code === "interrupted") restated.name = "AbortError";
    return restated;
  }
  const written = journal === undefined ? "" : `, and is recorded in ${journal}`;
  const hint = `It was not sent again${written}. Check your account for the generation before you retry.`;
  return new InternalError("unknown", message, { id, httpStatus, headers, attempt, cause, hint });
}

/** A listener that throws must not stop a download that was paid for. */
function harmless<Args extends unknown[]>(tell: (...args: Args) => void): (...args: Args) => void {
  return (...args) => {
    try {
      tell(...args);
    } catch {}
  };
}
