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

/** Where a video is: in a job, at the address that the job tells or else at its `/content`; or at an address. */
export type Source =
  | ({ job: string } & Pick<Job, "url" | "isOtherKind" | "completedAt" | "expiresAt" | "noFileWords">)
  | { finished: string };

/** `confirm` throws when another process may be writing the file, because this one was suspended. */
export type SaveOptions = Pick<RenderOptions, "signal" | "confirm" | "releaseSlot"> & { upstream: Upstream };

/** The video of a job that ended longer ago was there, and is not about to come. */
const maxLagMs = 3_600_000;

/** After so many failures in a row, the owner is told. */
const worryingFailures = 3;
const maxRefused = 3;

/**
 * Saves a finished video as `file`. It was made, and may have been paid for, so it is fetched again as long as that can help: trouble is survived
 * without end, and a server that has no video, or does not show it, is asked for as long as the upstream's time limit, from the address that the
 * job tells and from its `/content` in turn. A file of another kind is the video where its server says so. Rejects, and leaves no file, when that is over; with `output` when no other try helps: the server
 * has removed it after its time, or no longer knows its job; it is the same file, and no .mp4, a minute later; it is larger than 2 GB; or the
 * rules for addresses that others chose refuse its address. What is no trouble for the engine keeps its slot for a minute at most.
 */
export async function save(source: Source, file: string, options: SaveOptions): Promise<void> {
  const { upstream, signal, releaseSlot } = options;
  const { io, name } = upstream;
  const startedAt = io.now();
  const patience = createDownloadPatience(upstream);
  /** Addresses that no other try helps at. */
  const refused = new Map<string, Failure>();
  let told = addressesOf(source, upstream);
  let noFileWords = "job" in source ? source.noFileWords : undefined;
  for (let tries = 1; ; tries++) {
    const addresses = told.filter((address) => !refused.has(address));
    const address = addresses[(tries - 1) % addresses.length] ?? told[0];
    const kinds = { isOtherKind: "job" in source && source.isOtherKind === true, seen: patience.seen() };
    const failure = await tryAddress(address, file, { ...options, ...kinds, words: noFileWords });
    if (!failure) return upstream.report(undefined);
    if (failure.kind === "final" && address !== undefined) refused.set(address, failure);
    const removed = findRemoval(failure, source, upstream);
    const isGone = removed !== undefined || refused.size > 0;
    const { over, isSoon, waitMs } = patience.judge(failure, { isGone, hasNoFile: noFileWords !== undefined });
    // An address may be signed anew for each look.
    const isFixed = refused.size >= maxRefused || (told.length > 0 && told.every((each) => refused.has(each)));
    // What a told address is refused for says more than a /content that is not there.
    const { reason } = refused.get(told[0] ?? "") ?? failure;
    const where = refused.has(told[0] ?? "") ? told[0] : address;
    const place = where === undefined || isData(where) ? "" : ` from ${clean(where)}`;
    const words = over === "no file" ? noFileWords : removed?.words;
    if (over || isFixed || removed?.isSure)
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
    // The address that a job told may have expired: another look may tell a new one.
    if (!isTrouble) noFileWords = look.noFileWords;
    if (!isTrouble && isCompleted(look)) told = addressesOf({ ...source, url: look.url }, upstream);
    patience.look({ isMissing: isTrouble && look.isMissing, hasNoFile: noFileWords !== undefined });
  }
}

const goldenRatio = (Math.sqrt(5) - 1) / 2;

/**
 * Whether the video is asked for again without a look before. A balancer that goes round its replicas would meet looks and downloads in turn with
 * the same ones for ever: their order, by an irrational number, has no period that it could fall into step with.
 */
function isRepeated(tries: number): boolean {
  return (tries * goldenRatio) % 1 < 0.5;
}

const noAddress: Failure = { kind: "nowhere", reason: "it says that this video is ready, but not where it is" };

/** Whether the file is one of another kind than .mp4, and the digest of such a file that came before. */
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

/** Where a video may be: what a job tells may be wrong, such as a path on the server's disk, and its `/content` right. */
function addressesOf(source: Source, { contentOf }: Upstream): string[] {
  if ("finished" in source) return [source.finished];
  const addresses = [source.url, contentOf(source.job)].filter((address) => address !== undefined);
  return [...new Set(addresses)];
}

type FetchOptions = Pick<SaveOptions, "upstream" | "signal">;

/** Fetches a video once, and leaves no file without it. Rejects only when the signal aborts: then the next process replaces the file. */
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
    failure = { kind: isForbidden ? "final" : "trouble", reason: describe(error), hasPart };
  } finally {
    limit.clear();
  }
  if (!failure) return undefined;
  // Another process that has taken over the folder may be writing the file, or have finished it.
  signal.throwIfAborted();
  if (!isConfirmed(confirm)) return failure;
  // A partial file would keep a full disk full.
  await rm(file, { force: true });
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
      if (size > maxBytes) return { kind: "final", reason: `it is larger than ${maxBytes / 1e9} GB` };
      hash.update(chunk);
      for (let at = 0; at < chunk.byteLength; ) at += writeSync(file.fd, chunk, at);
    }
    const isLengthKnown = reply.headers.get("Content-Length") !== null;
    const fault = await faultOfMp4(file, { isLengthKnown });
    // A provider's proxy is none that cuts a video between two fragments.
    if (!fault || fault.noLength === "fragments") return undefined;
    const { reason, isFinished, mayBeVideo, noLength } = fault;
    // A page in place of the video, or an empty file, passes.
    if (!isFinished) return { kind: mayBeVideo ? "unfinished" : "not ready", reason };
    const digest = hash.digest("hex");
    // It does not say itself how long it is: it came whole when its server says so, or when it came twice.
    if (isOtherKind && noLength && (isLengthKnown || digest === seen)) return undefined;
    return { kind: "fault", reason, digest };
  } finally {
    await file.close();
  }
}

const missingStatuses = [404, 410];
const notReadyStatuses = [400, 409, 422];
const passingStatuses = [408, 425, 429];

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
  const isPassing = passingStatuses.includes(reply.status) || reply.status >= 500;
  return { kind: isPassing ? "trouble" : "denied", reason, retryAfterMs };
}

/** Some servers answer a request for the whole file as one for a part that covers it. */
function isWhole({ status, headers }: HttpResponse): boolean {
  const [, last, size] = /^bytes 0-(\d+)\/(\d+)$/.exec(headers.get("Content-Range") ?? "") ?? [];
  return status === 206 && last !== undefined && Number(last) + 1 === Number(size);
}

function nextAddress({ status, headers }: HttpResponse, told: Reply): string | null {
  // SGLang answers so for a video that it has put into a store of its own.
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
