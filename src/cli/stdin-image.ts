import { readImages } from "../client/request/images.ts";
import { usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { type ImageName, type Images, imageFields } from "../protocol/fields.ts";
import type { Context } from "./context.ts";
import { readStdin } from "./terminal/prompts.ts";

/** The word for the image that is read from stdin. */
const stdinWord = "-";

const maxMegabytes = 20;

/** The fields whose image is read from stdin: none, or one. */
function stdinFieldsOf(images: Images): ImageName[] {
  return imageFields.flatMap(({ name }) => (images[name] ?? []).filter((image) => image === stdinWord).map(() => name));
}

/** Throws `usage` if stdin should give the prompt too, which is `undefined` if it is not typed, or if nothing is piped in. */
export function checkStdin(
  prompt: string | undefined,
  images: Images,
  { isPromptOptional }: { isPromptOptional: boolean },
  io: Io,
): void {
  const fields = stdinFieldsOf(images);
  if (fields.length === 0) return;
  if (fields.length > 1) throw usage('Only one image can be "-": stdin has one image.');
  if (prompt === "-" || (prompt === undefined && !isPromptOptional))
    throw usage('The image "-" is read from stdin, so the prompt cannot be: type it, or use @path for a file.');
  if (io.stdin.isTTY) throw usage('The image "-" is read from stdin: pipe one in, or name a file.');
}

/**
 * The typed images, with the image on stdin as a `data:` URL. Throws `usage` if stdin is empty, too large, or
 * not a PNG, JPEG or WebP image.
 */
export async function withStdinImage(
  images: Images,
  { onNote }: { onNote: ((text: string) => void) | undefined },
  context: Context,
): Promise<Images> {
  const [field] = stdinFieldsOf(images);
  if (field === undefined) return images;
  const bytes = await readStdin("the image", context, maxMegabytes);
  if (bytes.length === 0) throw usage("The image on stdin is empty.");
  const [image = ""] = await readImages([bytes], { onNote });
  return { ...images, [field]: images[field]?.map((each) => (each === stdinWord ? image : each)) };
}
