import { type Create, createFake, type Fake, type FakeOptions, hexId, json, unixSeconds } from "./fake.ts";
import { findInvalid, isInteger, isNumber, isSize, isText } from "./rules.ts";

export type VllmOmniOptions = FakeOptions & {
  /** The model that it was started with. */
  model?: string;
  /** "vllm" wraps its errors as vLLM's own server does, and refuses invalid fields with 400. */
  errors?: "fastapi" | "vllm";
};

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
};

const phrases: Record<number, string> = { 400: "Bad Request", 404: "Not Found", 422: "Unprocessable Entity" };

/** vLLM-Omni: multipart only, a failed job is answered with its HTTP status, and progress is 0 or 100. Unknown fields are ignored. */
export function createVllmOmni(options: VllmOmniOptions = {}): Fake {
  const { model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers", errors = "fastapi" } = options;
  const error = (status: number, message: string) => {
    if (errors === "fastapi") return json(status, { detail: message });
    return json(status, { error: { message, type: phrases[status] ?? "Error", param: null, code: status } });
  };
  const refuse = (type: string, field: string, { msg, input }: { msg: string; input: unknown }) => {
    if (errors === "fastapi") return json(422, { detail: [{ type, loc: ["body", field], msg, input }] });
    const details = `{'type': '${type}', 'loc': ('body', '${field}'), 'msg': '${msg}', 'input': '${input}'}`;
    return error(400, `1 validation error:\n  ${details}`);
  };
  const refuseField = (field: string, { fields }: Create) =>
    refuse("value_error", field, { msg: "Input should be valid", input: fields[field] });

  function check(create: Create): Response | undefined {
    const { encoding, fields } = create;
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
        expires_at: null,
        file_name: status === "completed" ? `${id}.mp4` : null,
        inference_time_s: null,
        stage_durations: {},
        peak_memory_mb: 0,
        action: null,
      }),
      failedStatus: ({ httpStatus }) => httpStatus,
      noContent(_job, status) {
        if (status === "completed") return undefined;
        if (status !== "failed") return error(404, "Generation is still in-progress");
        return error(422, "Video generation failed. Check job status for error details.");
      },
      deleted: ({ id }) => ({ id, deleted: true, object: "video.deleted" }),
      error,
      notFound: () => "Video not found",
    },
    options,
  );
}
