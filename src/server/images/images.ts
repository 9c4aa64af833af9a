import { pictureFormat, readPictureHeader } from "./picture.ts";

/** Fetches an address; whether it may be reached at all is decided there. Rejects when there are more than `maxBytes`. */
export type Get = (
  url: string,
  options: { signal: AbortSignal; maxBytes: number },
) => Promise<{ status: number; body: Uint8Array }>;

/** The largest picture, in bytes as it is sent. */
const largestBytes = 20_000_000;
/** The largest picture decoded, where a pixel takes four bytes: a file of a few kilobytes may hold billions. */
const mostMegapixels = 50;
/** The longest side: that of a JPEG. A PNG may have longer ones, which no renderer takes. */
const longestSide = 65_535;

/**
 * Returns the bytes of a picture that a generation asks for (the interface's `imageUrl`): a PNG, JPEG or WebP, told by its bytes, of at
 * most 20 MB and 50 megapixels, by its header. `source` is an http(s) address, fetched by `get`, or a `data:` one. Throws an Error whose
 * message becomes the generation's `error`.
 */
export async function readImage(source: string, get: Get, signal: AbortSignal): Promise<Uint8Array> {
  const name = imageName(source);
  const bytes = /^data:/i.test(source) ? readData(source, name) : await fetchImage(source, get, signal);
  if (bytes.length > largestBytes) throw new Error(`${name} is larger than ${largestBytes / 1_000_000} MB`);
  if (!pictureFormat(bytes)) throw new Error(`${name} is not a PNG, JPEG or WebP`);
  const header = readPictureHeader(bytes);
  if (!header) throw new Error(`${name} cannot be decoded`);
  if (header.isAnimated) throw new Error(`${name} is animated, and a still one is wanted`);
  checkSize(header, name);
  return bytes;
}

/** Returns what an image is called in a message: an address without its query, which may hold a secret, and never a data: URL. */
export function imageName(source: string): string {
  if (!URL.canParse(source) || /^data:/i.test(source)) return "the image in the data: address";
  const { origin, pathname } = new URL(source);
  const address = `${origin}${pathname}`;
  return `the image at ${address.length > 200 ? `${address.slice(0, 200)}…` : address}`;
}

function checkSize({ width, height }: { width: number; height: number }, name: string): void {
  const megapixels = (width * height) / 1_000_000;
  if (megapixels > mostMegapixels) {
    throw new Error(`${name} has ${Math.ceil(megapixels)} megapixels, at most ${mostMegapixels}`);
  }
  const longer = Math.max(width, height);
  if (longer > longestSide) throw new Error(`${name} has a side of ${longer} pixels, at most ${longestSide}`);
}

async function fetchImage(url: string, get: Get, signal: AbortSignal): Promise<Uint8Array> {
  const { status, body } = await get(url, { signal, maxBytes: largestBytes }).catch((error: unknown) => {
    signal.throwIfAborted();
    const why = error instanceof Error ? error.message : error;
    throw new Error(`${imageName(url)} could not be fetched: ${why}`, { cause: error });
  });
  if (status !== 200) throw new Error(`${imageName(url)} answered HTTP ${status}`);
  return body;
}

/** Decodes a data: URL (RFC 2397); the type it declares is not looked at. */
function readData(url: string, name: string): Uint8Array {
  const comma = url.indexOf(",");
  if (comma < 0) throw new Error(`${name} has no data`);
  const data = decodePercent(url.slice(comma + 1));
  if (!/;\s*base64\s*$/i.test(url.slice(0, comma))) return data;
  const base64 = data.toString("latin1").replace(/[\t\n\f\r ]/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) throw new Error(`${name} is not valid base64`);
  return Buffer.from(base64, "base64");
}

function decodePercent(text: string): Buffer {
  const decoded = text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(decoded, "latin1");
}
