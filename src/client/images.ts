import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { systemReason, usage, VidgenError } from "../errors.ts";

/** How large local images may be, all of a request together; a service that takes them in its JSON has a limit too. */
const maxBytes = 20_000_000;

type ReadOptions = {
  /** Called with a sentence for the user when a local file is among the images, once for each call. */
  onNote?: ((text: string) => void) | undefined;
};

type LocalImage = { image: string; bytes: Buffer };

/**
 * The images of a request as they are sent: addresses as they are, and a local file, named by a path or a `file:` URL, as a `data:` URL,
 * which is an assumption about the service. Throws `usage` for a file that is no PNG, JPEG or WebP, or cannot be read, for a word that is
 * neither an address nor a file, and for more than 20 MB of files in all.
 */
export async function readImages(images: readonly string[], { onNote }: ReadOptions = {}): Promise<string[]> {
  const files: LocalImage[] = [];
  let left = maxBytes;
  const read = async (image: string) => {
    if (/^(https?|data):/i.test(image)) return image;
    const bytes = await readLocal(image, left);
    const format = formatOf(bytes);
    if (format === undefined) throw usage(`The image "${image}" is not a PNG, JPEG or WebP.`);
    left -= bytes.length;
    files.push({ image, bytes });
    return `data:image/${format};base64,${bytes.toString("base64")}`;
  };
  const sent: string[] = [];
  for (const image of images) sent.push(await read(image));
  if (files.length > 0) onNote?.(noteOf(files));
  return sent;
}

function noteOf(files: LocalImage[]): string {
  const names = files.map(({ image }) => image).join(", ");
  const size = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const shown = size < 1_000_000 ? `${Math.ceil(size / 1_000)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
  const [verb, urls] = files.length === 1 ? ["is", "a data: URL"] : ["are", "data: URLs"];
  return `${names} ${verb} sent as ${urls} (${shown}); not every service accepts that.`;
}

async function readLocal(image: string, left: number): Promise<Buffer> {
  const refuse = (reason: string) => usage(`Cannot read the image "${image}": ${reason}.`);
  try {
    const path = /^file:/i.test(image) ? fileURLToPath(image) : image;
    // Without O_NONBLOCK, opening a named pipe would wait for its writer.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = await file.stat();
      if (stats.isDirectory()) throw refuse("it is a folder");
      if (!stats.isFile()) throw refuse(noFile);
      if (stats.size === 0) throw refuse("it is empty");
      if (stats.size > left) throw refuse(`images may have ${maxBytes / 1_000_000} MB in all`);
      return await file.readFile();
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    throw refuse(systemReason(error, { ENOENT: "it is neither a file nor an http(s) URL", ENXIO: noFile }));
  }
}

const noFile = "it is a pipe, a socket or a device";

/** The format by the first bytes, as a `data:` URL names it; a name may lie. */
function formatOf(bytes: Buffer): "png" | "jpeg" | "webp" | undefined {
  const start = bytes.toString("latin1", 0, 12);
  if (start.startsWith("\x89PNG\r\n\x1a\n")) return "png";
  if (start.startsWith("\xff\xd8\xff")) return "jpeg";
  return start.startsWith("RIFF") && start.endsWith("WEBP") ? "webp" : undefined;
}
