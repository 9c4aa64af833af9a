import { type Create, createFake, type Fake, type FakeOptions, hexId, json, unixSeconds } from "./fake.ts";
import { findInvalid, isInteger, isNumber, isText } from "./rules.ts";

export type TensorRtLlmOptions = FakeOptions & { model?: string };

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
};
const fileFields = ["image_reference", "video_reference", "audio_reference", "input_reference"];

/** TensorRT-LLM: 202, unknown fields are refused with 422, `error` is a text, and two statuses of its own. */
export function createTensorRtLlm(options: TensorRtLlmOptions = {}): Fake {
  const { model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers" } = options;
  const error = (status: number, message: string) =>
    json(status, {
      object: "error",
      message,
      type: status === 404 ? "NotFoundError" : "BadRequestError",
      param: null,
      code: status,
    });
  const refuseUnknown = (field: string) =>
    error(422, `Unknown request field '${field}'. Pass model-specific parameters via 'extra_params' instead.`);

  function check({ fields, files }: Create): Response | undefined {
    if (!("prompt" in fields)) return error(422, "prompt: Field required");
    const unknownField = Object.keys(fields).find((field) => !(field in rules));
    const unknownFile = files.find(({ field }) => !fileFields.includes(field));
    const unknown = unknownField ?? unknownFile?.field;
    if (unknown) return refuseUnknown(unknown);
    const invalid = findInvalid(fields, rules);
    if (invalid) return error(422, `${invalid}: Input should be valid`);
    if ("width" in fields === "height" in fields) return undefined;
    const { width = "None", height = "None" } = fields;
    return error(422, `Value error, width and height must be sent together; got width=${width}, height=${height}`);
  }

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
      refuseField: refuseUnknown,
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
    options,
  );
}
