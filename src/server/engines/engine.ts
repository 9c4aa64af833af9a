import { createHash } from "node:crypto";
import type { UsdList } from "../../protocol/price.ts";
import type { Capabilities } from "../store/claims.ts";
import type { Checkpoint, EngineOrigin, FailureKind, Images, RenderRequest } from "../store/generations.ts";

/** Fields of a start that only some real models have. Their servers check the values, and a video can be made without them. */
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

/**
 * Fields of a start that only some real models have, and without which the video would not be the requested one. Several are objects, or lists of
 * objects.
 */
export const requiredExtras: readonly string[] = [
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

/**
 * Returns the seed for a generation whose request has none, for servers that otherwise make the same video each time: a whole number of at most
 * 2^31 - 1, the same at each submission of the generation.
 */
export function drawSeed(id: string): number {
  return createHash("sha256").update(id).digest().readUInt32BE() >>> 1;
}

/** An image that is small enough to be decoded. `name` is its address for messages. */
export type ImageFile = { path: string; format: "png" | "jpeg" | "webp"; megapixels: number; name: string };

/**
 * What to render, and the files to write: an .mp4 and a PNG of its middle frame. Files that a killed process left there are replaced. There are no
 * images when an upstream job exists, which already has them.
 */
export type RenderTask = Images<ImageFile> & {
  /** The generation's id. */
  id: string;
  request: RenderRequest;
  file: string;
  thumbnail: string;
};

/** How many generations an engine of real models runs at the same time, unless its owner or its kind says otherwise. */
export const defaultJobs = 16;

export type RenderOptions = {
  /** The checkpoint of an earlier process, and the upstream model of its job; `undefined` when nothing was started. */
  resume: (Exclude<Checkpoint, { state: "submitting" | "saved" }> & { model?: string | undefined }) | undefined;
  /** Stores a checkpoint in place of the last one; `null` removes it. Resolves when that is durable. */
  checkpoint(checkpoint: Checkpoint | null): Promise<void>;
  /**
   * Throws when another process may have taken over the task while this one was suspended. Called right before sending a request that starts a job
   * elsewhere.
   */
  confirm(): void;
  /**
   * Reports how much of the video is done, in percent. With `node`, the percentage is of that node of a ComfyUI workflow. `fetching` says how far the
   * download of a completed video is.
   */
  progress(percent: number | undefined, node?: string, fetching?: string): void;
  /** Reports that the task hardly keeps the engine busy, although it has not ended, so that another task may use its slot. May be called again. */
  releaseSlot?(): void;
  /** Reports what the provider has charged, in USD, before the video is downloaded, because the charge remains even if the file cannot be used. */
  reportCharge?(cost: number): void;
  signal: AbortSignal;
};

export type Charged = {
  /** What the engine's provider has charged, in USD, if known. */
  cost?: number | undefined;
};

export type Discardable = {
  /** Deletes the video on the machine that made it. Must be called only after the generation has ended here. Never rejects. */
  discard?: ((signal: AbortSignal) => Promise<void>) | undefined;
};

/**
 * Why a task was not submitted, where waiting is unlikely to help: no server replied, the server refuses the key, or what replies at the address is
 * not this engine.
 */
export type NotSubmittedCause = "unreachable" | "auth" | "address";

/** What is known about a failure. `isNotSubmitted`: no engine can have accepted the task, so its credits are always refunded. */
export type FailureFacts = { failure?: FailureKind | undefined; isNotSubmitted?: boolean | undefined };

/** Adds to an error what is known about the failure. */
export function failed<Thrown extends Error>(error: Thrown, facts: FailureFacts): Thrown & FailureFacts {
  return Object.assign(error, facts);
}

/**
 * The outcome of a task. "refused": the server refused the request, or its job failed; `error` is the server's message, and `code` its error code.
 * Credits are refunded where the create itself was refused (`isNotSubmitted`), and stay spent where the job failed. "not submitted": no server has
 * accepted the task, so another engine may make the video; `cause` is set where waiting is unlikely to help, and `retryAfterMs` where the server says
 * when to retry. "unclear": a server may be making the video, so no engine gets the task again.
 */
export type RenderOutcome =
  | ({ kind: "made"; hasThumbnail: boolean } & Charged & Discardable)
  | ({ kind: "refused"; error: string; code?: string | undefined } & FailureFacts & Charged)
  | { kind: "not submitted"; reason: string; cause?: NotSubmittedCause | undefined; retryAfterMs?: number | undefined }
  | { kind: "unclear"; reason: string };

/** What an engine takes of fields that vidgen does not know. */
export type Passes = {
  /** The names, as `namesOf` has them; "all" if the engine itself refuses a name that it does not have. */
  names: "all" | readonly string[];
  /** What the names are, in a message that lists them. */
  title?: string;
  /** The fields that vidgen writes itself. */
  written?: readonly string[];
  /** Whether the names are the owner's own, so that each of them may be used. */
  isOwn?: boolean;
  /** Where the engine takes such fields instead. */
  hint?: string;
};

/** What makes the videos of generations: the preview, a server of real models, or a provider. */
export type Engine = Capabilities & {
  /** Its name in messages and checkpoints: "preview", its address, or its package. */
  name: string;
  /** The model's name at the server, where the owner set one. */
  upstreamModel?: string | undefined;
  /** The specification of its owner. It is stored with each job, for a later process that does not have this engine. */
  origin?: EngineOrigin | undefined;
  /** Equal for two engines with the same specification and the same key. */
  identity?: string | undefined;
  /**
   * Whether a generation may have a last image, and how many references; by default none. A request with images that the engine would ignore is
   * refused before anything is paid.
   */
  takesLastImage?: boolean;
  maxReferences?: number;
  /**
   * Resolves with what the engine takes of fields that vidgen does not know, for one of its models; `undefined` while its list of fields cannot be
   * read. Without this function, an engine takes none. Never rejects.
   */
  passes?(model: string): Promise<Passes | undefined>;
  /** Whether its address has known a job and not known it in turn, as several servers behind one address do. */
  isInconsistent?(): boolean;
  /** How many generations it runs at the same time; the others wait in the queue. */
  concurrency: number;
  /** For how many milliseconds generations wait while the engine accepts none. */
  timeoutMs: number;
  /**
   * Makes a task's video. Rejects when the video is lost, with an error whose message becomes the generation's `error` field. Stops soon after
   * `signal` aborts, and rejects with the signal's reason; a job elsewhere continues.
   */
  render(task: RenderTask, options: RenderOptions): Promise<RenderOutcome>;
  /**
   * Stops a running job, by the id in its checkpoint. Resolves with `false` if the job has ended or cannot be stopped. Rejects when that is unclear,
   * with `pending` when the server has accepted the request to stop. An engine without jobs elsewhere needs only `render`'s signal.
   */
  cancel?: ((job: string, signal: AbortSignal) => Promise<boolean>) | undefined;
  /**
   * Returns what the engine does not accept in a request, according to its workflow or the provider's list of models, which costs nothing to read;
   * `undefined` when no objection is known. `names` are an API's names for the fields of the interface, where they differ. Never rejects, because
   * without the list the provider itself refuses the request.
   */
  findFault?(
    request: RenderRequest & Images<unknown>,
    names?: Readonly<Record<string, string>>,
  ): Promise<string | undefined>;
  /** Returns the prices of a model in its provider's list, which costs nothing to read; `undefined` if there are none. Never rejects. */
  listPrices?(model: string): Promise<UsdList | undefined>;
  /**
   * Checks whether the engine can be used now, free of charge; resolves with the kind of engine, for people. Rejects with an error whose message
   * continues the engine's name, such as "does not answer (it refuses connections)"; it is `auth` when the key is refused or missing, and `usage`
   * when the engine can never be used with these settings.
   */
  check(signal: AbortSignal): Promise<string>;
};
