import { tinyMp4 } from "../../../../mp4.ts";
import { type Create, createFake, dataFile, type Fake, type FakeOptions, hexId, json, unixSeconds } from "./fake.ts";
import { findInvalid, isInteger, isNumber, isText } from "./rules.ts";

export type TensorRtLlmOptions = FakeOptions & {
  model?: string;
  /** Without it, `format: "mp4"` is refused, and what names no format becomes an .avi. */
  hasFfmpeg?: boolean;
  /** Has `output_format` and `input_reference` alone, and its multipart parser ignores the fields that it does not know. */
  isOlder?: boolean;
};

const isPositive = (value: unknown, max: number) => isNumber(value) && Number(value) > 0 && Number(value) <= max;

const rules = {
  prompt: isText,
  model: isText,
  negative_prompt: isText,
  size: (value: unknown) => /^(\d+x\d+|auto)$/.test(String(value)),
  seconds: (value: unknown) => isPositive(value, 60),
  fps: (value: unknown) => isPositive(value, 120),
  width: isInteger,
  height: isInteger,
  num_frames: isInteger,
  num_inference_steps: isInteger,
  seed: isInteger,
  guidance_scale: isNumber,
  format: (value: unknown) => ["mp4", "avi", "auto"].includes(String(value)),
  output_format: (value: unknown) => ["mp4", "avi", "auto"].includes(String(value)),
  image_reference: (value: unknown) => dataFile("image_reference", value).length > 0,
  extra_params: (value: unknown) => typeof value === "object",
};
const fileFields = ["image_reference", "video_reference", "audio_reference", "input_reference"];
const newFields = ["format", "image_reference"];
const avi = Buffer.from("RIFF....AVI LIST");

/** TensorRT-LLM: 202, unknown fields are refused with 422, `error` is a text, and two statuses of its own. */
export function createTensorRtLlm(options: TensorRtLlmOptions = {}): Fake {
  const { model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers", hasFfmpeg = true, isOlder = false } = options;
  const { video = ({ create }) => tinyMp4(String(create.fields.prompt)) } = options;
  const error = (status: number, message: string) =>
    json(status, {
      object: "error",
      message,
      type: status === 404 ? "NotFoundError" : "BadRequestError",
      param: null,
      code: status,
    });
  const refuseUnknown = (...fields: string[]) =>
    error(
      422,
      fields
        .map((field) => `Unknown request field '${field}'. Pass model-specific parameters via 'extra_params' instead.`)
        .join("; "),
    );

  function check({ encoding, fields, files }: Create): Response | undefined {
    if (!("prompt" in fields)) return error(422, "prompt: Field required");
    if (isOlder && encoding === "multipart")
      for (const field of [...newFields, "width", "height"]) delete fields[field];
    const isUnknown = (field: string) =>
      !(field in rules) || (isOlder ? newFields.includes(field) : field === "output_format");
    const unknownFile = files.find(
      ({ field }) => !fileFields.includes(field) || (isOlder && newFields.includes(field)),
    );
    const unknown = [...Object.keys(fields).filter(isUnknown), ...(unknownFile ? [unknownFile.field] : [])];
    if (unknown.length > 0) return refuseUnknown(...new Set(unknown));
    if (fields.format === "mp4" && !hasFfmpeg) return error(400, "format 'mp4' needs ffmpeg, which is not installed");
    const invalid = findInvalid(fields, rules);
    if (invalid) return error(422, `${invalid}: Input should be valid`);
    if ("width" in fields === "height" in fields) return undefined;
    const { width = "None", height = "None" } = fields;
    return error(422, `Value error, width and height must be sent together; got width=${width}, height=${height}`);
  }

  // An older one without a format makes an .avi, where it has no ffmpeg.
  const makesMp4 = ({ fields }: Create) => hasFfmpeg || [fields.format, fields.output_format].includes("mp4");

  return createFake(
    {
      pages: {
        "/health": "",
        "/version": { version: "1.3.0" },
        "/v1/models": {
          object: "list",
          data: [{ id: model, object: "model", created: 1767225600, owned_by: "tensorrt_llm" }],
        },
      },
      check,
      refuseField: (field) => error(422, `${field}: Input should be valid`),
      filesIn: ({ image_reference }) => dataFile("image_reference", image_reference),
      running: ["queued", "generating", "postprocessing"],
      createdStatus: 202,
      newId: (count) => `video_${hexId(count)}`,
      toBody: ({ id, create: { fields }, createdAtMs, end }, status) => ({
        completed_at: end ? unixSeconds(end.atMs) : null,
        created_at: unixSeconds(createdAtMs),
        error: end?.failure?.message ?? null,
        expires_at: null,
        id,
        model: fields.model ?? model,
        object: "video",
        progress: null,
        prompt: fields.prompt,
        status,
        duration: Number(fields.seconds ?? 5),
        fps: Number(fields.fps ?? 24),
        size: fields.size ?? `${fields.width}x${fields.height}`,
        response_format: "file",
      }),
      noContent: ({ id }, status) =>
        status === "completed" ? undefined : error(400, `Video ${id} is not ready (status: ${status})`),
      deleted: () => ({ deleted: true }),
      error,
      notFound: (id) => `Video ${id} not found`,
    },
    { ...options, video: (job) => (makesMp4(job.create) ? video(job) : avi) },
  );
}
