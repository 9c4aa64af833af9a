import { checkModel, findModel } from "../../client/models.ts";
import { checkPrompt, parseJson, type StartRequest } from "../../client/schema.ts";
import { usage } from "../../errors.ts";

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

/** The body of the start request (interface 4.1). Throws `usage` for what the service could only refuse. */
export function buildRequest(input: RequestInput): StartRequest {
  const extra = Object.fromEntries(input.set.map(readSetting));
  if (extra.prompt !== undefined)
    throw usage("--set prompt=... is a second prompt.", "Pass the prompt only as the argument.");
  const prompt = checkPrompt(input.prompt);
  const model = checkModel(readText(extra, "model") ?? input.model);
  return {
    prompt,
    model,
    ...optional("aspectRatio", input.aspectRatio, checkAspectRatio),
    ...optional("duration", input.duration, readDuration),
    ...optional("resolution", input.resolution, checkResolution),
    ...(Object.keys(extra).some((field) => /^image/i.test(field)) ? {} : imageFields(input.images, model)),
    ...optional("callback_url", input.callbackUrl, (text) => checkHttpUrl(text, "--callback-url", "calls")),
    ...extra,
  };
}

function readText(extra: Record<string, unknown>, field: string): string | undefined {
  const value = extra[field];
  if (value === undefined || typeof value === "string") return value;
  throw usage(`--set ${field} must be text, such as ${field}='"5"', not ${JSON.stringify(value)}.`);
}

function optional<Value>(
  field: string,
  text: string | undefined,
  read: (text: string) => Value,
): Record<string, Value> {
  return text === undefined ? {} : { [field]: read(text) };
}

function checkAspectRatio(text: string): string {
  const [, width, height] = /^(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  if (Number(width) > 0 && Number(height) > 0) return text;
  throw usage(`--aspect-ratio must be width:height, such as 16:9, not "${text}".`);
}

function checkResolution(text: string): string {
  if (text.trim() === "") throw usage("--resolution is empty.");
  return text;
}

/** Throws `usage`. The interface does not type the field: seconds, as "8" or "8s", go as a number, anything else as it is typed. */
export function readDuration(text: string): number | string {
  if (text.trim() === "") throw usage("--duration is empty.");
  if (/^-\d/.test(text)) throw usage(`--duration must be a length in seconds, e.g. 8, not "${text}".`);
  const [, seconds] = /^(\d+(?:\.\d+)?)s?$/.exec(text) ?? [];
  return seconds === undefined ? text : Number(seconds);
}

/**
 * One image goes as `imageUrl`. How several are passed is not shown in the interface: `imageUrls`, an array, is an assumption of this
 * function alone; `--set imageUrls=[...]` or any other field overrides it.
 */
function imageFields(images: string[], model: string): Record<string, unknown> {
  for (const image of images) checkImage(image);
  const wanted = findModel(model)?.images;
  if (wanted && (images.length < wanted.min || images.length > wanted.max)) {
    throw usage(`${model} needs ${wanted.min} to ${wanted.max} images, each with --image <url>, not ${images.length}.`);
  }
  if (!wanted && images.length > 1) throw usage(`${model} accepts one image; kling-1.6-elements accepts 2 to 4.`);
  const [only] = images;
  if (only === undefined) return {};
  return wanted ? { imageUrls: images } : { imageUrl: only };
}

/** Throws `usage` for what the service could not fetch. */
export function checkImage(text: string): void {
  if (text.startsWith("data:image/")) return;
  checkHttpUrl(text, "--image", "fetches");
}

function checkHttpUrl(text: string, flag: string, use: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw usage(`${flag} must be an http(s) URL, not "${text}": the service itself ${use} it.`);
}

/** `field=value`; the value as JSON where it parses as JSON. */
function readSetting(text: string): [string, unknown] {
  const at = text.indexOf("=");
  const field = text.slice(0, at).trim();
  if (at === -1 || field === "") throw usage(`--set must be field=value, not "${text}".`);
  const value = text.slice(at + 1);
  const json = parseJson(value);
  return [field, json === undefined ? value : json];
}
