import { writeSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { isData } from "../../../client/http/url.ts";
import { faultOfMp4 } from "../../../client/save/mp4.ts";
import { VidgenError } from "../../../errors.ts";
import type { HttpResponse } from "../../../io.ts";
import type { RenderOptions } from "../engine.ts";
import { isCompleted, lookOnce, missingMs, missingPollMs } from "./follow.ts";
import { clean, findAddressIn, type Job, type Reply, wordsOf } from "./reply.ts";
import { backOffMs, createAbsence, describe, minutes, type Trouble, type Upstream } from "./upstream.ts";

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
 * Why there is no video. "trouble" is that of the network, of a server or of this machine, which passes. "not ready" and "missing": its file may
 * come after the job's status, and a replica may not have it. "denied": the server does not show it, which a new address may change. "final": no
 * other try helps.
 */
type Failure = {
  kind: "trouble" | "not ready" | "missing" | "denied" | "fault" | "final";
  reason: string;
  retryAfterMs?: number | undefined;
};

/** `confirm` throws when another process may be writing the file, because this one was suspended. */
export type SaveOptions = Pick<RenderOptions, "signal" | "confirm"> & { upstream: Upstream };

/** The video of a job that ended longer ago was there, and is not about to come. */
const maxLagMs = 3_600_000;

/** After so many failures in a row, the owner is told. */
const worryingFailures = 3;

/**
 * Saves a finished video as `file`. It was made, and may have been paid for, so it is fetched again as long as that can help: trouble is survived
 * without end, and a server that has no video, or does not show it, is asked for as long as the upstream's time limit. Rejects, and leaves no
 * file, when that is over; with `output` when no other try helps: the server has removed it after its time, or no longer knows its job; it is no
 * whole .mp4 three times; it is larger than 2 GB; or the rules for addresses that others chose refuse its address.
 */
export async function save(source: Source, file: string, options: SaveOptions): Promise<void> {
  const { upstream, signal } = options;
  const { io, name, patienceMs } = upstream;
  let absentAt: number | undefined;
  const [absence, forgetting] = [createAbsence(io), createAbsence(io)];
  let [isForgotten, forgottenMs] = [false, 0];
  let address = addressOf(source, upstream);
  for (let failures = 1, faults = 0; ; failures++) {
    const failure = await fetchVideo(address, file, options);
    if (!failure) return upstream.report(undefined);
    const { kind, reason, retryAfterMs } = failure;
    const place = isData(address) ? "" : ` from ${clean(address)}`;
    if (kind === "fault") faults++;
    const isAbsent = ["not ready", "missing", "denied"].includes(kind);
    absentAt = isAbsent ? (absentAt ?? io.now()) : undefined;
    const absentMs = io.now() - (absentAt ?? io.now());
    const removed = kind === "missing" && "job" in source ? findRemoval(source, io.date()) : undefined;
    // Looks that come rarely, as they do after other trouble, may meet the same wrong replica twice.
    if (!isAbsent) [isForgotten, forgottenMs] = [false, forgetting(false)];
    const isGone = absence(isAbsent) >= missingMs && removed !== undefined;
    const isOver = isAbsent && (forgottenMs >= missingMs || isGone || absentMs >= patienceMs);
    if (kind === "final" || faults === maxFaults || isOver || removed?.isSure)
      throw new VidgenError(
        "output",
        `${name} generated this video, but it could not be downloaded${place}: ${removed ? `${removed.words} (${reason})` : reason}`,
      );
    const isSoon = isAbsent && (isForgotten || (kind !== "denied" && absentMs < missingMs));
    if (!isSoon && failures >= worryingFailures)
      upstream.report(`${name} generated a video that cannot be downloaded yet${place}: ${reason}. Retrying.`);
    await io.sleep(isSoon ? missingPollMs : backOffMs(failures - 1, retryAfterMs), signal);
    if (!("job" in source)) continue;
    const look = await lookOnce(source.job, upstream, signal);
    isForgotten = "trouble" in look && look.isMissing;
    forgottenMs = forgetting(isForgotten);
    address = readdress(source, look, upstream);
  }
}

/** Why a completed job may have no video any more. It is sure only with the server's own word: another replica may have the job. */
function findRemoval({ completedAt, expiresAt }: Pick<Job, "completedAt" | "expiresAt">, date: Date) {
  const since = (seconds: number | undefined) => date.getTime() - (seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  if (since(expiresAt) >= 0) return { words: "it has expired there and was removed", isSure: true };
  return since(completedAt) > maxLagMs
    ? { words: `it was completed ${minutes(since(completedAt))} ago, and is no longer there`, isSure: false }
    : undefined;
}

function addressOf(source: Source, { name, contentOf }: Upstream): string {
  if ("finished" in source) return source.finished;
  const address = source.url ?? contentOf(source.job);
  if (address === undefined) throw new Error(`${name} says that this video is ready, but not where it is`);
  return address;
}

/** The address that a job told may have expired: another look may tell a new one. */
function readdress(source: Source & { job: string }, look: Job | Trouble, upstream: Upstream): string {
  return addressOf("trouble" in look || !isCompleted(look) ? source : { ...source, url: look.url }, upstream);
}

type FetchOptions = Omit<SaveOptions, "confirm">;

/** Fetches a video once, and leaves no file without it. Rejects only when the signal aborts: then the next process replaces the file. */
async function fetchVideo(
  address: string,
  file: string,
  { upstream, signal, confirm }: SaveOptions,
): Promise<Failure | undefined> {
  const limit = upstream.io.limit(slowMs, signal, new Error(`less than 1 MB came within ${slowMs / 1_000} s`));
  let failure: Failure | undefined;
  try {
    const reply = await openVideo(address, { upstream, signal: limit.signal });
    confirm();
    failure = "kind" in reply ? reply : await write(reply, file, limit.restart);
  } catch (error) {
    const isForbidden = error instanceof Error && "isForbidden" in error;
    failure = { kind: isForbidden ? "final" : "trouble", reason: describe(error) };
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
const passingStatuses = [408, 425, 429];

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
  const { retryAfterMs } = told;
  if (missingStatuses.includes(reply.status)) return { kind: "missing", reason };
  if (notReadyStatuses.includes(reply.status)) return { kind: "not ready", reason };
  const isPassing = passingStatuses.includes(reply.status) || reply.status >= 500;
  return { kind: isPassing ? "trouble" : "denied", reason, retryAfterMs };
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
