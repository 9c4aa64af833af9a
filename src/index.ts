import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { unlessAborted } from "./abort.ts";
import { openBatch } from "./client/batch/batch.ts";
import { iterateBatch } from "./client/batch/iterate.ts";
import { keyRows, type Row, readAsWritten } from "./client/batch/row.ts";
import {
  type Attempt,
  close,
  type Finished,
  handOverId,
  type OpenAttemptOptions,
  openAttempt,
} from "./client/generation/attempt.ts";
import { knownAmount, openEstimates } from "./client/generation/cost.ts";
import { entriesOf, listEntries, listRecent, openService } from "./client/generation/service.ts";
import { start as startGeneration } from "./client/generation/start.ts";
import { readStatus } from "./client/generation/status.ts";
import { createFetch } from "./client/http/http.ts";
import { unusedProxy } from "./client/http/proxy.ts";
import { createRedaction } from "./client/http/redaction.ts";
import { listAttempts } from "./client/ledger/attempts.ts";
import { type Entry, isPaidBy, isUndelivered, recordOf } from "./client/ledger/history.ts";
import { openJournal } from "./client/ledger/journal.ts";
import { findFileError } from "./client/request/doubtful-prompt.ts";
import { existsError } from "./client/save/files.ts";
import { cleanEnv } from "./connect/environment.ts";
import { journalIn, storageFolder } from "./connect/storage.ts";
import { asVidgenError, VidgenError as InternalError, systemReason, usage } from "./errors.ts";
import { type Machine, RequestError, systemMachine } from "./io.ts";
import { restateError, type VidgenError } from "./library/errors.ts";
import { type BatchEvent, toBatchEvent } from "./library/events.ts";
import {
  type BatchOptions,
  type BatchRow,
  type CallName,
  type CallOptions,
  type ClientOptions,
  checkOptions,
  type DownloadOptions,
  type FollowOptions,
  type GenerateOptions,
  type ListOptions,
  type ResumeOptions,
  type StartOptions,
} from "./library/options.ts";
import { type GenerationRequest, readRequest } from "./library/request.ts";
import {
  type Completed,
  type Downloaded,
  type Estimated,
  type Generated,
  type Generation,
  type Resumed,
  type Started,
  type StartRecord,
  toCompleted,
  toGeneration,
  toRecord,
  toSaved,
} from "./library/results.ts";
import { asCompleted, callListener, finishWithListeners, locationsOf, readStarted } from "./library/run.ts";
import { readCost } from "./protocol/schema.ts";
import { plainText } from "./protocol/text.ts";
import { checkBaseUrl, readAllowedOrigin } from "./protocol/url.ts";

export type { ErrorCode } from "./errors.ts";
export { type CallbackEvent, type CallbackRequest, verifyCallback } from "./library/callback.ts";
export { VidgenError } from "./library/errors.ts";
export type { BatchError, BatchRowEvent, BatchSummary } from "./library/events.ts";
export type { Saved, StartStatus } from "./library/results.ts";
export { defaultModel, type KnownModel, type Model, models } from "./protocol/models.ts";
export type { WireGeneration } from "./protocol/schema.ts";
export type {
  BatchEvent,
  BatchOptions,
  BatchRow,
  CallOptions,
  ClientOptions,
  Completed,
  Downloaded,
  DownloadOptions,
  Estimated,
  FollowOptions,
  Generated,
  GenerateOptions,
  Generation,
  GenerationRequest,
  ListOptions,
  Resumed,
  ResumeOptions,
  Started,
  StartOptions,
  StartRecord,
};

