import type { ImageFile, RenderRequest, RenderTask, Resolution } from "../engine.ts";

/** The body of a create, as data: what the engine refuses can be left out, and the rest encoded again. */
export type CreateBody = {
  encoding: "json" | "multipart";
  fields: Record<string, string | number>;
  files: { field: string; image: ImageFile }[];
};

/** What differs between the servers of `/v1/videos`. A new one is a further entry of `kinds`. */
type Dialect = {
  id: "vllm-omni" | "sglang" | "tensorrt-llm" | "litellm";
  title: string;
  /** For a service on the internet: its address, the variable that usually has its key, and what it calls the interface's models. */
  provider?: { url: string; keyVariable: string; models: Readonly<Record<string, string>> };
  /** A GET that costs nothing, and what the body of its reply holds for this kind alone. */
  probe: { path: string; sign: RegExp };
  /** How a create without an image is sent. One with an image is multipart. */
  encoding: CreateBody["encoding"];
  imageField: string;
  /** The fields whose name or type is the kind's own. */
  fields(request: RenderRequest): CreateBody["fields"];
};

export type Kind = Dialect & {
  /**
   * Returns the body of a create. Without an upstream model the engine chooses, except for LiteLLM, which gets the request's own model.
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
];

/** The servers of `/v1/videos` that are known. */
export const kinds: readonly Kind[] = dialects.map((dialect) => ({
  ...dialect,
  createBody({ request, images }, upstreamModel) {
    if (images.length > maxImages) {
      throw new Error(`${dialect.title} takes ${maxImages} image, and this generation has ${images.length}`);
    }
    return {
      encoding: images.length > 0 ? "multipart" : dialect.encoding,
      fields: {
        prompt: request.prompt,
        ...dialect.fields(request),
        ...request.extras,
        ...(upstreamModel === undefined ? {} : { model: upstreamModel }),
      },
      files: images.map((image) => ({ field: dialect.imageField, image })),
    };
  },
}));

function sizeText(request: RenderRequest): string {
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
function wholeSeconds({ duration }: RenderRequest): number {
  return Math.max(1, Math.ceil(duration));
}
