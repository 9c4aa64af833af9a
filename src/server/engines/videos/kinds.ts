import { readText } from "../../../protocol/secrets.ts";
import { type ExtraValue, type Images, listImages, type RenderRequest } from "../../store/generations.ts";
import { drawSeed, type ImageFile, type Passes, type RenderTask } from "../engine.ts";
import { frameSize, sizeOf } from "../frame-size.ts";
import { splitExtras, withoutCounts } from "../passed.ts";

/** The body of a create, as data: fields that the server refuses can be left out, and the rest encoded again. */
export type CreateBody = {
  encoding: "json" | "multipart";
  fields: Record<string, ExtraValue>;
  images: Images<ImageFile>;
  imageField: ImageField | undefined;
  /** Whether the images can go to another field if the server does not have this one. */
  hasOtherImageField: boolean;
  /** The seed in it, if the request has none. */
  drawnSeed: number | undefined;
};

/** A field for the images of a create; each create uses one field. */
export type ImageField = {
  name: string;
  /** How many start images it takes. */
  max: number;
  /** Whether it takes a last image in addition. */
  takesLastImage?: boolean;
  /** How many references it takes when there are no other images. */
  maxReferences?: number;
  /** Returns the field's value for the images' `data:` URLs. Without it, the image is sent as a file, which requires multipart. */
  value?(addresses: Images<string>): ExtraValue;
};

/** What differs between the servers of `/v1/videos`. A new server is one more entry of `dialects`. */
type Dialect = {
  id: "vllm-omni" | "sglang" | "fastvideo" | "tensorrt-llm" | "litellm" | "vidgen" | "openrouter";
  title: string;
  /**
   * For a service on the internet: its address, the variable that usually contains its key, the path of its public list of models, and its names for
   * the interface's models.
   */
  provider?: { url: string; keyVariable: string; listPath: string; models: Readonly<Record<string, string>> };
  /** A GET that costs nothing, and a pattern that matches the body of its reply for this kind alone. */
  probe: { path: string; sign: RegExp };
  /** A GET that costs nothing and requires the key, where the probe does not require it. */
  keyPath?: string;
  /** Whether it serves and lists only one model, and ignores the model that a request names. */
  servesOneModel?: boolean;
  /** Whether it makes the same video of the same request each time, unless a create has a seed. */
  hasFixedSeed?: boolean;
  /** How many generations it runs at the same time unless the owner says so, where it does not queue them itself. */
  jobs?: number;
  /** The fields of a start that it silently ignores, and those that it ignores when there is an image. */
  ignoredFields?: readonly string[];
  ignoredFieldsWithImage?: readonly string[];
  /**
   * The fields that it takes and vidgen does not know; "all" if it refuses unknown names itself, by default none, because a server that ignores a
   * field makes another video. A provider's list of models says it for each model.
   */
  passes?: Passes["names"];
  /** How a create is sent, unless its image is a file. */
  encoding: CreateBody["encoding"];
  /** The fields in which a create can send its images. The first one that the server has is used. */
  imageFields: readonly ImageField[];
  /** Whether a finished job can be deleted. */
  hasDelete: boolean;
  /** Whether it stops the work on a job when the job is deleted. */
  deleteStopsJob?: boolean;
  /** Whether only the key that created a job can read it. */
  hidesJobsFromOtherKeys?: boolean;
  /** The names of fields in older versions, for servers that do not know the newer name. */
  olderNames?: Readonly<Record<string, string>>;
  /** The fields whose name or type is specific to this kind. */
  fields(request: RenderRequest): CreateBody["fields"];
};

export type Kind = Dialect & {
  /** The names of the fields that vidgen writes itself in a create. */
  writtenFields: readonly string[];
  /**
   * Returns the body of a create, without the fields in `droppedFields`. Without an upstream model the server chooses one; LiteLLM gets the
   * request's own model, and a provider its own name for that. `servedModel` is the only model of a server that needs no model name. Throws an
   * Error for people when the kind does not take the images.
   */
  createBody(
    task: Pick<RenderTask, "id" | "request" | keyof Images<unknown>>,
    upstreamModel: string | undefined,
    options?: { droppedFields?: readonly string[]; servedModel?: string | undefined },
  ): CreateBody;
};

