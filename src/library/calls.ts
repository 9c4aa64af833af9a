import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { Readable } from "node:stream";
import { openBatch } from "../client/batch/batch.ts";
import { iterateBatch } from "../client/batch/iterate.ts";
import { keyRows, type Row, readAsWritten } from "../client/batch/row.ts";
import {
  type Attempt,
  close,
  type Finished,
  handOverId,
  type OpenAttemptOptions,
  openAttempt,
} from "../client/generation/attempt.ts";
import { knownAmount, openEstimates } from "../client/generation/cost.ts";
import { entriesOf, listEntries, listRecent } from "../client/generation/service.ts";
import { startGeneration } from "../client/generation/start.ts";
import { readStatus } from "../client/generation/status.ts";
import { listAttempts, withoutProcess } from "../client/ledger/attempts.ts";
import { type Entry, isPaidBy, isUndelivered, recordOf } from "../client/ledger/history.ts";
import { checkDoubt } from "../client/request/doubtful-prompt.ts";
import { existsError } from "../client/save/files.ts";
import { asVidgenError, VidgenError as InternalError, systemReason, usage } from "../errors.ts";
import { readCost } from "../protocol/schema.ts";
import { type Connection, interruptedBy, withClosing } from "./connection.ts";
import { type BatchEvent, toBatchEvent } from "./events.ts";
import {
  type BatchOptions,
  type BatchRow,
  checkOptions,
  type DownloadOptions,
  type FollowOptions,
  type GenerateOptions,
  type ListOptions,
  type ResumeOptions,
  type StartOptions,
} from "./options.ts";
import { findDoubt, type GenerationRequest, readRequest } from "./request.ts";
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
} from "./results.ts";
import { asCompleted, callListener, finishWithListeners, locationsOf, outputPathOf, readStarted } from "./run.ts";

// The calls of a client, as `Client` describes them. Their options are checked; the reason of their signal is a `VidgenError`.

type Abortable<Options> = Options & { signal: AbortSignal };

type StartOnceOptions = Abortable<GenerateOptions> & { noWait: boolean };

export async function generate(
  connection: Connection,
  request: GenerationRequest,
  callOptions: Abortable<GenerateOptions>,
): Promise<Generated> {
  const { onExisting = "resume" } = callOptions;
  const { attempt, started } = await startOnce(connection, request, { ...callOptions, onExisting, noWait: false });
  try {
    callListener(callOptions.onStarted, started);
    const finished = await finishWithListeners(attempt, callOptions);
    const { file, videoUrl } = locationsOf(finished);
    const content = finished.kind === "saved" ? finished.content : await findContent(connection, started.id, file);
    const cost = finished.kind === "found" ? undefined : readCost(finished.generation);
    return { ...started, videoUrl, cost, file, sha256: content?.sha256, size: content?.size };
  } finally {
    await close(attempt);
  }
}

export async function start(
  connection: Connection,
  request: GenerationRequest,
  callOptions: Abortable<StartOptions>,
): Promise<Started> {
  const noWait = callOptions.onExisting === undefined;
  const { attempt, started } = await startOnce(connection, request, { ...callOptions, noWait });
  try {
    if (noWait) await handOverId(attempt);
    return started;
  } finally {
    await close(attempt);
  }
}

async function startOnce(
  connection: Connection,
  request: GenerationRequest,
  { onExisting, output, idempotencyKey, noWait, ...callOptions }: StartOnceOptions,
) {
  const { service } = connection;
  const { signal, overwrite, timeoutMs, intervalMs } = callOptions;
  const { wire, from } = await readStart(connection, request, callOptions);
  const isNew = onExisting === undefined && idempotencyKey === undefined;
  const earlier = onExisting === "resume" || onExisting === "reuse" ? onExisting : "again";
  const doubt = await findDoubt(request, service.io);
  const options = {
    idempotencyKey,
    origin: { from },
    save: { outputPath: outputPathOf(output), overwrite },
    times: { timeoutMs, intervalMs },
    noWait,
    signal,
    check: (start: { isResend: boolean }) => checkDoubt(doubt, start),
  };
  const made = await startGeneration(service, wire, isNew ? options : { ...options, earlier });
  return readStarted(made, idempotencyKey);
}

