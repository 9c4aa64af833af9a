import { adaptiveRatio, aspectRatios, defaultModel, guessModel, models, resolutions } from "./models.ts";
import { shorten } from "./text.ts";

/** A field of the start request, with everything that flags, columns, questions and tools need. */
type FieldEntry = {
  /** Its name on the wire and in batch columns. */
  name: string;
  /** Its flag, as in the help; the prompt is an argument, and has none. */
  flag?: string;
  /** The description of the flag in the help. */
  about: string;
  /** The description of the tool argument, and its name if it differs from that on the wire. */
  agentAbout: string;
  argument?: string;
  /** Further names of its batch column, besides that of its flag. */
  aliases?: readonly string[];
  /** Units that may follow its name in a column header, such as "(s)"; a message about another unit suggests the first one. */
  units?: readonly string[];
  /** "image" is a single image. */
  takes: "text" | "number" | "image" | "images";
  /** Whether every request needs it. */
  isRequired?: boolean;
  /** Its name in messages about the command line; by default the long flag. */
  subject?: string;
  /** Suggested values, each with a description; others are accepted too. */
  suggestions?: readonly (readonly [value: string, description: string])[];
  /** What is wrong with a value; the text follows the name of the field. By default only a blank value is wrong. */
  findFault?(text: string): string | undefined;
  /** A warning, as a sentence, if a value is probably a mistake. The value is sent anyway, because the service may accept it. */
  findWarning?(text: string): string | undefined;
  /** Not part of the interface, so a service may ignore it. */
  isBeyondInterface?: boolean;
  /** Only for the local service. Other services would probably ignore the field and charge, so only `--set` sends it to them. */
  isLocalOnly?: boolean;
  /** The hint for a fault. */
  hint?: string;
  /** The value on the wire; by default the text. */
  toWire?(text: string): unknown;
  /** Its label in the summary before a start; a field without a label is not shown there. */
  label?: string;
  /** The question at a terminal; a field without a question is not asked for. */
  question?: string;
  /**
   * What is wrong with an answer, as a sentence; by default `findFault` is used. `maxSeconds` is the longest
   * possible video, if known.
   */
  findAnswerFault?(text: string, limits: { maxSeconds: number | undefined }): string | undefined;
};

