import { resolve } from "node:path";
import { openBatch } from "./client/batch/batch.ts";
import { type BatchEvent, iterateBatch } from "./client/batch/iterate.ts";
import type { PlanOptions } from "./client/batch/plan.ts";
import { keyRows, type Row } from "./client/batch/row.ts";
import type { RunOptions } from "./client/batch/run.ts";
import { type ClientDownloadOptions, createServiceClient, type Downloaded } from "./client/client.ts";
import { createRedaction, plain } from "./client/credentials.ts";
import type { Completed } from "./client/follow.ts";
import { recordOf } from "./client/history.ts";
import { createFetch } from "./client/http.ts";
import { openJournal } from "./client/journal.ts";
import { isRecord, parseJson } from "./client/json.ts";
import { checkModel } from "./client/models.ts";
import { checkPrompt, type Generation, type Started, type StartRequest } from "./client/schema.ts";
import { asVidgenError, usage, VidgenError } from "./errors.ts";
import { systemMachine } from "./io.ts";

export { defaultModel, type Model, models } from "./client/models.ts";
export { type ErrorCode, VidgenError } from "./errors.ts";
export type { BatchEvent, Completed, Downloaded, Generation, Started, StartRequest };

export type ClientOptions = {
  /** The service's address; https, except on this machine. */
  baseUrl: string;
  apiKey: string;
  /** Called with news for the user, such as a model that looks like a slip. */
  onNote?: ((text: string) => void) | undefined;
  /** A file in which each start is written down before it is sent, as the CLI does; without one nothing is written down. */
  journal?: string;
};

/** The option of every call: its promise rejects with `interrupted` once `signal` aborts. */
export type CallOptions = { signal?: AbortSignal };

export type FollowOptions = CallOptions & Pick<ClientDownloadOptions, "timeoutMs" | "intervalMs">;

export type DownloadOptions = FollowOptions & Pick<ClientDownloadOptions, "overwrite" | "onProgress">;

export type Client = {
  /**
   * Starts a generation (interface 4.1). It costs credits, so the request is sent once; it is retried only when no byte of it was written,
   * or when the service answered "not now" (429, 421, 425). Rejects with `unknown`, and only with that, when it may have been charged: the
   * error's `attempt` is the Idempotency-Key that was sent. When `signal` aborts after the request was sent, it waits 10 s for the id.
   */
  start(request: StartRequest, options?: CallOptions): Promise<Started & { attempt: string }>;
  /** Polls a generation once (interface 4.2), with retries for 30 s until there is an answer. */
  status(id: string, options?: CallOptions): Promise<Generation>;
  /** Polls a generation until it has completed. Rejects with `failed`, or at the timeout with `pending`, or `network` when no answer came. */
  follow(id: string, options?: FollowOptions): Promise<Completed>;
  /**
   * Follows a generation and saves its video as a file, or into a folder (one that exists, or a name that ends in a slash); names in braces
   * are filled in as by the CLI's -o. The file gets its name only when it is whole; `content` has its sha256 and its size in bytes. Rejects with `output` when it exists or cannot be saved.
   */
  download(id: string, outputPath: string, options?: DownloadOptions): Promise<Downloaded>;
  /**
   * Starts a generation for each row, and saves the videos, as the CLI's `batch` does: run again with the same results file, it goes on, and
   * no row is paid for twice. Yields what happens, a `summary` last. When the caller stops iterating, nothing more is started. Throws `usage`
   * for rows that contradict an earlier run or whose output exists, before anything is sent.
   */
  batch(rows: readonly BatchRow[], options: BatchOptions): AsyncIterable<BatchEvent>;
};

export type BatchRow = {
  /** The caller's name for the row, by which a later run knows it; without one the request itself and how often it occurred before. */
  id?: string;
  request: StartRequest;
  /** Where its video is saved, as in `download`; without it the video is not downloaded. */
  output?: string;
};

export type BatchOptions = FollowOptions &
  Pick<PlanOptions, "retryFailed" | "retryUnknown"> &
  Pick<RunOptions, "maxCredits" | "keepCredits" | "failFast"> & {
    /** The file in which results are written, and from which a later run goes on. */
    results: string;
    /** How many generations run at once; 4 by default. */
    jobs?: number;
    overwrite?: boolean;
  };

