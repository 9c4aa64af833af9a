import { createHash, type Hash } from "node:crypto";
import { asVidgenError, systemCode, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile, HttpResponse, Io } from "../../io.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import { readDataUrl } from "../../protocol/data-url.ts";
import { isTransient, retryAfterMs } from "../../protocol/status.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { faultOfMp4, findOtherFormat, type Mp4Fault } from "../../video/mp4.ts";
import { isProxyRefusal } from "../http/proxy.ts";
import { describeFailure, describeReply, readReply } from "../http/reply.ts";
import { backoffMs, freeRetryMs, type RetryIo } from "../http/retry.ts";
import { hashFile } from "../ledger/content.ts";
import { isSameVersion, rangeHeaders, readVersion, type Version } from "../ledger/version.ts";
import { outputError } from "./files.ts";

export type MediaOptions = {
  signal: AbortSignal;
  /** The version of the video in the file of an earlier process; with a validator the download is resumed. */
  version: Version | undefined;
  /** Called before the first byte of each body, when the file is empty. */
  onVersion(version: Version): Promise<void>;
  /** Asks the service for a new URL when the last one has expired. */
  renewUrl(signal: AbortSignal): Promise<string>;
  /** Called with the numbers of received and of all bytes; `total` is `undefined` if the server does not state it. */
  onProgress(received: number, total: number | undefined): void;
  onNote(text: string): void;
};

export type DownloadIo = RetryIo & Pick<Io, "fetch"> & { disk: Pick<Disk, "writeSync"> };

type DownloadOutcome =
  | { kind: "whole" }
  | { kind: "not ready"; reason: string }
  | { kind: "failed" | "outage"; reason: string; waitMs?: number | undefined }
  | { kind: "expired"; status: number; reason: string; mayNeedKey: boolean };

type Received = {
  /** The number of bytes in the file. */
  size: number;
  /** The hash of these bytes. */
  hash: Hash;
  version: Version;
  /** The maximum size that the file has had, because starting again is not progress. */
  furthest: number;
  /** The sha256 of a complete response that was discarded because it was not a known .mp4. */
  unknownFormat: string | undefined;
};

const maxTries = 10;
/**
 * How long new URLs may fail, or the file may be unfinished, before the download is given up, because a CDN
 * may not have a new video yet.
 */
const patienceMs = 60_000;
const maxRedirects = 5;
/** A request without data for this long is aborted and retried. */
const stallMs = 30_000;
/** This many new bytes reset the count of retries. */
const progressBytes = 1_000_000;

/**
 * Downloads a video into an open file until it is a complete .mp4. An interrupted download is resumed if a
 * validator shows that the video is the same (RFC 9110, section 13.1.5); otherwise it starts again. A file
 * that is not a known .mp4 is kept after two identical downloads, with a note; a file without its index is
 * unfinished, and never kept. The request has no Authorization header. Returns the file's sha256 in
 * hexadecimal. Throws `output` if the video cannot be downloaded or written, with `httpStatus` if its URL is
 * useless; or the signal's reason.
 */
export async function download(url: string, file: DiskFile, options: MediaOptions, io: DownloadIo): Promise<string> {
  const { size } = await onDisk(file.stat());
  const hash = await onDisk(hashFile(file, options.signal));
  const received: Received = { size, hash, version: { ...options.version }, furthest: 0, unknownFormat: undefined };
  let currentUrl = url;
  let tries = 0;
  let sizeAtFirstTry = 0;
  let notReadySince: number | undefined;
  let unfinishedCount = 0;
  let outages = 0;
  let expirations = 0;
  /** The size of the file when its URL expired, and since when it has not grown. */
  let stuck = { at: -1, since: 0 };
  const pause = (ms: number, reason: string) =>
    io.sleep(ms, options.signal).catch((error) => {
      // A caller's own reason, such as Ctrl-C, is not the end of the time.
      if (asVidgenError(error).code !== "pending") throw error;
      const message = `Timed out before the video was saved: it is completed, but it cannot be fetched: ${reason}.`;
      throw new VidgenError("pending", message);
    });
  for (;;) {
    const outcome = await fetchOnce(currentUrl, file, received, { options, io });
    if (outcome.kind === "whole") return received.hash.digest("hex");
    if (outcome.kind === "not ready") {
      notReadySince ??= io.now();
      if (io.now() - notReadySince >= patienceMs)
        throw new VidgenError("output", `The video at its URL is not finished: ${outcome.reason}.`);
      if (++unfinishedCount === 1) options.onNote(`The video is not finished yet (${outcome.reason}); retrying.`);
      await pause(freeRetryMs(unfinishedCount, io.random()), outcome.reason);
      continue;
    }
    if (outcome.kind === "outage") {
      if (++outages === 2) options.onNote(`Could not download the video yet (${outcome.reason}); retrying.`);
      await pause(freeRetryMs(outages, io.random(), outcome.waitMs), outcome.reason);
      continue;
    }
    if (outcome.kind === "expired") {
      const { status } = outcome;
      if (received.furthest > stuck.at) {
        stuck = { at: received.furthest, since: io.now() };
        expirations = 0;
      }
      if (io.now() - stuck.since >= patienceMs) throw expiredError(outcome, currentUrl);
      currentUrl = await requestNewUrl(status, options);
      if (++expirations === 2) options.onNote(`The video URL does not work yet (HTTP ${status}); retrying.`);
      await pause(backoffMs(expirations, io.random()), outcome.reason);
      continue;
    }
    if (received.furthest - sizeAtFirstTry >= progressBytes) {
      tries = 0;
      sizeAtFirstTry = received.furthest;
    }
    if (++tries >= maxTries) throw new VidgenError("output", `Could not download the video: ${outcome.reason}.`);
    if (tries === 2) options.onNote(`Could not download the video yet (${outcome.reason}); retrying.`);
    await pause(freeRetryMs(tries, io.random(), outcome.waitMs), outcome.reason);
  }
}

