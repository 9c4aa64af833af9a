import { type Create, createFake, dataFile, type Fake, type FakeOptions, hexId, type Job, json } from "./fake.ts";
import { findInvalid, isInteger, isText } from "./rules.ts";

export type OpenRouterOptions = FakeOptions & {
  /** Whether the account has credits: without them a create is answered with 402. */
  hasCredits?: boolean;
};

const rules = {
  prompt: isText,
  duration: (value: unknown) => typeof value === "number" && isInteger(value),
  resolution: (value: unknown) => ["480p", "720p", "768p", "1080p", "1K", "2K", "4K"].includes(String(value)),
  aspect_ratio: (value: unknown) => /^(\d+:\d+|adaptive)$/.test(String(value)),
};

/** As its OpenAPI description has them. */
const listed = [
  {
    id: "google/veo-3.1",
    canonical_slug: "google/veo-3.1",
    name: "Google: Veo 3.1",
    created: 1_700_000_000,
    generate_audio: true,
    seed: null,
    pricing_skus: { "per-video-second": "0.40" },
    supported_aspect_ratios: ["16:9", "9:16"],
    supported_durations: [4, 6, 8],
    supported_frame_images: ["first_frame", "last_frame"],
    supported_resolutions: ["720p", "1080p"],
    supported_sizes: null,
    allowed_passthrough_parameters: [],
  },
  {
    id: "alibaba/wan-2.6",
    name: "Wan 2.6",
    supported_durations: null,
    supported_frame_images: [],
    supported_resolutions: "720p",
    pricing_skus: { generate: 0.5 },
  },
  {
    id: "bytedance/seedance-2.0-fast",
    supported_aspect_ratios: ["16:9", "21:9", "adaptive"],
    supported_resolutions: ["480p", "768p", "1080p", "4K"],
  },
  { id: 7 },
];

/** OpenRouter: JSON only, 202, statuses of its own, `error` is a text, images are in the JSON, and `usage` has what a video cost. */
export function createOpenRouter(options: OpenRouterOptions = {}): Fake {
  const error = (code: number, message: string) => json(code, { error: { code, message } });

  function check({ encoding, fields }: Create): Response | undefined {
    if (encoding !== "json" || !("prompt" in fields)) return error(400, "prompt: Required");
    if (!/^[\w-]+\/[\w.-]+$/.test(String(fields.model))) return error(404, `Model ${fields.model} does not exist`);
    const invalid = findInvalid(fields, rules);
    if (invalid) return error(400, `${invalid}: Invalid input`);
    if ("frame_images" in fields && imagesIn(fields).length === 0) return error(400, "frame_images: Invalid input");
    return options.hasCredits === false ? error(402, "Insufficient credits. Add more to continue.") : undefined;
  }

  return createFake(
    {
      pages: { "/v1/key": { data: { label: "sk-or-v1-abc...123", limit: null, limit_remaining: null, usage: 0.5 } } },
      publicPages: { "/v1/videos/models": { data: listed } },
      check,
      refuseField: (field) => error(400, `${field}: Invalid input`),
      filesIn: imagesIn,
      unauthorized: error(401, "No cookie auth credentials found"),
      running: ["pending", "in_progress"],
      createdStatus: 202,
      newId: (count) => `vgen-${hexId(count)}`,
      toBody: (job, status) => ({
        id: job.id,
        polling_url: `https://openrouter.ai/api/v1/videos/${job.id}`,
        status,
        ...endOf(job),
      }),
      noContent: (_job, status) =>
        status === "completed" ? undefined : error(400, "Video generation is not completed"),
      error,
      notFound: (id) => `Video generation ${id} not found`,
    },
    options,
  );
}

function endOf({ id, end }: Job): object {
  if (!end) return {};
  if (end.failure) return { error: end.failure.message };
  const unsigned_urls = [`https://openrouter.ai/api/v1/videos/${id}/content?index=0`];
  return { generation_id: `gen-${id}`, unsigned_urls, usage: { cost: 0.4, is_byok: false } };
}

type FrameImage = { type: string; image_url: { url: string }; frame_type: string };

function imagesIn({ frame_images = [] }: Create["fields"]): Create["files"] {
  return (frame_images as FrameImage[]).flatMap(({ type, image_url, frame_type }) => {
    return type === "image_url" && frame_type === "first_frame" ? dataFile("frame_images", image_url.url) : [];
  });
}
