/** What a generation asks of an engine, with the service's defaults filled in. */
export type RenderRequest = {
  prompt: string;
  model: string;
  /** Width to height, as in "16:9". */
  aspectRatio: string;
  /** Length of the video, in seconds. */
  duration: number;
  resolution: Resolution;
};

/** Names the length of the shorter side in pixels. */
export type Resolution = "480p" | "720p" | "1080p";

/** What makes the video of a generation (interface section 3: "video produced" or "model run does not succeed"). */
export type Engine = {
  /**
   * Renders an .mp4 to `file`, which does not exist yet. Rejects with an error whose message becomes the generation's `error` field;
   * once `signal` aborts it stops soon and rejects with the signal's reason.
   */
  render(request: RenderRequest, file: string, signal: AbortSignal): Promise<void>;
};