/** Creates a client of the service, the same as the CLI's. Throws `usage` for bad options. Its calls reject with a `VidgenError`. */
export function createClient(options: ClientOptions): Client {
  const { hide, redact } = createRedaction();
  const { journal } = options;
  const apiKey = String(options.apiKey);
  hide(apiKey.trim());
  const onNote = harmless((text: string) => options.onNote?.(plain(redact(text))));
  // Signals, streams and the exit of the process belong to the program that uses the library.
  const io = { ...systemMachine, fetch: createFetch(process.env), unsettled: new Set<string>() };
  const baseUrl = String(options.baseUrl);
  const opened = journal === undefined ? undefined : openJournal(resolve(journal), io);
  const client = createServiceClient({ baseUrl, apiKey, journal: opened, onNote }, io);
  const restate = (error: VidgenError) => restateError(error, journal, redact);

  return {
    start: (request, how = {}) =>
      run(how, restate, async (signal) => {
        const begun = await client.beginNew(copyRequest(request), { noWait: true, signal });
        return begun.send({ signal }).finally(begun.release);
      }),
    status: (id, how = {}) => run({ ...how, id }, restate, (signal) => client.status(id, { signal })),
    follow: (id, how = {}) => run({ ...how, id }, restate, (signal) => client.follow(id, { ...how, signal })),
    download: (id, outputPath, how = {}) =>
      run({ ...how, id }, restate, (signal) => {
        const onProgress = harmless(how.onProgress ?? (() => {}));
        return client.download(id, outputPath === "-" ? "./-" : outputPath, { ...how, signal, onProgress });
      }),
    async *batch(rows, how) {
      const stop = new AbortController();
      const onAbort = () => stop.abort(new VidgenError("interrupted", "Interrupted.", { cause: how.signal?.reason }));
      how.signal?.addEventListener("abort", onAbort, { once: true });
      if (how.signal?.aborted) onAbort();
      const leave = new AbortController().signal;
      const { jobs = 4 } = how;
      try {
        const keyed = keyRows(rows.map(asRow));
        const source = { file: "", total: keyed.length, shard: null };
        const batch = await openBatch(keyed, { ...how, source, onNote }, { client, journal: opened, io });
        try {
          yield* iterateBatch(batch, { ...how, jobs, signal: stop.signal, leave, onNote }, io.date);
        } finally {
          await batch.close();
        }
      } catch (error) {
        throw restate(asVidgenError(error));
      } finally {
        how.signal?.removeEventListener("abort", onAbort);
      }
    },
  };
}

function asRow({ id, request, output }: BatchRow, index: number): Row {
  const copy = copyRequest(request);
  const outputPath = output === "-" ? "./-" : output;
  return { id, line: index + 1, record: recordOf(copy), load: async () => copy, outputPath };
}

/** Runs one call with a signal whose reason is a `VidgenError`, and rejects with nothing else. */
async function run<Result>(
  call: CallOptions & { id?: string },
  restate: (error: VidgenError) => VidgenError,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const onAbort = () =>
    controller.abort(new VidgenError("interrupted", "Interrupted.", { cause: call.signal?.reason }));
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
function restateError(error: VidgenError, journal: string | undefined, redact: (text: string) => string): VidgenError {
  const { id, httpStatus, attempt, cause } = error;
  const message = plain(redact(error.message));
  if (attempt === undefined) return new VidgenError(error.code, message, { id, httpStatus, cause });
  const written = journal === undefined ? "" : `, and is recorded in ${journal}`;
  const hint = `It was not sent again${written}. Check the account for it before retrying.`;
  return new VidgenError("unknown", message, { id, httpStatus, attempt, cause, hint });
}

/** A checked copy: the caller may change the object while the journal is written, before the request is sent. */
function copyRequest(request: StartRequest): StartRequest {
  let text: string | undefined;
  try {
    text = JSON.stringify(request);
  } catch (cause) {
    throw new VidgenError("usage", "The request cannot be converted to JSON.", { cause });
  }
  const copy = parseJson(text ?? "");
  if (!isRecord(copy) || typeof copy.prompt !== "string" || typeof copy.model !== "string")
    throw usage("The request must be an object with a prompt and a model.");
  return { ...copy, prompt: checkPrompt(copy.prompt), model: checkModel(copy.model) };
}

/** A listener that throws must not stop a download that was paid for. */
function harmless<Args extends unknown[]>(tell: (...args: Args) => void): (...args: Args) => void {
  return (...args) => {
    try {
      tell(...args);
    } catch {}
  };
}