/** The body of a start, with the last frame of `from`, and the generation of that frame if known. */
async function readStart(
  { service, env, onNote }: Connection,
  request: GenerationRequest,
  { from, signal, timeoutMs, intervalMs }: Pick<StartOnceOptions, "from" | "signal" | "timeoutMs" | "intervalMs">,
) {
  if (from === undefined) return { wire: await readRequest(request, onNote), from };
  if (request.images !== undefined && request.images.length > 0) throw usage("from and images cannot be combined.");
  const { findLastFrame } = await import("../connect/frames.ts");
  const { io } = service;
  const [entry] = await entriesOf(service, from);
  const found = entry === undefined ? await io.disk.stat(from).catch(() => undefined) : undefined;
  const isFile = found?.isFile() ?? false;
  const source = isFile ? { file: from, id: undefined } : { id: from, entry, open: async () => ({ service }) };
  const times = { signal, timeoutMs, intervalMs };
  const frame = await findLastFrame(source, times, { ...io, env, home: homedir() });
  if (frame.isNearlyOneColor) onNote(`The last frame of ${from} has nearly one colour, as after a fade.`);
  return { wire: await readRequest({ ...request, images: [frame.path] }, onNote), from: entry?.id };
}

/** What the journal says of a file that an earlier call saved. */
async function findContent({ service }: Connection, id: string, file: string | undefined) {
  return file === undefined ? undefined : (await entriesOf(service, id))[0]?.content;
}

export async function estimate(
  { service, onNote }: Connection,
  request: GenerationRequest,
  signal: AbortSignal,
): Promise<Estimated> {
  const wire = await readRequest(request, onNote);
  const { credits, usd } = (await openEstimates(service, await listRecent(service), signal))(wire);
  return { credits: knownAmount(credits), cost: knownAmount(usd), source: usd?.source };
}

export async function status({ service }: Connection, id: string, signal: AbortSignal): Promise<Generation> {
  return toGeneration(await readStatus(service, id, { signal }));
}

export async function follow(
  connection: Connection,
  id: string,
  callOptions: Abortable<FollowOptions>,
): Promise<Completed> {
  return withAttempt(connection, id, callOptions, async (attempt) =>
    toCompleted(asCompleted(await finishWithListeners(attempt, callOptions))),
  );
}

/** Opens a generation, and closes it after `work`. */
async function withAttempt<Result>(
  { service }: Connection,
  id: string,
  options: OpenAttemptOptions,
  work: (attempt: Attempt) => Promise<Result>,
): Promise<Result> {
  const attempt = await openAttempt(service, id, options);
  return work(attempt).finally(() => close(attempt));
}

export async function downloadToFile(
  connection: Connection,
  id: string,
  output: string,
  callOptions: Abortable<DownloadOptions>,
): Promise<Downloaded> {
  const outputPath = outputPathOf(output);
  return withAttempt(connection, id, { ...callOptions, outputPath }, async (attempt) => {
    const finished = await finishWithListeners(attempt, callOptions);
    if (finished.kind !== "saved") throw existsError(locationsOf(finished).file ?? output);
    return { ...toCompleted(finished), ...toSaved(finished) };
  });
}

export async function downloadTo(
  connection: Connection,
  id: string,
  to: "bytes" | WritableStream<Uint8Array>,
  callOptions: Abortable<DownloadOptions>,
): Promise<Completed & { bytes?: Uint8Array }> {
  let bytes: Uint8Array | undefined;
  const onFinished = async (finished: Finished) => {
    const { file = "" } = locationsOf(finished);
    if (to === "bytes") bytes = new Uint8Array(await readFile(file));
    else await pipeTo(file, to, callOptions.signal);
  };
  // A temporary file, as for standard output.
  return withAttempt(connection, id, { ...callOptions, outputPath: "-" }, async (attempt) => {
    const finished = await finishWithListeners(attempt, { ...callOptions, onFinished });
    return { ...toCompleted(asCompleted(finished)), ...(bytes && { bytes }) };
  });
}

async function pipeTo(file: string, to: WritableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
  const bytes = Readable.toWeb(createReadStream(file)) as ReadableStream<Uint8Array>;
  await bytes.pipeTo(to, { signal }).catch((cause) => {
    signal.throwIfAborted();
    throw new InternalError("output", `Cannot write the video to the stream: ${systemReason(cause)}.`, { cause });
  });
}

