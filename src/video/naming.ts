import { createHash } from "node:crypto";
import { basename, win32 } from "node:path";
import { usage } from "../errors.ts";
import { findSimilar } from "../protocol/models.ts";

/** Matches the name of a video file. */
export const videoFileName = /\.(mp4|mov|mkv|webm)$/i;

/** The parts of a file's name that are known before a generation has an id. */
export type NameParts = { prompt?: string | undefined; model?: string | undefined };

/** All parts of a file's name. */
export type Naming = NameParts & { id: string };

/** Returns a file name such as "a-red-fox-runs-wan-2.5-1b4e28ba.mp4", which is never a path, whatever the id is. */
export function fileName({ id, prompt, model }: Naming): string {
  const idPart = idPartOf(id);
  const parts = [slug(prompt ?? "", 48), slug(model ?? "", 24), idPart].filter((part) => part !== "");
  return `${parts.length > 1 ? parts.join("-") : `vidgen-${idPart}`}.mp4`;
}

/**
 * The part of a file's name that is made of the id: the first eight digits of a UUID; up to 40 letters and
 * digits of another id.
 */
function idPartOf(id: string): string {
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-/i.test(id)) return id.slice(0, 8);
  return canBeName(id) ? id.replace(/[^A-Za-z0-9]+/g, "").slice(0, 40) : hashDigitsOf(id);
}

/** Whether a service's id, which may be any text, can be a file name after removing some characters. */
export function canBeName(id: string): boolean {
  return /^[\w:=+@~-][\w.:=+@~-]*$/.test(id) && /[A-Za-z0-9]/.test(id);
}

/** Eight digits of a hash, which replace an id that cannot be a name. */
function hashDigitsOf(id: string): string {
  return createHash("sha256").update(id).digest("hex").slice(0, 8);
}

/** Windows treats these names as devices, with any extension. */
const deviceName = /^(con(?:in\$|out\$)?|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³])(?= *(\.|$))/i;

/**
 * Why Windows cannot use a path, as a text that follows the path or its flag; `undefined` if it can. Node
 * would create such a file, but Explorer and most programs could not open or delete it. Each placeholder
 * counts as a digit, because com{n} may become com1.
 */
