import { isDataUrl } from "../../protocol/url.ts";
import type { ImageFile } from "../engines/engine.ts";
import { maxMegapixels, pictureFormat, readData, readPictureHeader } from "../media/picture.ts";

export const maxBytes = 20_000_000;
/** The limit of JPEG. A PNG may have longer sides, but no renderer accepts them. */
const maxSide = 65_535;

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

/** Throws an Error whose message becomes the generation's `error`, unless the bytes are an image that an engine may get. */
export function checkImage(bytes: Uint8Array, name: string): Pick<ImageFile, "format" | "megapixels"> {
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
