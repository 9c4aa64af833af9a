import { textFields } from "../client/fields.ts";
import { readImages } from "../client/images.ts";
import { parseJson } from "../client/json.ts";
import { checkModel, type KnownModel } from "../client/models.ts";
import { findFaults, toRequest } from "../client/request.ts";
import { checkPrompt, type StartRequest } from "../client/schema.ts";
import { usage, VidgenError } from "../errors.ts";

/** What a video is to show (interface 4.1). */
export type GenerationRequest = {
  prompt: string;
  model: KnownModel | (string & {});
  /** Such as "16:9". */
  aspectRatio?: string | undefined;
  /** In seconds. */
  duration?: number | undefined;
  /** Such as "720p". */
  resolution?: string | undefined;
  /** Addresses, paths of PNG, JPEG or WebP files, or the bytes of such a file. */
  images?: readonly (string | URL | Uint8Array)[] | undefined;
  /** The service POSTs the result there. */
  callbackUrl?: string | undefined;
  /** Any other field of the body, by its name there. */
  extra?: Readonly<Record<string, unknown>> | undefined;
};

/** The fields of the request by their names here. */
const fieldsByName = new Map(textFields.map((field) => [toCamelCase(field.name), field]));

/** The body that is sent, a copy: the caller may change the object while the journal is written. Throws `usage`. */
export async function readRequest(request: GenerationRequest, onNote: (text: string) => void): Promise<StartRequest> {
  if (typeof request !== "object" || request === null)
    throw usage("The request must be an object with a prompt and a model.");
  const { images = [], extra = {}, ...given } = request;
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
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
    // Only their number matters here.
    images: sources.map(() => ""),
    extra: copyExtra(extra),
  };
  for (const { field, text } of findFaults(fields)) throw usage(`${field} ${text}.`);
  return toRequest({ ...fields, images: await readImages(sources, { onNote }) });
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
