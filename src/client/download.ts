import { writeSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { asVidgenError, VidgenError } from "../errors.ts";
import type { Clock, HttpResponse, Io } from "../io.ts";
import { faultOfMp4 } from "./mp4.ts";
import { describeFailure } from "./reply.ts";
import { freeRetryMs, isTransient, retryAfterMs } from "./retry.ts";
import { outputError } from "./target.ts";

export type DownloadOptions = {
  signal: AbortSignal;
  /** The strong ETag of the video that the file holds a part of, left by an earlier process: the download is resumed. */
  etag: string | undefined;
  /** Called before the first byte of a video with a strong ETag is written. */
  onEtag(etag: string): Promise<void>;
  /** Asks the service for a new address, when the first one has expired. */
  freshUrl(signal: AbortSignal): Promise<string>;
  /** Both in bytes; `total` is `undefined` where the media address does not say. */
  onProgress(received: number, total: number | undefined): void;
  onNote(text: string): void;
};

type DownloadIo = Clock & Pick<Io, "fetch">;

type Outcome =
  | { kind: "whole" }
  | { kind: "trouble"; reason: string; waitMs?: number | undefined }
  | { kind: "expired"; reason: string };

/** How many bytes the file holds, and of which version of the video. Without a strong ETag the download cannot be resumed. */
type Part = { size: number; etag: string | undefined; total: number | undefined };

const maxTries = 10;
const maxRedirects = 5;
/** A request for which no byte comes for this long is aborted and retried. */
const stallMs = 30_000;
/** An attempt that brings this much resets the count of retries. */
const progressBytes = 1_000_000;

/**
 * Fetches a video into an open file until it is a whole .mp4. A download that broke off is resumed if a strong ETag tells that it is the
 * same video (RFC 9110, section 13.1.5), else it starts again. The address gets no Authorization header. Throws `output` when the video
 * cannot be fetched or written, or the signal's reason.
 */
export async function download(url: string, file: FileHandle, options: DownloadOptions, io: DownloadIo): Promise<void> {
  const have: Part = { size: (await onDisk(file.stat())).size, etag: options.etag, total: undefined };
  let from = url;
  let isFresh = false;
  for (let tries = 1; ; tries++) {
    const before = have.size;
    const outcome = await fetchOnce(from, file, have, { options, io });
    if (outcome.kind === "whole") return;
    if (outcome.kind === "expired") {
      if (isFresh) throw new VidgenError("output", `The video's address has expired: ${outcome.reason}.`);
      isFresh = true;
      from = await requestFreshUrl(outcome.reason, options);
      continue;
    }
    if (have.size - before >= progressBytes) tries = 1;
    if (tries >= maxTries) throw new VidgenError("output", `The video could not be fetched: ${outcome.reason}.`);
    if (tries === 2) options.onNote(`The video is hard to fetch (${outcome.reason}); still trying.`);
    await io.sleep(freeRetryMs(tries, outcome.waitMs), options.signal);
  }
}

async function requestFreshUrl(reason: string, options: DownloadOptions): Promise<string> {
  try {
    return await options.freshUrl(options.signal);
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    const { message } = asVidgenError(error);
    throw new VidgenError("output", `The video's address has expired (${reason}), and no fresh one came: ${message}`);
  }
}

async function fetchOnce(
  url: string,
  file: FileHandle,
  have: Part,
  { options, io }: { options: DownloadOptions; io: DownloadIo },
): Promise<Outcome> {
  const limit = io.limit(stallMs, options.signal, new Error("nothing came for 30 s"));
  const done = new AbortController();
  const signal = AbortSignal.any([limit.signal, done.signal]);
  try {
    const response = await fetchMedia(url, rangeHeaders(have), { signal, fetch: io.fetch });
    const total = await prepare(response, file, have, options);
    if (total === "no video") return readFailure(response, io);
    if (total !== "complete") await writeBody(response, file, have, { total, options, onBytes: limit.restart });
    const fault = await onDisk(faultOfMp4(file));
    if (fault === undefined) return { kind: "whole" };
    await restart(file, have);
    return { kind: "trouble", reason: `what came is not a whole video, ${fault}` };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (error instanceof VidgenError) throw error;
    return { kind: "trouble", reason: describeFailure(error) };
  } finally {
    limit.clear();
    // Closes a connection whose reply has not been read.
    done.abort();
  }
}

function rangeHeaders({ size, etag }: Part): Record<string, string> {
  return size > 0 && etag !== undefined ? { Range: `bytes=${size}-`, "If-Range": etag } : {};
}

/**
 * Prepares the file for the body of this response: keeps what it holds, or empties it. Returns the size of the whole video, or `undefined`
 * where the response does not say; "complete" when the file holds all of it already, "no video" for another status.
 */
async function prepare(
  response: HttpResponse,
  file: FileHandle,
  have: Part,
  options: DownloadOptions,
): Promise<number | undefined | "complete" | "no video"> {
  const { status, headers } = response;
  const range = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/.exec(headers.get("Content-Range") ?? "");
  if (status === 416 && have.size > 0) {
    if (Number(range?.[3]) === have.size) return "complete";
    await restart(file, have);
    throw new Error("the video has changed");
  }
  if (status === 206 && have.size > 0) {
    const etag = headers.get("ETag");
    const total = range?.[3] === "*" ? have.total : Number(range?.[3]);
    const isSame = (etag === null || etag === have.etag) && (have.total === undefined || have.total === total);
    if (isSame && Number(range?.[1]) === have.size) return total;
    await restart(file, have);
    throw new Error("the video has changed");
  }
  if (status !== 200) return "no video";
  await restart(file, have);
  // Lengths and ranges count encoded bytes; the file gets decoded ones.
  if (headers.get("Content-Encoding") !== null) return undefined;
  const etag = headers.get("ETag");
  if (etag?.startsWith('"')) {
    have.etag = etag;
    await options.onEtag(etag);
  }
  const length = headers.get("Content-Length");
  have.total = length !== null && /^\d+$/.test(length) ? Number(length) : undefined;
  return have.total;
}

async function restart(file: FileHandle, have: Part): Promise<void> {
  await onDisk(file.truncate(0));
  have.size = 0;
  have.etag = undefined;
  have.total = undefined;
}

function readFailure(response: HttpResponse, io: Clock): Outcome {
  const { status, headers } = response;
  const reason = `HTTP ${status}`;
  if (isTransient(status))
    return { kind: "trouble", reason, waitMs: retryAfterMs(headers.get("Retry-After"), io.date()) };
  if ([401, 403, 404, 410].includes(status)) return { kind: "expired", reason };
  throw new VidgenError("output", `The video's address answers ${reason}.`, { httpStatus: status });
}

/** GET that follows redirects, at most five, and from https only to https. */
async function fetchMedia(
  url: string,
  range: Record<string, string>,
  { signal, fetch }: { signal: AbortSignal; fetch: Io["fetch"] },
): Promise<HttpResponse> {
  const headers = { "Accept-Encoding": "identity", ...range };
  let at = url;
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(at, { signal, headers });
    const location = response.headers.get("Location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return response;
    if (redirects === maxRedirects) throw new VidgenError("output", "The video's address redirects too often.");
    if (!URL.canParse(location, at)) throw new VidgenError("output", "The video's address redirects to no address.");
    const next = new URL(location, at);
    const isAllowed = next.protocol === "https:" || (next.protocol === "http:" && at.startsWith("http:"));
    if (!isAllowed) throw new VidgenError("output", "The video's address redirects to one that is not secure.");
    at = next.href;
  }
}

type Writing = { total: number | undefined; options: DownloadOptions; onBytes(): void };

async function writeBody(response: HttpResponse, file: FileHandle, have: Part, writing: Writing): Promise<void> {
  const { total, options, onBytes } = writing;
  for await (const chunk of response.body ?? []) {
    onBytes();
    writeChunk(chunk, file, have);
    options.onProgress(have.size, total);
  }
  if (total !== undefined && have.size !== total) {
    const { size } = have;
    if (size > total) await restart(file, have);
    throw new Error(`it broke off after ${size} of ${total} bytes`);
  }
}

/** Writes synchronously, so that nothing is received while the disk is busy: see `unlimitedBytes` in `http.ts`. */
function writeChunk(chunk: Uint8Array, file: FileHandle, have: Part): void {
  try {
    for (let done = 0; done < chunk.byteLength; ) {
      const written = writeSync(file.fd, chunk, done, chunk.byteLength - done, have.size);
      done += written;
      have.size += written;
    }
  } catch (error) {
    throw outputError(error, "the video");
  }
}

/** Turns a failure of the file system into `output`, which is not retried. */
function onDisk<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error) => {
    throw outputError(error, "the video");
  });
}
