// Imported by its package name, so that there is only one VidgenError class.
import { type Client, type ClientOptions, createClient, type GenerationRequest, type KnownModel, models } from "vidgen";
import { imageFormatOf } from "./client/request/images.ts";
import type { JsonObject, StatusCall, VideoCall, VideoFile } from "./server/engines/ai-sdk/video-model.ts";
import { readSize } from "./server/engines/frame-size.ts";

/** A model of the service for the AI SDK: `experimental_generateVideo({ model: vidgen("veo-3.1"), prompt })`. */
export type VidgenModel = {
  /** The version of the SDK's interface for models. */
  readonly specificationVersion: "v4";
  /** Always "vidgen". */
  readonly provider: string;
  /** The id of the model at the service. */
  readonly modelId: string;
  /** Always 1: for more videos, the SDK makes more calls. */
  readonly maxVideosPerCall: number;
  /** Starts a generation, which is charged. The SDK calls it. */
  doStart(call: VideoCall & { webhookUrl?: string }): Promise<ReplyFields & { operation: string; warnings: Warning[] }>;
  /** Returns the status of a generation, and its video once it is completed. Costs nothing. The SDK calls it. */
  doStatus(call: StatusCall): Promise<ReplyFields & StatusFields>;
};

/** The status of a generation in the SDK's terms. */
type StatusFields =
  | { status: "pending" }
  | { status: "completed"; videos: { type: "binary"; data: Uint8Array; mediaType: string }[]; warnings: [] }
  | { status: "error"; error: string };

/** What the service warns about, such as a field without effect. */
type Warning = { type: "other"; message: string };

/** The fields that both replies have. */
type ReplyFields = {
  /** The fields of `Started` below `vidgen`, or the generation's `id`, `videoUrl` and `cost`. */
  providerMetadata: Record<string, JsonObject>;
  /** When it was received, and from which model. */
  response: { timestamp: Date; modelId: string; headers: undefined };
};

/** Returns a model by its id. */
export type VidgenProvider = (modelId: KnownModel | (string & {})) => VidgenModel;

/**
 * Returns a provider for the AI SDK. It creates a client with these options at the first start. A start is
 * charged once: the SDK makes an `idempotency-key` header for each call, sends it again when it retries, and
 * the start uses it. The provider rejects with an `UnsupportedFunctionalityError` for an option that the
 * service has no field for, before anything is sent, or else with a `VidgenError`. The SDK retries neither,
 * because the client has retried already wherever that is free.
 */
export function createVidgen(options: ClientOptions = {}): VidgenProvider {
  let opened: Client | undefined;
  const open = () => {
    opened ??= createClient(options);
    return opened;
  };
  return (modelId) => ({
    specificationVersion: "v4",
    provider: "vidgen",
    modelId,
    maxVideosPerCall: 1,
    async doStart({ abortSignal: signal, headers = {}, webhookUrl: callbackUrl, ...call }) {
      const request = { ...requestOf(modelId, call), callbackUrl };
      const [, idempotencyKey] = Object.entries(headers).find(([name]) => /^idempotency-key$/i.test(name)) ?? [];
      const { id, warnings = [], ...started } = await open().start(request, { signal, idempotencyKey });
      return {
        operation: id,
        warnings: warnings.map((message) => ({ type: "other", message })),
        providerMetadata: { vidgen: { id, ...started } },
        response: responseFields(modelId),
      };
    },
    async doStatus({ operation, abortSignal: signal }) {
      const id = String(operation);
      const { status, error = "The generation failed.", videoUrl, cost } = await open().status(id, { signal });
      const shared = { providerMetadata: { vidgen: { id, videoUrl, cost } }, response: responseFields(modelId) };
      if (status === "failed") return { status: "error", error, ...shared };
      if (status !== "completed") return { status: "pending", ...shared };
      // The SDK's own download cannot resume, does not notice a cut video, and rejects URLs of this machine.
      const { bytes: data } = await open().download(id, { to: "bytes" }, { signal });
      return {
        status: "completed",
        videos: [{ type: "binary", data, mediaType: "video/mp4" }],
        warnings: [],
        ...shared,
      };
    },
  });
}

