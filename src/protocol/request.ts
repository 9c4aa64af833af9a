import { usage } from "../errors.ts";
import { checkedExtras, findExtraFault } from "./extras.ts";
import {
  type Field,
  type FieldName,
  type FieldTexts,
  fields,
  findImageFault,
  findValueFault,
  flagOf,
  type ImageName,
  type Images,
  imageFields,
  isImageField,
  wireValue,
} from "./fields.ts";
import { hasChangedNumber, parseJson } from "./json.ts";
import { findModel } from "./models.ts";
import type { StartRequest } from "./schema.ts";

/** A request as typed by the user. */
export type RequestInput = {
  texts: FieldTexts & { prompt: string; model: string };
  images: Images;
  /** `field=value`, for any other field of the request. */
  set: string[];
};

/** A request whose `--set` fields are parsed, in `extra`. */
export type FieldInput = Omit<RequestInput, "set"> & { extra: Record<string, unknown> };

/** What is wrong with a field of the request. `text` follows the name of the field, or `subject` if set. */
export type FieldFault = {
  field: FieldName | keyof typeof setSubjects;
  text: string;
  subject?: string | undefined;
  hint?: string | undefined;
};

/** How messages about the command line name the fields of `--set` that have rules. */
const setSubjects = {
  "set.prompt": "--set prompt=...",
  "set.model": "--set model",
  "set.fps": "--set fps",
  "set.num_inference_steps": "--set num_inference_steps",
  "set.guidance_scale": "--set guidance_scale",
};

/** The service of a request: `isLocal` for the local service, which accepts more fields than the interface. */
export type Destination = { isLocal: boolean };

/** The body of the start request. Throws `usage` for values that the service would refuse, or probably ignore. */
export function buildRequest({ set, ...input }: RequestInput, destination: Destination): StartRequest {
  const parsed = { ...input, extra: readSetFields(set) };
  for (const fault of findFaults(parsed, destination)) throw usage(describeFlagFault(fault), fault.hint);
  for (const { name } of imageFields) {
    const isReplaced = name === "imageUrl" && replacesSourceImages(parsed);
    for (const image of isReplaced ? [] : (input.images[name] ?? [])) checkImage(image, name);
  }
  return toRequest(parsed);
}

/**
 * A prompt with a style at its end. A prompt that already ends with the style, because an earlier request is
 * repeated, stays as it is.
 */
export function joinStyle(prompt: string, style: string | undefined): string {
  if (prompt === "" || style === undefined || style === "" || prompt.endsWith(`, ${style}`)) return prompt;
  return `${prompt}, ${style}`;
}

/** The message about a flag. */
export function describeFlagFault({ field, text, subject = subjectOf(field) }: FieldFault): string {
  return `${subject} ${text}.`;
}

function subjectOf(name: FieldFault["field"]): string {
  if (name in setSubjects) return setSubjects[name as keyof typeof setSubjects];
  const field = fields.find((field) => field.name === name);
  return field === undefined ? name : (field.subject ?? flagOf(field, "long"));
}

/** The body of the start request from checked fields. */
export function toRequest({ texts, images, extra }: FieldInput): StartRequest {
  const { prompt, model } = texts;
  const body: Record<string, unknown> = {};
  for (const field of fields) {
    const text = texts[field.name];
    if (isImageField(field)) {
      const list = images[field.name] ?? [];
      if (field.name !== "imageUrl") Object.assign(body, imageValue(field, list));
      else if (!replacesSourceImages({ extra })) Object.assign(body, sourceImages(list, extra.model ?? model));
    } else if (text !== undefined) body[field.name] = wireValue(field, text);
  }
  return { prompt, model, ...body, ...extra };
}

/**
 * All faults of the fields. Images are checked only for their number and whether they are sent;
 * `findImageFault` checks the rest.
 */
