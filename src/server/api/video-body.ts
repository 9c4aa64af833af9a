import * as z from "zod";
import { failureCodes } from "../../client/http/schema.ts";
import { readSize, roundedSize, sizeText } from "../engines/frame-size.ts";
import { sizeOf } from "../engines/videos/kinds.ts";
import { type FieldNames, parse } from "../http/input.ts";
import { type ApiContext, bodyType, type JsonBody, parseJson, refuse } from "../http/message.ts";
import { pictureFormat } from "../media/picture.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { cancelledError } from "./cancel.ts";
import { id, named, schemas } from "./openapi/operation.ts";
import { readObject, startSchema } from "./start-body.ts";
import { costSchema } from "./status.ts";

const formType = "multipart/form-data";

/** What the body of a create may be. */
export const videoTypes = ["application/json", formType];

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

/** The fields that the interface calls otherwise; the others are the same, and are checked as they are there. */
const namedFields = z.looseObject({
  size: z
    .string()
    .transform(readSize)
    .refine((read) => read !== undefined, 'must be such as "1280x720", with a shorter side of 480, 720 or 1080')
    .optional(),
  seconds: z.unknown().optional(),
  input_reference: images.optional(),
  // As vLLM-Omni and TensorRT-LLM call it.
  image_reference: images.optional(),
});

/** All that a create may have. */
export const createSchema = startSchema
  .omit({ aspectRatio: true, duration: true, resolution: true, imageUrl: true, imageUrls: true })
  .extend({ ...namedFields.shape, seconds: startSchema.shape.duration })
  .register(schemas, { id: "Create" });
export const createFormSchema = named("CreateForm", {
  ...createSchema.shape,
  input_reference: z
    .string()
    .optional()
    .meta({ format: "binary", description: "A PNG, JPEG or WebP file, or its URL." }),
});

/** Returns the fields of a create, JSON or multipart, by the interface's names. Throws a refusal when it cannot be read. */
export async function readVideoStart(c: ApiContext, bytes: Uint8Array): Promise<JsonBody> {
  const { json: body, text } = bodyType(c.req) === formType ? await readForm(c, bytes) : parseJson(c, bytes);
  const { size, seconds: duration, input_reference, image_reference, ...same } = parse(namedFields, body);
  const imageUrls = [...(input_reference ?? []), ...(image_reference ?? [])];
  const json = {
    ...same,
    ...size,
    ...(duration !== undefined && { duration }),
    ...(imageUrls.length > 0 && { imageUrls }),
  };
  return { json, text };
}

/** The parser takes seconds for a large form of many small parts, or of long headers, in which nothing else is answered. */
const maxParts = 100;
const maxHeaderBytes = 8_000;

async function readForm(c: ApiContext, bytes: Uint8Array): Promise<JsonBody> {
  const boundary = readBoundary(c.req.header("Content-Type") ?? "");
  const fault = findFormFault(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), boundary);
  if (fault !== undefined) throw refuse(400, "invalid_form", fault);
  // The same boundary for the parser as was looked for.
  const headers = { "Content-Type": `${formType}; boundary="${boundary}"` };
  const form = await new Response(bytes, { headers }).formData().catch(() => {
    throw refuse(400, "invalid_form", `the body is not ${formType} as its Content-Type says`);
  });
  const fields = new Map<string, unknown[]>();
  for (const [sent, value] of form) {
    // Clients write `{"input_reference": {"image_url": ...}}` so.
    const name = sent.replace(/\[(image_url)?\]$/, "");
    const read = typeof value === "string" ? value : await readFile(name, value);
    fields.set(name, [...(fields.get(name) ?? []), read]);
  }
  const json = Object.fromEntries(Array.from(fields, ([name, all]) => [name, all.length === 1 ? all[0] : all]));
  // Each try has another boundary.
  return { json, text: JSON.stringify(json) };
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
    if (++count === maxParts) return `the form has ${maxParts} parts or more`;
    at += start.length;
    const headers = bytes.subarray(at, at + maxHeaderBytes);
    if (headers.indexOf("\r\n\r\n") === -1 && headers.length === maxHeaderBytes)
      return `the headers of a part of the form are longer than ${maxHeaderBytes / 1_000} kB`;
  }
  return undefined;
}

/** Returns a file as a `data:` address. Throws a refusal when it is no picture, or its field takes none. */
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
  size: z.string(),
  created_at: unixTime,
  completed_at: unixTime.nullable(),
  expires_at: z.null(),
  error: z
    .object({
      code: z.string().meta({ description: `${[...failureCodes, "cancelled"].join(", ")}, or else failed.` }),
      message: z.string(),
    })
    .nullable(),
  usage: z.object({ cost: costSchema }).optional(),
});

/** The job of `/v1/videos` that a generation is. `percent` is how much of it is made, where that is known. */
export function videoBody(generation: StoredGeneration, percent: number | undefined) {
  const { id, status, request, created_at, completed_at, checkpoint, error, error_code, cost } = generation;
  const { model, prompt, duration } = request;
  const running = checkpoint !== null || percent !== undefined ? "in_progress" : "queued";
  return {
    id,
    object: "video",
    status: status === "processing" ? running : status,
    progress: status === "completed" ? 100 : Math.floor(percent ?? 0),
    model,
    prompt,
    seconds: String(duration),
    // Models that are real make sizes of their own steps.
    size: request.isReal ? sizeOf(request) : sizeText(roundedSize(request, 2)),
    created_at: unixSeconds(created_at),
    completed_at: completed_at === null ? null : unixSeconds(completed_at),
    expires_at: null,
    error:
      error === null ? null : { code: error_code ?? (error === cancelledError ? error : "failed"), message: error },
    ...(cost !== null && { usage: { cost } }),
  };
}

function unixSeconds(time: string): number {
  return Math.floor(Date.parse(time) / 1_000);
}
