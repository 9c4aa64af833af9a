import * as z from "zod";
import { defaultModel } from "../../protocol/models.ts";
import { cancelledError, failureCodes, isCancelledError } from "../../protocol/schema.ts";
import type { Engine } from "../engines/engine.ts";
import { findShapeFault, roundedSize, sizeOf, sizeText } from "../engines/frame-size.ts";
import { type FieldNames, parse } from "../http/input.ts";
import { type ApiContext, bodyType, type JsonBody, parseJson, refuse, withoutNulls } from "../http/message.ts";
import { pictureFormat } from "../media/picture.ts";
import type { Progress } from "../store/change.ts";
import { isSubmitting, type StoredGeneration } from "../store/generations.ts";
import { id, named, schemas } from "./openapi/operation.ts";
import { type StartBody, warningsSchema } from "./start.ts";
import { readObject, startSchema } from "./start-body.ts";
import { costSchema } from "./status.ts";

const formType = "multipart/form-data";

const urlencodedType = "application/x-www-form-urlencoded";

/** The media types of the body of a create. */
export const videoTypes = ["application/json", formType, urlencodedType];

/** What `/v1/videos` calls the fields of the interface. */
export const videoNames: FieldNames = {
  duration: "seconds",
  aspectRatio: "size",
  resolution: "size",
  imageUrl: "input_reference",
  imageUrls: "input_reference",
};

const image = z.union([z.string(), z.object({ image_url: z.string() }).transform(({ image_url }) => image_url)]);
const images = z.preprocess(
  readObject,
  z.union([image.transform((one) => [one]), z.array(image)], {
    error: 'must be an image file, an address or {"image_url": "<address>"}, or a list of them',
  }),
);

/** An image in OpenRouter's and Inworld's form. */
const typedImage = z.strictObject({
  type: z.literal("image_url", 'must be "image_url": a video or a sound is not taken here'),
  image_url: z.strictObject({ url: z.string() }),
});
const frameImage = typedImage.extend({
  frame_type: z.enum(["first_frame", "last_frame"], "must be first_frame or last_frame"),
});
const frameImages = z
  .array(frameImage)
  .refine(
    (list) => new Set(list.map(({ frame_type }) => frame_type)).size === list.length,
    "must have at most one image of each frame_type",
  );

const side = z
  .union([z.number(), z.string()], { error: "must be a number of pixels" })
  .transform(String)
  .refine((text) => /^[1-9]\d{0,4}$/.test(text), "must be a number of pixels")
  .optional()
  .meta({ description: "In pixels: width and height are another way to write the size." });

/** The fields that have another name in the interface; the others are the same, and are checked in the same way. */
const namedFields = z.looseObject({
  size: startSchema.shape.size,
  width: side,
  height: side,
  seconds: z.unknown().optional(),
  input_reference: images.optional(),
  // The name in vLLM-Omni and TensorRT-LLM.
  image_reference: images.optional(),
  frame_images: z.preprocess(readObject, frameImages).optional(),
  input_references: z.preprocess(readObject, z.array(typedImage)).optional(),
});

/** All fields of a create. */
export const createSchema = startSchema
  .omit({ aspectRatio: true, duration: true, resolution: true, imageUrl: true, imageUrls: true })
  .extend({
    ...namedFields.shape,
    seconds: startSchema.shape.duration,
    model: startSchema.shape.model.optional().meta({
      description: "A model that this service serves; without one, it chooses.",
      examples: startSchema.shape.model.meta()?.examples,
    }),
  })
  .register(schemas, { id: "Create" });
export const createFormSchema = named("CreateForm", {
  ...createSchema.shape,
  input_reference: z
    .string()
    .optional()
    .meta({ format: "binary", description: "A PNG, JPEG or WebP file, or its URL." }),
});

/** Returns the model for a create without one: clients of servers with one model do not send it. Real models come before previews. */
export function findDefaultModel(engines: readonly Pick<Engine, "models" | "isSimulation">[]): string | undefined {
  const real = engines.filter(({ isSimulation }) => !isSimulation);
  const served = (real.length > 0 ? real : engines).flatMap(({ models }) => models);
  return served.includes(defaultModel) ? defaultModel : served[0];
}

/** Fields of other servers that change the video: ignoring them would make another video. */
const unsupportedFields: Readonly<Record<string, string>> = {
  aspect_ratio: "send size",
  extra_body: "send its fields beside prompt",
  nvext: "send its fields beside prompt",
  video_params: "send its fields beside prompt",
};

/** Leaves out what OpenAI's clients send without an effect on the video. Throws a refusal for fields that vidgen does not support. */
function supportedFields({ n, user, metadata, ...body }: Record<string, unknown>): Record<string, unknown> {
  const [field, instead] = Object.entries(unsupportedFields).find(([name]) => body[name] !== undefined) ?? [];
  if (field !== undefined) throw refuse(400, `invalid_${field}`, `${field} is not supported here: ${instead}`);
  if (Number(n ?? 1) !== 1) throw refuse(400, "invalid_n", "n must be 1: each create makes one video");
  return body;
}

