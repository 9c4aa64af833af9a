// The types of @ai-sdk/provider 4 that vidgen uses (`VideoModelV4` and related ones). They are written here because that package requires Node 22;
// `test/foreign` checks that they match it.

export type Json = null | string | number | boolean | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json | undefined };

/** An image or a video. */
export type VideoFile =
  | { type: "file"; mediaType: string; data: string | Uint8Array }
  | { type: "url"; mediaType?: string; url: string };

/** The request to a video model, which chooses the values of undefined fields. */
export type VideoCall = {
  /** What the video shows. */
  prompt: string | undefined;
  /** The number of videos. */
  n: number;
  /** The ratio of width to height. */
  aspectRatio: `${number}:${number}` | "adaptive" | undefined;
  /** Width and height in pixels. */
  resolution: `${number}x${number}` | undefined;
  /** In seconds. */
  duration: number | undefined;
  /** Frames per second. */
  fps: number | undefined;
  /** The same seed and the same request make a similar video. */
  seed: number | undefined;
  /** The source image. */
  image: VideoFile | undefined;
  /** Images of the first and the last frame. */
  frameImages: { image: VideoFile; frameType: "first_frame" | "last_frame" }[] | undefined;
  /** Style references: images and videos with people, things or a style to follow. */
  inputReferences: VideoFile[] | undefined;
  /** Whether the video has sound. */
  generateAudio: boolean | undefined;
  /** More fields of the body, by the name of the provider. */
  providerOptions: Record<string, JsonObject>;
  /** Ends the call. */
  abortSignal?: AbortSignal;
  /** Headers of the request. */
  headers?: Record<string, string | undefined>;
};

/** The request for the status of a video. */
export type StatusCall = {
  /** What the start returned. */
  operation: Json;
  /** Ends the call. */
  abortSignal?: AbortSignal;
};
