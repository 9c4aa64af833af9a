import { type Create, createFake, type Fake, type FakeOptions, hexId, type Job, json, unixSeconds } from "./fake.ts";

export type LiteLlmOptions = FakeOptions & {
  /** The names of its models. */
  models?: readonly string[];
};

/** LiteLLM: a proxy with keys, whose ids are long base64 that differs from poll to poll. Unknown fields go on to the provider. */
export function createLiteLlm(options: LiteLlmOptions = {}): Fake {
  const { models = ["sora-2"] } = options;
  const error = (status: number, message: string) =>
    json(status, { error: { message, type: null, param: null, code: String(status) } });
  const refuseField = (field: string) =>
    error(400, `litellm.BadRequestError: OpenAIException - ${field}: Input should be valid`);

  function check({ fields }: Create): Response | undefined {
    const { prompt, model, seconds } = fields;
    if (typeof prompt !== "string") return error(400, "litellm.BadRequestError: Missing required parameter: 'prompt'.");
    if (typeof model !== "string" || !models.includes(model)) {
      const call = "Call `/v1/models` to view available models for your key.";
      return error(400, `{'error': '/videos: Invalid model name passed in model=${model ?? "None"}. ${call}'}`);
    }
    if (seconds === undefined || typeof seconds === "string") return undefined;
    return error(400, "litellm.BadRequestError: Invalid type for 'seconds': expected a string.");
  }

  return createFake(
    {
      pages: {
        "/v1/models": {
          data: models.map((id) => ({ id, object: "model", created: 1677610602, owned_by: "openai" })),
          object: "list",
        },
      },
      publicPages: {
        "/health/liveliness": "I'm alive!",
        "/health/readiness": { status: "healthy", db: "Not connected" },
      },
      check,
      refuseField,
      unauthorized: json(401, {
        error: {
          message: "Authentication Error, No api key passed in.",
          type: "auth_error",
          param: "None",
          code: "401",
        },
      }),
      // It looks for a key in its database, and has none here.
      wrongKey: json(400, {
        error: { message: "No connected db.", type: "no_db_connection", param: null, code: "400" },
      }),
      running: ["queued", "in_progress"],
      createdStatus: 200,
      newId: (count) => encodeId(`video_${hexId(count)}`, 0),
      // Another key that is valid, too.
      shows: (job, request) => job.authorization === request.headers.get("Authorization"),
      isId: (asked, job) => rawId(asked) === rawId(job.id),
      toBody: (job, status) => ({
        id: encodeId(rawId(job.id), job.polls),
        object: "video",
        status,
        created_at: unixSeconds(job.createdAtMs),
        completed_at: job.end ? unixSeconds(job.end.atMs) : null,
        expires_at: null,
        error: job.end?.failure ? { code: "server_error", message: job.end.failure.message } : null,
        progress: job.end ? 100 : progressOf(job),
        remixed_from_video_id: null,
        seconds: job.create.fields.seconds ?? "4",
        size: job.create.fields.size ?? "720x1280",
        model: job.create.fields.model,
        usage: null,
      }),
      // The error of its upstream, as if it was the video.
      noContent: (_job, status) =>
        status === "completed"
          ? undefined
          : new Response(
              '{"error":{"message":"Generation is still in-progress","type":"Not Found","param":null,"code":404}}',
              {
                headers: { "Content-Type": "video/mp4" },
              },
            ),
      error,
      notFound: () =>
        "litellm.APIConnectionError: openai - 3 validation errors for VideoObject\nid\n  Field required [type=missing, input_value={'error': {'message': 'Vi..., 'param': None, 'code': 404}}, input_type=dict]",
      notFoundStatus: 500,
    },
    options,
  );
}

function progressOf({ polls }: Job): number {
  return Math.min(99, polls * 10);
}

/** Returns base64 that has "+" and "/" in it and ends with "=", and differs with the poll. */
function encodeId(raw: string, poll: number): string {
  const text = `litellm:custom_llm_provider:openai;model_id:${hexId(poll)}???>>>;video_id:${raw}`;
  const padding = ".".repeat((4 - (text.length % 3)) % 3);
  return `video_${Buffer.from(text + padding).toString("base64")}`;
}

function rawId(id: string): string {
  const text = Buffer.from(id.slice("video_".length), "base64").toString();
  return /video_id:([^.]+)/.exec(text)?.[1] ?? id;
}