/** A client of a service. Its calls reject with a `VidgenError`. */
export type Client = {
  /**
   * Starts a generation, waits for it and saves its video, like the CLI's `generate`. With a journal, the same call after a crash resumes the
   * same generation (`onExisting` is `resume` by default), which is charged once. Rejects like `start`, `follow` and `download`; the error has the
   * `id` if it is known.
   */
  generate(request: GenerationRequest, options?: GenerateOptions): Promise<Generated>;
  /**
   * Starts a generation. It costs credits, so the request is sent once; it is retried only if no byte of it was written, or if the service
   * answered "not now" (429, 421, 425). Rejects with `unknown` if and only if the start may have been charged; the error's `idempotencyKey` names the
   * start in the journal. Otherwise rejects with `usage`, `auth`, `credits`, `rejected` or `network`. If `signal` aborts after the request was sent,
   * the call waits up to 10 s for the id.
   */
  start(request: GenerationRequest, options?: StartOptions): Promise<Started>;
  /**
   * Returns what a start of this request would cost: what the service or its engines list now, or else what the newest start of the same kind has
   * cost, by the journal. Costs nothing. Rejects with `usage`.
   */
  estimate(request: GenerationRequest, options?: CallOptions): Promise<Estimated>;
  /**
   * Returns the status of a generation, and retries for 30 s until there is an answer. Costs nothing. Rejects with `not_found`,
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
   * Aborts the running calls, and resolves when they have released their locks; a batch releases its own when its loop ends. Costs nothing, and
   * never rejects. A program can end without it.
   */
  close(): Promise<void>;
  /** The starts of this service in the journal. */
  generations: {
    /**
     * Returns the newest starts, 20 by default. A start is `unknown` if its process was killed before the answer arrived. Costs nothing.
     * Rejects with `usage` without a journal.
     */
    list(options?: ListOptions): Promise<StartRecord[]>;
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

/**
 * Creates a client of the service, the same client that the CLI uses. Sends nothing and costs nothing until a call. Throws `usage` for invalid options.
 * The client's calls reject with a `VidgenError`.
 */
export function createClient(options?: ClientOptions): Client;
// Tests pass a simulated machine; the published types do not show this parameter.
export function createClient(options: ClientOptions = {}, machine: Machine = systemMachine): Client {
  const { env } = cleanEnv(process.env);
  const { hide, redact } = createRedaction();
  checkOptions("createClient", options);
  const apiKey = String(options.apiKey ?? env.VIDGEN_API_KEY ?? "");
  const baseUrl = String(options.baseUrl ?? env.VIDGEN_BASE_URL ?? "");
  hide(apiKey.trim());
  if (baseUrl === "")
    throw usage(
      "No base URL: pass baseUrl, or set VIDGEN_BASE_URL.",
      "Without an account: run `npx vidgen serve`, and set the two variables that it prints.",
    );
  const onNote = (text: string) => callListener(options.onNote, plainText(redact(text)));
  // The library does not touch the signals, streams and exit of the program that uses it.
  const fetch = options.fetch === undefined ? createFetch(env) : adaptFetch(options.fetch, machine);
  const loadDelivery =
    options.fetch === undefined ? async () => (await import("./client/http/free.ts")).loadUndici() : undefined;
  const io = { ...machine, fetch, loadDelivery, unsettled: new Set<string>() };
  const journalPath = findJournal(options.journal, env, machine);
  const journal = journalPath === undefined ? undefined : openJournal(journalPath, io);
  const protectedPaths = journalPath === undefined ? [] : [journalPath, `${journalPath}.lock`, `${journalPath}.leases`];
  // Plain http is not allowed with a custom fetch, which does not check that the address is private.
  const allowed = options.fetch === undefined ? readAllowedOrigin(env.VIDGEN_ALLOW_HTTP) : undefined;
  const checkedUrl = checkBaseUrl(baseUrl, "baseUrl", allowed === undefined ? [] : [allowed]);
  const service = openService({ baseUrl: checkedUrl, apiKey, journal, protectedPaths, onNote }, io);
  const proxyWarning = options.fetch === undefined ? unusedProxy(new URL(baseUrl), env) : undefined;
  if (proxyWarning !== undefined) onNote(`${proxyWarning.says} ${proxyWarning.fix}`);
  const restate: Restate = (error, idempotencyKey) =>
    restateError(error, { journal: journalPath, idempotencyKey, redact });
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  // The options are not checked yet, so they may have any type.
  const withClosing = (callOptions: CallOptions | null | undefined) => {
    const signal = callOptions?.signal instanceof AbortSignal ? callOptions.signal : undefined;
    return { signal: AbortSignal.any(signal === undefined ? [closing.signal] : [signal, closing.signal]) };
  };
  const track = <Result>(call: ClientCall, work: (signal: AbortSignal) => Promise<Result>) => {
    const result = runCall({ ...call, ...withClosing(call.callOptions) }, restate, work);
    const ended = result.catch(() => {}).finally(() => running.delete(ended));
    running.add(ended);
    return result;
  };

  async function startOnce(
    request: GenerationRequest,
    { onExisting, output, idempotencyKey, ...callOptions }: StartOnceOptions,
  ) {
    const { wire, from } = await readStart(request, callOptions);
    const isNew = onExisting === undefined && idempotencyKey === undefined;
    const earlier = onExisting === "resume" || onExisting === "reuse" ? onExisting : "again";
    const doubt = await findDoubt(request, io);
    const options = { ...callOptions, from, doubt, outputPath: outputPathOf(output), idempotencyKey };
    const made = await startGeneration(service, wire, isNew ? options : { ...options, earlier });
    return readStarted(made, idempotencyKey);
  }

  /** The body of a start, with the last frame of `from`, and the generation of that frame if known. */
  async function readStart(
    request: GenerationRequest,
    { from, signal, timeoutMs, intervalMs }: Pick<StartOnceOptions, "from" | "signal" | "timeoutMs" | "intervalMs">,
  ) {
    if (from === undefined) return { wire: await readRequest(request, onNote), from };
    if (request.images !== undefined && request.images.length > 0) throw usage("from and images cannot be combined.");
    const { findLastFrame } = await import("./connect/frames.ts");
    const system = { env, home: homedir() };
    const [entry] = await entriesOf(service, from);
    const isFile =
      entry === undefined &&
      (await io.disk.stat(from).then(
        (found) => found.isFile(),
        () => false,
      ));
    const source = isFile ? { file: from, id: undefined } : { id: from, entry, open: async () => ({ service }) };
    const frame = await findLastFrame(source, { signal, timeoutMs, intervalMs }, { ...io, ...system });
    if (frame.isNearlyOneColor) onNote(`The last frame of ${from} has nearly one colour, as after a fade.`);
    return { wire: await readRequest({ ...request, images: [frame.path] }, onNote), from: entry?.id };
  }

  async function generate(request: GenerationRequest, callOptions: GenerateOptions & { signal: AbortSignal }) {
    const { attempt, started } = await startOnce(request, {
      ...callOptions,
      onExisting: callOptions.onExisting ?? "resume",
      noWait: false,
    });
    try {
      callListener(callOptions.onStarted, started);
      const finished = await finishWithListeners(attempt, callOptions);
      const { file, videoUrl } = locationsOf(finished);
      const savedContent = finished.kind === "saved" ? finished.content : undefined;
      const content =
        savedContent ?? (file === undefined ? undefined : (await entriesOf(service, started.id))[0]?.content);
      const cost = finished.kind === "found" ? undefined : readCost(finished.generation);
      return { ...started, videoUrl, cost, file, sha256: content?.sha256, size: content?.size };
    } finally {
      await close(attempt);
    }
  }

  async function start(request: GenerationRequest, callOptions: StartOptions & { signal: AbortSignal }) {
    const noWait = callOptions.onExisting === undefined;
    const { attempt, started } = await startOnce(request, { ...callOptions, noWait });
    try {
      if (noWait) await handOverId(attempt);
      return started;
    } finally {
      await close(attempt);
    }
  }

  /** Opens a generation, and closes it after `work`. */
  async function withAttempt<Result>(
    id: string,
    callOptions: OpenAttemptOptions,
    work: (attempt: Attempt) => Promise<Result>,
  ) {
    const attempt = await openAttempt(service, id, callOptions);
    return work(attempt).finally(() => close(attempt));
  }

  async function download(id: string, output: string | { to: "bytes" | WritableStream<Uint8Array> }, callOptions = {}) {
    return track({ name: "download", id, callOptions }, async (signal) => {
      if (typeof output === "string") {
        const outputPath = outputPathOf(output) ?? "";
        return withAttempt(id, { ...callOptions, outputPath, signal }, async (attempt) => {
          const finished = await finishWithListeners(attempt, callOptions);
          if (finished.kind !== "saved") throw existsError(locationsOf(finished).file ?? outputPath);
          return { ...toCompleted(finished), ...toSaved(finished) };
        });
      }
      const { to } = output;
      let bytes: Uint8Array | undefined;
      const take = async (finished: Finished) => {
        const { file = "" } = locationsOf(finished);
        if (to === "bytes") bytes = new Uint8Array(await readFile(file));
        else await pipeTo(file, to, signal);
      };
      // A temporary file, as for standard output.
      return withAttempt(id, { ...callOptions, outputPath: "-", signal }, async (attempt) => {
        const finished = await finishWithListeners(attempt, { ...callOptions, onFinished: take });
        return { ...toCompleted(asCompleted(finished)), ...(bytes && { bytes }) };
      });
    });
  }

  function requireJournal() {
    if (!journal) throw usage("The client has no journal: createClient({ journal: true }) uses the CLI's own.");
    return journal;
  }

  async function resumeOne(
    entry: Entry & { id: string },
    callOptions: ResumeOptions & { signal: AbortSignal },
  ): Promise<Resumed> {
    const { id, place, path = place } = entry;
    const idempotencyKey = entry.key ?? entry.attempt;
    try {
      const outputPath = path === "-" ? undefined : path;
      const finished = await withAttempt(id, { ...callOptions, outputPath }, (attempt) =>
        finishWithListeners(attempt, callOptions),
      );
      const { file, videoUrl } = locationsOf(finished);
      return { id, idempotencyKey, file, videoUrl, error: undefined };
    } catch (error) {
      callOptions.signal.throwIfAborted();
      const failure = restate(asVidgenError(error).with({ id }), idempotencyKey);
      return { id, idempotencyKey, file: undefined, videoUrl: undefined, error: failure };
    }
  }

  return {
    generate: (request, callOptions = {}) =>
      track({ name: "generate", callOptions }, (signal) => generate(request, { ...callOptions, signal })),
    start: (request, callOptions = {}) =>
      track({ name: "start", callOptions }, (signal) => start(request, { ...callOptions, signal })),
    estimate: (request, callOptions = {}) =>
      track({ name: "estimate", callOptions }, async (signal) => {
        const wire = await readRequest(request, onNote);
        const { credits, usd } = (await openEstimates(service, await listRecent(service), signal))(wire);
        return { credits: knownAmount(credits), cost: knownAmount(usd), source: usd?.source };
      }),
    status: (id, callOptions = {}) =>
      track({ name: "status", id, callOptions }, async (signal) =>
        toGeneration(await readStatus(service, id, { signal })),
      ),
    follow: (id, callOptions = {}) =>
      track({ name: "follow", id, callOptions }, async (signal) =>
        withAttempt(id, { ...callOptions, signal }, async (attempt) =>
          toCompleted(asCompleted(await finishWithListeners(attempt, callOptions))),
        ),
      ),
    download: download as Client["download"],
    async *batch(rows, callOptions) {
      const stop = new AbortController();
      const { signal } = withClosing(callOptions);
      const onAbort = () => stop.abort(new InternalError("interrupted", "Interrupted.", { cause: signal.reason }));
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) onAbort();
      const abandon = new AbortController().signal;
      try {
        checkOptions("batch", callOptions);
        for (const [index, row] of rows.entries()) checkOptions("row", row, `row ${index + 1}`);
        const { jobs = 4 } = callOptions;
        const keyedRows = keyRows(await Promise.all(rows.map((row, index) => asRow(row, { index, onNote }, io))));
        const source = { file: "", total: keyedRows.length, shard: null };
        const batch = await openBatch(
          keyedRows,
          { ...callOptions, source, signal: stop.signal, onNote },
          { service, io },
        );
        try {
          const events = iterateBatch(batch, { ...callOptions, jobs, signal: stop.signal, abandon, onNote }, io.date);
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
      list: (callOptions = {}) =>
        track({ name: "generations.list", callOptions }, async () => {
          const { status, limit = 20 } = callOptions;
          const matches = ({ base_url }: Entry) => base_url === service.name;
          const found = await listAttempts({ status, limit, matches }, requireJournal(), io);
          return found.map(toRecord);
        }),
      get: (id) =>
        track({ id }, async () => {
          requireJournal();
          const [entry] = await entriesOf(service, id);
          return entry && toRecord(entry);
        }),
      resume: (callOptions = {}) =>
        track({ name: "generations.resume", callOptions }, async (signal) => {
          const { leaseOf } = requireJournal();
          const unfinished = (await listEntries(service))
            .filter(isUnfinishedStart)
            .filter((entry) => isPaidBy(service.account, entry));
          const leases = await Promise.all(unfinished.map(({ attempt }) => leaseOf(attempt)));
          const unfollowed = unfinished.filter((_, index) => leases[index] === "dead");
          const results: Resumed[] = [];
          const remaining = unfollowed.entries();
          const resumeNext = async () => {
            for (const [index, entry] of remaining) results[index] = await resumeOne(entry, { ...callOptions, signal });
          };
          await Promise.all(Array.from({ length: maxResumed }, resumeNext));
          return results;
        }),
    },
  };
}

/** How long to wait for the last chunk of a body after its request was aborted. */
const lastChunkMs = 1_000;

/** How many generations are resumed at once. */
const maxResumed = 4;

/** A call of the client and its options, which are not checked yet. */
type ClientCall = { name?: CallName; id?: string; callOptions?: (StartOptions & ListOptions) | null };

type Restate = (error: InternalError, idempotencyKey?: string) => VidgenError;

type StartOnceOptions = GenerateOptions & { noWait: boolean; signal: AbortSignal };

/** Batches and MCP servers resume their own starts. */
function isUnfinishedStart(entry: Entry): entry is Entry & { id: string } {
  return entry.id !== undefined && entry.batch === undefined && entry.mcp !== true && isUndelivered(entry);
}

/** In the library, "-" is the name of a file and not standard output. */
function outputPathOf(path: string | undefined): string | undefined {
  return path === "-" ? "./-" : path;
}

function findJournal(
  journal: ClientOptions["journal"],
  env: NodeJS.ProcessEnv,
  { platform }: Pick<Machine, "platform">,
): string | undefined {
  if (journal === "") throw usage("The path of the journal is empty.");
  if (journal !== true) return journal === undefined ? undefined : resolve(journal);
  return journalIn(storageFolder("state", { env, home: homedir(), platform }));
}

/** Adapts a custom `fetch`. If it rejects, the request counts as sent, unless the error has `sent: false`. */
function adaptFetch(fetch: typeof globalThis.fetch, { sleep }: Pick<Machine, "sleep">): ReturnType<typeof createFetch> {
  return async (url, { body, headers = {}, method = "GET", signal } = {}) => {
    try {
      const init: RequestInit = { method, headers, signal: signal ?? null, redirect: "manual" };
      if (body !== undefined) init.body = body as string;
      const response = await fetch(url, init);
      const chunks = response.body && signal ? untilAborted(response.body, { signal, sleep }) : response.body;
      const { status, headers: responseHeaders } = response;
      return {
        status,
        headers: responseHeaders,
        body: chunks,
        text: async () => (chunks === null ? "" : text(chunks)),
      };
    } catch (error) {
      const isUnsent = typeof error === "object" && error !== null && "sent" in error && error.sent === false;
      throw isUnsent ? new RequestError(error, { sent: false }) : error;
    }
  };
}

/** The chunks of a body. Ends on abort even if the custom `fetch` does not end the body. */
async function* untilAborted(
  body: AsyncIterable<Uint8Array>,
  { signal, sleep }: { signal: AbortSignal } & Pick<Machine, "sleep">,
): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = chunks.next();
      // A chunk that has arrived may contain the id of a paid generation.
      const { done, value } = await unlessAborted(next, signal).catch(() => unlessLate(next, { signal, sleep }));
      if (done) return;
      yield value;
    }
  } finally {
    void chunks.return?.().catch(() => {});
  }
}

