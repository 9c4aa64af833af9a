// Imported by its package name, so that there is only one VidgenError class.
import { type Client, type ClientOptions, createClient, type GenerationRequest, type KnownModel } from "vidgen";
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
  | { status: "completed"; videos: { type: "binary"; data: Uint8Array; mediaType: string }[]; warnings: Warning[] }
  | { status: "error"; error: string };

/** The fields that both replies have. */
type ReplyFields = {
  /** The fields of `Started` below `vidgen`, or the generation's `id`, `videoUrl` and `cost`. */
  providerMetadata: Record<string, JsonObject>;
  /** When it was received, and from which model. */
  response: { timestamp: Date; modelId: string; headers: undefined };
};

/** An option of the call that the service does not support. */
type Warning = {
  type: "unsupported";
  /** The option of the call. */
  feature: string;
  /** What happens instead. */
  details: string;
};

/** Returns a model by its id. */
export type VidgenProvider = (modelId: KnownModel | (string & {})) => VidgenModel;

/**
 * Returns a provider for the AI SDK. It creates a client with these options at the first start. A start is charged once: the SDK makes an
 * `idempotency-key` header for each call, sends it again when it retries, and the start uses it. The provider rejects with a `VidgenError`, which
 * the SDK does not retry, because the client has retried already wherever that is free.
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
      const { request, warnings } = requestOf(modelId, call);
      const [, idempotencyKey] = Object.entries(headers).find(([name]) => /^idempotency-key$/i.test(name)) ?? [];
      const { id, ...started } = await open().start({ ...request, callbackUrl }, { signal, idempotencyKey });
      return {
        operation: id,
        warnings,
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

/** Converts a call to a request, with a warning for each unsupported option. */
function requestOf(model: string, call: RequestCall): { request: GenerationRequest; warnings: Warning[] } {
  const { prompt = "", n, aspectRatio, resolution, duration, fps, seed, generateAudio, providerOptions } = call;
  const files = [call.image, ...(call.inputReferences ?? [])].filter((file) => file !== undefined);
  const images = files.filter(({ mediaType = "" }) => !mediaType.startsWith("video/"));
  const size = resolution && readSize(resolution);
  const ratio = aspectRatio ?? (size ? size.aspectRatio : undefined);
  const { exactPrompt, ...extra } = providerOptions.vidgen ?? {};
  // Undefined options of the call do not override provider options.
  const fieldsOfCall = Object.entries({ fps, seed, generate_audio: generateAudio }).filter(
    ([, value]) => value !== undefined,
  );
  const request: GenerationRequest = {
    prompt,
    model,
    aspectRatio: ratio === "adaptive" ? undefined : ratio,
    duration,
    // An unknown size is sent unchanged, and the service refuses it before anything is charged.
    resolution: size ? size.resolution : resolution,
    images: images.map(toImage),
    // The client checks its type.
    exactPrompt: exactPrompt as boolean | undefined,
    extra: { ...extra, ...Object.fromEntries(fieldsOfCall) },
  };
  const isLastFrame = ({ frameType }: { frameType: string }) => frameType === "last_frame";
  const warnings: Warning[] = [];
  const warn = (feature: string, details: string) => void warnings.push({ type: "unsupported", feature, details });
  if (n > 1) warn("n", "each call generates one video");
  if (ratio === "adaptive") warn("aspectRatio", "the service has no adaptive ratio, and uses its default");
  if (call.frameImages?.some(isLastFrame)) warn("frameImages", "the last frame is not sent");
  if (images.length < files.length) warn("inputReferences", "videos are not sent");
  return { request, warnings };
}

function toImage(file: VideoFile): URL | Uint8Array {
  if (file.type === "url") return new URL(file.url);
  return typeof file.data === "string" ? Buffer.from(file.data, "base64") : file.data;
}

function responseFields(modelId: string) {
  return { timestamp: new Date(), modelId, headers: undefined };
}
