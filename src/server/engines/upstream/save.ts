import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { VidgenError } from "../../../errors.ts";
import type { HttpResponse } from "../../../io.ts";
import { isData } from "../../../protocol/url.ts";
import { faultOfMp4 } from "../../../video/mp4.ts";
import type { RenderOptions } from "../engine.ts";
import { createDownloadPatience, type Failure } from "./download-patience.ts";
import { isCompleted, lookOnce, missingWaitMs } from "./follow.ts";
import { minuteMs } from "./patience.ts";
import { clean, findAddressIn, type Job, type Reply, wordsOf } from "./reply.ts";
import { peek } from "./reply-video.ts";
import { describe, minutes, type Upstream } from "./upstream.ts";

const maxBytes = 2_000_000_000;
/** A download has failed when this much of it takes longer than `slowMs`. */
const partBytes = 1_000_000;
const slowMs = 60_000;
const maxRedirects = 3;

/** Where a video is: in a job, at the address that the job states or else at its `/content`; or at an address. */
export type Source =
  | ({ job: string } & Pick<Job, "url" | "isOtherKind" | "completedAt" | "expiresAt" | "noFileWords">)
  | { finished: string };

/** `confirm` throws when another process may be writing the file, because this one was suspended. */
export type SaveOptions = Pick<RenderOptions, "signal" | "confirm" | "releaseSlot"> & { upstream: Upstream };

/** A job that was completed longer ago than this has lost its video: it would have appeared by now. */
const maxLagMs = 3_600_000;

/** After this number of failures in a row, the owner is notified. */
const worryingFailures = 3;
const maxRefused = 3;

/**
 * Saves a finished video as `file`. It was made, and may have been paid for, so it is fetched again as long as that can help: after an error of
 * the network, of a server or of this machine without a limit; from a server that has no video, or does not show it, until the upstream's time
 * limit, from the address that the job states and from its `/content` in turn. A file of another kind is the video where its server says so.
 * Rejects with `output` when no further try helps: that time is over; the server has removed the video after its time, or no longer knows its job;
 * a minute later it is still the same file, and no .mp4; it is larger than 2 GB; or the rules for addresses that others chose refuse its address.
 * The engine's slot is freed after a minute.
 */
export async function save(source: Source, file: string, options: SaveOptions): Promise<void> {
  const { upstream, signal, releaseSlot } = options;
  const { io, name } = upstream;
  const startedAt = io.now();
  const patience = createDownloadPatience(upstream);
  /** Addresses at which no further try helps. */
  const refused = new Map<string, Failure>();
  let told = addressesOf(source, upstream);
  let noFileWords = "job" in source ? source.noFileWords : undefined;
  for (let tries = 1; ; tries++) {
    const addresses = told.filter((address) => !refused.has(address));
    const address = addresses[(tries - 1) % addresses.length] ?? told[0];
    const kinds = { isOtherKind: "job" in source && source.isOtherKind === true, seen: patience.seen() };
    const failure = await tryAddress(address, file, { ...options, ...kinds, words: noFileWords });
    if (!failure) return upstream.report(undefined);
    if (failure.kind === "address refused" && address !== undefined) refused.set(address, failure);
    const removed = findRemoval(failure, source, upstream);
    const isGone = removed !== undefined || refused.size > 0;
    const { over, isSoon, waitMs } = patience.judge(failure, { isGone, hasNoFile: noFileWords !== undefined });
    // The job may show an address that is signed anew at each poll, so a few refused ones are enough.
    const isRefusedEverywhere =
      refused.size >= maxRefused || (told.length > 0 && told.every((each) => refused.has(each)));
    // Why the job's own address is refused says more than that its /content is missing.
    const { reason } = refused.get(told[0] ?? "") ?? failure;
    const where = refused.has(told[0] ?? "") ? told[0] : address;
    const place = where === undefined || isData(where) ? "" : ` from ${clean(where)}`;
    const words = over === "no file" ? noFileWords : removed?.words;
    if (over || isRefusedEverywhere || removed?.isSure)
      throw new VidgenError(
        "output",
        `${name} generated this video, but it could not be downloaded${place}: ${words === undefined ? reason : `${words} (${reason})`}`,
      );
    if (io.now() - startedAt >= minuteMs) releaseSlot?.();
    if (!isSoon && tries >= worryingFailures)
      upstream.report(`${name} generated a video that cannot be downloaded yet${place}: ${reason}. Retrying.`);
    await io.sleep(isSoon ? missingWaitMs() : waitMs, signal);
    if (!("job" in source) || (address !== undefined && isRepeated(tries))) continue;
    const look = await lookOnce(source.job, upstream, signal);
    const isTrouble = "trouble" in look;
    // The address that a job stated may have expired: another poll may return a new one.
    if (!isTrouble) noFileWords = look.noFileWords;
    if (!isTrouble && isCompleted(look)) told = addressesOf({ ...source, url: look.url }, upstream);
    patience.look({ isMissing: isTrouble && look.isMissing, hasNoFile: noFileWords !== undefined });
  }
}