export async function listStarts(connection: Connection, { status, limit = 20 }: ListOptions): Promise<StartRecord[]> {
  requireJournal(connection);
  const { name, journal, io } = connection.service;
  const matches = ({ base_url }: Entry) => base_url === name;
  return (await listAttempts({ status, limit, matches }, journal, io)).map(toRecord);
}

export async function getStart(connection: Connection, id: string): Promise<StartRecord | undefined> {
  requireJournal(connection);
  const [entry] = await entriesOf(connection.service, id);
  return entry && toRecord(entry);
}

/** How many generations are resumed at once. */
const maxResumed = 4;

export async function resumeStarts(connection: Connection, callOptions: Abortable<ResumeOptions>): Promise<Resumed[]> {
  requireJournal(connection);
  const { service } = connection;
  const unfinished = (await listEntries(service))
    .filter(isUnfinishedStart)
    .filter((entry) => isPaidBy(service.account, entry));
  const unfollowed = await withoutProcess(unfinished, service.journal);
  const results: Resumed[] = [];
  const remaining = unfollowed.entries();
  const resumeNext = async () => {
    for (const [index, entry] of remaining) results[index] = await resumeOne(connection, entry, callOptions);
  };
  await Promise.all(Array.from({ length: maxResumed }, resumeNext));
  return results;
}

/** Batches and MCP servers resume their own starts. */
function isUnfinishedStart(entry: Entry): entry is Entry & { id: string } {
  return entry.id !== undefined && entry.batch === undefined && entry.mcp !== true && isUndelivered(entry);
}

async function resumeOne(
  connection: Connection,
  entry: Entry & { id: string },
  callOptions: Abortable<ResumeOptions>,
): Promise<Resumed> {
  const { id, place, path = place } = entry;
  const idempotencyKey = entry.key ?? entry.attempt;
  try {
    const outputPath = path === "-" ? undefined : path;
    const finished = await withAttempt(connection, id, { ...callOptions, outputPath }, (attempt) =>
      finishWithListeners(attempt, callOptions),
    );
    const { file, videoUrl } = locationsOf(finished);
    return { id, idempotencyKey, file, videoUrl, error: undefined };
  } catch (thrown) {
    callOptions.signal.throwIfAborted();
    const error = connection.restate(asVidgenError(thrown).with({ id }), idempotencyKey);
    return { id, idempotencyKey, file: undefined, videoUrl: undefined, error };
  }
}

function requireJournal({ hasJournal }: Connection): void {
  if (!hasJournal) throw usage("The client has no journal: createClient({ journal: true }) uses the CLI's own.");
}

/** Runs the rows, as `Client.batch` describes it. */
export async function* batch(
  connection: Connection,
  rows: readonly BatchRow[],
  callOptions: BatchOptions,
): AsyncGenerator<BatchEvent, void> {
  const { service, onNote, restate } = connection;
  const { io } = service;
  const { signal, release } = interruptedBy(withClosing(connection, callOptions));
  try {
    checkOptions("batch", callOptions);
    for (const [index, row] of rows.entries()) checkOptions("row", row, `row ${index + 1}`);
    const { jobs = 4 } = callOptions;
    const keyedRows = keyRows(await Promise.all(rows.map((row, index) => asRow(connection, row, index + 1))));
    const source = { file: "", total: keyedRows.length, shard: null };
    const opened = await openBatch(keyedRows, { ...callOptions, source, signal, onNote }, { service, io });
    try {
      const abandon = new AbortController().signal;
      const events = iterateBatch(opened, { ...callOptions, jobs, signal, abandon, onNote }, io.date);
      for await (const event of events) yield toBatchEvent(event);
    } finally {
      await opened.close();
    }
  } catch (error) {
    throw restate(asVidgenError(error));
  } finally {
    release();
  }
}

async function asRow({ service, onNote }: Connection, { id, request, output }: BatchRow, line: number): Promise<Row> {
  const wire = await readRequest(request, onNote);
  const error = await findDoubt(request, service.io);
  const doubt = error && { text: `${error.message} ${error.hint}`, where: undefined };
  const record = recordOf(wire);
  const written = readAsWritten({ id, record, request: wire }, request.aspectRatio);
  return { id, line, record, load: async () => wire, outputPath: outputPathOf(output), written, doubt };
}
