import type { Capabilities } from "../store/claims.ts";
import type { Checkpoint, EngineOrigin, Images, RenderRequest } from "../store/generations.ts";

/** Fields of a start that the interface does not have and a real model may; it checks their values itself, and a video can be made without. */
export const optionalExtras: readonly string[] = [
  "seed",
  "negative_prompt",
  "num_frames",
  "fps",
  "num_inference_steps",
  "guidance_scale",
  "guidance_scale_2",
  "flow_shift",
  "boundary_ratio",
  "true_cfg_scale",
];

/** Further ones, without which the video would be another one than was asked for. Several are objects, or lists of them. */
export const otherExtras: readonly string[] = [
  "extra_params",
  "lora",
  "audio_reference",
  "video_reference",
  "generate_audio",
  "generate_sound",
  "sound_duration",
  "quality",
  "short_edge",
  "enable_frame_interpolation",
  "frame_interpolation_exp",
  "frame_interpolation_scale",
  "frame_interpolation_model_path",
];

/** An image of a size that can be decoded. `name` is its address, as messages show it. */
export type ImageFile = { path: string; format: "png" | "jpeg" | "webp"; megapixels: number; name: string };

/** What is to be rendered, and the files to write: an .mp4 and a PNG of its middle frame. Files that a killed process left there are replaced. */
export type RenderTask = Images<ImageFile> & {
  /** The generation's. */
  id: string;
  /** Without images when an upstream job exists: it has them already. */
  request: RenderRequest;
  file: string;
  thumbnail: string;
};

/** How many generations a server of real models makes at the same time, unless its owner or its kind says otherwise. */
export const usualJobs = 16;

export type RenderOptions = {
  /** The checkpoint of an earlier process, and the upstream model that its job was started for; `undefined` when nothing was begun. */
  resume: (Exclude<Checkpoint, { state: "submitting" | "saved" }> & { model?: string | undefined }) | undefined;
  /** Keeps a checkpoint in place of the last one, `null` for none. Resolves when it is durable. */
  checkpoint(checkpoint: Checkpoint | null): Promise<void>;
  /**
   * Throws when another process may have taken over the task, because this one was suspended: called last, right before a request is written
   * that starts a job elsewhere.
   */
  confirm(): void;
  /** Tells how much of the video is made, in percent, or of what a part of the engine makes: then `node` is its name. */
  progress(percent: number | undefined, node?: string): void;
  /** Tells that the engine hardly works on the task any more, although it has not ended: another one may have its slot. May be called again. */
  releaseSlot?(): void;
  /** Tells what the provider has charged, in USD, before the video is fetched: it stays charged where the file cannot be used. */
  charged?(cost: number): void;
  signal: AbortSignal;
};

export type Charged = {
  /** What the engine's provider has charged, in USD, where it tells. */
  cost?: number | undefined;
};

export type Discardable = {
  /** Removes what another machine keeps of the video; to be called once the generation has ended here. Never rejects. */
  discard?: ((signal: AbortSignal) => Promise<void>) | undefined;
};

/** Why a task was not submitted, where waiting hardly helps: no server answered, or it refuses the key. */
export type NotSubmittedCause = "unreachable" | "auth";

/**
 * What came of a task. "refused": the model did not take the request, or its run failed; `error` is what the model's server says, and `code` its
 * word for that. What was paid is given back where the create itself was refused (`isNotSubmitted`), and stays paid where the run failed. "not
 * submitted": no server has accepted it, so another engine may make the video; `cause` is set where waiting hardly helps, and `retryAfterMs` where
 * the server says when to try again. "unclear": it may be making the video, so no engine gets the task again.
 */
export type RenderOutcome =
  | ({ kind: "made"; hasThumbnail: boolean } & Charged & Discardable)
  | ({ kind: "refused"; error: string; code?: string | undefined; isNotSubmitted?: boolean } & Charged)
  | { kind: "not submitted"; reason: string; cause?: NotSubmittedCause | undefined; retryAfterMs?: number | undefined }
  | { kind: "unclear"; reason: string };

/** What makes the videos of generations (interface section 3: "video produced" or "model run does not succeed"). */
export type Engine = Capabilities & {
  /** How messages and checkpoints call it: "preview", its address, or its package. */
  name: string;
  /** What the model is called there, where the owner named it. */
  upstreamModel?: string | undefined;
  /** How its owner named it; kept with what is submitted to it, for a later process that does not have it. */
  origin?: EngineOrigin | undefined;
  /** The same for two that were made alike, also with the same key. */
  identity?: string | undefined;
  /** Whether a generation may have a last image, and how many references; by default none. What it would ignore is refused before anything is paid. */
  takesLastImage?: boolean;
  maxReferences?: number;
  /** How many generations it makes at the same time; the others wait in the queue. */
  concurrency: number;
  /** For how many milliseconds generations wait for it while it takes none. */
  timeoutMs: number;
  /**
   * Makes a task's video. Rejects when it is lost, with an error whose message becomes the generation's `error` field; once `signal` aborts it
   * stops soon and rejects with the signal's reason, and a job elsewhere goes on.
   */
  render(task: RenderTask, options: RenderOptions): Promise<RenderOutcome>;
  /**
   * Stops a job that runs, by the name in its checkpoint, and resolves with whether it is stopped: what has ended, and what cannot be stopped,
   * stays as it is. Rejects when it is unclear, with `pending` when it was told to stop. An engine without jobs elsewhere stops by `render`'s signal alone.
   */
  cancel?: ((job: string, signal: AbortSignal) => Promise<boolean>) | undefined;
  /**
   * What its model does not take of a request, by the provider's own list, which is free of charge; `undefined` when nothing is known against
   * it. Never rejects: what cannot be asked is refused by the provider itself.
   */
  findFault?(request: RenderRequest & Images<unknown>): Promise<string | undefined>;
  /**
   * Asks whether it can be used now, free of charge; resolves with what kind of engine it is, for people. Rejects with an error whose message
   * goes on from its name, such as "does not answer (ECONNREFUSED)"; it is `auth` when the key is refused or missing, and `usage` when the
   * engine can never be used as it is.
   */
  check(signal: AbortSignal): Promise<string>;
};
