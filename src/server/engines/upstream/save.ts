import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { VidgenError } from "../../../errors.ts";
import type { HttpResponse } from "../../../io.ts";
import { readDataUrl } from "../../../protocol/data-url.ts";
import { isDataUrl } from "../../../protocol/url.ts";
import { faultOfMp4 } from "../../../video/mp4.ts";
import type { RenderOptions } from "../engine.ts";
import { createDownloadPatience, type DownloadFailure } from "./download-patience.ts";
import { inStatus, isCompleted, missingWaitMs, pollJob, pollOnce } from "./follow.ts";
import { minuteMs } from "./patience.ts";
import { clean, describeReply, findAddressIn, type ServerReply, type UpstreamJob } from "./reply.ts";
import { peek } from "./reply-video.ts";
import { describe, timeText, type Upstream } from "./upstream.ts";

const maxBytes = 2_000_000_000;
/** A download fails when a part of this size takes longer than `slowMs`. */
const partBytes = 1_000_000;
const slowMs = 60_000;
const maxRedirects = 3;

/** Where a video is: at the address that its job states, or else at the job's `/content`; or, without a job, at `videoUrl`. */
export type VideoSource =
  | ({ job: string } & Pick<UpstreamJob, "url" | "isNotMp4" | "completedAt" | "expiresAt" | "noFileReason">)
  | { videoUrl: string };

/** `confirm` throws when another process may be writing the file, because this process was suspended. */
export type SaveVideoOptions = Pick<RenderOptions, "progress" | "signal" | "confirm" | "releaseSlot"> & {
  upstream: Upstream;
};

/** A video that is still missing this long after its job was completed is gone. */
const maxLagMs = 3_600_000;

/** The owner is notified after this number of failures in a row. */
const notifyAfter = 3;
const maxUnusable = 3;

/**
 * Saves a finished video as `file`. The video may have been paid for, so the download is retried as long as that can help. There is no limit after an
 * error of the network, of a server or of this machine; the upstream's time limit applies when the server has no video or refuses access. The address
 * that the job states and its `/content` are tried in turn. Another kind of video is accepted, and an animated image where its server names one. Rejects with `output`
 * when no retry helps: the time limit has passed; the server has removed the expired video, or no longer knows its job; the server sends the same
 * file, which is not an .mp4, for a minute; the file is larger than 2 GB; or the rules for addresses that others chose refuse its address. The
 * engine's slot is freed after a minute. `progress` is told how far the download is.
 */
export async function save(source: VideoSource, file: string, options: SaveVideoOptions): Promise<void> {
  const { upstream, signal, releaseSlot, progress } = options;
  const { io, name } = upstream;
  let fetching: string | undefined;
  const report = (text: string) => {
    if (text !== fetching) progress(100, undefined, text);
    fetching = text;
  };
  const onPart = () => report("its video is being fetched");
  onPart();
  const startedAt = io.now();
  const patience = createDownloadPatience(upstream);
  /** Addresses that are not tried again, with the reason. */
  const unusable = new Map<string, DownloadFailure>();
  let allAddresses = addressesOf(source, upstream);
  let noFileReason = "job" in source ? source.noFileReason : undefined;
  for (let tries = 1; ; tries++) {
    const usableAddresses = allAddresses.filter((address) => !unusable.has(address));
    const address = usableAddresses[(tries - 1) % usableAddresses.length] ?? allAddresses[0];
    const isNotMp4 = "job" in source && source.isNotMp4 === true;
    const job = "job" in source ? source.job : undefined;
    const downloadOptions = { ...options, job, onPart, isNotMp4, lastDigest: patience.lastDigest(), noFileReason };
    const failure = await download(address, file, downloadOptions);
    if (!failure) return upstream.report(undefined);
    if (failure.kind === "unusable address" && address !== undefined) unusable.set(address, failure);
    const removal = findRemoval(failure, source, upstream);
    // When one address is unusable, the video may be at no other: then a minute without it is enough.
    const isLikelyGone = removal !== undefined || unusable.size > 0;
    const { reachedLimit, isRetriedSoon, waitMs } = patience.decide(failure, {
      isLikelyGone,
      hasNoFile: noFileReason !== undefined,
    });
    // Each poll may return a newly signed address, so a few unusable addresses are enough.
    const isUnusableEverywhere =
      unusable.size >= maxUnusable || (allAddresses.length > 0 && allAddresses.every((each) => unusable.has(each)));
    // If the address that the job states is unusable, that explains more than a missing /content.
    const { reason } = unusable.get(allAddresses[0] ?? "") ?? failure;
    report(`its video cannot be fetched: ${reason}`);
    const failedAddress = unusable.has(allAddresses[0] ?? "") ? allAddresses[0] : address;
    const fromAddress = failedAddress === undefined || isDataUrl(failedAddress) ? "" : ` from ${clean(failedAddress)}`;
    const explanation = reachedLimit === "no file" ? noFileReason : removal?.explanation;
    if (reachedLimit || isUnusableEverywhere || removal?.isSure)
      throw new VidgenError(
        "output",
        `${name} generated this video, but it could not be downloaded${fromAddress}: ${explanation === undefined ? reason : `${explanation} (${reason})`}`,
      );
    if (io.now() - startedAt >= minuteMs) releaseSlot?.();
    if (!isRetriedSoon && tries >= notifyAfter)
      upstream.report(`${name} generated a video that cannot be downloaded yet${fromAddress}: ${reason}. Retrying.`);
    await io.sleep(isRetriedSoon ? missingWaitMs() : waitMs, signal);
    if (!("job" in source)) continue;
    const polled = await pollOnce(source.job, upstream, signal);
    const isFailed = "reason" in polled;
    if (!isFailed) noFileReason = polled.noFileReason;
    // The earlier address may have expired.
    if (!isFailed && isCompleted(polled)) allAddresses = addressesOf({ ...source, url: polled.url }, upstream);
    patience.recordPoll({ isMissing: isFailed && polled.isMissing, hasNoFile: noFileReason !== undefined });
  }
}