/** Returns the fields of a create by the interface's names; `model` is the default. Throws a refusal if the body cannot be read. */
export async function readVideoStart(
  c: ApiContext,
  bytes: Uint8Array,
  { model }: { model: string | undefined },
): Promise<StartBody> {
  const { json: body, ...read } = withoutNulls(await readFields(c, bytes));
  const {
    seconds: duration,
    input_reference,
    image_reference,
    frame_images = [],
    input_references,
    size,
    width,
    height,
    ...sameFields
  } = parse(namedFields, body);
  const framesOf = (type: string) => frame_images.filter(({ frame_type }) => frame_type === type).map(urlOf);
  const imageUrls = [...(input_reference ?? []), ...(image_reference ?? []), ...framesOf("first_frame")];
  const [lastImageUrl] = framesOf("last_frame");
  const ownImages = {
    ...(imageUrls.length > 0 && { imageUrls }),
    ...(lastImageUrl !== undefined && { lastImageUrl }),
    ...(input_references?.length && { referenceUrls: input_references.map(urlOf) }),
  };
  const repeated = Object.keys(ownImages).find((name) => sameFields[name] !== undefined);
  if (repeated !== undefined)
    throw refuse(400, `invalid_${repeated}`, `${repeated} is also another field of this body: send only one of them`);
  const pixels = readPixels({ size, width, height });
  const json = {
    ...(model !== undefined && { model }),
    ...supportedFields(sameFields),
    ...(pixels !== undefined && { size: pixels }),
    ...(duration !== undefined && { duration }),
    ...ownImages,
  };
  return { json, ...read };
}

const urlOf = ({ image_url }: z.infer<typeof typedImage>) => image_url.url;

function readFields(c: ApiContext, bytes: Uint8Array): JsonBody | Promise<JsonBody> {
  const type = bodyType(c.req);
  if (type === formType) return readForm(c, bytes);
  return type === urlencodedType ? readUrlencoded(bytes) : parseJson(c, bytes);
}

/** Returns the size of the video, which a body may also give as width and height. Throws a refusal if they contradict each other. */
function readPixels({
  size,
  width,
  height,
}: Pick<z.infer<typeof namedFields>, "size" | "width" | "height">): string | undefined {
  if (width === undefined && height === undefined) return size;
  if (width === undefined) throw refuse(400, "invalid_width", `width is missing: ${together}`);
  if (height === undefined) throw refuse(400, "invalid_height", `height is missing: ${together}`);
  const pixels = `${width}x${height}`;
  if (size !== undefined && size !== pixels)
    throw refuse(400, "invalid_size", "size differs from width and height: send only one of them");
  return pixels;
}

const together = "width and height go together";

/** The parser takes seconds for a large form of many small parts or long headers, during which no other request is answered. */
const maxParts = 100;
const maxHeaderBytes = 8_000;
const tooManyParts = `the form has ${maxParts} parts or more`;

async function readForm(c: ApiContext, bytes: Uint8Array): Promise<JsonBody> {
  const boundary = readBoundary(c.req.header("Content-Type") ?? "");
  const fault = findFormFault(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), boundary);
  if (fault !== undefined) throw refuse(400, "invalid_form", fault);
  // The parser must use the boundary that was checked.
  const headers = { "Content-Type": `${formType}; boundary="${boundary}"` };
  const form = await new Response(bytes, { headers }).formData().catch(() => {
    throw refuse(400, "invalid_form", `the body is not ${formType} as its Content-Type says`);
  });
  const fields: [string, string][] = [];
  for (const [sent, value] of form) {
    const name = fieldName(sent);
    // A browser sends such a part for a file that nobody has chosen.
    if (typeof value !== "string" && value.name === "" && value.size === 0) continue;
    fields.push([name, typeof value === "string" ? value : await readFile(name, value)]);
  }
  return fromFields(fields);
}

function readUrlencoded(bytes: Uint8Array): JsonBody {
  const text = new TextDecoder().decode(bytes);
  if (text.split("&", maxParts).length === maxParts) throw refuse(400, "invalid_form", tooManyParts);
  return fromFields(Array.from(new URLSearchParams(text), ([sent, value]) => [fieldName(sent), value]));
}

/** Clients send `{"input_reference": {"image_url": ...}}` as `input_reference[image_url]`. */
function fieldName(sent: string): string {
  return sent.replace(/\[(image_url)?\]$/, "");
}

/** Returns the fields of a form. Browsers and the openai package send each line break of a text as CR LF, which the text did not have. */
function fromFields(fields: [string, string][]): JsonBody {
  const withLineBreaks = (lineBreak: string) =>
    toObject(fields.map(([name, value]) => [name, value.replaceAll(/\r?\n/g, lineBreak)]));
  const json = withLineBreaks("\n");
  const earlierTexts = () => [withLineBreaks("\r\n"), toObject(fields)].map((each) => JSON.stringify(each));
  // The text identifies a repeated body. The body itself does not, because each try has another boundary.
  return { json, text: JSON.stringify(json), earlierTexts };
}

