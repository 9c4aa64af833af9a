import { findFileError } from "../client/request/doubtful-prompt.ts";
import { readImages } from "../client/request/images.ts";
import { usage, VidgenError } from "../errors.ts";
import type { Machine } from "../io.ts";
import { textFields } from "../protocol/fields.ts";
import { parseJson } from "../protocol/json.ts";
import { checkModel, type KnownModel } from "../protocol/models.ts";
import { findDroppedImages, findFaults, toRequest } from "../protocol/request.ts";
import { checkPrompt, type StartRequest } from "../protocol/schema.ts";

/** A request for a video. */
export type GenerationRequest = {
  /** What the video should show. */
  prompt: string;
  /** The id of the model. A model that vidgen does not know is sent unchanged. */
  model: KnownModel | (string & {});
  /** The aspect ratio, such as "16:9". */
  aspectRatio?: string | undefined;
  /** The length in seconds. */
  duration?: number | undefined;
  /** The resolution, such as "720p". */
  resolution?: string | undefined;
  /**
   * A whole number: the same request with the same seed gives a similar video, if the model supports it. A
   * service may ignore it.
   */
  seed?: number | undefined;
  /** The source images: URLs, paths of PNG, JPEG or WebP files, or the bytes of such a file. */
  images?: readonly (string | URL | Uint8Array)[] | undefined;
  /** The URL to which the service POSTs the result. */
  callbackUrl?: string | undefined;
  /** Whether a prompt that is only the name of a file or an address is sent; `false` by default. */
  exactPrompt?: boolean | undefined;
  /** Any other field of the service, by the service's name. */
  extra?: Readonly<Record<string, unknown>> | undefined;
};

/** The fields of the request by their names in the library. */
const fieldsByName = new Map(textFields.map((field) => [toCamelCase(field.name), field]));

/** Converts a request to the body that is sent, which is a copy, since the caller may change the object later. Throws `usage`. */
export async function readRequest(request: GenerationRequest, onNote: (text: string) => void): Promise<StartRequest> {
  if (typeof request !== "object" || request === null)
    throw usage("The request must be an object with a prompt and a model.");
  const { images = [], extra = {}, exactPrompt = false, ...namedFields } = request;
  if (typeof exactPrompt !== "boolean") throw usage("exactPrompt must be true or false.");
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(namedFields)) {
    const field = fieldsByName.get(name);
    if (!field) throw usage(`There is no field ${name}; put fields that only the service knows into extra.`);
    if (value === undefined) continue;
    const isNumber = field.takes === "number";
    if (typeof value !== (isNumber ? "number" : "string"))
      throw usage(`${name} must be ${isNumber ? "a number" : "text"}.`);
    values[field.name] = String(value);
  }
  const { prompt, model, ...rest } = values;
  if (prompt === undefined || model === undefined)
    throw usage("The request must be an object with a prompt and a model.");
  const sources = images.map((image) => (image instanceof URL ? image.href : image));
  const fields = {
    texts: { ...rest, prompt: checkPrompt(prompt), model: checkModel(model) },
    // The check of the fields needs only the number of images; `readImages` reads them below.
    images: { imageUrl: sources.map(() => "") },
    extra: copyExtra(extra),
  };
  for (const { field, text, subject = publicName(field), hint } of findFaults(fields, { isLocal: false }))
    throw usage(`${subject} ${text}.`, hint);
  for (const note of findDroppedImages(fields, "images")) onNote(note);
  return toRequest({ ...fields, images: { imageUrl: await readImages(sources, { onNote }) } });
}

/** The error of a prompt that is probably not what was meant. The request is checked. */
export async function findDoubt({ prompt, exactPrompt }: GenerationRequest, { disk }: Pick<Machine, "disk">) {
  return exactPrompt ? undefined : findFileError(prompt, disk.stat);
}

/** The library's name for the field of a fault. */
function publicName(field: string): string {
  return toCamelCase(field)
    .replace(/^imageUrl$/, "images")
    .replace(/^set\./, "extra.");
}

function toCamelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function copyExtra(extra: Readonly<Record<string, unknown>>): Record<string, unknown> {
  try {
    return parseJson(JSON.stringify(extra)) as Record<string, unknown>;
  } catch (cause) {
    throw new VidgenError("usage", "The request cannot be converted to JSON.", { cause });
  }
}