function expiredError(
  { status, reason, mayNeedKey }: Extract<DownloadOutcome, { kind: "expired" }>,
  url: string,
): VidgenError {
  if (!mayNeedKey) return new VidgenError("output", `The video URL gives no video: ${reason}.`, { httpStatus: status });
  const message = `The video URL returned ${reason}: it may need the API key, which vidgen sends only to the service.`;
  return new VidgenError("output", message, { httpStatus: status, hint: `The video is at ${url}` });
}

async function requestNewUrl(status: number, options: MediaOptions): Promise<string> {
  try {
    return await options.renewUrl(options.signal);
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    const { message } = asVidgenError(error);
    const text = `The video URL gives no video (HTTP ${status}), and the service gave no new one: ${message}`;
    throw new VidgenError("output", text);
  }
}

async function fetchOnce(
  url: string,
  file: DiskFile,
  received: Received,
  { options, io }: { options: MediaOptions; io: DownloadIo },
): Promise<DownloadOutcome> {
  const limit = io.limit(stallMs, options.signal, new Error("no data for 30 s"));
  const closing = new AbortController();
  const signal = AbortSignal.any([limit.signal, closing.signal]);
  try {
    const response = await fetchMedia(url, rangeHeaders(received.size, received.version), { signal, fetch: io.fetch });
    const prepared = await prepareFile(response, file, received, options);
    if (prepared === "no video") return await readFailure(response, io);
    if (prepared === "body")
      await writeBody(response, file, received, { options, onBytes: limit.restart, disk: io.disk });
    const isLengthKnown = received.version.total !== undefined;
    const fault = await onDisk(faultOfMp4(file, { isLengthKnown }));
    if (fault === undefined) {
      const format = await onDisk(findOtherFormat(file));
      if (format) options.onNote(`The downloaded file is not an .mp4: ${format.reason}.`);
      return { kind: "whole" };
    }
    const { reason } = fault;
    if (fault.mayBeVideo && !fault.isFinished) {
      await restart(file, received);
      return { kind: "not ready", reason };
    }
    // The file came in one response that seems complete.
    if (fault.mayBeVideo && (isLengthKnown || fault.noLengthReason) && response.status === 200) {
      const digest = received.hash.copy().digest("hex");
      if (received.unknownFormat === digest) {
        options.onNote(noteFor(fault));
        return { kind: "whole" };
      }
      const isChanging = received.unknownFormat !== undefined;
      received.unknownFormat = digest;
      if (isChanging) {
        await restart(file, received);
        return { kind: "not ready", reason: "two downloads of it differ" };
      }
    }
    await restart(file, received);
    return { kind: "failed", reason: `not a complete video: ${reason}` };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (error instanceof VidgenError) throw error;
    const reason = describeFailure(error);
    if (isProxyRefusal(systemCode(error))) throw new VidgenError("output", `Could not download the video: ${reason}.`);
    return { kind: "failed", reason };
  } finally {
    limit.clear();
    // Closes the connection if its reply was not read.
    closing.abort();
  }
}

function noteFor({ reason, noLengthReason }: Mp4Fault): string {
  if (noLengthReason === "fragments" || noLengthReason === "open last box")
    return `The downloaded file does not say how long it is: ${reason}. It was saved, because a second download was identical.`;
  if (noLengthReason === "another format" || noLengthReason === "animated image")
    return `The downloaded file is not an .mp4: ${reason}. It was saved, because a second download was identical.`;
  return `The downloaded file looks damaged (${reason}), and a second download was identical. It was saved anyway: check whether it plays.`;
}

/**
 * Prepares the file for the body of this response: keeps its content, or empties it. Returns "complete" if
 * the file already has the whole video, and "no video" for other statuses.
 */