/** Returns how many start images a kind takes; for an unknown kind, what every kind takes. */
export function maxImagesOf(kind: Dialect | undefined): number {
  return Math.max(1, ...(kind?.imageFields ?? []).map(({ max }) => max));
}

/** Returns which images a kind takes besides start images; none for an unknown kind. */
export function otherImagesOf(kind: Dialect | undefined): { takesLastImage: boolean; maxReferences: number } {
  const fields = kind?.imageFields ?? [];
  return {
    takesLastImage: fields.some((field) => field.takesLastImage),
    maxReferences: Math.max(0, ...fields.map(({ maxReferences = 0 }) => maxReferences)),
  };
}

/** Returns the fields of a request that a kind silently ignores. */
export function ignoredFieldsOf(
  { ignoredFields = [], ignoredFieldsWithImage = [] }: Dialect,
  { request, ...images }: { request: RenderRequest } & Images<unknown>,
): string[] {
  const hasImage = listImages(images).length > 0;
  return [...ignoredFields, ...(hasImage ? ignoredFieldsWithImage : [])].filter((name) => name in request.extras);
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
    servesOneModel: true,
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
          // Versions before 24 July 2026 accept no list.
          const [only] = list;
          return list.length === 1 && only ? only : list;
        },
      },
    ],
    hasDelete: true,
    deleteStopsJob: true,
    ignoredFields: ["quality", "short_edge", "generate_audio"],
    fields: (request) => ({ size: sizeOf(request), seconds: String(wholeSeconds(request)) }),
  },
  {
    id: "sglang",
    title: "SGLang",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"sglang"/ },
    servesOneModel: true,
    // Several releases refuse a multipart create that has no image.
    encoding: "json",
    imageFields: [inputReference],
    hasDelete: true,
    hasFixedSeed: true,
    ignoredFields: ["lora", "audio_reference", "boundary_ratio", "generate_sound", "short_edge"],
    // Both its JSON and its forms have these (VideoGenerationsRequest, create_video). Only some of its backends read `diffusers_kwargs`.
    passes: ["enable_teacache", "enable_upscaling", "upscaling_scale", "output_quality", "output_compression"],
    fields: (request) => ({ size: sizeOf(request), seconds: wholeSeconds(request) }),
  },
  {
    // A fork of SGLang that starts all requests at once.
    id: "fastvideo",
    title: "FastVideo",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"fastvideo"/ },
    servesOneModel: true,
    encoding: "json",
    imageFields: [inputReference],
    hasDelete: true,
    hasFixedSeed: true,
    jobs: 1,
    passes: ["enable_teacache"],
    ignoredFields: ["flow_shift"],
    ignoredFieldsWithImage: ["guidance_scale_2", "true_cfg_scale"],
    fields: (request) => ({ size: sizeOf(request), seconds: wholeSeconds(request) }),
  },
  {
    id: "tensorrt-llm",
    title: "TensorRT-LLM",
    probe: { path: "/v1/models", sign: /"owned_by":\s*"tensorrt_llm"/ },
    servesOneModel: true,
    encoding: "json",
    // Older versions have only `input_reference`, and read neither width nor height beside a file.
    imageFields: [{ name: "image_reference", max: 1, value: ({ images: [address = ""] }) => address }, inputReference],
    hasDelete: true,
    deleteStopsJob: true,
    olderNames: { format: "output_format" },
    passes: "all",
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
    hidesJobsFromOtherKeys: true,
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
    deleteStopsJob: true,
    passes: "all",
    fields: (request) => ({ model: request.model, size: sizeOf(request), seconds: String(request.duration) }),
  },
  {
    id: "openrouter",
    title: "OpenRouter",
    provider: {
      url: "https://openrouter.ai/api",
      keyVariable: "OPENROUTER_API_KEY",
      listPath: "/v1/videos/models",
      // The most similar models. OpenRouter has nothing like ray-3 and kling-1.6-elements, and OpenAI has shut down sora-2.
      models: {
        "veo-3.1": "google/veo-3.1",
        "kling-2.6": "kwaivgi/kling-v3.0-std",
        "wan-2.5": "alibaba/wan-2.6",
        seedance: "bytedance/seedance-2.0-fast",
        minimax: "minimax/hailuo-2.3",
      },
    },
    // The list of models is public; this endpoint also detects a wrong key.
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
      // OpenRouter ignores these beside `frame_images`. Its list of models does not say how many a model takes.
      {
        name: "input_references",
        max: 0,
        maxReferences: 12,
        value: ({ references = [] }) => references.map(imagePart),
      },
    ],
    hasDelete: false,
    // Each model has lengths and sizes of its own, so the model chooses what the request leaves open.
    fields: ({ unset = [], ...request }) => ({
      model: request.model,
      // `size` replaces `aspect_ratio` and `resolution`.
      ...(request.extras.size === undefined && {
        ...(!unset.includes("aspectRatio") && { aspect_ratio: request.aspectRatio }),
        ...(!unset.includes("resolution") && { resolution: request.resolution }),
      }),
      ...(!unset.includes("duration") && { duration: wholeSeconds(request) }),
      // A form sends this object as a text of JSON.
      ...(typeof request.extras.provider === "string" && {
        provider: withoutCounts(readText(request.extras.provider)) as ExtraValue,
      }),
    }),
  },
];

