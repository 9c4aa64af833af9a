import {
  type Create,
  createFake,
  dataFile,
  type Fake,
  type FakeOptions,
  hexId,
  type Job,
  json,
  unixSeconds,
} from "./fake.ts";
import { findInvalid, isInteger, isNumber, isSize, isText } from "./rules.ts";

export type VllmOmniOptions = FakeOptions & {
  /** The model that it was started with. */
  model?: string;
  /** "vllm" wraps its errors as vLLM's own server does, and refuses invalid fields with 400. */
  errors?: "fastapi" | "vllm";
  /** How long it keeps a file; the job stays `completed` without it. */
  ttlMs?: number;
};

/** Starlette's, of a part that is no file. */
const maxPartBytes = 1_024 * 1_024;

const rules = {
  prompt: isText,
  size: isSize,
  seconds: (value: unknown) => /^[1-9]\d*$/.test(String(value)),
  width: isInteger,
  height: isInteger,
  num_frames: isInteger,
  num_inference_steps: isInteger,
  seed: isInteger,
  fps: isNumber,
  guidance_scale: isNumber,
  guidance_scale_2: isNumber,
  boundary_ratio: isNumber,
  flow_shift: isNumber,
  true_cfg_scale: isNumber,
  generate_sound: (value: unknown) => /^(true|false)$/.test(String(value)),
  extra_params: isJsonObject,
  lora: isJsonObject,
  audio_reference: isJsonObject,
  video_reference: isJsonObject,
  image_reference: (value: unknown) => imagesIn(value).length > 0,
};

function isJsonObject(value: unknown): boolean {
  try {
    return typeof value === "string" && typeof JSON.parse(value) === "object";
  } catch {
    return false;
  }
}

function imagesIn(value: unknown): Create["files"] {
  const list = isJsonObject(value) ? [JSON.parse(String(value))].flat() : [];
  return list.flatMap(({ image_url }) => dataFile("image_reference", image_url));
}

const phrases: Record<number, string> = { 400: "Bad Request", 404: "Not Found", 422: "Unprocessable Content" };

/** vLLM-Omni: multipart only, a failed job is answered with its HTTP status, and progress is 0 or 100. Unknown fields are ignored. */
export function createVllmOmni(options: VllmOmniOptions = {}): Fake {
  const { model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers", errors = "vllm", now = Date.now } = options;
  const { ttlMs = Number.POSITIVE_INFINITY } = options;
  const expiresAtMs = ({ end }: Job) => (end?.atMs ?? 0) + ttlMs;
  const error = (status: number, message: string) => {
    if (errors === "fastapi") return json(status, { detail: message });
    return json(status, { error: { message, type: phrases[status] ?? "Error", param: null, code: status } });
  };
  const refuse = (type: string, field: string, { msg, input }: { msg: string; input: unknown }) => {
    if (errors === "fastapi") return json(422, { detail: [{ type, loc: ["body", field], msg, input }] });
    const details = `{'type': '${type}', 'loc': ('body', '${field}'), 'msg': '${msg}', 'input': ${input === null ? "None" : `'${input}'`}}`;
    return error(400, `[${details}]`);
  };
  const refuseField = (field: string, { fields }: Create) =>
    refuse("value_error", field, { msg: "Input should be valid", input: fields[field] });

  function check(create: Create): Response | undefined {
    const { encoding, fields, files } = create;
    if (Object.values(fields).some((value) => String(value).length > maxPartBytes))
      return error(400, "Part exceeded maximum size of 1024KB.");
    if ("image_reference" in fields && files.some(({ field }) => field === "input_reference"))
      return error(400, "Provide only one of input_reference, image_reference, or video_reference.");
    if (files.some(({ field }) => field === "input_references")) return error(400, "These would be videos.");
    if (encoding === "json" || !("prompt" in fields)) {
      return refuse("missing", "prompt", { msg: "Field required", input: null });
    }
    const invalid = findInvalid(fields, rules);
    if (invalid) return refuseField(invalid, create);
    if (fields.model === undefined || fields.model === model) return undefined;
    return error(400, `Model mismatch: request specifies '${fields.model}' but server is running '${model}'.`);
  }

  return createFake(
    {
      pages: {
        "/health": "",
        "/v1/models": {
          object: "list",
          data: [{ id: model, object: "model", created: 1767225600, owned_by: "vllm", root: model, parent: null }],
        },
      },
      check,
      refuseField,
      filesIn: ({ image_reference }) => imagesIn(image_reference),
      unauthorized: json(401, { error: "Unauthorized" }),
      running: ["queued", "in_progress"],
      createdStatus: 200,
      newId: (count) => `video_gen_${hexId(count)}`,
      toBody: ({ id, create: { fields }, createdAtMs, end }, status) => ({
        model,
        prompt: fields.prompt,
        id,
        object: "video",
        status,
        size: fields.size ?? null,
        progress: status === "completed" ? 100 : 0,
        seconds: fields.seconds ?? "4",
        quality: "default",
        completed_at: end ? unixSeconds(end.atMs) : null,
        created_at: unixSeconds(createdAtMs),
        remixed_from_video_id: null,
        error: end?.failure ? { code: end.failure.httpStatus, message: end.failure.message } : null,
        media_type: "video/mp4",
        expires_at: end && ttlMs < Number.POSITIVE_INFINITY ? unixSeconds(end.atMs + ttlMs) : null,
        file_name: status === "completed" ? `${id}.mp4` : null,
        inference_time_s: null,
        stage_durations: {},
        peak_memory_mb: 0,
        action: null,
      }),
      failedStatus: ({ httpStatus }) => httpStatus,
      noContent(job, status) {
        if (status === "completed" && now() >= expiresAtMs(job)) return error(404, "Video file not found");
        if (status === "completed") return undefined;
        if (status !== "failed") return error(404, "Generation is still in-progress");
        return error(422, "Video generation failed. Check job status for error details.");
      },
      stopsSlowly: true,
      deleted: ({ id }) => ({ id, deleted: true, object: "video.deleted" }),
      error,
      notFound: () => "Video not found",
    },
    options,
  );
}