const goldenRatio = (Math.sqrt(5) - 1) / 2;

/**
 * Whether the next download follows without a poll before it. If polls and downloads alternated, a round-robin balancer could send every download
 * to the same replica. The order is derived from an irrational number, so it has no period that a balancer could fall into step with.
 */
function isRepeated(tries: number): boolean {
  return (tries * goldenRatio) % 1 < 0.5;
}

const noAddress: Failure = { kind: "nowhere", reason: "it says that this video is ready, but not where it is" };

/** Whether the file is of another kind than .mp4, and the digest of the last such file. */
type Kinds = { isOtherKind: boolean; seen: string | undefined };

async function tryAddress(
  address: string | undefined,
  file: string,
  { words, ...options }: SaveOptions & Kinds & { words: string | undefined },
): Promise<Failure | undefined> {
  if (address !== undefined) return fetchVideo(address, file, options);
  return words === undefined ? noAddress : { ...noAddress, reason: `${noAddress.reason} (${words})` };
}

/** Why a completed job may have no video any more. It is sure only with the server's own word: another replica may have the job. */
function findRemoval(
  failure: Failure,
  source: Source,
  { io, goneWords }: Upstream,
): { words: string; isSure: boolean } | undefined {
  if (failure.kind !== "missing" || !("job" in source)) return undefined;
  const since = (seconds = Number.POSITIVE_INFINITY) => io.date().getTime() - seconds * 1_000;
  if (since(source.expiresAt) >= 0) return { words: "it has expired there and was removed", isSure: true };
  if (failure.isEmpty && goneWords !== undefined) return { words: goneWords, isSure: false };
  const endedMs = since(source.completedAt);
  return endedMs > maxLagMs
    ? { words: `it was completed ${minutes(endedMs)} ago, and is no longer there`, isSure: false }
    : undefined;
}

/** Where a video may be: the address that a job states may be wrong, such as a path on the server's disk, and its `/content` right. */
function addressesOf(source: Source, { contentOf }: Upstream): string[] {
  if ("finished" in source) return [source.finished];
  const addresses = [source.url, contentOf(source.job)].filter((address) => address !== undefined);
  return [...new Set(addresses)];
}

type FetchOptions = Pick<SaveOptions, "upstream" | "signal">;

/**
 * Fetches a video once; after a failure it removes the partial file, where that can be done. Rejects only when the signal aborts: then the next
 * process replaces the file.
 */
async function fetchVideo(
  address: string,
  file: string,
  { upstream, signal, confirm, ...kinds }: SaveOptions & Kinds,
): Promise<Failure | undefined> {
  const limit = upstream.io.limit(slowMs, signal, new Error(`less than 1 MB came within ${slowMs / 1_000} s`));
  let failure: Failure | undefined;
  let hasPart = false;
  try {
    const opened = await openVideo(address, { upstream, signal: limit.signal });
    confirm();
    if ("kind" in opened) failure = opened;
    else {
      const { reply, isVideo } = await peek(opened);
      hasPart = isVideo;
      failure = await write(reply, file, { onPart: limit.restart, ...kinds });
    }
  } catch (error) {
    const isForbidden = error instanceof Error && "isForbidden" in error;
    failure = { kind: isForbidden ? "address refused" : "trouble", reason: describe(error), hasPart };
  } finally {
    limit.clear();
  }
  if (!failure) return undefined;
  // Another process that has taken over the folder may be writing the file, or have finished it.
  signal.throwIfAborted();
  if (!isConfirmed(confirm)) return failure;
  // A partial file would keep a full disk full. One that cannot be removed is no reason to give up the video: the next try replaces it.
  await rm(file, { force: true }).catch(() => {});
  return failure;
}

