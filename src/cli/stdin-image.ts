import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { readImages } from "../client/request/images.ts";
import { usage } from "../errors.ts";
import { type ImageName, type Images, imageFields } from "../protocol/fields.ts";
import type { Context } from "./context.ts";
import { readFieldFlags } from "./field-flags.ts";
import { readStdin } from "./terminal/prompts.ts";

/** The word for the image that is read from stdin. */
const stdinWord = "-";

const maxMegabytes = 20;

/** The fields whose image is read from stdin: none, or one. */
function stdinFieldsOf(command: CommandUnknownOpts): ImageName[] {
  const { images } = readFieldFlags(command);
  return imageFields.flatMap(({ name }) => (images[name] ?? []).filter((image) => image === stdinWord).map(() => name));
}

/** Throws `usage` if stdin should give the prompt too, which is `undefined` if it is not typed, or if nothing is piped in. */
export function checkStdin(
  prompt: string | undefined,
  { isPromptOptional = false }: { isPromptOptional?: boolean },
  { io, command }: Pick<Context, "io"> & { command: CommandUnknownOpts },
): void {
  const fields = stdinFieldsOf(command);
  if (fields.length === 0) return;
  if (fields.length > 1) throw usage('Only one image can be "-": stdin has one image.');
  if (prompt === "-" || (prompt === undefined && !isPromptOptional))
    throw usage('The image "-" is read from stdin, so the prompt cannot be: type it, or use @path for a file.');
  if (io.stdin.isTTY) throw usage('The image "-" is read from stdin: pipe one in, or name a file.');
}

/** The typed images, with the image on stdin as a `data:` URL. Throws `usage` if stdin is empty, too large, or not a PNG, JPEG or WebP image. */
export async function withStdinImage(
  images: Images,
  context: Context & { command: CommandUnknownOpts },
): Promise<Images> {
  const [field] = stdinFieldsOf(context.command);
  if (field === undefined) return images;
  const bytes = await readStdin("the image", context, maxMegabytes);
  if (bytes.length === 0) throw usage("The image on stdin is empty.");
  const [image = ""] = await readImages([bytes], { onNote: context.output.note });
  return { ...images, [field]: images[field]?.map((each) => (each === stdinWord ? image : each)) };
}
