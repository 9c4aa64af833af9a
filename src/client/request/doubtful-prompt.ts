import { usage, type VidgenError } from "../../errors.ts";
import { videoFileName } from "../../video/naming.ts";

/** Why a prompt is probably not what was meant, as a text that follows "the prompt", and what it was meant to be, if known. */
export type FileDoubt = { text: string; meant?: "text" | "image" | "video" };

const imageFileName = /\.(png|jpe?g|webp|gif|bmp|avif|heic|tiff?)$/i;

/**
 * The doubt about a prompt that is nothing but an address, a path with a drive, or a name with an ending or a
 * slash that exists, as `stat` says, which may reject.
 */
export async function findFileDoubt(
  prompt: string,
  stat: (path: string) => Promise<{ isDirectory(): boolean }>,
): Promise<FileDoubt | undefined> {
  const isAddress = /^(https?|file|data):\S+$/i.test(prompt);
  const isName = !isAddress && /[/\\]|\.\w{1,5}$/.test(prompt);
  const found = isName ? await stat(prompt).catch(() => undefined) : undefined;
  if (!isAddress && found === undefined && !/^[a-z]:[/\\]/i.test(prompt)) return undefined;
  const text = `is only ${isAddress ? "an address" : "the name of a file"}: "${prompt}"`;
  const pathOrAddress = prompt.replace(/[?#].*/, "");
  // A video at an address cannot be used.
  if (videoFileName.test(pathOrAddress)) return isAddress ? { text } : { text, meant: "video" };
  if (isAddress || imageFileName.test(pathOrAddress)) return { text, meant: "image" };
  return found?.isDirectory() ? { text } : { text, meant: "text" };
}

/**
 * The error of a prompt from an agent or a program, which cannot be asked, that is only the name of a file or
 * an address; `undefined` for other prompts.
 */
export async function findFileError(
  prompt: string,
  stat: Parameters<typeof findFileDoubt>[1],
): Promise<VidgenError | undefined> {
  const doubt = await findFileDoubt(prompt.trim().replace(/^@/, ""), stat);
  return doubt && doubtError(`The prompt ${doubt.text}.`, doubt.meant && advice[doubt.meant]);
}

const advice = {
  text: "Pass the text of this file as the prompt.",
  image: "Pass it in images, beside a prompt.",
  video: "Pass it in from, beside a prompt.",
};

/**
 * Throws the doubt about a prompt, unless the start sends the key of an earlier attempt again: its prompt was
 * accepted then.
 */
export function checkDoubt(doubt: VidgenError | undefined, { isResend }: { isResend: boolean }): void {
  if (doubt && !isResend) throw doubt;
}

/** The error of a prompt that is probably not what was meant. */
export function doubtError(reason: string, hint: string | undefined): VidgenError {
  const exact = "exactPrompt: true sends these words unchanged.";
  return usage(`${reason} Nothing was sent.`, hint === undefined ? exact : `${hint} ${exact}`);
}