/** The provider for the service of `VIDGEN_BASE_URL` and `VIDGEN_API_KEY`. */
export const vidgen: VidgenProvider = createVidgen();

type RequestCall = Omit<VideoCall, "abortSignal" | "headers">;

/** Converts a call to a request. Throws for what the request has no field for. */
function requestOf(model: string, call: RequestCall): GenerationRequest {
  const { prompt = "", n, aspectRatio, resolution, duration, fps, seed, generateAudio, providerOptions } = call;
  if (n > 1) throw unsupported("n", "each call generates one video");
  const framesOf = (type: string) => (call.frameImages ?? []).filter(({ frameType }) => frameType === type);
  const [[first], [last]] = [framesOf("first_frame"), framesOf("last_frame")];
  if ((call.frameImages ?? []).some((frame) => frame !== first && frame !== last))
    throw unsupported("frameImages", "a video has one first_frame and one last_frame at most");
  const image = first?.image ?? call.image;
  const source = image && addressOf(image, first ? "frameImages" : "image");
  const references = (call.inputReferences ?? []).map((file) => addressOf(file, "inputReferences"));
  // A model that the interface defines by its images makes the video of them.
  const isMadeOfImages = models.some(({ id, images }) => id === model && images !== undefined);
  const size = resolution && readSize(resolution);
  const { exactPrompt, ...extra } = providerOptions.vidgen ?? {};
  const fieldsOfCall = {
    fps,
    seed,
    generate_audio: generateAudio,
    lastImageUrl: last && addressOf(last.image, "frameImages"),
    referenceUrls: references.length === 0 || isMadeOfImages ? undefined : references,
  };
  return {
    prompt,
    model,
    aspectRatio: aspectRatio ?? (size ? size.aspectRatio : undefined),
    duration,
    // An unknown size is sent unchanged, and the service refuses it before anything is charged.
    resolution: size ? size.resolution : resolution,
    images: [...(source === undefined ? [] : [source]), ...(isMadeOfImages ? references : [])],
    // The client checks its type.
    exactPrompt: exactPrompt as boolean | undefined,
    // Undefined options of the call do not override provider options.
    extra: { ...extra, ...Object.fromEntries(Object.entries(fieldsOfCall).filter(([, value]) => value !== undefined)) },
  };
}

/** Returns the address of an image; a file becomes a `data:` URL. Throws if it is no image that a service takes. */
function addressOf(file: VideoFile, option: string): string {
  if (file.type === "url") {
    if (/^(video|audio)\//.test(file.mediaType ?? "")) throw unsupported(option, `${file.mediaType} cannot be sent`);
    return file.url;
  }
  const bytes = typeof file.data === "string" ? Buffer.from(file.data, "base64") : Buffer.from(file.data);
  const format = imageFormatOf(bytes);
  if (format === undefined)
    throw unsupported(option, `${file.mediaType} cannot be sent: it is not a PNG, JPEG or WebP`);
  return `data:image/${format};base64,${bytes.toString("base64")}`;
}

/**
 * Returns an error for which the `isInstance` of the SDK's own `UnsupportedFunctionalityError` is true: the
 * SDK's errors are known by these symbols.
 */
function unsupported(functionality: string, reason: string): Error & { functionality: string } {
  const name = "AI_UnsupportedFunctionalityError";
  const error = new Error(`${functionality}: ${reason}; nothing was sent, nothing was charged`);
  const marks = { [Symbol.for("vercel.ai.error")]: true, [Symbol.for(`vercel.ai.error.${name}`)]: true };
  return Object.assign(error, { name, functionality, ...marks });
}

function responseFields(modelId: string) {
  return { timestamp: new Date(), modelId, headers: undefined };
}
