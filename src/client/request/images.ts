import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { systemReason, usage, VidgenError } from "../../errors.ts";
import { type Images, imageFields } from "../../protocol/fields.ts";
import { formatBytes } from "./bytes.ts";

/** The maximum total size of a request's local images; services limit the size of JSON too. */
const maxBytes = 20_000_000;

type ReadImageOptions = {
  /** Called once with a note for the user if there is a local file among the images. */
  onNote?: ((text: string) => void) | undefined;
};

/**
 * Converts the images of a request for sending: URLs stay unchanged; a local file, named by a path or a
 * `file:` URL, and raw bytes become a `data:` URL, which not every service accepts. Throws `usage` for a file
 * that is not a PNG, JPEG or WebP, or cannot be read, for a text that is neither a URL nor a file, and for
 * more than 20 MB of files in total.
 */
export async function readImages(
  images: readonly (string | Uint8Array)[],
  { onNote }: ReadImageOptions = {},
): Promise<string[]> {
  let files = 0;
  let size = 0;
  const sent: string[] = [];
  for (const image of images) {
    if (typeof image === "string" && isAddress(image)) {
      sent.push(image);
      continue;
    }
    const { format, bytes } = typeof image === "string" ? await readLocal(image, size) : checkBytes(image, size);
    files++;
    size += bytes.length;
    sent.push(`data:image/${format};base64,${bytes.toString("base64")}`);
  }
  if (files > 0) onNote?.(noteOf(files, size));
  return sent;
}

/** As `readImages`, for all image fields. */
export async function readAllImages(images: Images, options: ReadImageOptions = {}): Promise<Images> {
  const lists = imageFields.map(({ name }) => [name, images[name] ?? []] as const);
  const sent = await readImages(
    lists.flatMap(([, list]) => list),
    options,
  );
  return Object.fromEntries(lists.map(([name, list]) => [name, sent.splice(0, list.length)]));
}

/** The files among the images of a request. */
export function localImages(images: Images): string[] {
  const all = imageFields.flatMap(({ name }) => images[name] ?? []);
  return all.flatMap((image) => {
    if (isAddress(image)) return [];
    return /^file:/i.test(image) && URL.canParse(image) ? [fileURLToPath(image)] : [image];
  });
}

function isAddress(image: string): boolean {
  return /^(https?|data):/i.test(image);
}

/** The paths are left out: that of a last frame has 200 characters. */
function noteOf(files: number, size: number): string {
  const sent = files === 1 ? "An image is sent as a data: URL" : `${files} images are sent as data: URLs`;
  return `${sent} (${formatBytes(size)}); not every service accepts that.`;
}

/** Reads a local image. The request's images before it have `previousBytes` in total. */
async function readLocal(image: string, previousBytes: number): Promise<{ format: ImageFormat; bytes: Buffer }> {
  const refuse = (reason: string) => usage(`Cannot read the image "${image}": ${reason}.`);
  try {
    const path = /^file:/i.test(image) ? fileURLToPath(image) : image;
    // Without O_NONBLOCK, opening a named pipe would wait for its writer.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = await file.stat();
      if (stats.isDirectory()) throw refuse("it is a folder");
      if (!stats.isFile()) throw refuse(notAFile);
      if (stats.size === 0) throw refuse("it is empty");
      checkTotal(previousBytes + stats.size, refuse);
      const bytes = await file.readFile();
      return { format: checkFormat(bytes, refuse), bytes };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    throw refuse(systemReason(error, { ENOENT: "it is neither a file nor an http(s) URL", ENXIO: notAFile }));
  }
}

type Refuse = (reason: string) => VidgenError;

function checkBytes(image: Uint8Array, previousBytes: number): { format: ImageFormat; bytes: Buffer } {
  const refuse = (reason: string) => usage(`Cannot use the bytes of an image: ${reason}.`);
  checkTotal(previousBytes + image.byteLength, refuse);
  const bytes = Buffer.from(image);
  return { format: checkFormat(bytes, refuse), bytes };
}

function checkTotal(total: number, refuse: Refuse): void {
  if (total <= maxBytes) return;
  throw refuse(`the images would have ${formatBytes(total)} in total; the limit is ${maxBytes / 1_000_000} MB`);
}

function checkFormat(bytes: Buffer, refuse: Refuse): ImageFormat {
  const format = imageFormatOf(bytes);
  if (format === undefined) throw refuse("it is not a PNG, JPEG or WebP");
  return format;
}

const notAFile = "it is a pipe, a socket or a device";

/** The name in a `data:` URL. */
type ImageFormat = "png" | "jpeg" | "webp";

/** The format by the first bytes, whatever the file's name says. */
export function imageFormatOf(bytes: Buffer): ImageFormat | undefined {
  const start = bytes.toString("latin1", 0, 12);
  if (start.startsWith("\x89PNG\r\n\x1a\n")) return "png";
  if (start.startsWith("\xff\xd8\xff")) return "jpeg";
  return start.startsWith("RIFF") && start.endsWith("WEBP") ? "webp" : undefined;
}
