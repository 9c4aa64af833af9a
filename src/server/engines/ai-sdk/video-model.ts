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
  prompt: string | undefined;
  n: number;
  aspectRatio: `${number}:${number}` | "adaptive" | undefined;
  resolution: `${number}x${number}` | undefined;
  /** In seconds. */
  duration: number | undefined;
  fps: number | undefined;
  seed: number | undefined;
  image: VideoFile | undefined;
  frameImages: { image: VideoFile; frameType: "first_frame" | "last_frame" }[] | undefined;
  inputReferences: VideoFile[] | undefined;
  generateAudio: boolean | undefined;
  /** Further fields of the body, by the name of the provider. */
  providerOptions: Record<string, JsonObject>;
  abortSignal?: AbortSignal;
  headers?: Record<string, string | undefined>;
};

/** Asks about a video by what its start returned. */
export type StatusCall = { operation: Json; abortSignal?: AbortSignal };
