import { type ExtraValue, type Images, listImages, type RenderRequest } from "../../store/generations.ts";
import type { ImageFile, RenderTask } from "../engine.ts";
import { frameSize, sizeOf } from "../frame-size.ts";

/** The body of a create, as data: what the engine refuses can be left out, and the rest encoded again. */
export type CreateBody = {
  encoding: "json" | "multipart";
  fields: Record<string, ExtraValue>;
  images: Images<ImageFile>;
  imageField: ImageField | undefined;
  /** Whether the images can go to another field of a server that does not have this one. */
  hasOtherImageField: boolean;
};

/** A field for the images of a create; each create uses one field. */
export type ImageField = {
  name: string;
  /** How many images to start from it takes. */
  max: number;
  /** Whether it takes a last image beside those. */
  takesLastImage?: boolean;
  /** How many references it takes, where there are no others. */
  maxReferences?: number;
  /** The field's value from the images' `data:` addresses; without it, the image is sent as a file, which needs multipart. */
  value?(addresses: Images<string>): ExtraValue;
};

/** What differs between the servers of `/v1/videos`. A new one is a further entry of `kinds`. */
type Dialect = {
  id: "vllm-omni" | "sglang" | "fastvideo" | "tensorrt-llm" | "litellm" | "vidgen" | "openrouter";
  title: string;
  /**
   * For a service on the internet: its address, the variable that usually has its key, the path of its public list of models, and what it calls
   * the interface's models.
   */
  provider?: { url: string; keyVariable: string; list: string; models: Readonly<Record<string, string>> };
  /** A GET that costs nothing, and what the body of its reply holds for this kind alone. */
  probe: { path: string; sign: RegExp };
  /** A GET that costs nothing and that needs the key, where the probe needs none. */
  keyPath?: string;
  /** Whether it serves one model, whatever it is asked for, and its list has that alone. */
  servesOne?: boolean;
  /** How many generations it makes at the same time unless the owner says so, where it does not queue them itself. */
  jobs?: number;
  /** The fields of a start that it drops without a word, and those that it drops beside an image. */
  ignores?: readonly string[];
  ignoresWithImage?: readonly string[];
  /** How a create is sent, unless its image is a file. */
  encoding: CreateBody["encoding"];
  /** The first one that takes the images of a create, and that the server has, is used. */
  imageFields: readonly ImageField[];
  /** Whether a finished job can be deleted. */
  hasDelete: boolean;
  /** Whether it stops the work on a job that is deleted. */
  stopsDeleted?: boolean;
  /** Whether a job is for the key alone that created it. */
  isJobOfKey?: boolean;
  /** What older versions call a field; it goes under that name where the newer one is not known. */
  olderNames?: Readonly<Record<string, string>>;
  /** The fields whose name or type is the kind's own. */
  fields(request: RenderRequest): CreateBody["fields"];
};

export type Kind = Dialect & {
  /**
   * Returns the body of a create, without the fields of the names in `dropped`. Without an upstream model the engine chooses; LiteLLM gets the
   * request's own model, and a provider what it calls that. `served` is the one model of a server that is not asked for by its name. Throws an
   * Error made for people when the kind does not take the images.
   */
  createBody(
    task: Pick<RenderTask, "request" | keyof Images<unknown>>,
    upstreamModel: string | undefined,
    options?: { dropped?: readonly string[]; served?: string | undefined },
  ): CreateBody;
};

/** How many images a kind takes; one whose kind is not named gets what every kind takes. */
export function maxImagesOf(kind: Dialect | undefined): number {
  return Math.max(1, ...(kind?.imageFields ?? []).map(({ max }) => max));
}

/** What a kind takes besides images to start from; without its kind, a server gets neither. */
export function otherImagesOf(kind: Dialect | undefined): { takesLastImage: boolean; maxReferences: number } {
  const fields = kind?.imageFields ?? [];
  return {
    takesLastImage: fields.some((field) => field.takesLastImage),
    maxReferences: Math.max(0, ...fields.map(({ maxReferences = 0 }) => maxReferences)),
  };
}

/** What a kind drops of a start without a word. */
export function ignoredOf(
  { ignores = [], ignoresWithImage = [] }: Dialect,
  { request, ...images }: Pick<RenderTask, "request" | keyof Images<unknown>>,
): string[] {
  const hasImage = listImages(images).length > 0;
  return [...ignores, ...(hasImage ? ignoresWithImage : [])].filter((name) => name in request.extras);
}

function takes(field: ImageField, { images, lastImage, references = [] }: Images<unknown>): boolean {
  const { max, takesLastImage = false, maxReferences = 0 } = field;
  if (references.length > 0)
    return references.length <= maxReferences && images.length === 0 && lastImage === undefined;
  return images.length <= max && (lastImage === undefined || takesLastImage);
}

const inputReference: ImageField = { name: "input_reference", max: 1 };