/** A field that a form repeats is a list. */
function toObject(fields: [string, string][]): Record<string, string | string[]> {
  const all = new Map<string, string[]>();
  for (const [name, value] of fields) all.set(name, [...(all.get(name) ?? []), value]);
  return Object.fromEntries(
    Array.from(all, ([name, [first = "", ...others]]) => [name, others.length === 0 ? first : [first, ...others]]),
  );
}

function readBoundary(contentType: string): string {
  const [, quoted, bare = ""] = /;\s*boundary=(?:"([^"\\]*)"|([^\s;"]*))/i.exec(contentType) ?? [];
  return quoted ?? bare;
}

function findFormFault(bytes: Buffer, boundary: string): string | undefined {
  const start = Buffer.from(`--${boundary}\r\n`);
  const next = Buffer.from(`\r\n--${boundary}\r\n`);
  let count = 0;
  for (let at = bytes.indexOf(start); at !== -1; at = bytes.indexOf(next, at)) {
    if (++count === maxParts) return tooManyParts;
    at += start.length;
    const headers = bytes.subarray(at, at + maxHeaderBytes);
    if (headers.indexOf("\r\n\r\n") === -1 && headers.length === maxHeaderBytes)
      return `the headers of a part of the form are longer than ${maxHeaderBytes / 1_000} kB`;
  }
  return undefined;
}

/** Returns a file as a `data:` URL. Throws a refusal if it is not an image, or its field accepts no file. */
async function readFile(name: string, file: File): Promise<string> {
  if (!["input_reference", "image_reference"].includes(name))
    throw refuse(400, "invalid_form", "only input_reference may be a file");
  const bytes = Buffer.from(await file.arrayBuffer());
  const format = pictureFormat(bytes);
  if (!format) throw refuse(400, `invalid_${name}`, `${name} must be a PNG, JPEG or WebP`);
  return `data:image/${format};base64,${bytes.toString("base64")}`;
}

const unixTime = z.number().meta({ description: "Unix seconds." });

/** What `videoBody` returns. */
export const videoSchema = named("Video", {
  id,
  object: z.literal("video"),
  status: z.enum(["queued", "in_progress", "completed", "failed"]),
  progress: z.number().meta({ description: "In percent." }),
  model: z.string(),
  prompt: z.string(),
  seconds: z.string(),
  size: z.string().nullable().meta({ description: "In pixels; null if the model chooses it." }),
  created_at: unixTime,
  completed_at: unixTime.nullable(),
  expires_at: z.null(),
  remixed_from_video_id: z.null().meta({ description: "Remixes are not offered." }),
  error: z
    .object({
      code: z.string().meta({
        description: `${[...failureCodes, "cancelled"].join(", ")}; else the engine's own code, or failed.`,
      }),
      message: z.string(),
    })
    .nullable(),
  usage: z.object({ cost: costSchema }).optional(),
  warnings: warningsSchema,
});

/** Returns a generation as a job of `/v1/videos`, with its progress if that is known. */
export function videoBody(generation: StoredGeneration, progress: Progress | undefined) {
  const { id, status, request, created_at, completed_at, checkpoint, error, cost } = generation;
  const { model, prompt, duration } = request;
  // The percent of a node is not the percent of the video.
  const percent = progress?.node === undefined ? (progress?.percent ?? 0) : 0;
  const isTaken = (checkpoint !== null && !isSubmitting(generation)) || progress !== undefined;
  const unfinished = isTaken ? "in_progress" : "queued";
  return {
    id,
    object: "video",
    status: status === "processing" ? unfinished : status,
    progress: status === "completed" ? 100 : Math.floor(percent),
    model,
    prompt,
    seconds: String(duration),
    size: describeSize(generation),
    created_at: unixSeconds(created_at),
    completed_at: completed_at === null ? null : unixSeconds(completed_at),
    expires_at: null,
    remixed_from_video_id: null,
    error: error === null ? null : { code: codeOf(generation), message: error },
    ...(cost !== null && { usage: { cost } }),
  };
}

/** Real models round sizes to their own steps, so the size of a video is that of its file. */
function describeSize({ request, media }: StoredGeneration): string | null {
  if (media?.width !== undefined && media.height !== undefined) return `${media.width}x${media.height}`;
  if (!request.isReal) return sizeText(roundedSize(request, 2));
  return findShapeFault(request) ? null : sizeOf(request);
}

function codeOf({ error, error_code, engine_code }: StoredGeneration): string {
  return error_code ?? (isCancelledError(error) ? cancelledError : (engine_code ?? "failed"));
}

function unixSeconds(time: string): number {
  return Math.floor(Date.parse(time) / 1_000);
}