const anyRequest: RenderRequest = {
  ...{ prompt: "", model: "", aspectRatio: "16:9", duration: 5, resolution: "480p" },
  extras: {},
};

/** The known servers of `/v1/videos`. A provider comes last, so that its page is requested only from a server of no other kind. */
export const kinds: readonly Kind[] = dialects.map((dialect) => ({
  ...dialect,
  writtenFields: [
    ...["prompt", "model", ...Object.keys(dialect.fields(anyRequest))],
    ...dialect.imageFields.map(({ name }) => name),
  ],
  createBody(
    { id, request, images, lastImage, references },
    configuredModel,
    { droppedFields = [], servedModel } = {},
  ) {
    const allImages = { images, lastImage, references };
    const upstreamModel = configuredModel ?? dialect.provider?.models[request.model];
    const maxImages = maxImagesOf(dialect);
    if (images.length > maxImages) {
      throw new Error(
        `${dialect.title} takes ${maxImages} image${maxImages > 1 ? "s" : ""}, and this generation has ${images.length}`,
      );
    }
    const suitableFields = dialect.imageFields.filter((field) => takes(field, allImages));
    const hasNoImage = listImages(allImages).length === 0;
    if (suitableFields.length === 0 && !hasNoImage)
      throw new Error(`${dialect.title} would ignore the last image or the references of this generation`);
    const { passed, documented } = splitExtras(request.extras);
    const needsSeed = dialect.hasFixedSeed && documented.seed === undefined && !droppedFields.includes("seed");
    const drawnSeed = needsSeed ? drawSeed(id) : undefined;
    const fields: CreateBody["fields"] = {
      ...withoutCounts(passed),
      prompt: request.prompt,
      ...dialect.fields({ ...request, model: upstreamModel ?? servedModel ?? request.model }),
      ...documented,
      ...(drawnSeed !== undefined && { seed: drawnSeed }),
      ...(upstreamModel === undefined ? {} : { model: upstreamModel }),
    };
    const remainingFields = suitableFields.filter(({ name }) => !droppedFields.includes(name));
    const imageField = hasNoImage ? undefined : remainingFields[0];
    return {
      encoding: imageField && !imageField.value ? "multipart" : dialect.encoding,
      fields: Object.fromEntries(
        Object.entries(fields).flatMap(([name, value]) => {
          const sentAs = droppedFields.includes(name) ? dialect.olderNames?.[name] : name;
          return sentAs === undefined ? [] : [[sentAs, value]];
        }),
      ),
      images: allImages,
      imageField,
      hasOtherImageField: remainingFields.length > 1,
      drawnSeed,
    };
  },
}));

function imagePart(url: string) {
  return { type: "image_url", image_url: { url } };
}

/** Returns the length in whole seconds, because only TensorRT-LLM accepts fractions. Rounds up, because a video that is too long can be cut. */
export function wholeSeconds({ duration }: RenderRequest): number {
  return Math.max(1, Math.ceil(duration));
}