export function findWindowsFault(path: string): string | undefined {
  const { root } = win32.parse(path);
  if (/^[\\/]{2}[.?]/.test(root)) return "is the path of a device, not of a file";
  const parts = fillIn(path.slice(root.length), new Map(placeholders.map((name) => [name, "1"]))).split(/[\\/]/);
  for (const part of parts.filter((each) => !["", ".", ".."].includes(each))) {
    const [device] = deviceName.exec(part) ?? [];
    if (device !== undefined) return `has the name ${part}: Windows reserves ${device} for a device`;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: Windows does not allow them in names.
    const [character] = /[<>:"|?*\0-\x1f]/.exec(part) ?? [];
    if (character !== undefined)
      return `has a name with ${character < " " ? "a control character" : character}, which Windows does not allow`;
    if (/[. ]$/.test(part))
      return `has a name that ends with a ${part.endsWith(".") ? "dot" : "space"}, which Windows does not allow`;
  }
  return undefined;
}

/** Whether Windows would open a path on another machine, to which it may send the user's credentials, or on a device. */
export function isNetworkPath(path: string): boolean {
  return /^[\\/]{2}/.test(path) || /^file:\/\/+(?![\\/]|localhost[\\/]|[a-z]:)/i.test(path);
}

/**
 * The name of the machine in a Windows path to a share on it, in lower case; `undefined` for any other path,
 * such as that of a device.
 */
export function machineOf(path: string): string | undefined {
  return /^[\\/]{2}([^\\/.?][^\\/]*)/.exec(path)?.[1]?.toLowerCase();
}

/** Makes a word safe as a whole file name. An empty word becomes `fallback`. */
function safeWord(word: string, fallback: string): string {
  return word.replace(deviceName, "$1_") || fallback;
}

const maxWordBytes = 100;

/**
 * Converts any text to a part of a path: letters, digits, spaces and `. _ -`, without dots and spaces at the
 * ends. The result is never empty, and never a path.
 */
export function safeName(text: string): string {
  const letters = text
    .slice(0, maxWordBytes)
    .normalize("NFC")
    .replace(/[^\p{L}\p{M}\p{N}._ -]+/gu, "-");
  return safeWord(cutBytes(letters, maxWordBytes).replace(/^[. ]+|[. ]+$/g, ""), "_");
}

/** Lower-case words joined by hyphens, cut between words to at most `maxBytes`. */
function slug(text: string, maxBytes: number): string {
  const words = text
    .normalize("NFC")
    .toLowerCase()
    // Combining marks without a letter are invisible.
    .replace(/(?<![\p{L}\p{N}\p{M}])\p{M}+/gu, "")
    .replace(/[^\p{L}\p{N}\p{M}.]+/gu, "-");
  const whole = words
    // Dots stay inside of a word, as in "2.6".
    .replace(/\.+(?=-|$)|(?<=-|^)\.+/g, "")
    .replace(/-+/g, "-")
    .replace(/^-|-$/g, "");
  const cut = cutBytes(whole, maxBytes);
  return cut === whole ? whole : cut.replace(/-[^-]*$/, "").replace(/\.+$/, "");
}

/** Cuts a text to a number of bytes. */
function cutBytes(text: string, maxBytes: number): string {
  let left = maxBytes;
  let cut = "";
  for (const letter of text) {
    left -= byteLength(letter);
    if (left < 0) break;
    cut += letter;
  }
  return cut;
}

function byteLength(text: string): number {
  return Buffer.byteLength(text);
}

/** The placeholders in -o. */
export const placeholders = ["slug", "model", "id", "date", "n"] as const;

/**
 * Throws `usage` for an unknown placeholder, a missing brace, and `{id}` in a folder's name, since the folder
 * must exist before the start. `source` is the name in the message.
 */
export function checkTemplate(outputPath: string, source = "-o"): void {
  const fault = findNameFault(outputPath, placeholders);
  if (fault) throw usage(`${source} ${fault.text}.`, fault.hint);
  if (hasIdInFolder(outputPath)) throw usage(`${source} ${idInFolderFault}`);
}

const otherVideoExtension = /\.(3gp|avi|flv|gif|mkv|mov|mpe?g|ogv|webm|webp|wmv)$/i;

/** The note about an output path with the extension of another format, if it has one. */
export function findExtensionNote(outputPath: string): string | undefined {
  const [extension] = otherVideoExtension.exec(outputPath) ?? [];
  return extension && `Videos are .mp4 files, and vidgen does not convert them: ${outputPath} has another extension.`;
}

/** The note about an output path that is not a folder and has no extension. */
export function findNoFolderNote(outputPath: string): string | undefined {
  if (outputPath === "-" || /\.\w+$/.test(basename(outputPath))) return undefined;
  return `${outputPath} is not a folder: the video is saved to a file of this name, without .mp4. For a folder, end the name with a slash.`;
}

/** What is wrong with the placeholders: an unknown name, or a missing brace. The text follows the name of the flag or column. */
export function findNameFault(template: string, known: readonly string[]): { text: string; hint: string } | undefined {
  const unknown = namesIn(template).find((name) => !known.includes(name));
  const beginsWithName = (rest: string) =>
    known.some((name) => rest.startsWith(name) && !/^\w/.test(rest.slice(name.length)));
  const unclosed = [...template.matchAll(/\{([^{}]+)(?=\{|$)/g)].map(([, rest = ""]) => rest).find(beginsWithName);
  if (unknown === undefined && unclosed === undefined) return undefined;
  const similar = unknown === undefined ? undefined : findSimilar(unknown, known);
  const guess = similar === undefined ? "" : `Did you mean {${similar}}? `;
  const text =
    unknown === undefined ? `has {${unclosed} without a closing brace` : `has an unknown placeholder {${unknown}}`;
  return { text, hint: `${guess}The placeholders are ${known.map((name) => `{${name}}`).join(", ")}.` };
}

/** The names of the placeholders in a template. */
export function namesIn(template: string): string[] {
  return [...template.matchAll(/\{([^{}]*)\}/g)].map(([, name = ""]) => name);
}

export const idInFolderFault =
  "accepts {id} only in the file name: the folder must exist before the generation is paid for.";

export function hasIdInFolder(outputPath: string): boolean {
  return /\{id\}.*[/\\]/s.test(outputPath);
}

/** Whether an output path gives each generation of a command another name. */
export function givesDistinctNames(outputPath: string): boolean {
  return /\{(id|n)\}/.test(outputPath);
}

/** Fills in the placeholders that have a value. For a path, the values must not be paths. */
export function fillIn(template: string, values: ReadonlyMap<string, string>): string {
  return template.replace(/\{([^{}]*)\}/g, (whole, name: string) => values.get(name) ?? whole);
}

/** The maximum length of a file name in bytes, on all common file systems. */
const maxNameBytes = 255;
const maxIdLength = 64;

/**
 * Fills in `{slug}`, `{model}` and `{date}`, a day such as "2026-01-31". Throws `usage` if the name has no
 * room for `{id}`, which is known only after the generation is paid for.
 */
export function fillWords(outputPath: string, { prompt = "", model = "" }: NameParts, date: string): string {
  const filledPath = fillNames(outputPath, { prompt, model }, date);
  if (filledPath.includes("{id}") && isTooLong(filledPath))
    throw usage(
      "The file name in -o is too long: an id may take 64 characters, and the partial file 14 more, which is more than 255 bytes. Shorten the name; nothing was sent.",
    );
  return filledPath;
}

/** As `fillWords`, but does not check the length. */
export function fillNames(outputPath: string, { prompt = "", model = "" }: NameParts, date: string): string {
  if (!outputPath.includes("{")) return outputPath;
  const values = new Map([["date", date]]);
  if (outputPath.includes("{slug}")) values.set("slug", safeWord(slug(prompt, 48), "video"));
  if (outputPath.includes("{model}")) values.set("model", safeWord(slug(model, 24), "model"));
  return fillIn(outputPath, values);
}

/** Whether the file's name has no room for the suffix of its partial file, and for `{id}` if it contains that. */
export function isTooLong(outputPath: string): boolean {
  const longestName = basename(fillIn(outputPath, new Map([["id", "x".repeat(maxIdLength)]])));
  return byteLength(`${longestName}.12345678.part`) > maxNameBytes;
}

/** Fills in `{id}` without characters of a path; an id that cannot be a name is replaced by the prompt and some digits. */
export function fillId(outputPath: string, { id, prompt = "" }: Naming): string {
  const clean = id
    .replace(/[^A-Za-z0-9-]+/g, "")
    .replace(/^-+|-+$/g, "")
    .slice(0, maxIdLength);
  const word = canBeName(id) ? clean : [slug(prompt, 48), hashDigitsOf(id)].filter((part) => part !== "").join("-");
  return fillIn(outputPath, new Map([["id", safeWord(word, "video")]]));
}