/** All fields, in the order of the request, the help and the questions. */
const table = [
  {
    name: "prompt",
    about: "what the video shows",
    agentAbout: "What the video shows.",
    takes: "text",
    isRequired: true,
    subject: "The prompt",
    label: "Prompt",
    question: "What should the video show?",
    findAnswerFault: (text) => (isBlank(text) ? "Enter a prompt." : undefined),
  },
  {
    name: "model",
    flag: "-m, --model <id>",
    about: `the model (default: VIDGEN_MODEL, else ${defaultModel})`,
    agentAbout: `See list_models. Default: the user's setting, else ${defaultModel}.`,
    takes: "text",
    isRequired: true,
    subject: "The model",
    suggestions: models.map(({ id, characteristic }) => [id, characteristic] as const),
    findWarning: findModelWarning,
    hint: "`vidgen models` lists them.",
    label: "Model",
    question: "Which model?",
  },
  {
    name: "aspectRatio",
    aliases: ["aspect", "ratio"],
    units: ["w:h", "width:height"],
    flag: "-a, --aspect-ratio <w:h>",
    about: "such as 16:9, or 9:16 for portrait, or adaptive where the model takes it",
    agentAbout: 'Width:height, such as "16:9".',
    takes: "text",
    suggestions: aspectRatios.map((ratio) => [ratio, ""] as const),
    findFault: findRatioFault,
    toWire: readRatio,
    label: "Ratio",
    question: "Which aspect ratio?",
  },
  {
    name: "duration",
    aliases: ["length", "secs", "seconds"],
    units: ["s", "sec", "secs", "second", "seconds"],
    flag: "-d, --duration <length>",
    about: "length in seconds, e.g. 8",
    agentAbout: "The length in seconds, such as 8.",
    takes: "number",
    findFault: findDurationFault,
    findWarning: findDurationWarning,
    toWire: readDuration,
    hint: "`--set duration=...` sends anything else unchanged.",
    label: "Length",
    question: "How long, in seconds?",
    findAnswerFault: findSecondsFault,
  },
  {
    name: "resolution",
    flag: "-r, --resolution <name>",
    about: "such as 720p or 4k",
    agentAbout: 'Such as "720p" or "4k".',
    takes: "text",
    suggestions: Object.keys(resolutions).map((name) => [name, ""] as const),
    toWire: readResolution,
    label: "Resolution",
  },
  {
    name: "seed",
    flag: "--seed <n>",
    about: "a number that makes the same request give a similar video again, where the model takes one",
    agentAbout: "A whole number: the same request with the same seed gives a similar video, where the model takes one.",
    takes: "number",
    isBeyondInterface: true,
    findFault: (text) => (isWhole(text) ? undefined : `must be a whole number from 0 on, not "${shorten(text)}"`),
    // A seed of ComfyUI has 64 bits, more than a JavaScript number.
    toWire: (text) => (Number.isSafeInteger(Number(text)) ? Number(text) : text),
    label: "Seed",
  },
  {
    name: "imageUrl",
    aliases: ["images", "imageUrls", "inputReference", "inputImage", "sourceImage", "startImage"],
    units: ["url", "link", "file", "path"],
    flag: "-i, --image <url|file>",
    about: "source image: a URL or a PNG, JPEG or WebP file; may be repeated",
    agentAbout: "Source images: http(s) URLs, or PNG, JPEG or WebP files inside the server's folder.",
    argument: "images",
    takes: "images",
    findFault: findImageFault,
    label: "Image",
    question: "URL or file of image",
  },
  {
    name: "lastImageUrl",
    aliases: ["endImage"],
    flag: "--last-image <url|file>",
    about: "image that the video ends with; for --local, and models of --engine that take one",
    agentAbout: "The image that the video ends with, where the model takes one: as images.",
    argument: "lastImage",
    takes: "image",
    isBeyondInterface: true,
    isLocalOnly: true,
    findFault: findImageFault,
    label: "Last image",
  },
  {
    name: "referenceUrls",
    aliases: ["references", "referenceImage", "referenceImages"],
    flag: "--reference <url|file>",
    about:
      "style reference: an image with people, things or a style to follow; for --local, and models of --engine that take some; may be repeated",
    agentAbout:
      "Style references, where the model takes some: images with people, things or a style to follow, given as images.",
    argument: "references",
    takes: "images",
    isBeyondInterface: true,
    isLocalOnly: true,
    findFault: findImageFault,
    label: "Reference",
  },
  {
    name: "callback_url",
    aliases: ["callback"],
    flag: "--callback-url <url>",
    about: "URL to which the service POSTs the result",
    agentAbout: "URL to which the service POSTs the result.",
    takes: "text",
    findFault: (text) => findUrlFault(text, "calls"),
  },
] as const satisfies readonly FieldEntry[];

type TableField = (typeof table)[number];

export type FieldName = TableField["name"];

/** The fields for images. */
export type ImageName = Extract<TableField, { takes: "image" | "images" }>["name"];

export type Field = FieldEntry & { name: FieldName };

export const fields: readonly Field[] = table;

/** The fields by each spelling of their names, as `flattenName` returns it. */
export const fieldSpellings: ReadonlyMap<string, FieldName> = new Map(
  fields.flatMap((field) => {
    const { name, flag, aliases = [] } = field;
    const spellings = [name, ...aliases, ...(flag === undefined ? [] : [flagOf(field, "long")])];
    return spellings.map((spelling) => [flattenName(spelling), name] as const);
  }),
);

/** A name in lower case, without white space, `-` and `_`. */
export function flattenName(name: string): string {
  return name.replace(/[-_\s]/g, "").toLowerCase();
}

export const imageFields = fields.filter(isImageField);
export const textFields = fields.filter((field) => !isImageField(field));

/** The typed values of fields by their names on the wire, without images. */
export type FieldTexts = { [name in FieldName]?: string | undefined };

/** The images of a request by field name. */
export type Images = { readonly [name in ImageName]?: readonly string[] | undefined };

export function isImageField(field: Field): field is Field & { name: ImageName } {
  return field.takes === "image" || field.takes === "images";
}

/** What is wrong with a value of a field; the text follows the field's name. `undefined` if it is valid. */
export function findValueFault(field: Field, text: string): string | undefined {
  if (field.findFault) return field.findFault(text);
  return isBlank(text) ? "is empty" : undefined;
}

/**
 * Returns warnings about values that are probably mistakes, as sentences. `isLocal` is set for the local
 * service, which knows more fields than the interface.
 */
export function findWarnings(
  request: Readonly<Record<string, unknown>>,
  { isLocal = false }: { isLocal?: boolean } = {},
): string[] {
  return fields.flatMap(({ name, findWarning, isBeyondInterface }) => {
    const value = request[name];
    if (value === undefined) return [];
    if (isBeyondInterface && !isLocal) return `The service may not know the field "${name}", and then ignores it.`;
    return findWarning?.(String(value)) ?? [];
  });
}

