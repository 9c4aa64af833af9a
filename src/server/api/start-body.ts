import * as z from "zod";
import { findExtraFault } from "../../protocol/extras.ts";
import { hasChangedNumber, isRecord } from "../../protocol/json.ts";
import {
  adaptiveRatio,
  aspectRatios,
  findModel,
  maxLocalSeconds,
  models,
  shorterSideOf,
} from "../../protocol/models.ts";
import { oneOf } from "../../protocol/text.ts";
import { type Engine, optionalExtras, requiredExtras } from "../engines/engine.ts";
import {
  findShapeFault,
  frameSize,
  pixelsOf,
  previewResolutions,
  readSize,
  shapeOf,
  sizeText,
} from "../engines/frame-size.ts";
import { isTooDeep } from "../engines/passed.ts";
import { type FieldNames, parse } from "../http/input.ts";
import { findJsonFault, refuse } from "../http/message.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { ExtraValue, Images, RenderRequest, StoredGeneration } from "../store/generations.ts";
import { named, schemas } from "./openapi/operation.ts";

/** The maximum of bytes for prompts and other texts, and of characters for addresses. */
const maxTextBytes = 32_000;
const maxAddressLength = 8_000;
const shortText = `must have at most ${maxTextBytes / 1_000} kB`;

const shorterSides = `a shorter side of ${oneOf(previewResolutions.map(shorterSideOf))}`;
const sizeSchema = z.looseObject({
  size: z
    .string()
    .refine((text) => pixelsOf(text) !== undefined, 'must be such as "1280x720"')
    .optional()
    .meta({
      description: `Pixels, such as "640x360", in place of aspectRatio and resolution: a real model gets them unchanged. A preview has ${shorterSides}.`,
    }),
});
const notSeconds = "must be a number of seconds";
const httpUrl = z.string().refine(isHttpUrl, "must be an http(s) address");
const imageUrl = z
  .string()
  .refine((value) => isHttpUrl(value) || value.startsWith("data:image/"), "must be an http(s) or data: address");

/** The body of the start request. Bounds and defaults that the interface does not define are the local service's own. */
const bodySchema = z.object({
  prompt: z
    .string()
    .refine(isShortText, shortText)
    .refine((value) => value.trim() !== "", "must not be empty")
    .meta({ description: `What the video shows. At most ${maxTextBytes / 1_000} kB.` }),
  model: z.string().meta({ description: "A model that this service serves.", examples: models.map(({ id }) => id) }),
  aspectRatio: z
    .string()
    .regex(/^(\d{1,4}(\.\d{1,4})?:\d{1,4}(\.\d{1,4})?|adaptive)$/, 'must be a ratio such as "16:9"')
    .refine(isSaneRatio, "must be between 1:4 and 4:1")
    .default("16:9")
    .meta({
      description:
        "Width to height, between 1:4 and 4:1, or adaptive where the model chooses it; 16:9 unless the model has another.",
    }),
  duration: z
    .union([z.number(), z.string().regex(/^\d+(\.\d+)?$/, notSeconds)], { error: notSeconds })
    .transform(Number)
    .refine(
      (seconds) => seconds > 0 && seconds <= maxLocalSeconds,
      `must be more than 0 and at most ${maxLocalSeconds} seconds`,
    )
    .default(5)
    .meta({
      description: `Seconds, more than 0 and at most ${maxLocalSeconds}; 5 unless the model has another length.`,
    }),
  resolution: z
    .string()
    .regex(/^[a-z\d][a-z\d._-]{0,19}$/i, "must be a name such as 720p or 4k")
    .default("480p")
    .meta({
      description:
        "Such as 720p, 1080p or 4k, where the engine has it; a preview has at most 1080p. 480p unless the model has another.",
    }),
  imageUrl: imageUrl
    .optional()
    .meta({ description: "An image to start from: an http(s) or data: address of a PNG, JPEG or WebP." }),
  imageUrls: z
    .array(imageUrl)
    .optional()
    .meta({ description: "Several images, for models that take them; kling-1.6-elements takes 2 to 4." }),
  lastImageUrl: imageUrl.optional().meta({
    description: "The image that the video ends with, where the model takes one; otherwise the start is refused.",
  }),
  referenceUrls: z.array(imageUrl).optional().meta({
    description:
      "Style references: images with people, things or a style to follow, where the model takes them, without an image to start from or to end with; otherwise the start is refused.",
  }),
  callback_url: httpUrl.optional().meta({ description: "URL to which the result is POSTed: see the webhook." }),
});

const optionalExtra = z
  .union([z.number(), z.string().refine(isShortText, shortText)], { error: "must be a number or a text" })
  .meta({ description: "Passed on to a real model; a model that does not know it ignores it." })
  .register(schemas, { id: "OptionalExtra" });
const otherExtra = z
  .union([z.number(), z.boolean(), z.string(), z.array(z.unknown()), z.record(z.string(), z.unknown())])
  .transform(readObject)
  .refine((value) => isShortText(JSON.stringify(value)), shortText)
  .meta({ description: "Passed on to a real model." })
  .register(schemas, { id: "OtherExtra" });
