import { usage } from "../errors.ts";
import { shorten } from "./credentials.ts";
import { parseJson } from "./json.ts";
import { findModel } from "./models.ts";
import type { StartRequest } from "./schema.ts";

/** The fields of a request as the flags give them. */
export type RequestInput = {
  prompt: string;
  model: string;
  aspectRatio?: string | undefined;
  duration?: string | undefined;
  resolution?: string | undefined;
  images: string[];
  callbackUrl?: string | undefined;
  /** `field=value`, for any further field of the request. */
  set: string[];
};

/** The same with the further fields of the request as they are sent. */
export type FieldInput = Omit<RequestInput, "set"> & { extra: Record<string, unknown> };

/** What is wrong with a field of the request. `text` follows the name of the field, or `subject` where that is set. */
export type FieldFault = { field: keyof typeof flagNames; text: string; subject?: string; hint?: string };

/** How messages about the command line call the fields. */
const flagNames = {
  prompt: "The prompt",
  model: "The model",
  aspectRatio: "--aspect-ratio",
  duration: "--duration",
  resolution: "--resolution",
  imageUrl: "--image",
  callback_url: "--callback-url",
  "set.prompt": "--set prompt=...",
  "set.model": "--set model",
};

/** The body of the start request (interface 4.1). Throws `usage` for what the service could only refuse. */
export function buildRequest({ set, ...input }: RequestInput): StartRequest {
  const fields = { ...input, extra: readSettings(set) };
  for (const fault of findFaults(fields)) throw usage(describeFlagFault(fault), fault.hint);
  if (!hasOwnImage(fields)) input.images.forEach(checkImage);
  return toRequest(fields);
}

/** The message about a flag. */
export function describeFlagFault({ field, text, subject = flagNames[field] }: FieldFault): string {
  return `${subject} ${text}.`;
}

/** The body of the start request from fields that have no faults. */
export function toRequest({ extra, ...input }: FieldInput): StartRequest {
  const { prompt, model, aspectRatio, duration, resolution, callbackUrl } = input;
  return {
    prompt,
    model,
    ...(aspectRatio === undefined ? {} : { aspectRatio }),
    ...(duration === undefined ? {} : { duration: readDuration(duration) }),
    ...(resolution === undefined ? {} : { resolution }),
    ...(hasOwnImage({ extra }) ? {} : imageFields(input.images, String(extra.model ?? model))),
    ...(callbackUrl === undefined ? {} : { callback_url: callbackUrl }),
    ...extra,
  };
}

/** Every fault of the fields; of the images only their number: `findImageFault` has the rest. */
export function* findFaults(input: FieldInput): Generator<FieldFault> {
  const { prompt, aspectRatio, duration, resolution, callbackUrl, extra } = input;
  if (extra.prompt !== undefined)
    yield { field: "set.prompt", text: "is a second prompt", hint: "Pass the prompt only as the argument." };
  if (isBlank(prompt)) yield { field: "prompt", text: "is empty" };
  const { model = input.model } = extra;
  if (typeof model !== "string") {
    yield { field: "set.model", text: `must be text, such as '"5"', not ${JSON.stringify(model)}` };
    return;
  }
  if (isBlank(model)) yield { field: "model", text: "is empty", hint: "`vidgen models` lists them." };
  if (aspectRatio !== undefined && !isRatio(aspectRatio))
    yield { field: "aspectRatio", text: `must be width:height, such as 16:9, not "${shorten(aspectRatio)}"` };
  if (isBlank(duration)) yield { field: "duration", text: "is empty" };
  if (duration !== undefined && /^-\d/.test(duration))
    yield { field: "duration", text: `must be a length in seconds, e.g. 8, not "${shorten(duration)}"` };
  if (isBlank(resolution)) yield { field: "resolution", text: "is empty" };
  const count = hasOwnImage(input) ? undefined : findCountFault(input.images.length, model);
  if (count !== undefined) yield { field: "imageUrl", subject: model, ...count };
  const callback = callbackUrl === undefined ? undefined : findUrlFault(callbackUrl, "calls");
  if (callback !== undefined) yield { field: "callback_url", text: callback };
}

function isBlank(text: string | undefined): boolean {
  return text?.trim() === "";
}

function isRatio(text: string): boolean {
  const [, width, height] = /^(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  return Number(width) > 0 && Number(height) > 0;
}

/** The interface does not type the field: seconds, as "8" or "8s", go as a number, anything else as it is typed. */
export function readDuration(text: string): number | string {
  const [, seconds] = /^(\d+(?:\.\d+)?)s?$/.exec(text) ?? [];
  return seconds === undefined ? text : Number(seconds);
}

/** Whether further fields say what the images are, and no others are sent. */
export function hasOwnImage({ extra }: Pick<FieldInput, "extra">): boolean {
  return Object.keys(extra).some((field) => /^image/i.test(field));
}

function findCountFault(count: number, model: string): Pick<FieldFault, "text" | "hint"> | undefined {
  const wanted = findModel(model)?.images;
  if (wanted && (count < wanted.min || count > wanted.max))
    return { text: `needs ${wanted.min} to ${wanted.max} images, not ${count}`, hint: "Give each with --image <url>." };
  if (wanted || count < 2) return undefined;
  return { text: "accepts one image; kling-1.6-elements accepts 2 to 4" };
}

/**
 * One image goes as `imageUrl`. How several are passed is not shown in the interface: `imageUrls`, an array, is an assumption of this
 * function alone; `--set imageUrls=[...]` or any other field overrides it.
 */
function imageFields(images: string[], model: string): Record<string, unknown> {
  const [only] = images;
  if (only === undefined) return {};
  return findModel(model)?.images ? { imageUrls: images } : { imageUrl: only };
}

/** Throws `usage` for what the service could not fetch. */
export function checkImage(text: string): void {
  const fault = findImageFault(text);
  if (fault !== undefined) throw usage(`--image ${fault}.`);
}

/** Why the service could not fetch an image, after the name of its flag or column. */
export function findImageFault(text: string): string | undefined {
  return text.startsWith("data:image/") ? undefined : findUrlFault(text, "fetches");
}

function findUrlFault(text: string, use: string): string | undefined {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return undefined;
  return `must be an http(s) URL, not "${shorten(text)}": the service itself ${use} it`;
}

/** The fields of `--set`. Throws `usage`. */
export function readSettings(set: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(set.map(readSetting));
}

function readSetting(text: string): [string, unknown] {
  const at = text.indexOf("=");
  const field = text.slice(0, at).trim();
  if (at === -1 || field === "") throw usage(`--set must be field=value, not "${text}".`);
  return [field, readValue(text.slice(at + 1))];
}

/** JSON where it parses as JSON, else the text. */
export function readValue(text: string): unknown {
  const json = parseJson(text);
  return json === undefined ? text : json;
}
