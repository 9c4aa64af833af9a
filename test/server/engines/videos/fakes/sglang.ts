import {
  type Create,
  createFake,
  type Fake,
  type FakeOptions,
  hexId,
  type Job,
  json,
  unixSeconds,
  videoReply,
} from "./fake.ts";
import { findInvalid, isInteger, isNumber, isSize, isText } from "./rules.ts";

export type SglangOptions = FakeOptions & {
  model?: string;
  /** "fastvideo", a fork, names itself. */
  owner?: "sglang" | "fastvideo";
  /** The address of a bucket that the videos go to, such as "http://bucket.test/videos". The fake answers for it as well. */
  bucket?: string;
  /** Whether it was started with an output path; without one it keeps no file. */
  hasOutputPath?: boolean;
};

const rules = {
  prompt: isText,
  size: isSize,
  seconds: isInteger,
  fps: isInteger,
  num_frames: isInteger,
  seed: isInteger,
  num_inference_steps: isInteger,
  guidance_scale: isNumber,
};

/** SGLang diffusion: unknown fields are kept, there are no keys, and a video that went to a bucket is not under `/content`. */
export function createSglang(options: SglangOptions = {}): Fake {
  const { model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers", owner = "sglang", bucket, hasOutputPath = true } = options;
  const error = (status: number, detail: string) => json(status, { detail });
  const urlOf = ({ id }: Job) => (bucket === undefined ? null : `${bucket}/${id}.mp4`);
  const invalidBody = (field: string, reason: string) =>
    error(
      400,
      `Invalid request body: 1 validation error for VideoGenerationsRequest\n${field}\n  ${reason} [type=value_error, input_value='x', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.10/v/value_error`,
    );
  const refuseField = (field: string, { encoding, fields }: Create) => {
    const msg = "Input should be valid";
    if (encoding === "json") return invalidBody(field, msg);
    return json(422, { detail: [{ type: "value_error", loc: ["body", field], msg, input: fields[field] }] });
  };

  function check(create: Create): Response | undefined {
    const { encoding, fields, files } = create;
    const isMultipart = encoding === "multipart";
    if (!("prompt" in fields)) {
      return isMultipart ? error(400, "prompt is required") : invalidBody("prompt", "Field required");
    }
    if (isMultipart && !files.some(({ field }) => field === "input_reference")) {
      return error(400, "input_reference file or reference_url is required");
    }
    const invalid = findInvalid(fields, rules);
    return invalid ? refuseField(invalid, create) : undefined;
  }

  /** Until it is completed, it is in a folder of its own where there is no output path; FastVideo names it whatever becomes of it. */
  const fileOf = ({ id }: Job, status: string) => {
    if (owner === "sglang" && (status === "failed" || (status === "completed" && (bucket || !hasOutputPath))))
      return null;
    return `/server/${hasOutputPath ? "outputs" : "tmp"}/${id}.mp4`;
  };
  const toBody = (job: Job, status: string) => ({
    id: job.id,
    object: "video",
    model: job.create.fields.model ?? model,
    status,
    progress: status === "completed" ? 100 : 0,
    created_at: unixSeconds(job.createdAtMs),
    size: job.create.fields.size ?? "",
    seconds: String(job.create.fields.seconds ?? 4),
    quality: "standard",
    url: status === "completed" ? urlOf(job) : null,
    completed_at: status === "completed" ? unixSeconds(job.end?.atMs ?? 0) : null,
    error: job.end?.failure ? { message: job.end.failure.message } : null,
    file_path: fileOf(job, status),
    ...(owner === "sglang" && {
      remixed_from_video_id: null,
      expires_at: null,
      file_paths: status === "completed" && fileOf(job, status) !== null ? [fileOf(job, status)] : null,
      num_outputs: status === "completed" ? 1 : null,
      action: null,
    }),
    peak_memory_mb: null,
    inference_time_s: null,
  });

  return createFake(
    {
      pages: {
        "/health": { status: "ok" },
        "/v1/models": {
          object: "list",
          data: [
            {
              id: model,
              object: "model",
              created: 1767225600,
              owned_by: owner,
              root: model,
              ...(owner === "sglang" && { parent: null, max_model_len: null, num_gpus: 1, task_type: "TI2V" }),
            },
          ],
        },
      },
      check,
      refuseField,
      running: ["queued"],
      createdStatus: 200,
      newId: hexId,
      toBody,
      noContent(job, status) {
        if (status !== "completed") return error(404, "Generation is still in-progress");
        if (!hasOutputPath) return error(404, "Video variant None not found");
        const url = urlOf(job);
        if (url === null) return undefined;
        return error(400, `Video has been uploaded to cloud storage. Please use the cloud URL: ${url}`);
      },
      deleted: (job) => toBody(job, "deleted"),
      elsewhere({ url }, jobs) {
        const job = [...jobs].find((candidate) => urlOf(candidate) === url);
        return job && videoReply(job, options);
      },
      error,
      notFound: () => "Video not found",
    },
    options,
  );
}