const noAddress: DownloadFailure = { kind: "nowhere", reason: "it says that this video is ready, but not where it is" };

/** How a file that is not an .mp4 is checked: whether its server says that the video is not one, and the digest of the last such file. */
type NonMp4Check = { isNotMp4: boolean; lastDigest: string | undefined };

/** `onPart` is called after each megabyte. */
type DownloadOptions = Omit<SaveVideoOptions, "progress"> & NonMp4Check & { job: string | undefined; onPart(): void };

async function download(
  address: string | undefined,
  file: string,
  { noFileReason, ...options }: DownloadOptions & { noFileReason: string | undefined },
): Promise<DownloadFailure | undefined> {
  if (address !== undefined) return fetchVideo(address, file, options);
  return noFileReason === undefined ? noAddress : { ...noAddress, reason: `${noAddress.reason} (${noFileReason})` };
}

/** Returns why a completed job may no longer have its video. `isSure` only if its time has passed, because a single 404 proves nothing. */
function findRemoval(
  failure: DownloadFailure,
  source: VideoSource,
  { io, goneReason }: Upstream,
): { explanation: string; isSure: boolean } | undefined {
  if (failure.kind !== "missing" || !("job" in source)) return undefined;
  const { expiresAt, completedAt } = source;
  const now = io.date().getTime();
  if (expiresAt !== undefined && now >= expiresAt * 1_000)
    return { explanation: "it has expired there and was removed", isSure: true };
  if (failure.isEmpty && goneReason !== undefined) return { explanation: goneReason, isSure: false };
  const ageMs = completedAt === undefined ? 0 : now - completedAt * 1_000;
  return ageMs > maxLagMs
    ? { explanation: `it was completed ${timeText(ageMs)} ago, and is no longer there`, isSure: false }
    : undefined;
}

/**
 * Returns the addresses where a video may be. The address that a job states may be wrong, such as a path on the server's disk, and its `/content`
 * right.
 */
function addressesOf(source: VideoSource, { contentOf }: Upstream): string[] {
  if ("videoUrl" in source) return [source.videoUrl];
  const addresses = [source.url, contentOf(source.job)].filter((address) => address !== undefined);
  return [...new Set(addresses)];
}

type FetchVideoOptions = Pick<SaveVideoOptions, "upstream" | "signal">;

/**
 * Downloads a video once. After a failure, removes the partial file if possible. Rejects only when the signal aborts; the next process then replaces
 * the file.
 */
async function fetchVideo(
  address: string,
  file: string,
  { upstream, signal, confirm, job, onPart, ...check }: DownloadOptions,
): Promise<DownloadFailure | undefined> {
  const limit = upstream.io.limit(slowMs, signal, new Error(`less than 1 MB came within ${slowMs / 1_000} s`));
  let failure: DownloadFailure | undefined;
  let hasPart = false;
  try {
    const isInStatus = job !== undefined && address === inStatus;
    const opened = isInStatus
      ? await readStatusVideo(job, { upstream, signal })
      : await openVideo(address, { upstream, signal: limit.signal });
    confirm();
    if ("kind" in opened) failure = opened;
    else {
      const { reply, isVideo } = await peek(opened);
      hasPart = isVideo;
      const restart = () => {
        limit.restart();
        onPart();
      };
      failure = await write(reply, file, { ...check, onPart: restart });
    }
  } catch (error) {
    const isForbidden = error instanceof Error && "isForbidden" in error;
    failure = { kind: isForbidden ? "unusable address" : "temporary", reason: describe(error), hasPart };
  } finally {
    limit.clear();
  }
  if (!failure) return undefined;
  // Another process may have taken over the folder, and may be writing the file or have finished it.
  signal.throwIfAborted();
  if (!isStillOwner(confirm)) return failure;
  // A partial file would keep a full disk full. Failing to remove it does no harm, because the next try replaces it.
  await rm(file, { force: true }).catch(() => {});
  return failure;
}

