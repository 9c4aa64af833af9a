import { type Machine, systemMachine } from "./io.ts";
import * as calls from "./library/calls.ts";
import { type Call, connect, runCall } from "./library/connection.ts";
import type { BatchEvent } from "./library/events.ts";
import type {
  BatchOptions,
  BatchRow,
  CallOptions,
  ClientOptions,
  DownloadOptions,
  FollowOptions,
  GenerateOptions,
  ListOptions,
  ResumeOptions,
  StartOptions,
} from "./library/options.ts";
import type { GenerationRequest } from "./library/request.ts";
import type {
  Completed,
  Downloaded,
  Estimated,
  Generated,
  Generation,
  Resumed,
  Started,
  StartRecord,
} from "./library/results.ts";

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
   * Starts a generation, waits for it and saves its video, like the CLI's `generate`. With a journal, the
   * same call after a crash resumes the same generation (`onExisting` is `resume` by default), which is
   * charged once. Rejects like `start`, `follow` and `download`; the error has the `id` if it is known.
   */
  generate(request: GenerationRequest, options?: GenerateOptions): Promise<Generated>;
  /**
   * Starts a generation. It costs credits, so the request is sent once; it is retried only if no byte of it
   * was written, or if the service answered "not now" (429, 421, 425). Rejects with `unknown` if and only if
   * the start may have been charged; the error's `idempotencyKey` names the start in the journal. Otherwise
   * rejects with `usage`, `auth`, `credits`, `rejected` or `network`. If `signal` aborts after the request
   * was sent, the call waits up to 10 s for the id.
   */
  start(request: GenerationRequest, options?: StartOptions): Promise<Started>;
  /**
   * Returns what a start of this request would cost: what the service or its engines list now, or else what
   * the newest start of the same kind has cost, by the journal. Costs nothing. Rejects with `usage`.
   */
  estimate(request: GenerationRequest, options?: CallOptions): Promise<Estimated>;
  /**
   * Returns the status of a generation, and retries for 30 s until there is an answer. Costs nothing. Rejects with `not_found`,
   * `auth`, or `network` if there was no answer.
   */
  status(id: string, options?: CallOptions): Promise<Generation>;
  /**
   * Polls a generation until it has completed. Costs nothing. Rejects with `failed`; with `unknown` if the
   * service says that an engine may have charged for it; with `network` or `auth` if the service says that no
   * engine accepted it and nothing was charged. At the timeout it rejects with `pending`, or with `network`
   * if there was no answer.
   */
  follow(id: string, options?: FollowOptions): Promise<Completed>;
  /**
   * Waits for a generation and returns its video as bytes, or writes it to a stream and closes the stream.
   * The video is saved to a temporary file first: a stream gets its first byte when the video is complete,
   * and only the stream can fail after that. Costs nothing. Rejects like `follow`, or with `output`.
   */
  download(id: string, output: { to: "bytes" }, options?: DownloadOptions): Promise<Completed & { bytes: Uint8Array }>;
  download(id: string, output: { to: WritableStream<Uint8Array> }, options?: DownloadOptions): Promise<Completed>;
  /**
   * Waits for a generation and saves its video to a file or a folder (one that exists, or a name that ends in
   * a slash). Names in braces work as in the CLI's -o. The file gets its name only when it is complete. Costs
   * nothing. Rejects like `follow`, or with `output` if the file exists or cannot be saved.
   */
  download(id: string, outputPath: string, options?: DownloadOptions): Promise<Downloaded>;
  /**
   * Starts a generation for each row and saves the videos, like the CLI's `batch`. Called again with the same
   * results file, it resumes, and no row is paid for twice. Yields events, and a `summary` as the last one.
   * If the caller stops iterating, no more rows are started. Throws `usage`, before anything is sent, if a
   * row contradicts an earlier run or its output file exists.
   */
  batch(rows: readonly BatchRow[], options: BatchOptions): AsyncIterable<BatchEvent>;
  /**
   * Aborts the running calls, and resolves when they have released their locks; a batch releases its own when
   * its loop ends. Costs nothing, and never rejects. A program can end without it.
   */
  close(): Promise<void>;
  /** The starts of this service in the journal. */
  generations: {
    /**
     * Returns the newest starts, 20 by default. A start is `unknown` if its process was killed before the
     * answer arrived. Costs nothing. Rejects with `usage` without a journal.
     */
    list(options?: ListOptions): Promise<StartRecord[]>;
    /**
     * Returns the start of a generation by its id, or `undefined` if the journal has no such start. Costs
     * nothing. Rejects with `usage` without a journal.
     */
    get(id: string): Promise<StartRecord | undefined>;
    /**
     * Resumes each unfinished generation of this account: waits for it, and saves its video where its start
     * asked for. Skips the generations of batches, and those that another live process is following. Resolves
     * when all have ended, with the error of each one that failed. Costs nothing. Rejects with `usage`
     * without a journal.
     */
    resume(options?: ResumeOptions): Promise<Resumed[]>;
  };
};

/**
 * Creates a client of the service, the same client that the CLI uses. Sends nothing and costs nothing until a
 * call. Throws `usage` for invalid options. The client's calls reject with a `VidgenError`.
 */
export function createClient(options?: ClientOptions): Client;
// Tests pass a simulated machine; the published types do not show this parameter.
export function createClient(options: ClientOptions = {}, machine: Machine = systemMachine): Client {
  const connection = connect(options, machine, process.env);
  const call = <Result>(options: Call, work: (signal: AbortSignal) => Promise<Result>) =>
    runCall(connection, options, work);
  return {
    generate: (request, callOptions = {}) =>
      call({ name: "generate", callOptions }, (signal) =>
        calls.generate(connection, request, { ...callOptions, signal }),
      ),
    start: (request, callOptions = {}) =>
      call({ name: "start", callOptions }, (signal) => calls.start(connection, request, { ...callOptions, signal })),
    estimate: (request, callOptions = {}) =>
      call({ name: "estimate", callOptions }, (signal) => calls.estimate(connection, request, signal)),
    status: (id, callOptions = {}) =>
      call({ name: "status", id, callOptions }, (signal) => calls.status(connection, id, signal)),
    follow: (id, callOptions = {}) =>
      call({ name: "follow", id, callOptions }, (signal) => calls.follow(connection, id, { ...callOptions, signal })),
    download: ((id: string, output: string | { to: "bytes" | WritableStream<Uint8Array> }, callOptions = {}) =>
      call({ name: "download", id, callOptions }, async (signal) =>
        typeof output === "string"
          ? calls.downloadToFile(connection, id, output, { ...callOptions, signal })
          : calls.downloadTo(connection, id, output.to, { ...callOptions, signal }),
      )) as Client["download"],
    batch: (rows, callOptions) => calls.batch(connection, rows, callOptions),
    async close() {
      connection.closing.abort(new Error("the client was closed"));
      await Promise.all(connection.running);
    },
    generations: {
      list: (callOptions = {}) =>
        call({ name: "generations.list", callOptions }, () => calls.listStarts(connection, callOptions)),
      get: (id) => call({ id }, () => calls.getStart(connection, id)),
      resume: (callOptions = {}) =>
        call({ name: "generations.resume", callOptions }, (signal) =>
          calls.resumeStarts(connection, { ...callOptions, signal }),
        ),
    },
  };
}
