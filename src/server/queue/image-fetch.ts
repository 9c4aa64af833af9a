import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { systemCode } from "../../errors.ts";
import { createMutex, type Mutex } from "../../mutex.ts";
import { retryAfterMs } from "../../protocol/status.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { createBoundedMap } from "../bounded-map.ts";
import type { Capacity } from "../capacity.ts";
import type { ImageFile } from "../engines/engine.ts";
import type { MediaStore } from "../media/media-store.ts";
import { readData } from "../media/picture.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { Get } from "../outbound/outbound.ts";
import type { ServiceParts } from "../service-parts.ts";
import { fetchedFiles, type ImageFetch } from "../store/generations.ts";
import { checkImage, imageName, maxBytes } from "./images.ts";

/** The maximum for all fetched images of a generation. */
const maxTotalBytes = 100_000_000;
/** For how long the images of a generation are asked for, from the first try. */
export const patienceMs = 5 * 60_000;
const firstRetryMs = 5_000;
const maxRetryMs = 60_000;
/** The maximum number of hosts whose last failure is remembered. */
const maxHosts = 1_000;

/** `account` owns the generation. */
export type FetchOptions = Pick<ServiceParts, "videos" | "clock"> & { get: Get; account: string; signal: AbortSignal };

/**
 * Fetches the images of a generation (the interface's `imageUrl`, and others) that are not `data:` addresses, one after the other, and keeps them
 * in the media store. Resolves with their names there, by place. Each image must be a PNG, JPEG or WebP of at most 20 MB and, by its header, 50
 * megapixels. Rejects, and keeps none, with an Error whose message becomes the generation's `error`; `nextTry` says whether to try again.
 */
export async function fetchImages(
  sources: readonly string[],
  options: FetchOptions,
): Promise<Extract<ImageFetch, { files: unknown }>> {
  const files: (string | null)[] = [];
  let totalBytes = 0;
  try {
    for (const source of sources) {
      const bytes = isDataUrl(source) ? undefined : await fetchImage(source, options);
      totalBytes += bytes?.length ?? 0;
      if (totalBytes > maxTotalBytes)
        throw new Error(`the images are larger than ${maxTotalBytes / 1_000_000} MB together`);
      files.push(bytes ? await options.videos.keepImage(bytes, options.signal) : null);
    }
    return { files };
  } catch (error) {
    await removeImages({ files }, options);
    throw error;
  }
}

/** Removes the fetched images of a generation. A file that cannot be removed now is removed later (see `createImageCleaner`). */
export async function removeImages(
  imageFetch: ImageFetch | undefined,
  { videos }: { videos: Pick<MediaStore, "remove"> },
): Promise<void> {
  for (const file of fetchedFiles(imageFetch)) await videos.remove(file).catch(() => {});
}

/**
 * Returns when to ask again for images whose fetching has failed; `undefined` if a host has refused them, has failed for 5 minutes since the first
 * try, or asks to wait for longer than that. The waits grow from 5 to 60 seconds.
 */
export function nextTry(error: unknown, { since, now }: { since: Date; now: Date }): Date | undefined {
  const { isFailing = isUnavailable(error), waitMs = 0 }: { isFailing?: boolean; waitMs?: number } = Object(error);
  const passedMs = now.getTime() - since.getTime();
  const leftMs = patienceMs - passedMs;
  const nextMs = Math.max(waitMs, Math.min(passedMs + firstRetryMs, maxRetryMs, leftMs));
  return isFailing && leftMs > 0 && nextMs <= leftMs ? new Date(now.getTime() + nextMs) : undefined;
}