function isStillOwner(confirm: () => void): boolean {
  try {
    confirm();
    return true;
  } catch {
    return false;
  }
}

/** Writes a reply to a file, each chunk synchronously, as `Io["fetch"]` requires. */
async function write(
  reply: Omit<HttpResponse, "text">,
  path: string,
  { onPart, isNotMp4, lastDigest }: NonMp4Check & Pick<DownloadOptions, "onPart">,
): Promise<DownloadFailure | undefined> {
  const file = await open(path, "w+");
  try {
    let size = 0;
    const hash = createHash("sha256");
    for await (const chunk of reply.body ?? []) {
      if (Math.floor((size + chunk.byteLength) / partBytes) > Math.floor(size / partBytes)) onPart();
      size += chunk.byteLength;
      if (size > maxBytes) return { kind: "unusable address", reason: `it is larger than ${maxBytes / 1e9} GB` };
      hash.update(chunk);
      for (let at = 0; at < chunk.byteLength; ) at += writeSync(file.fd, chunk, at);
    }
    const isLengthKnown = reply.headers.get("Content-Length") !== null;
    const fault = await faultOfMp4(file, { isLengthKnown });
    // Without a length, a fragmented video that ends after a whole fragment counts as whole, because a proxy is unlikely to cut it exactly there.
    if (!fault || fault.noLengthReason === "fragments") return undefined;
    const { reason, isFinished, mayBeVideo, noLengthReason } = fault;
    // A page in place of the video, or an empty file, is temporary.
    if (!isFinished) return { kind: mayBeVideo ? "unfinished" : "not ready", reason };
    const digest = hash.digest("hex");
    // A file of another kind may not contain its length: it is whole when its server states the length, or when a second download is identical.
    const isWhole = isLengthKnown || digest === lastDigest;
    const isKnown = noLengthReason === "another format" || (isNotMp4 && noLengthReason !== undefined);
    if (isKnown && isWhole) return undefined;
    return { kind: "fault", reason, digest };
  } finally {
    await file.close();
  }
}

const missingStatuses = [404, 410];
const notReadyStatuses = [400, 409, 422];
const temporaryStatuses = [408, 425, 429];

/** GETs a video and follows up to 3 redirects. */
async function openVideo(
  address: string,
  { upstream, signal, redirects = 0 }: FetchVideoOptions & { redirects?: number },
): Promise<HttpResponse | DownloadFailure> {
  if (isDataUrl(address)) return responseOf(readDataUrl(address));
  const reply = await upstream.open(address, signal);
  if (reply.status === 200 || isWhole(reply)) return reply;
  const read = await upstream.read(reply);
  const next = nextAddress(reply, read);
  if (next && redirects < maxRedirects)
    return openVideo(new URL(next, address).href, { upstream, signal, redirects: redirects + 1 });
  const reason = describeReply(read);
  const { retryAfterMs } = read;
  if (missingStatuses.includes(reply.status))
    return { kind: "missing", reason, isEmpty: read.text === "", isJson: read.json !== undefined };
  if (notReadyStatuses.includes(reply.status)) return { kind: "not ready", reason };
  const isTemporary = temporaryStatuses.includes(reply.status) || reply.status >= 500;
  return { kind: isTemporary ? "temporary" : "denied", reason, retryAfterMs };
}

/** Some servers answer a request for the whole file with 206 and the range of the whole file. */
function isWhole({ status, headers }: HttpResponse): boolean {
  const [, last, size] = /^bytes 0-(\d+)\/(\d+)$/.exec(headers.get("Content-Range") ?? "") ?? [];
  return status === 206 && last !== undefined && Number(last) + 1 === Number(size);
}

function nextAddress({ status, headers }: HttpResponse, read: ServerReply): string | null {
  // SGLang answers 400 with the address of a video that it has uploaded to its own storage.
  if (status === 400) return findAddressIn(read) ?? null;
  return status >= 300 && status < 400 ? headers.get("Location") : null;
}

/** Reads a video that the status of its job contains. */
async function readStatusVideo(
  job: string,
  { upstream, signal }: FetchVideoOptions,
): Promise<HttpResponse | DownloadFailure> {
  const polled = await pollJob(job, upstream, signal);
  if ("reason" in polled) return { kind: polled.isMissing ? "missing" : "temporary", reason: polled.reason };
  return polled.url !== undefined && isDataUrl(polled.url) ? responseOf(readDataUrl(polled.url)) : noAddress;
}

function responseOf(bytes: Uint8Array): HttpResponse {
  const body = (async function* () {
    yield bytes;
  })();
  return { status: 200, headers: { get: () => null }, body, text: async () => String(bytes) };
}
