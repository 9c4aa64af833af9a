import { writeSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { faultOfMp4 } from "../../../client/mp4.ts";
import type { HttpResponse } from "../../../io.ts";
import { lookOnce, missingMs, missingPollMs } from "./follow.ts";
import { findAddressIn, type Job, type Reply, wordsOf } from "./reply.ts";
import { backOffMs, describe, minutes, type Upstream } from "./upstream.ts";

const maxBytes = 2_000_000_000;
/** A download has failed when this much of it takes longer than `slowMs`. */
const partBytes = 1_000_000;
const slowMs = 60_000;
/** So often a reply that has come as a whole may be no whole .mp4. */
const maxFaults = 3;
const maxRedirects = 3;

/** Where a video is: in a job, at the address that the job tells or else at its `/content`; or at an address. */
export type Source = ({ job: string } & Pick<Job, "url" | "completedAt" | "expiresAt">) | { finished: string };

/**
 * Why there is no video. "not ready" and "missing": its file may come after the job's status, and a replica may not have it. "final": no other
 * try helps.
 */
type Failure = { kind: "trouble" | "not ready" | "missing" | "fault" | "final"; reason: string };

/** The video of a job that ended longer ago was there, and is not about to come. */
const maxLagMs = 3_600_000;

/**
 * Saves a finished video as `file`. Trouble is survived for as long as the server's time limit allows. Rejects, and leaves no file, when that
 * is over, when the server has no video for 30 s or has removed it after its time, when it is no whole .mp4 three times, when it is larger than
 * 2 GB, and when the rules for addresses that others chose refuse its address.
 */
export async function save(source: Source, file: string, upstream: Upstream, signal: AbortSignal): Promise<void> {
  const { io, name, patienceMs } = upstream;
  const start = io.now();
  let notReadyAt: number | undefined;
  let address = addressOf(source, upstream);
  for (let failures = 0, faults = 0; ; failures++) {
    const failure = await fetchVideo(address, file, { upstream, signal });
    if (!failure) return;
    const { kind, reason } = failure;
    if (kind === "fault") faults++;
    const isAbsent = kind === "not ready" || kind === "missing";
    notReadyAt = isAbsent ? (notReadyAt ?? io.now()) : undefined;
    const isOver = io.now() - start > patienceMs || (notReadyAt !== undefined && io.now() - notReadyAt >= missingMs);
    const removed = kind === "missing" && "job" in source ? findRemoval(source, io.date()) : undefined;
    if (kind === "final" || faults === maxFaults || isOver || removed?.isSure)
      throw new Error(
        `${name} made this video, but it could not be downloaded: ${removed ? `${removed.words} (${reason})` : reason}`,
      );
    await io.sleep(isAbsent ? missingPollMs : backOffMs(failures), signal);
    address = "job" in source ? await findAddress(source, upstream, signal) : address;
  }
}

/** Why a completed job may have no video any more. It is sure only with the server's own word: another replica may have the job. */
function findRemoval({ completedAt, expiresAt }: Pick<Job, "completedAt" | "expiresAt">, date: Date) {
  const since = (seconds: number | undefined) => date.getTime() - (seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  if (since(expiresAt) >= 0) return { words: "its time there is over, and it was removed", isSure: true };
  return since(completedAt) > maxLagMs
    ? { words: `it was made ${minutes(since(completedAt))} ago, and is no longer there`, isSure: false }
    : undefined;
}

function addressOf(source: Source, { name, contentOf }: Upstream): string {
  if ("finished" in source) return source.finished;
  const address = source.url ?? contentOf(source.job);
  if (address === undefined) throw new Error(`${name} says that this video is made, but not where it is`);
  return address;
}

/** An address that a job told may have expired: asks for another one. */
async function findAddress(source: Source & { job: string }, upstream: Upstream, signal: AbortSignal): Promise<string> {
  const look = await lookOnce(source.job, upstream, signal);
  if ("trouble" in look && look.isFinal) throw new Error(look.trouble);
  return addressOf("trouble" in look ? source : { ...source, url: look.url }, upstream);
}

type FetchOptions = { upstream: Upstream; signal: AbortSignal };

/** Fetches a video once, and leaves no file without it. Rejects only when the signal aborts: then the next process replaces the file. */
async function fetchVideo(
  address: string,
  file: string,
  { upstream, signal }: FetchOptions,
): Promise<Failure | undefined> {
  const limit = upstream.io.limit(slowMs, signal, new Error(`less than 1 MB came within ${slowMs / 1_000} s`));
  let failure: Failure | undefined;
  try {
    const reply = await openVideo(address, { upstream, signal: limit.signal });
    failure = "kind" in reply ? reply : await write(reply, file, limit.restart);
  } catch (error) {
    const isForbidden = error instanceof Error && "isForbidden" in error;
    failure = { kind: isForbidden ? "final" : "trouble", reason: describe(error) };
  } finally {
    limit.clear();
  }
  if (!failure) return undefined;
  // Another process that has taken over the folder may be writing the file.
  signal.throwIfAborted();
  // A partial file would keep a full disk full.
  await rm(file, { force: true });
  return failure;
}

/** Writes a reply to a file, each chunk at once, as `Io["fetch"]` wants; calls `onPart` after each megabyte. */
async function write(reply: HttpResponse, path: string, onPart: () => void): Promise<Failure | undefined> {
  const file = await open(path, "w+");
  try {
    let size = 0;
    for await (const chunk of reply.body ?? []) {
      if (Math.floor((size + chunk.byteLength) / partBytes) > Math.floor(size / partBytes)) onPart();
      size += chunk.byteLength;
      if (size > maxBytes) return { kind: "final", reason: `it is larger than ${maxBytes / 1e9} GB` };
      for (let at = 0; at < chunk.byteLength; ) at += writeSync(file.fd, chunk, at);
    }
    const fault = await faultOfMp4(file, { isLengthKnown: reply.headers.get("Content-Length") !== null });
    return fault && { kind: "fault", reason: fault.reason };
  } finally {
    await file.close();
  }
}

const missingStatuses = [404, 410];
const notReadyStatuses = [400, 409, 422];

/** GETs a video, over up to 3 redirects. */
async function openVideo(
  address: string,
  { upstream, signal, redirects = 0 }: FetchOptions & { redirects?: number },
): Promise<HttpResponse | Failure> {
  if (isData(address)) return dataResponse(address);
  const reply = await upstream.open(address, signal);
  if (reply.status === 200) return reply;
  const told = await upstream.read(reply);
  const next = nextAddress(reply, told);
  if (next && redirects < maxRedirects)
    return openVideo(new URL(next, address).href, { upstream, signal, redirects: redirects + 1 });
  const reason = wordsOf(told);
  if (missingStatuses.includes(reply.status)) return { kind: "missing", reason };
  return { kind: notReadyStatuses.includes(reply.status) ? "not ready" : "trouble", reason };
}

function nextAddress({ status, headers }: HttpResponse, told: Reply): string | null {
  // SGLang answers so for a video that it has put into a store of its own.
  if (status === 400) return findAddressIn(told) ?? null;
  return status >= 300 && status < 400 ? headers.get("Location") : null;
}

function isData(address: string): boolean {
  return address.startsWith("data:");
}

/** A server that makes the video at once may send it in its reply. */
function dataResponse(address: string): HttpResponse {
  const bytes = Buffer.from(address.slice(address.indexOf(",") + 1), "base64");
  const body = (async function* () {
    yield bytes;
  })();
  return { status: 200, headers: { get: () => null }, body, text: async () => bytes.toString() };
}