/** The value on the wire. */
export function wireValue({ toWire }: Field, text: string): unknown {
  return toWire ? toWire(text) : text;
}

/** The flag, such as "-m" (`short`) or "--model"; the long one if there is no short one. */
export function flagOf({ flag = "" }: Field, length: "short" | "long"): string {
  const [first = "", second = first] = flag.replace(/ <.*/, "").split(", ");
  return length === "short" ? first : second;
}

/** Converts seconds, such as "8" or "8s", to a number; other values stay text, because the interface does not state a type. */
function readDuration(text: string): number | string {
  const [, seconds] = /^(\d+(?:\.\d+)?)s?$/.exec(text) ?? [];
  return seconds === undefined ? text : Number(seconds);
}

function findDurationFault(text: string): string | undefined {
  if (isBlank(text)) return "is empty";
  const length = readDuration(text);
  if (typeof length === "number" && length > 0) return undefined;
  // The message suggests the length that was probably meant, also if it has a decimal comma or a word for the unit.
  const [, seconds = "8"] = /^\s*([1-9]\d*(?:[.,]\d+)?)\s*(?:s|secs?|seconds?)?\.?\s*$/i.exec(text) ?? [];
  return `must be a length in seconds, such as ${seconds.replace(",", ".")}, not "${shorten(text)}"`;
}

/** Only a value of `--set` can cause this warning; other values were already checked with `findDurationFault`. */
function findDurationWarning(text: string): string | undefined {
  const seconds = readDuration(text);
  if (typeof seconds === "number" && seconds > 0) return undefined;
  return `The duration "${shorten(text)}" is not a length in seconds, such as 8.`;
}

function findModelWarning(text: string): string | undefined {
  const guess = guessModel(text);
  return guess && `Unknown model "${shorten(text)}"; did you mean ${guess}?`;
}

function findSecondsFault(text: string, { maxSeconds }: { maxSeconds: number | undefined }): string | undefined {
  const seconds = readDuration(text);
  if (typeof seconds === "number" && seconds > 0 && seconds <= (maxSeconds ?? seconds)) return undefined;
  return `Enter a number of seconds above 0${maxSeconds === undefined ? "" : `, at most ${maxSeconds}`}, e.g. 8.`;
}

/** Why the service could not fetch an image; the text follows the name of the flag or column. */
export function findImageFault(text: string): string | undefined {
  return text.startsWith("data:image/") ? undefined : findUrlFault(text, "fetches");
}

function findUrlFault(text: string, use: "fetches" | "calls"): string | undefined {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return undefined;
  return `must be an http(s) URL, not "${shorten(text)}": the service itself ${use} it`;
}

function isWhole(text: string): boolean {
  return /^\d{1,20}$/.test(text);
}

function isBlank(text: string): boolean {
  return text.trim() === "";
}

function findRatioFault(text: string): string | undefined {
  const ratio = readRatio(text);
  return isRatio(ratio) || ratio === adaptiveRatio
    ? undefined
    : `must be width:height, such as 16:9, not "${shorten(text)}"`;
}

/** Also accepts common spellings, such as "9x16", "portrait", or "16:09", which spreadsheets write for 16:9. */
export function readRatio(text: string): string {
  const ratio = readOlderRatio(text);
  return isRatio(ratio) ? ratio.replace(/(^|:)0+(?=\d)/g, "$1") : text;
}

/** As older versions read a ratio, which sent a zero before a number. */
export function readOlderRatio(text: string): string {
  if (isRatio(text)) return text;
  const named = ratiosByName.get(text.trim().toLowerCase());
  if (named !== undefined) return named;
  const ratio = text.trim().replace(/[^\d.]+/g, ":");
  return isRatio(ratio) ? ratio : text;
}

const ratiosByName = new Map([
  [adaptiveRatio, adaptiveRatio],
  ["landscape", "16:9"],
  ["wide", "16:9"],
  ["widescreen", "16:9"],
  ["portrait", "9:16"],
  ["vertical", "9:16"],
  ["square", "1:1"],
]);

/** Adds the unit to a height such as "1080". */
function readResolution(text: string): string {
  return /^\d{3,4}$/.test(text) ? `${text}p` : text;
}

function isRatio(text: string): boolean {
  const [, width, height] = /^(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  return Number(width) > 0 && Number(height) > 0;
}
