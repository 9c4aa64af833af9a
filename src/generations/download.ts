import type { FileHandle } from "node:fs/promises";
import { backoffMs, isTransient, retryAfterMs } from "../api/retry.ts";
import { VidgenError } from "../errors.ts";
import type { Clock, Io } from "../io.ts";
import { describeFailure } from "./look.ts";
import { faultOfMp4 } from "./mp4.ts";
import { outputError } from "./target.ts";

export type DownloadOptions = {
  signal: AbortSignal;
  /** Asks for the address once more, when the first one has expired. */
  freshUrl(): Promise<string>;
  /** `total` is `undefined` where the media address does not say. Both in bytes. */
  onProgress(received: number, total: number | undefined): void;
  onNote(text: string): void;
};

type Outcome =
  | { kind: "whole" }
  | { kind: "trouble"; reason: string; waitMs?: number | undefined }
  | { kind: "expired"; reason: string };

const mostTries = 10;
const mostRedirects = 5;
/** A body of which no byte comes for this long is given up and fetched again. */
const stallMs = 30_000;

/**
 * Fetches a video into an open file, from the start after each failure, until it is a whole .mp4. The address gets no Authorization
 * header. Throws `output` when it cannot be had or written, or the signal's reason.
 */
export async function download(
  url: string,
  file: FileHandle,
  options: DownloadOptions,
  io: Clock & Pick<Io, "fetch">,
): Promise<void> {
  let from = url;
  let isFresh = false;
  for (let tries = 1; ; tries++) {
    const outcome = await fetchOnce(from, file, options, io);
    if (outcome.kind === "whole") return;
    if (outcome.kind === "expired") {
      if (isFresh) throw new VidgenError("output", `The video's address has expired: ${outcome.reason}.`);
      isFresh = true;
      from = await options.freshUrl();
      continue;
    }
    if (tries >= mostTries) throw new VidgenError("output", `The video could not be fetched: ${outcome.reason}.`);
    if (tries === 2) options.onNote(`The video is hard to fetch (${outcome.reason}); still trying.`);
    await io.sleep(Math.max(outcome.waitMs ?? 0, backoffMs(tries)), options.signal);
  }
}

async function fetchOnce(
  url: string,
  file: FileHandle,
  options: DownloadOptions,
  io: Clock & Pick<Io, "fetch">,
): Promise<Outcome> {
  const stall = createStall(options.signal, io);
  try {
    const response = await fetchMedia(url, stall.signal, io);
    const { status } = response;
    if (status !== 200) {
      await response.body?.cancel();
      return judgeStatus(status, response.headers.get("Retry-After"), io);
    }
    await writeBody(response, file, options, stall.rewind);
    const fault = await onDisk(faultOfMp4(file));
    return fault === undefined
      ? { kind: "whole" }
      : { kind: "trouble", reason: `what came is not a whole video, ${fault}` };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (error instanceof VidgenError) throw error;
    return { kind: "trouble", reason: describeFailure(error) };
  } finally {
    stall.clear();
  }
}

function judgeStatus(status: number, retryAfter: string | null, io: Clock): Outcome {
  const reason = `HTTP ${status}`;
  if (isTransient(status)) return { kind: "trouble", reason, waitMs: retryAfterMs(retryAfter, io.date()) };
  if ([401, 403, 404, 410].includes(status)) return { kind: "expired", reason };
  throw new VidgenError("output", `The video's address answers ${reason}.`, { httpStatus: status });
}

/** GET with the few redirects that media addresses use; from https only to https. */
async function fetchMedia(url: string, signal: AbortSignal, io: Pick<Io, "fetch">): Promise<Response> {
  let at = url;
  for (let redirects = 0; ; redirects++) {
    const response = await io.fetch(at, { signal, redirect: "manual", headers: { "Accept-Encoding": "identity" } });
    const location = response.headers.get("Location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return response;
    await response.body?.cancel();
    if (redirects === mostRedirects) throw new VidgenError("output", "The video's address redirects too often.");
    if (!URL.canParse(location, at)) throw new VidgenError("output", "The video's address redirects to no address.");
    const next = new URL(location, at);
    const isAllowed = next.protocol === "https:" || (next.protocol === "http:" && at.startsWith("http:"));
    if (!isAllowed) throw new VidgenError("output", "The video's address redirects to one that is not secure.");
    at = next.href;
  }
}

async function writeBody(
  response: Response,
  file: FileHandle,
  options: DownloadOptions,
  onBytes: () => void,
): Promise<void> {
  const length = response.headers.get("Content-Length");
  const total = length !== null && /^\d+$/.test(length) ? Number(length) : undefined;
  let received = 0;
  await onDisk(file.truncate(0));
  for await (const chunk of response.body ?? []) {
    onBytes();
    for (let done = 0; done < chunk.byteLength; ) {
      const { bytesWritten } = await onDisk(file.write(chunk, done, chunk.byteLength - done, received + done));
      done += bytesWritten;
    }
    received += chunk.byteLength;
    options.onProgress(received, total);
  }
  if (total !== undefined && received !== total) throw new Error(`it broke off after ${received} of ${total} bytes`);
}

/** Aborts when nothing has come for a while. */
function createStall(parent: AbortSignal, clock: Clock) {
  const controller = new AbortController();
  let limit = startLimit();
  function startLimit() {
    const next = clock.limit(stallMs, parent, new Error("nothing came for 30 s"));
    next.signal.addEventListener("abort", () => controller.abort(next.signal.reason), { once: true });
    if (next.signal.aborted) controller.abort(next.signal.reason);
    return next;
  }
  let since = clock.now();
  const rewind = () => {
    if (clock.now() - since < 1_000) return;
    since = clock.now();
    limit.clear();
    limit = startLimit();
  };
  return { signal: controller.signal, rewind, clear: () => limit.clear() };
}

/** A failure to write, as against one to read from the network, is final: fetching again does not mend it. */
function onDisk<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error) => {
    throw outputError(error, "the video");
  });
}