/** Refuses a value that a server would refuse after the start was paid. Leaving the value out would make a different video. */
function checkedExtra(name: string) {
  if (findExtraFault(name, "") === undefined) return optionalExtra;
  return optionalExtra.superRefine((value, context) => {
    const fault = findExtraFault(name, value);
    if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
  });
}
/** No server accepts these in another form. The engine fetches the URLs. */
const objectExtras: Readonly<Record<string, z.ZodType<ExtraValue>>> = {
  extra_params: otherExtra.refine(isRecord, 'must be an object, such as {"task":"t2va"}'),
  lora: otherExtra.refine(isRecord, 'must be an object, such as {"name":"snow"}'),
  audio_reference: referenceExtra("audio"),
  video_reference: referenceExtra("video"),
};
function referenceExtra(media: "audio" | "video") {
  const url = `${media}_url`;
  const isAddress = (value: unknown) =>
    typeof value === "string" && (isHttpUrl(value) || value.startsWith(`data:${media}/`));
  const isReference = (value: unknown) => isAddress(value) || (isRecord(value) && isAddress(value[url]));
  return otherExtra.refine(
    (value) => (Array.isArray(value) ? value.length > 0 && value.every(isReference) : isReference(value)),
    `must be an http(s) or data: address, {"${url}": "<address>"}, or a list of them; it cannot be a file or a file_id`,
  );
}
const extrasSchema = z.object(
  Object.fromEntries([
    ...optionalExtras.map((name) => [name, checkedExtra(name).optional()] as const),
    ...requiredExtras.map((name) => [name, (objectExtras[name] ?? otherExtra).optional()] as const),
  ]),
);

/** All fields of a start. */
export const startSchema = named("Start", { ...bodySchema.shape, ...sizeSchema.shape, ...extrasSchema.shape });

export type StartRequest = Pick<StoredGeneration, "request" | "callback_url">;

const knownNames: readonly string[] = Object.keys({ ...bodySchema.shape, ...sizeSchema.shape, ...extrasSchema.shape });

const maxUnknownNames = 50;

/** Returns the fields of a start that vidgen does not know. Throws a 400 for those that are too many, too large or nested too deeply. */
function readUnknown(json: unknown): Record<string, ExtraValue> {
  const fields = Object.entries(json as Record<string, ExtraValue>).filter(([name]) => !knownNames.includes(name));
  const refuseField = (name: string, text: string) => refuse(400, `invalid_${name}`, `${name} ${text}`);
  for (const [name, value] of fields) {
    if (!/^(?!__proto__$)[\w.-]{1,100}$/.test(name))
      throw refuse(400, "invalid_body", "the name of a field must have 1 to 100 letters, digits, dots, - and _");
    if (isTooDeep(value)) throw refuseField(name, "is nested too deeply");
  }
  if (fields.length > maxUnknownNames)
    throw refuse(400, "invalid_body", `the body has more than ${maxUnknownNames} other fields`);
  const [last = ["the body"]] = fields;
  if (!isShortText(JSON.stringify(fields))) throw refuseField(last[0], `and the other fields together ${shortText}`);
  return Object.fromEntries(fields);
}

/** Returns the reader of a start's body. It throws a 400 that says what is wrong with which field. */
export function createStartReader({
  engines,
  hasDirectives,
}: Pick<ServiceParts, "engines" | "hasDirectives">): (json: unknown, names?: FieldNames) => StartRequest {
  return (json, ownNames = {}) => {
    checkNumbers(json);
    const { size, ...fields } = parse(sizeSchema, json);
    const pixels = size === undefined ? undefined : pixelsOf(size);
    const names = pixels ? { ...ownNames, aspectRatio: "size", resolution: "size" } : ownNames;
    const requested = { ...fields, ...(pixels && shapeOf(pixels)) };
    const body = parse(bodySchema, requested, { names });
    const { callback_url, imageUrl: image, imageUrls = [], lastImageUrl, referenceUrls = [], ...rest } = body;
    const withModel = engines.filter(({ models }) => models.includes(rest.model));
    if (withModel.length === 0) throw refuseModel(engines);
    const images = image === undefined ? imageUrls : [image, ...imageUrls];
    const real = withModel.filter(({ isSimulation }) => !isSimulation);
    const isReal = real.length > 0;
    const makers = isReal ? real : withModel;
    const previewFault = isReal ? undefined : findShapeFault({ ...rest, extras: {} }, { isPreview: true });
    if (size !== undefined && !isReal && (previewFault || readSize(size) === undefined))
      throw refuse(400, "invalid_size", `size must have ${shorterSides}: ${rest.model} is a preview here`);
    if (previewFault) throw refuse(400, `invalid_${previewFault.field}`, `${previewFault.field} ${previewFault.text}`);
    const maxOfEngines = Math.max(...makers.map(({ maxImages }) => maxImages));
    checkImages(rest.model, images.length, { maxOfEngines, name: names.imageUrls ?? "imageUrls" });
    const request = {
      ...rest,
      images,
      ...(lastImageUrl !== undefined && { lastImage: lastImageUrl }),
      ...(referenceUrls.length > 0 && { references: referenceUrls }),
      extras: {
        ...readUnknown(json),
        ...(parse(extrasSchema, json, { names }) as Record<string, ExtraValue>),
        ...(isReal && size !== undefined && !isImplied(rest, size) && { size }),
      },
      isReal,
      // A provider's model may have other defaults, and not accept ours.
      ...(isReal && { unset: defaulted.filter((name) => !(name in requested)) }),
      hasDirectives: hasDirectives || !isReal,
    };
    if (hasOtherImages(request)) checkOtherImages(request, makers);
    return { request, callback_url: callback_url ?? null };
  };
}