function isConfirmed(confirm: () => void): boolean {
  try {
    confirm();
    return true;
  } catch {
    return false;
  }
}

/** Writes a reply to a file, each chunk at once, as `Io["fetch"]` wants; calls `onPart` after each megabyte. */
async function write(
  reply: Omit<HttpResponse, "text">,
  path: string,
  { onPart, isOtherKind, seen }: Kinds & { onPart(): void },
): Promise<Failure | undefined> {
  const file = await open(path, "w+");
  try {
    let size = 0;
    const hash = createHash("sha256");
    for await (const chunk of reply.body ?? []) {
      if (Math.floor((size + chunk.byteLength) / partBytes) > Math.floor(size / partBytes)) onPart();
      size += chunk.byteLength;
      if (size > maxBytes) return { kind: "address refused", reason: `it is larger than ${maxBytes / 1e9} GB` };
      hash.update(chunk);
      for (let at = 0; at < chunk.byteLength; ) at += writeSync(file.fd, chunk, at);
    }
    const isLengthKnown = reply.headers.get("Content-Length") !== null;
    const fault = await faultOfMp4(file, { isLengthKnown });
    // Without a length, a fragmented video that ends after a whole fragment counts as whole: a provider's proxy hardly cuts it exactly there.
    if (!fault || fault.noLength === "fragments") return undefined;
    const { reason, isFinished, mayBeVideo, noLength } = fault;
    // A page in place of the video, or an empty file, is temporary.
    if (!isFinished) return { kind: mayBeVideo ? "unfinished" : "not ready", reason };
    const digest = hash.digest("hex");
    // A file of such a kind does not state its length: it is whole when its server states the length, or when a second download is identical.
    if (isOtherKind && noLength && (isLengthKnown || digest === seen)) return undefined;
    return { kind: "fault", reason, digest };
  } finally {
    await file.close();
  }
}

const missingStatuses = [404, 410];
const notReadyStatuses = [400, 409, 422];
const temporaryStatuses = [408, 425, 429];

/** GETs a video, over up to 3 redirects. */
async function openVideo(
  address: string,
  { upstream, signal, redirects = 0 }: FetchOptions & { redirects?: number },
): Promise<HttpResponse | Failure> {
  if (isData(address)) return dataResponse(address);
  const reply = await upstream.open(address, signal);
  if (reply.status === 200 || isWhole(reply)) return reply;
  const told = await upstream.read(reply);
  const next = nextAddress(reply, told);
  if (next && redirects < maxRedirects)
    return openVideo(new URL(next, address).href, { upstream, signal, redirects: redirects + 1 });
  const reason = wordsOf(told);
  const { retryAfterMs } = told;
  if (missingStatuses.includes(reply.status))
    return { kind: "missing", reason, isEmpty: told.text === "", isJson: told.json !== undefined };
  if (notReadyStatuses.includes(reply.status)) return { kind: "not ready", reason };
  const isTemporary = temporaryStatuses.includes(reply.status) || reply.status >= 500;
  return { kind: isTemporary ? "trouble" : "denied", reason, retryAfterMs };
}

/** Some servers answer a request for the whole file with 206 and the range of the whole file. */
function isWhole({ status, headers }: HttpResponse): boolean {
  const [, last, size] = /^bytes 0-(\d+)\/(\d+)$/.exec(headers.get("Content-Range") ?? "") ?? [];
  return status === 206 && last !== undefined && Number(last) + 1 === Number(size);
}

function nextAddress({ status, headers }: HttpResponse, told: Reply): string | null {
  // SGLang answers 400 with the address of a video that it has uploaded to its own storage.
  if (status === 400) return findAddressIn(told) ?? null;
  return status >= 300 && status < 400 ? headers.get("Location") : null;
}

/** A server that makes the video at once may send it in its reply. */
function dataResponse(address: string): HttpResponse {
  const bytes = Buffer.from(address.slice(address.indexOf(",") + 1), "base64");
  const body = (async function* () {
    yield bytes;
  })();
  return { status: 200, headers: { get: () => null }, body, text: async () => bytes.toString() };
}