async function prepareFile(
  response: HttpResponse,
  file: DiskFile,
  received: Received,
  options: MediaOptions,
): Promise<"body" | "complete" | "no video"> {
  const { status, headers } = response;
  if ((status === 206 || status === 416) && received.size > 0) {
    const [, start, statedTotal] = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(headers.get("Content-Range") ?? "") ?? [];
    const total = statedTotal === "*" ? received.version.total : Number(statedTotal);
    const isSame = isSameVersion(received.version, headers, total);
    if (isSame && status === 416 && total === received.size) return "complete";
    if (isSame && status === 206 && Number(start) === received.size) {
      received.version.total = total;
      return "body";
    }
    await restart(file, received);
    throw new Error("the video has changed on the server");
  }
  if (status !== 200) return "no video";
  await restart(file, received);
  received.version = readVersion(headers);
  await options.onVersion({ ...received.version });
  return "body";
}

async function restart(file: DiskFile, received: Received): Promise<void> {
  await onDisk(file.truncate(0));
  received.size = 0;
  received.hash = createHash("sha256");
  received.version = {};
}

async function readFailure(response: HttpResponse, io: Pick<Io, "date">): Promise<DownloadOutcome> {
  const reply = await readReply(response);
  const { status } = reply;
  const reason = describeReply(reply);
  const waitMs = retryAfterMs(reply.retryAfter, io.date());
  // The video is paid for, so an answer about credits counts as an outage.
  if (lacksCredits(reply)) return { kind: "outage", reason, waitMs };
  if (isTransient(status)) return { kind: "failed", reason, waitMs };
  // A media host reports an expired URL with a page; an API that needs a key answers in JSON.
  const mayNeedKey = status === 401 || (status === 403 && reply.json !== undefined);
  if ([401, 403, 404, 410].includes(status)) return { kind: "expired", status, reason, mayNeedKey };
  throw new VidgenError("output", `The video URL returned ${reason}.`, { httpStatus: status });
}

/** The reply in a `data:` URL. */
function readData(address: string): HttpResponse {
  const bytes = readDataUrl(address);
  const get = (name: string) => (/^content-length$/i.test(name) ? String(bytes.length) : null);
  const body = (async function* () {
    yield bytes;
  })();
  return { status: 200, headers: { get }, body, text: async () => bytes.toString() };
}

/** Sends a GET, and follows at most five redirects, from https only to https. */
export async function fetchMedia(
  url: string,
  range: Record<string, string>,
  { signal, fetch }: { signal: AbortSignal; fetch: Io["fetch"] },
): Promise<HttpResponse> {
  if (isDataUrl(url)) return readData(url);
  const headers = { "Accept-Encoding": "identity", ...range };
  let currentUrl = url;
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(currentUrl, { signal, headers });
    const location = response.headers.get("Location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return response;
    if (redirects === maxRedirects) throw new VidgenError("output", "The video URL redirects too many times.");
    if (!URL.canParse(location, currentUrl))
      throw new VidgenError("output", "The video URL redirects to an invalid URL.");
    const nextUrl = new URL(location, currentUrl);
    const isAllowed = nextUrl.protocol === "https:" || (nextUrl.protocol === "http:" && currentUrl.startsWith("http:"));
    if (!isAllowed) throw new VidgenError("output", "The video URL redirects to a URL that is not https.");
    currentUrl = nextUrl.href;
  }
}

type WriteContext = { options: MediaOptions; onBytes(): void; disk: DownloadIo["disk"] };

async function writeBody(
  response: HttpResponse,
  file: DiskFile,
  received: Received,
  writing: WriteContext,
): Promise<void> {
  const { options, onBytes, disk } = writing;
  const { total } = received.version;
  for await (const chunk of response.body ?? []) {
    onBytes();
    writeChunk(chunk, file, received, disk);
    options.onProgress(received.size, total);
  }
  if (total !== undefined && received.size !== total) {
    const { size } = received;
    if (size > total) await restart(file, received);
    throw new Error(`cut off after ${size} of ${total} bytes`);
  }
}

/** Writes synchronously, so that nothing is received while the disk is busy (see `unlimitedBytes` in `free.ts`). */
function writeChunk(chunk: Uint8Array, file: DiskFile, received: Received, disk: DownloadIo["disk"]): void {
  try {
    for (let done = 0; done < chunk.byteLength; ) {
      const written = disk.writeSync(file.fd, chunk, done, chunk.byteLength - done, received.size);
      received.hash.update(chunk.subarray(done, done + written));
      done += written;
      received.size += written;
    }
    received.furthest = Math.max(received.furthest, received.size);
  } catch (error) {
    throw outputError(error, "the video");
  }
}

/** Turns a failure of the file system, which is not retried, into an `output` error. */
function onDisk<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error) => {
    throw outputError(error, "the video");
  });
}
