import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { systemCode } from "../../errors.ts";
import { isDataUrl } from "../../protocol/url.ts";
import type { Capacity } from "../capacity.ts";
import type { ImageFile } from "../engines/engine.ts";
import type { MediaStore } from "../media/media-store.ts";
import { maxMegapixels, pictureFormat, readData, readPictureHeader } from "../media/picture.ts";
import type { Get } from "../outbound/outbound.ts";
import { type RetryForeverOptions, retryForever } from "../retry-forever.ts";
import { type Fetching, fetchedFiles } from "../store/generations.ts";

const maxBytes = 20_000_000;
/** The maximum for all fetched images of a generation. */
const maxTotalBytes = 100_000_000;
/** The limit of JPEG. A PNG may have longer sides, but no renderer accepts them. */
const maxSide = 65_535;

/** `account` owns the generation. */
export type FetchOptions = { get: Get; account: string; videos: MediaStore; signal: AbortSignal };

/**
 * Fetches the images of a generation (the interface's `imageUrl`, and others) that are not `data:` addresses, one after the other, and keeps them in the
 * media store. Resolves with their names there, by place. Each image must be a PNG, JPEG or WebP of at most 20 MB and, by its header, 50 megapixels.
 * Rejects, and keeps none, with an Error whose message becomes the generation's `error`.
 */
export async function fetchImages(sources: readonly string[], options: FetchOptions): Promise<Fetching["files"]> {
  const files: Fetching["files"] = [];
  let totalBytes = 0;
  try {
    for (const source of sources) {
      const bytes = isDataUrl(source) ? undefined : await fetchImage(source, options);
      totalBytes += bytes?.length ?? 0;
      if (totalBytes > maxTotalBytes)
        throw new Error(`the images are larger than ${maxTotalBytes / 1_000_000} MB together`);
      files.push(bytes ? await options.videos.keepImage(bytes, options.signal) : null);
    }
    return files;
  } catch (error) {
    await removeImages({ files }, options);
    throw error;
  }
}

/** Removes the fetched images of a generation. A file that cannot be removed now is removed later (see `createImageCleaner`). */
export async function removeImages(
  fetching: Fetching | undefined,
  { videos }: { videos: Pick<MediaStore, "remove"> },
): Promise<void> {
  for (const file of fetchedFiles(fetching)) await videos.remove(file).catch(() => {});
}

export type SaveOptions = FetchOptions &
  RetryForeverOptions & {
    folder: string;
    /** Limits how many generations have their images in memory at once. */
    loading: Capacity;
  };

/**
 * Saves the images of a generation in a new folder: those of `data:` addresses, and those that were fetched, by their names in the media store. An image
 * that is missing there is fetched again. Rejects as `fetchImages` does.
 */
export async function saveImages(
  readSources: () => Promise<readonly string[]>,
  files: Fetching["files"],
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
  const missing: [place: number, source: string][] = [];
  await loading(1, async () => {
    for (const [place, source] of (await readSources()).entries()) {
      const bytes = isDataUrl(source) ? readData(source, imageName(source)) : await readKept(files[place], options);
      if (bytes) await save(place, source, bytes);
      else missing.push([place, source]);
    }
  });
  for (const [place, source] of missing) await save(place, source, await fetchImage(source, options));
  return saved;
}

/** Reads a fetched image; `undefined` if it was never kept, or is missing. */
async function readKept(
  file: string | null | undefined,
  options: Pick<FetchOptions, "videos"> & RetryForeverOptions,
): Promise<Uint8Array | undefined> {
  if (typeof file !== "string") return undefined;
  const read = async () => {
    const body = await options.videos.read(file);
    return body && buffer(body);
  };
  return retryForever(read, { ...options, what: "A fetched image cannot be read" });
}

/** Returns what is wrong with an image, as far as its address or its `data:` address shows that before it is fetched. */
export function findImageFault(
  source: string,
  findAddressFault: (url: string) => string | undefined,
): string | undefined {
  const name = imageName(source);
  if (!isDataUrl(source)) {
    const fault = findAddressFault(source);
    return fault && `${name} cannot be used: ${fault}`;
  }
  try {
    checkImage(readData(source, name), name);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function checkImage(bytes: Uint8Array, name: string): Pick<ImageFile, "format" | "megapixels"> {
  if (bytes.length > maxBytes) throw new Error(`${name} is larger than ${maxBytes / 1_000_000} MB`);
  const format = pictureFormat(bytes);
  if (!format) throw new Error(`${name} is not a PNG, JPEG or WebP image`);
  const header = readPictureHeader(bytes);
  if (!header) throw new Error(`${name} cannot be decoded`);
  if (header.isAnimated) throw new Error(`${name} is animated; a still image is required`);
  checkSize(header, name);
  return { format, megapixels: megapixelsOf(header) };
}

/** Names an image in a message: an address without its query, which may hold a secret, and without the data of a data: URL. */
export function imageName(source: string): string {
  if (isDataUrl(source) || !URL.canParse(source)) return "the image in the data: address";
  const { origin, pathname } = new URL(source);
  const address = `${origin}${pathname}`;
  return `the image at ${address.length > 200 ? `${address.slice(0, 200)}…` : address}`;
}

type Size = { width: number; height: number };

function megapixelsOf({ width, height }: Size): number {
  return (width * height) / 1_000_000;
}

function checkSize({ width, height }: Size, name: string): void {
  const megapixels = megapixelsOf({ width, height });
  if (megapixels > maxMegapixels) {
    throw new Error(`${name} has ${Math.ceil(megapixels)} megapixels, at most ${maxMegapixels}`);
  }
  const longer = Math.max(width, height);
  if (longer > maxSide) throw new Error(`${name} has a side of ${longer} pixels, at most ${maxSide}`);
}

const unknownNameCodes = ["ENOTFOUND", "EAI_AGAIN", "ENODATA"];

/** Says the same of a forbidden host and of one that does not exist; otherwise an account could find out which names the service's network has. */
function reasonOf(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const isNameless = "isForbidden" in error || unknownNameCodes.includes(systemCode(error) ?? "");
  return isNameless ? "its host has no address that may be used" : error.message;
}

async function fetchImage(
  url: string,
  { get, account, signal }: Pick<FetchOptions, "get" | "account" | "signal">,
): Promise<Uint8Array> {
  const { status, body } = await get(url, { account, signal, maxBytes }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new Error(`${imageName(url)} could not be fetched: ${reasonOf(error)}`, { cause: error });
  });
  if (status !== 200) throw new Error(`${imageName(url)} responded with HTTP ${status}`);
  checkImage(body, imageName(url));
  return body;
}