export function* findFaults({ texts, images, extra }: FieldInput, { isLocal }: Destination): Generator<FieldFault> {
  if (extra.prompt !== undefined)
    yield { field: "set.prompt", text: "is a second prompt", hint: "Pass the prompt only as the argument." };
  for (const name of checkedExtras) {
    const fault = findExtraFault(name, extra[name]);
    if (fault !== undefined) yield { field: `set.${name}`, text: `${fault}, not ${JSON.stringify(extra[name])}` };
  }
  const { model = texts.model } = extra;
  for (const field of fields) {
    const { name, hint } = field;
    const text = name === "model" ? model : texts[name];
    if (text !== undefined && typeof text !== "string") {
      yield { field: "set.model", text: `must be text, such as '"5"', not ${JSON.stringify(model)}` };
      // The rules of the later fields depend on the model.
      return;
    }
    if (isImageField(field)) {
      const count = images[field.name]?.length ?? 0;
      if (field.isLocalOnly && !isLocal && count > 0) yield { field: name, text: localOnlyText(name) };
      if (name !== "imageUrl" || replacesSourceImages({ extra })) continue;
      const fault = findCountFault(count, String(model));
      if (fault !== undefined) yield { field: name, subject: String(model), ...fault };
      continue;
    }
    const fault = text === undefined ? undefined : findValueFault(field, text);
    if (fault !== undefined) yield { field: name, text: fault, hint };
  }
}

function localOnlyText(name: FieldName): string {
  return `is only for --local and --engine, so nothing was sent: a service that has no field ${name} may ignore it, and charge. \`--set ${name}=<url>\` sends it anyway`;
}

/** The names of the source image at various services. Other fields, such as `image_strength`, do not replace it. */
const sourceImageNames: readonly string[] = ["image", "images", "imageUrl", "imageUrls", "image_url", "image_urls"];

/** Whether a field of this name replaces the source images. */
export function isSourceImage(field: string): boolean {
  return sourceImageNames.includes(field);
}

/** Whether the fields of `--set` replace the source images. */
export function replacesSourceImages({ extra }: Pick<FieldInput, "extra">): boolean {
  return Object.keys(extra).some(isSourceImage);
}

/** The note before a start whose source images are replaced by another field, if they are. */
export function findDroppedImages({ images, extra }: Pick<FieldInput, "images" | "extra">, subject: string): string[] {
  const replacingField = Object.keys(extra).find(isSourceImage);
  if (replacingField === undefined || !images.imageUrl?.length) return [];
  return [`${subject} is not sent: the field ${replacingField} says what the source image is.`];
}

function findCountFault(count: number, model: string): Pick<FieldFault, "text" | "hint"> | undefined {
  const range = findModel(model)?.images;
  if (range && (count < range.min || count > range.max))
    return { text: `needs ${range.min} to ${range.max} images, not ${count}`, hint: "Pass each with --image <url>." };
  if (range || count < 2) return undefined;
  return { text: "accepts one image; kling-1.6-elements accepts 2 to 4" };
}

/**
 * One image is sent as `imageUrl`. The interface does not show how several are sent: that they are the array
 * `imageUrls` is an assumption, which only this function makes, and which `--set imageUrls=[...]` or any
 * other field overrides.
 */
function sourceImages(images: readonly string[], model: unknown): Record<string, unknown> {
  const [first] = images;
  if (first === undefined) return {};
  return findModel(String(model))?.images ? { imageUrls: images } : { imageUrl: first };
}

function imageValue({ name, takes }: Field, images: readonly string[]): Record<string, unknown> {
  if (images.length === 0) return {};
  return { [name]: takes === "image" ? images.at(-1) : images };
}

/** Throws `usage` for an image that the service could not fetch. */
export function checkImage(text: string, name: ImageName): void {
  const fault = findImageFault(text);
  if (fault !== undefined) throw usage(`${subjectOf(name)} ${fault}.`);
}

/** The fields of `--set`. Throws `usage`. */
export function readSetFields(set: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(set.map(readSetField));
}

function readSetField(text: string): [string, unknown] {
  const at = text.indexOf("=");
  const field = text.slice(0, at).trim();
  if (at === -1 || field === "") throw usage(`--set must be field=value, not "${text}".`);
  const value = readValue(text.slice(at + 1));
  if (hasChangedNumber(value))
    throw usage(`--set ${field} contains a number that would be changed on the way.`, "Write the number as a text.");
  return [field, value];
}

/** The parsed JSON, or the text if it is not valid JSON, or a number that a JavaScript number cannot hold. */
export function readValue(text: string): unknown {
  const json = parseJson(text);
  return json === undefined || (typeof json === "number" && hasChangedNumber(json)) ? text : json;
}
