import type { ImageFile, RenderRequest, RenderTask, Resolution } from "../engine.ts";

/** The body of a create, as data: what the engine refuses can be left out, and the rest encoded again. */
export type CreateBody = {
  encoding: "json" | "multipart";
  fields: Record<string, string | number>;
  files: { field: string; image: ImageFile }[];
  /** An image in JSON, from its `data:` address; without it, images need multipart. */
  imageValue?: ((address: string) => object) | undefined;
};

/** What differs between the servers of `/v1/videos`. A new one is a further entry of `kinds`. */
type Dialect = {
  id: "vllm-omni" | "sglang" | "tensorrt-llm" | "litellm" | "openrouter";
  title: string;
  /** For a service on the internet: its address, the variable that usually has its key, and what it calls the interface's models. */
  provider?: { url: string; keyVariable: string; models: Readonly<Record<string, string>> };
  /** A GET that costs nothing, and what the body of its reply holds for this kind alone. */
  probe: { path: string; sign: RegExp };
  /** How a create is sent; one with an image is multipart where there is no `imageValue`. */
  encoding: CreateBody["encoding"];
  imageField: string;
  imageValue?: CreateBody["imageValue"];
  /** The fields whose name or type is the kind's own. */
  fields(request: RenderRequest): CreateBody["fields"];
};

export type Kind = Dialect & {
  /**
   * Returns the body of a create. Without an upstream model the engine chooses; LiteLLM gets the request's own
   * model, and a provider what it calls that.
   * Throws an Error made for people when there are more images than the kind takes.
   */
  createBody(task: Pick<RenderTask, "request" | "images">, upstreamModel: string | undefined): CreateBody;
};

/** Every kind takes one image. */
export const maxImages = 1;

/** Diffusion models work on blocks of this many pixels. */
const blockPx = 16;

const shorterSidePx: Record<Resolution, number> = { "480p": 480, "720p": 720, "1080p": 1080 };

const dialects: readonly Dialect[] = [
  {
    id: "vllm-omni",
    title: "vLLM-Omni",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"vllm"/ },
    encoding: "multipart",
    imageField: "input_reference",
    fields: (request) => ({ size: sizeText(request), seconds: String(wholeSeconds(request)) }),
  },
  {
    id: "sglang",
    title: "SGLang",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"sglang"/ },
    // Several releases refuse a multipart create that has no image.
    encoding: "json",
    imageField: "input_reference",
    fields: (request) => ({ size: sizeText(request), seconds: wholeSeconds(request) }),
  },
  {
    id: "tensorrt-llm",
    title: "TensorRT-LLM",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"tensorrt_llm"/ },
    encoding: "json",
    imageField: "image_reference",
    fields: (request) => ({ ...frameSize(request), seconds: wholeSeconds(request) }),
  },
  {
    id: "litellm",
    title: "LiteLLM",
    // Its other free replies need a key, or name LiteLLM in some versions only.
    probe: { path: "/health/liveliness", sign: /^"I'm alive!"$/ },
    encoding: "json",
    imageField: "input_reference",
    fields: (request) => ({
      model: request.model,
      size: sizeText(request),
      seconds: String(wholeSeconds(request)),
    }),
  },
  {
    id: "openrouter",
    title: "OpenRouter",
    provider: {
      url: "https://openrouter.ai/api",
      keyVariable: "OPENROUTER_API_KEY",
      // The nearest ones. It has nothing like ray-3 and kling-1.6-elements, and OpenAI has ended sora-2.
      models: {
        "veo-3.1": "google/veo-3.1",
        "kling-2.6": "kwaivgi/kling-v3.0-std",
        "wan-2.5": "alibaba/wan-2.6",
        seedance: "bytedance/seedance-2.0-fast",
        minimax: "minimax/hailuo-2.3",
      },
    },
    // Its list of models is public: this one tells a wrong key, too.
    probe: { path: "/v1/key", sign: /"limit_remaining"/ },
    encoding: "json",
    imageField: "frame_images",
    imageValue: (address) => ({ type: "image_url", image_url: { url: address }, frame_type: "first_frame" }),
    // Each model has lengths and sizes of its own: what the request leaves open, the model chooses.
    fields: ({ unset = [], ...request }) => ({
      model: request.model,
      ...(!unset.includes("aspectRatio") && { aspect_ratio: request.aspectRatio }),
      ...(!unset.includes("resolution") && { resolution: request.resolution }),
      ...(!unset.includes("duration") && { duration: wholeSeconds(request) }),
    }),
  },
];

/** The servers of `/v1/videos` that are known. A provider comes last: only what is no server of one's own is asked for its page. */
export const kinds: readonly Kind[] = dialects.map((dialect) => ({
  ...dialect,
  createBody({ request, images }, asked) {
    const upstreamModel = asked ?? dialect.provider?.models[request.model];
    if (images.length > maxImages) {
      throw new Error(`${dialect.title} takes ${maxImages} image, and this generation has ${images.length}`);
    }
    return {
      encoding: images.length > 0 && !dialect.imageValue ? "multipart" : dialect.encoding,
      fields: {
        prompt: request.prompt,
        ...dialect.fields(request),
        ...request.extras,
        ...(upstreamModel === undefined ? {} : { model: upstreamModel }),
      },
      files: images.map((image) => ({ field: dialect.imageField, image })),
      imageValue: dialect.imageValue,
    };
  },
}));

/** Such as "1280x720". */
export function sizeText(request: RenderRequest): string {
  const { width, height } = frameSize(request);
  return `${width}x${height}`;
}

/** The resolution names the shorter side; the longer one follows from the ratio, which the API has checked. */
function frameSize({ aspectRatio, resolution }: RenderRequest): { width: number; height: number } {
  const [across = 1, down = 1] = aspectRatio.split(":").map(Number);
  const ratio = across / down;
  const shorter = shorterSidePx[resolution];
  const longer = blockPx * Math.round((shorter * Math.max(ratio, 1 / ratio)) / blockPx);
  return ratio >= 1 ? { width: longer, height: shorter } : { width: shorter, height: longer };
}

/** No kind but TensorRT-LLM takes fractions, and a video that is a little too long can be cut. */
export function wholeSeconds({ duration }: RenderRequest): number {
  return Math.max(1, Math.ceil(duration));
}