/** Returns the chunk if it comes within a second; else rejects with the signal's reason. */
function unlessLate<Chunk>(next: Promise<Chunk>, { signal, sleep }: { signal: AbortSignal } & Pick<Machine, "sleep">) {
  const isLate = sleep(lastChunkMs).then(() => Promise.reject(signal.reason));
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
  io: Pick<Machine, "disk" | "platform">,
): Promise<Row> {
  const wire = await readRequest(request, onNote);
  const error = await findDoubt(request, io);
  const doubt = error && { text: `${error.message} ${error.hint}`, where: undefined };
  const record = recordOf(wire);
  const written = readAsWritten({ id, record, request: wire }, request.aspectRatio);
  return { id, line: index + 1, record, load: async () => wire, outputPath: outputPathOf(output), written, doubt };
}

/** The error of a prompt that is probably not what was meant. The request is checked. */
async function findDoubt({ prompt, exactPrompt }: GenerationRequest, { disk }: Pick<Machine, "disk">) {
  return exactPrompt ? undefined : findFileError(prompt, disk.stat);
}

/** Runs a call with a signal whose reason is a `VidgenError`. Rejects only with a `VidgenError`. */
async function runCall<Result>(
  call: ClientCall & { signal: AbortSignal },
  restate: Restate,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const onAbort = () =>
    controller.abort(new InternalError("interrupted", "Interrupted.", { cause: call.signal.reason }));
  call.signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (call.signal.aborted) onAbort();
    if (call.name !== undefined) checkOptions(call.name, call.callOptions);
    if ("id" in call && (typeof call.id !== "string" || call.id === "")) throw usage("The id is empty.");
    return await work(controller.signal);
  } catch (thrown) {
    throw restate(asVidgenError(thrown).with({ id: call.id }), call.callOptions?.idempotencyKey);
  } finally {
    call.signal.removeEventListener("abort", onAbort);
  }
}
