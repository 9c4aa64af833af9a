// What vidgen uses of the types of @ai-sdk/provider 4 (`VideoModelV4` and what belongs to it). They are written here because that package wants
// Node 22; `test/foreign` checks that they fit it.

export type Json = null | string | number | boolean | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json | undefined };

/** An image or a video. */
export type VideoFile =
  | { type: "file"; mediaType: string; data: string | Uint8Array }
  | { type: "url"; mediaType?: string; url: string };

/** What a video model is asked for. What is undefined is left to the model. */
export type VideoCall = {
  /** What the video is to show. */
  prompt: string | undefined;
  /** The number of videos. */
  n: number;
  /** The width to the height. */
  aspectRatio: `${number}:${number}` | "adaptive" | undefined;
  /** The width and the height in pixels. */
  resolution: `${number}x${number}` | undefined;
  /** In seconds. */
  duration: number | undefined;
  /** Frames a second. */
  fps: number | undefined;
  /** The same seed and the same request make a similar video. */
  seed: number | undefined;
  /** The source image. */
  image: VideoFile | undefined;
  /** Images of the first and the last frame. */
  frameImages: { image: VideoFile; frameType: "first_frame" | "last_frame" }[] | undefined;
  /** Style references: images and videos with people, things or a style to follow. */
  inputReferences: VideoFile[] | undefined;
  /** Whether it has sound. */
  generateAudio: boolean | undefined;
  /** Further fields of the body, by the name of the provider. */
  providerOptions: Record<string, JsonObject>;
  /** Ends the call. */
  abortSignal?: AbortSignal;
  /** Headers of the request. */
  headers?: Record<string, string | undefined>;
};

/** Asks about a video by what its start returned. */
export type StatusCall = {
  /** What the start returned. */
  operation: Json;
  /** Ends the call. */
  abortSignal?: AbortSignal;
};
