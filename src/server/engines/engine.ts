/** What a generation asks of an engine, with the service's defaults filled in. */
export type RenderRequest = {
  prompt: string;
  model: string;
  /** Width to height, as in "16:9". */
  aspectRatio: string;
  /** Length of the video, in seconds. */
  duration: number;
  resolution: Resolution;
  /** The addresses of the images to start from, as asked for: http(s) or data:. */
  images: string[];
};

/** Names the length of the shorter side in pixels. */
export type Resolution = "480p" | "720p" | "1080p";

/** What is to be rendered, and the files to write: an .mp4 and a PNG of its middle frame. Files that a killed process left there are replaced. */
export type RenderTask = {
  request: RenderRequest;
  /** The bytes of the request's images, in order: each a PNG, JPEG or WebP of a size that can be decoded. */
  images: Uint8Array[];
  file: string;
  thumbnail: string;
};

/** What makes the video of a generation (interface section 3: "video produced" or "model run does not succeed"). */
export type Engine = {
  /**
   * Renders a task's video and thumbnail. Rejects with an error whose message becomes the generation's `error` field; once `signal`
   * aborts it stops soon and rejects with the signal's reason.
   */
  render(task: RenderTask, signal: AbortSignal): Promise<void>;
};
