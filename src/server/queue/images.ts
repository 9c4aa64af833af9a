import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../errors.ts";
import { isDataUrl } from "../../protocol/url.ts";
import type { ImageFile } from "../engines/engine.ts";
import { maxMegapixels, pictureFormat, readData, readPictureHeader } from "../media/picture.ts";
import type { Get } from "../outbound/outbound.ts";

const maxBytes = 20_000_000;
/** The limit of JPEG. A PNG may have longer sides, but no renderer accepts them. */
const maxSide = 65_535;

/** `account` owns the generation. */
export type FetchOptions = { get: Get; account: string; signal: AbortSignal };

/**
 * Saves the images of a generation (the interface's `imageUrl`, and others) in a new folder. Each must be a PNG, JPEG or WebP of at most 20 MB and,
 * by its header, 50 megapixels. A source is an http(s) address, fetched by `get`, or a `data:` address. Throws an Error whose message becomes the
 * generation's `error`.
 */
export async function saveImages(
  sources: readonly string[],
  folder: string,
  options: FetchOptions,
): Promise<ImageFile[]> {
  const images = await Promise.all(
    sources.map(async (source) => {
      const [name, bytes] = [imageName(source), await readImage(source, options)];
      return { name, bytes, ...checkImage(bytes, name) };
    }),
  );
  // Writes only once all images are fetched: after an invalid image the folder is removed, and no write must still be running.
  if (images.length > 0) await mkdir(folder, { recursive: true, mode: 0o700 });
  const saved: ImageFile[] = [];
  for (const [index, { bytes, ...image }] of images.entries()) {
    const path = join(folder, `${index}.${image.format}`);
    await writeFile(path, bytes);
    saved.push({ ...image, path });
  }
  return saved;
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

async function readImage(source: string, options: FetchOptions): Promise<Uint8Array> {
  return isDataUrl(source) ? readData(source, imageName(source)) : fetchImage(source, options);
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

async function fetchImage(url: string, { get, account, signal }: FetchOptions): Promise<Uint8Array> {
  const { status, body } = await get(url, { account, signal, maxBytes }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new Error(`${imageName(url)} could not be fetched: ${reasonOf(error)}`, { cause: error });
  });
  if (status !== 200) throw new Error(`${imageName(url)} responded with HTTP ${status}`);
  return body;
}
