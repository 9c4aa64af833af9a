import { writeSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { faultOfMp4 } from "../../../client/mp4.ts";
import type { HttpResponse } from "../../../io.ts";
import { jobPath, lookOnce, missingMs } from "./follow.ts";
import { readReply, wordsOf } from "./reply.ts";
import { backOffMs, describe, type Server } from "./server.ts";

const maxBytes = 2_000_000_000;
/** A download that is silent for this long has failed. */
const silenceMs = 60_000;
/** So often a reply that has come as a whole may be no whole .mp4. */
const maxFaults = 3;

/** Where a video is: in a job, at the address that the job tells or else at its `/content`; or at an address. */
export type Source = { job: string; url: string | undefined } | { finished: string };

/**
 * Saves a finished video as `file`. Trouble is survived for as long as the server's time limit allows. Rejects, and leaves no file, when that
 * is over, when the server refuses the video for 30 s, when it is no whole .mp4 three times, and when it is larger than 2 GB.
 */
export async function save(source: Source, file: string, server: Server, signal: AbortSignal): Promise<void> {
  const { io, url, timeoutMs } = server;
  const start = io.now();
  let [address, faults] = [addressOf(source, server), 0];
  try {
    for (let failures = 0; ; failures++) {
      const failure = await fetchVideo(address, file, server, signal);
      if (!failure) return;
      const { kind, reason } = failure;
      if (kind === "fault") faults++;
      const waitedMs = io.now() - start;
      if (kind === "too large" || faults === maxFaults || waitedMs > (kind === "refused" ? missingMs : timeoutMs))
        throw new Error(`${url} made this video, but it cannot be had: ${reason}`);
      await io.sleep(backOffMs(failures), signal);
      address = "job" in source ? await findAddress(source, server, signal) : address;
    }
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
}

function addressOf(source: Source, { url: base }: Server): string {
  if ("finished" in source) return new URL(source.finished, `${base}/`).href;
  const told = source.url !== undefined && URL.canParse(source.url, base) ? new URL(source.url, `${base}/`) : undefined;
  return told && /^https?:$/.test(told.protocol) ? told.href : `${base}${jobPath(source.job)}/content`;
}

/** An address that a job told may have expired: asks for another one. */
async function findAddress(source: Source & { job: string }, server: Server, signal: AbortSignal): Promise<string> {
  const look = await lookOnce(source.job, server, signal);
  return addressOf("trouble" in look ? source : { ...source, url: look.url }, server);
}

/** "refused" may pass, as a job's file may come after its status. */
type Failure = { kind: "trouble" | "refused" | "fault" | "too large"; reason: string };

/** Fetches a video once. Rejects only when the signal aborts. */
async function fetchVideo(
  address: string,
  file: string,
  server: Server,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  const limit = server.io.limit(silenceMs, signal, new Error("its reply stopped"));
  try {
    const reply = await openVideo(address, server, { signal: limit.signal });
    if (reply.status !== 200) {
      const reason = wordsOf(await readReply(reply));
      // SGLang tells the address of a video that it has put into a store of its own.
      const [elsewhere] = /https?:\/\/[^\s"']+/.exec(reason) ?? [];
      if (reply.status === 400 && elsewhere !== undefined && elsewhere !== address)
        return await fetchVideo(elsewhere, file, server, signal);
      return { kind: reply.status < 500 && reply.status !== 429 ? "refused" : "trouble", reason };
    }
    return await write(reply, file, limit.restart);
  } catch (error) {
    signal.throwIfAborted();
    return { kind: "trouble", reason: describe(error) };
  } finally {
    limit.clear();
  }
}

/** Writes a reply to a file, each chunk at once, as `Io["fetch"]` wants. */
async function write(reply: HttpResponse, path: string, onChunk: () => void): Promise<Failure | undefined> {
  const file = await open(path, "w+");
  try {
    let size = 0;
    for await (const chunk of reply.body ?? []) {
      onChunk();
      size += chunk.byteLength;
      if (size > maxBytes) return { kind: "too large", reason: `it is larger than ${maxBytes / 1e9} GB` };
      for (let at = 0; at < chunk.byteLength; ) at += writeSync(file.fd, chunk, at);
    }
    const fault = await faultOfMp4(file, { isLengthKnown: reply.headers.get("Content-Length") !== null });
    return fault && { kind: "fault", reason: fault.reason };
  } finally {
    await file.close();
  }
}

/**
 * GETs a video. An address on the server's own host is trusted like the server, and gets its key where the origin is the same; any other is
 * fetched by the rules for addresses that others chose.
 */
async function openVideo(
  address: string,
  server: Server,
  { signal, redirects = 3 }: { signal: AbortSignal; redirects?: number },
): Promise<HttpResponse> {
  const [url, own] = [new URL(address), new URL(server.url)];
  if (url.protocol === "data:") return dataResponse(address);
  if (url.hostname !== own.hostname) return server.io.open(address, { signal, accept: "video/mp4" });
  const headers = { ...(url.origin === own.origin ? server.headers : {}), "Accept-Encoding": "identity" };
  const reply = await server.io.fetch(address, { headers, signal });
  const location = reply.headers.get("Location");
  if (reply.status < 300 || reply.status > 399 || location === null || redirects === 0) return reply;
  await readReply(reply);
  return openVideo(new URL(location, url).href, server, { signal, redirects: redirects - 1 });
}

/** A server that makes the video at once may send it in its reply. */
function dataResponse(address: string): HttpResponse {
  const bytes = Buffer.from(address.slice(address.indexOf(",") + 1), "base64");
  const body = (async function* () {
    yield bytes;
  })();
  return { status: 200, headers: { get: () => null }, body, text: async () => bytes.toString() };
}