const dialects: readonly Dialect[] = [
  {
    id: "vllm-omni",
    title: "vLLM-Omni",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"vllm"/ },
    servesOne: true,
    encoding: "multipart",
    // Most models read the files of `input_references` as videos (_parse_video_form).
    imageFields: [
      inputReference,
      {
        name: "image_reference",
        max: 12,
        maxReferences: 12,
        value(addresses) {
          const list = listImages(addresses).map((image_url) => ({ image_url }));
          // Before 24 July 2026 it takes no list.
          const [only] = list;
          return list.length === 1 && only ? only : list;
        },
      },
    ],
    hasDelete: true,
    stopsDeleted: true,
    ignores: ["quality", "short_edge", "generate_audio"],
    fields: (request) => ({ size: sizeOf(request), seconds: String(wholeSeconds(request)) }),
  },
  {
    id: "sglang",
    title: "SGLang",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"sglang"/ },
    servesOne: true,
    // Several releases refuse a multipart create that has no image.
    encoding: "json",
    imageFields: [inputReference],
    hasDelete: true,
    ignores: ["lora", "audio_reference", "boundary_ratio", "generate_sound", "short_edge"],
    fields: (request) => ({ size: sizeOf(request), seconds: wholeSeconds(request) }),
  },
  {
    // A fork of SGLang, which begins with all requests at once.
    id: "fastvideo",
    title: "FastVideo",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"fastvideo"/ },
    servesOne: true,
    encoding: "json",
    imageFields: [inputReference],
    hasDelete: true,
    jobs: 1,
    ignores: ["flow_shift"],
    ignoresWithImage: ["guidance_scale_2", "true_cfg_scale"],
    fields: (request) => ({ size: sizeOf(request), seconds: wholeSeconds(request) }),
  },
  {
    id: "tensorrt-llm",
    title: "TensorRT-LLM",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"tensorrt_llm"/ },
    servesOne: true,
    encoding: "json",
    // Older versions have `input_reference` alone, and read neither width nor height beside a file.
    imageFields: [{ name: "image_reference", max: 1, value: ({ images: [address = ""] }) => address }, inputReference],
    hasDelete: true,
    stopsDeleted: true,
    olderNames: { format: "output_format" },
    // Without a format, a server that has no ffmpeg makes an .avi.
    fields: (request) => ({
      ...frameSize(request),
      size: sizeOf(request),
      seconds: wholeSeconds(request),
      format: "mp4",
    }),
  },
  {
    id: "litellm",
    title: "LiteLLM",
    // Its other free replies need a key, or name LiteLLM in some versions only.
    probe: { path: "/health/liveliness", sign: /^"I'm alive!"$/ },
    keyPath: "/v1/models",
    encoding: "json",
    imageFields: [inputReference],
    hasDelete: true,
    isJobOfKey: true,
    fields: (request) => ({
      model: request.model,
      size: sizeOf(request),
      seconds: String(wholeSeconds(request)),
    }),
  },
  {
    id: "vidgen",
    title: "vidgen serve",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"vidgen"/ },
    encoding: "json",
    imageFields: [{ name: "input_reference", max: 4, value: ({ images }) => images }],
    hasDelete: true,
    stopsDeleted: true,
    fields: (request) => ({ model: request.model, size: sizeOf(request), seconds: String(request.duration) }),
  },
  {
    id: "openrouter",
    title: "OpenRouter",
    provider: {
      url: "https://openrouter.ai/api",
      keyVariable: "OPENROUTER_API_KEY",
      list: "/v1/videos/models",
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
    imageFields: [
      {
        name: "frame_images",
        max: 1,
        takesLastImage: true,
        value: ({ images, lastImage }) => [
          ...images.map((url) => ({ ...imagePart(url), frame_type: "first_frame" })),
          ...(lastImage === undefined ? [] : [{ ...imagePart(lastImage), frame_type: "last_frame" }]),
        ],
      },
      // Beside `frame_images` it ignores them. How many a model takes is not in the list of models.
      {
        name: "input_references",
        max: 0,
        maxReferences: 12,
        value: ({ references = [] }) => references.map(imagePart),
      },
    ],
    hasDelete: false,
    // Each model has lengths and sizes of its own: what the request leaves open, the model chooses.
    fields: ({ unset = [], ...request }) => ({
      model: request.model,
      // `size` stands in place of both.
      ...(request.extras.size === undefined && {
        ...(!unset.includes("aspectRatio") && { aspect_ratio: request.aspectRatio }),
        ...(!unset.includes("resolution") && { resolution: request.resolution }),
      }),
      ...(!unset.includes("duration") && { duration: wholeSeconds(request) }),
    }),
  },
];

/** The servers of `/v1/videos` that are known. A provider comes last: only what is no server of one's own is asked for its page. */
export const kinds: readonly Kind[] = dialects.map((dialect) => ({
  ...dialect,
  createBody({ request, images, lastImage, references }, asked, { dropped = [], served } = {}) {
    const all = { images, lastImage, references };
    const upstreamModel = asked ?? dialect.provider?.models[request.model];
    const most = maxImagesOf(dialect);
    if (images.length > most) {
      throw new Error(
        `${dialect.title} takes ${most} image${most > 1 ? "s" : ""}, and this generation has ${images.length}`,
      );
    }
    const able = dialect.imageFields.filter((field) => takes(field, all));
    const isEmpty = listImages(all).length === 0;
    if (able.length === 0 && !isEmpty)
      throw new Error(`${dialect.title} would ignore the last image or the references of this generation`);
    const fields: CreateBody["fields"] = {
      prompt: request.prompt,
      ...dialect.fields({ ...request, model: upstreamModel ?? served ?? request.model }),
      ...request.extras,
      ...(upstreamModel === undefined ? {} : { model: upstreamModel }),
    };
    const fitting = able.filter(({ name }) => !dropped.includes(name));
    const imageField = isEmpty ? undefined : fitting[0];
    return {
      encoding: imageField && !imageField.value ? "multipart" : dialect.encoding,
      fields: Object.fromEntries(
        Object.entries(fields).flatMap(([name, value]) => {
          const sentAs = dropped.includes(name) ? dialect.olderNames?.[name] : name;
          return sentAs === undefined ? [] : [[sentAs, value]];
        }),
      ),
      images: all,
      imageField,
      hasOtherImageField: fitting.length > 1,
    };
  },
}));

function imagePart(url: string) {
  return { type: "image_url", image_url: { url } };
}

/** No kind but TensorRT-LLM takes fractions, and a video that is a little too long can be cut. */
export function wholeSeconds({ duration }: RenderRequest): number {
  return Math.max(1, Math.ceil(duration));
}