/** Wraps `get`: a host whose last request has failed gets one request at a time. */
export function limitFailing(get: Get): Get {
  const hosts = createBoundedMap<{ inTurn: Mutex; isFailing: boolean }>(maxHosts);
  return async (url, options) => {
    const { host } = new URL(url);
    const note = (isFailing: boolean) => {
      const known = hosts.get(host);
      if (known) known.isFailing = isFailing;
      else if (isFailing) hosts.set(host, { inTurn: createMutex(), isFailing });
    };
    const ask = async () => {
      const reply = await get(url, options).catch((error) => {
        if (!options.signal.aborted) note(!("isFinal" in Object(error)));
        throw error;
      });
      note(isFailure(reply.status));
      return reply;
    };
    const known = hosts.get(host);
    return known?.isFailing ? known.inTurn(ask, options.signal) : ask();
  };
}

export type SaveOptions = FetchOptions & {
  folder: string;
  /** Limits how many generations have their images in memory at once. */
  loading: Capacity;
};

/**
 * Saves the images of a generation in a new folder: those of `data:` addresses, and those that were fetched, by their names in the media store.
 * Images that cannot be read there are fetched again, for up to 5 minutes. Rejects as `fetchImages` does.
 */
export async function saveImages(
  readSources: () => Promise<readonly string[]>,
  imageFetch: ImageFetch | undefined,
  { folder, loading, ...options }: SaveOptions,
): Promise<ImageFile[]> {
  const saved: ImageFile[] = [];
  const save = async (place: number, source: string, bytes: Uint8Array) => {
    const name = imageName(source);
    const image = checkImage(bytes, name);
    const path = join(folder, `${place}.${image.format}`);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(path, bytes);
    saved[place] = { ...image, name, path };
  };
  const files = imageFetch && "files" in imageFetch ? imageFetch.files : [];
  const missing: [place: number, source: string][] = [];
  await loading(1, async () => {
    for (const [place, source] of (await readSources()).entries()) {
      const bytes = isDataUrl(source) ? readData(source, imageName(source)) : await readKept(files[place], options);
      if (bytes) await save(place, source, bytes);
      else missing.push([place, source]);
    }
  });
  const since = options.clock.date();
  for (const [place, source] of missing) await save(place, source, await fetchPatiently(source, since, options));
  return saved;
}

/** Reads a fetched image; `undefined` if it is missing, or cannot be read. */
async function readKept(
  file: string | null | undefined,
  { videos }: Pick<FetchOptions, "videos">,
): Promise<Uint8Array | undefined> {
  if (typeof file !== "string") return undefined;
  const body = await videos.read(file).catch(() => undefined);
  return body && buffer(body).catch(() => undefined);
}

async function fetchPatiently(source: string, since: Date, options: FetchOptions): Promise<Uint8Array> {
  for (;;) {
    try {
      return await fetchImage(source, options);
    } catch (error) {
      const now = options.clock.date();
      const next = nextTry(error, { since, now });
      if (!next) throw error;
      await options.clock.sleep(next.getTime() - now.getTime(), options.signal);
    }
  }
}

async function fetchImage(url: string, { get, account, clock, signal }: FetchOptions): Promise<Uint8Array> {
  const name = imageName(url);
  const { status, retryAfter, body } = await get(url, { account, signal, maxBytes }).catch((error: unknown) => {
    signal.throwIfAborted();
    const isFailing = !("isFinal" in Object(error));
    const failed = new Error(`${name} could not be fetched: ${reasonOf(error)}`, { cause: error });
    throw Object.assign(failed, { isFailing });
  });
  if (status !== 200) {
    const waitMs = retryAfterMs(retryAfter ?? null, clock.date());
    const isFailing = isFailure(status);
    throw Object.assign(new Error(`${name} responded with HTTP ${status}`), { isFailing, waitMs });
  }
  checkImage(body, name);
  return body;
}

/** Whether the same request may succeed later. */
function isFailure(status: number): boolean {
  return status === 429 || status >= 500;
}

const unknownNameCodes = ["ENOTFOUND", "EAI_AGAIN", "ENODATA"];

/** Says the same of a forbidden host and of one that does not exist; otherwise an account could find out which names the service's network has. */
function reasonOf(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const isNameless = "isForbidden" in error || unknownNameCodes.includes(systemCode(error) ?? "");
  return isNameless ? "its host has no address that may be used" : error.message;
}