/** Refuses numbers that are not the ones that were written, such as a seed of 64 bits. Servers accept numbers as text, too. */
function checkNumbers(json: unknown): void {
  const [field] = Object.entries(isRecord(json) ? json : {}).find(([, value]) => hasChangedNumber(value)) ?? [];
  if (field === undefined) return;
  const name = field.slice(0, 100);
  throw refuse(400, `invalid_${name}`, `${name} contains a number above 2^53: send it as a text`);
}

function refuseModel(engines: readonly Engine[]) {
  const served = [...new Set(engines.flatMap(({ models }) => models))].join(", ");
  const message = `model must be one of ${served}; whoever runs the service adds others with \`vidgen serve --engine\``;
  return refuse(400, "invalid_model", message);
}

const defaulted = ["aspectRatio", "duration", "resolution"] as const;

/** Whether the aspect ratio and the resolution already give this size for the model, so that the size need not be sent. */
function isImplied(request: Pick<RenderRequest, "model" | "aspectRatio" | "resolution">, size: string): boolean {
  const isUsualRatio = (aspectRatios as readonly string[]).includes(request.aspectRatio);
  return isUsualRatio && sizeText(frameSize({ ...request, extras: {} })) === size;
}

/** Reads an object that may be sent as a JSON text, as in vLLM-Omni's documentation. Throws a refusal if it is nested too deeply. */
export function readObject<Value>(value: Value): Value {
  if (typeof value !== "string" || !/^\s*[{[]/.test(value)) return value;
  const fault = findJsonFault(value);
  if (fault !== undefined) throw refuse(400, "invalid_json", `a field ${fault}`);
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** The interface defines how many images some models take, such as `kling-1.6-elements`. The others accept what their engines accept. */
function checkImages(
  model: string,
  count: number,
  { maxOfEngines, name }: { maxOfEngines: number; name: string },
): void {
  const { min, max } = findModel(model)?.images ?? { min: 0, max: maxOfEngines };
  if (count >= min && count <= max) return;
  const noImage = "no image here: its workflow has no {{image}}";
  const some = max === 1 ? "at most 1 image here" : `${min === 0 ? "at most" : `${min} to`} ${max} images in ${name}`;
  throw refuse(400, `invalid_${name}`, `${model} takes ${max === 0 ? noImage : `${some}, not ${count}`}`);
}

/** Whether there are images other than those that the video starts from. */
export function hasOtherImages({ lastImage, references }: Images<unknown>): boolean {
  return lastImage !== undefined || references !== undefined;
}

/** Any of the engines may get the generation, so each must accept its images. */
function checkOtherImages(
  { model, images, lastImage, references = [] }: { model: string } & Images<unknown>,
  engines: readonly Pick<Engine, "name" | "takesLastImage" | "maxReferences">[],
): void {
  const count = references.length;
  for (const { name, takesLastImage = false, maxReferences = 0 } of engines) {
    const takes = `${name}, which makes ${model} here, takes`;
    if (lastImage !== undefined && !takesLastImage)
      throw refuse(400, "invalid_lastImageUrl", `${takes} no last image; nothing was charged`);
    const most = maxReferences === 0 ? "no references" : `at most ${maxReferences} references, not ${count}`;
    if (count > maxReferences) throw refuse(400, "invalid_referenceUrls", `${takes} ${most}; nothing was charged`);
  }
  if (count > 0 && (images.length > 0 || lastImage !== undefined)) {
    const text = "models ignore references beside an image to start from or to end with: send one or the other";
    throw refuse(400, "invalid_referenceUrls", `${text}; nothing was charged`);
  }
}

function isShortText(value: string): boolean {
  return Buffer.byteLength(value) <= maxTextBytes;
}

function isHttpUrl(value: string): boolean {
  return value.length <= maxAddressLength && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}

function isSaneRatio(value: string): boolean {
  if (value === adaptiveRatio) return true;
  const [width = 0, height = 0] = value.split(":").map(Number);
  return width > 0 && height > 0 && width / height <= 4 && height / width <= 4;
}
