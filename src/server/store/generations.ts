import type { FailureCode } from "../../protocol/schema.ts";
import type { Traced } from "../observe/trace.ts";
import type { Delivery } from "./deliveries.ts";
import type { Limited } from "./limits.ts";

/** What an engine is asked to make, with the service's defaults filled in. */
export type RenderRequest = Traced & {
  prompt: string;
  model: string;
  /** Width to height, as in "16:9"; "adaptive" if the model chooses it. */
  aspectRatio: string;
  /** Length of the video, in seconds. */
  duration: number;
  /** Its name, such as "720p". */
  resolution: string;
  /** The fields that the start left out. They contain the service's defaults; a provider's model may have other defaults. */
  unset?: readonly ("aspectRatio" | "duration" | "resolution")[];
  /**
   * The fields of `optionalExtras` and `requiredExtras` that were sent, and those that vidgen does not know, all passed on unchanged to a real
   * model; and a `size` in pixels, such as "640x360", which takes precedence if aspectRatio and resolution only approximate it.
   */
  extras: Record<string, ExtraValue>;
  /** What an engine must take of the fields that vidgen does not know (see `namesOf`), if there are any. */
  names?: readonly string[];
};

/** A JSON value, except null. */
export type ExtraValue = string | number | boolean | object;

/** The images of a generation, each as its address or as a file. */
export type Images<Image> = {
  /** The images that it starts from, in the order of the request. */
  images: Image[];
  /** The image that it ends with. */
  lastImage?: Image | undefined;
  /** The style references. */
  references?: Image[] | undefined;
};

/** Lists all images, in the order that `replaceImages` expects. */
export function listImages<Image>({ images, lastImage, references = [] }: Images<Image>): Image[] {
  return [...images, ...(lastImage === undefined ? [] : [lastImage]), ...references];
}

/** Replaces all images, in the order of `listImages`. */
export function replaceImages<Image>(replaced: Images<unknown>, by: readonly Image[]): Images<Image> {
  const left = [...by];
  const images = left.splice(0, replaced.images.length);
  return {
    images,
    ...(replaced.lastImage !== undefined && { lastImage: left.shift() }),
    ...(replaced.references !== undefined && { references: left }),
  };
}

/** The request of a start. Its images are http(s) or data: URLs; once stored, only the beginning of a data: URL. */
export type StoredRequest = RenderRequest &
  Images<string> & {
    /** Whether the service offered a real model for the request. If so, no simulation makes the video, whatever engines a later process has. */
    isReal: boolean;
    /** Whether directives in the prompt apply. By default they apply only to simulations; the service's owner can enable them for all engines. */
    hasDirectives: boolean;
    /** The client's name for the group that the generation belongs to, such as a batch. */
    label?: Label | undefined;
  };

/**
 * How far the images at other machines are fetched: their names in the media store, by place (`null` for a `data:` image); or since when they are
 * asked for, when they are asked for again (both ISO 8601), and why they are not there yet.
 */
export type ImageFetch = { files: (string | null)[] } | { since: string; nextAt: string; problem: string };

/** Returns the names in the media store of a generation's fetched images. */
export function fetchedFiles(imageFetch: ImageFetch | undefined): string[] {
  return imageFetch && "files" in imageFetch ? imageFetch.files.filter((file) => file !== null) : [];
}

/** The name of a group of generations, and how many generations the group will have, if known. */
export type Label = { name: string; size: number | null };

/**
 * The progress of a generation, for the next process. "submitting" is stored before the request that starts a job elsewhere, and "submitted" once
 * the name of the job is known, so a job found as "submitting" may be running, and is never started again. "unconfirmed" is stored in place of
 * "submitting" if this service chooses the name: the engine asks whether the job exists, and may start it again only if it certainly does not.
 * "saved" and "finished" are stored if the reply to the request contains the video, which is now complete in a file on this machine, or its URL.
 * `drawn_seed` is the seed that was sent where the request has none.
 */
export type Checkpoint = (
  | { state: "rendering"; tries: number }
  | { state: "submitting" }
  | { state: "unconfirmed"; job: string }
  | { state: "submitted"; job: string }
  | { state: "saved"; file: string }
  | { state: "finished"; url: string }
) & { drawn_seed?: number | undefined };

/**
 * A checkpoint, with the engine of the job, the name of the model there if the owner has set one, and when it was written (ISO 8601). Several engines
 * may have one address or package.
 */
export type StoredCheckpoint = Checkpoint & {
  engine: string;
  model?: string | undefined;
  at: string;
  origin?: EngineOrigin | undefined;
};

/** An engine as in the file of `serve --config`, without its key, so that a later process without this engine can ask for the job. */
export type EngineOrigin = Readonly<Record<string, unknown>>;

/**
 * What has failed, as the code knows it that saw the failure; `engines/failure-hint.ts` says what to do about it. "refused": the model refused the
 * request. "value": it refused one value of it, "model" the name of the model, and "start_image" the image, because it takes none. "image": an image
 * cannot be used. "memory": the engine had too little. "address": the engine does not have the endpoint. "lost": the engine no longer has the job.
 * "stopped": somebody stopped the job at the engine. "silent": the engine made no progress, or did not answer.
 *
 * Of a workflow of ComfyUI: "node": a node is not installed. "file": a file of a model is missing, "input_file" a picture of the workflow's author.
 * "inputs": an input of a node is missing. "link": a link leads to nothing that fits. "prefix": the file name leads out of the output folder.
 * "no_video": no node makes a video. "crash": ComfyUI itself fails on it each time. "workflow": anything else.
 */
export type FailureKind =
  | ("refused" | "value" | "model" | "start_image" | "image" | "memory" | "address" | "lost" | "stopped" | "silent")
  | ("node" | "file" | "input_file" | "inputs" | "link" | "prefix" | "no_video" | "crash" | "workflow");

/** A stored generation: the fields of the interface, with the account and the request. */
export type StoredGeneration = {
  id: string;
  account: string;
  status: "processing" | "completed" | "failed";
  created_at: string;
  completed_at: string | null;
  error: string | null;
  callback_url: string | null;
  request: StoredRequest;
  /** The last checkpoint; kept when the generation ends. */
  checkpoint: StoredCheckpoint | null;
  media: Media | null;
  /** What the engine's provider has charged, in USD, if the engine reports that. */
  cost: number | null;
  /** Why it failed, if the client can do something about that. */
  error_code?: FailureCode | undefined;
  /** What has failed, if that is known. */
  failure?: FailureKind | undefined;
  /** The code of the engine's server for the failure, if there is one. */
  engine_code?: string | undefined;
  /** When its account has removed it (ISO 8601). The video is gone, and the record stays, with what was paid. */
  removed_at?: string;
  /** Whether somebody has marked it on the page as one of the best. */
  isStarred?: boolean;
  /** How far its images are fetched, if it has images at other machines and their fetching has begun. */
  imageFetch?: ImageFetch;
};

/** The stored result of a generation. */
export type StoredResult = Pick<
  StoredGeneration,
  "error" | "error_code" | "failure" | "engine_code" | "media" | "cost"
>;

/**
 * A stored video. `file` and `thumbnail`, a PNG of the middle frame or `null`, are names in the media store. `etag` is strong: a hash of the bytes.
 * No reply contains the URL of an unlisted video.
 */
export type Media = {
  file: string;
  size: number;
  etag: string;
  thumbnail: string | null;
  isUnlisted?: boolean;
  /** Of its frames, in pixels, if its headers state that. */
  width?: number;
  height?: number;
};

/** The status of a generation, which is queued until an engine begins it. */
export type GenerationState = "queued" | "running" | "completed" | "failed";

/** Whether it is not known yet if the engine has accepted the generation. */
export function isSubmitting({ checkpoint }: Pick<StoredGeneration, "checkpoint">): boolean {
  return checkpoint?.state === "submitting" || checkpoint?.state === "unconfirmed";
}

export function stateOf({ status, checkpoint }: Pick<StoredGeneration, "status" | "checkpoint">): GenerationState {
  if (status !== "processing") return status;
  return checkpoint === null ? "queued" : "running";
}

/** Which engine began a generation, and when; the checkpoints "saved" and "finished" have the time of the end. */
export function beginningOf(checkpoint: StoredCheckpoint | null) {
  if (checkpoint === null) return { begun_at: null, engine: null };
  const { state, at, engine } = checkpoint;
  return { begun_at: state === "saved" || state === "finished" ? null : at, engine };
}

/**
 * The value of an Idempotency-Key header as it was sent, and the body that came with it, as JSON; `earlierBodies` returns the same body as earlier
 * versions read it.
 */
export type Idempotency = { key: string; body: string; earlierBodies?: (() => string[]) | undefined };

/** The result of a start; `replayed` when a start with the same Idempotency-Key was executed before. */
export type StartOutcome =
  | { kind: "started"; generation: StoredGeneration; remaining_credits: number; replayed: boolean }
  | { kind: "no credits" }
  /** The account was deleted. */
  | { kind: "no account" }
  | { kind: "disabled" }
  | Limited
  | { kind: "key reused" };

/** The fields that change when a generation ends, and whether its credits are returned. */
export type GenerationEnd = StoredResult & Pick<StoredGeneration, "status" | "completed_at"> & { isRefunded?: boolean };

/** `engine` is the engine that has stopped making the generation; `null` if the generation was not submitted. */
export type Cancellation = { end: GenerationEnd; engine: string | null; delivery: Delivery | undefined };

/** `before` is a time (ISO 8601). */
export type EndedBefore = { before: string; limit: number };

/** The video of a generation, for its removal, and when it was completed. */
export type Completed = Pick<StoredGeneration, "id" | "media"> & { completed_at: string };

export type CompletedBefore = EndedBefore & { after?: Completed | undefined };

/** The generations of an account that it has not removed, newest first by default; with `after`, those that follow this id. */
export type OwnQuery = {
  account: string;
  order?: "asc" | "desc" | undefined;
  after?: string | undefined;
  limit: number;
};

/** The generations. See `Store` for when methods resolve and reject. */
export type Generations = {
  /**
   * Takes the credits and adds the generation and the idempotency key: all or nothing. A repeated key is checked before the limits. Generations
   * submitted to an engine of `missing` do not count towards the limits, because they wait until the service's owner adds the engine again.
   */
  start(
    generation: StoredGeneration,
    cost: number,
    idempotency: Idempotency | undefined,
    missing?: readonly string[],
  ): Promise<StartOutcome>;
  /** The reply to a start with this key, if an earlier start has used it; changes nothing. */
  findStart(account: string, idempotency: Idempotency): Promise<StartOutcome | undefined>;
  /** Does not read the images that were sent with the request, and has hashes in place of secrets in fields that vidgen does not know. */
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** The complete URLs of a generation's images. */
  images(id: string): Promise<Images<string>>;
  /** The fields of a generation's request that it has only as hashes; none once it has ended. */
  secrets(id: string): Promise<StoredRequest["extras"]>;
  /** Stores how far the images of a generation are fetched. Rejects as `keepCheckpoint` does. */
  keepImageFetch(id: string, imageFetch: ImageFetch): Promise<void>;
  /** The names of the fetched images of all unfinished generations. */
  fetchedImages(): Promise<string[]>;
  /** Newest first. */
  generations(query: OwnQuery): Promise<StoredGeneration[]>;
  /** Replaces the checkpoint of a generation. Rejects if the generation has ended, or another process makes it now. */
  keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null): Promise<void>;
  /**
   * Ends a generation, adds the delivery of its callback, and returns its credits if `isRefunded`: all or nothing. Resolves with false, and changes
   * nothing, when the generation had ended before, or another process makes it now.
   */
  finish(id: string, end: GenerationEnd, delivery?: Delivery): Promise<boolean>;
  /**
   * Ends a generation as `finish` does, whichever process makes it; that process is notified. Resolves with false, and changes nothing, when it had
   * ended before, is being submitted, or was submitted to another engine than this one.
   */
  cancel(id: string, cancellation: Cancellation): Promise<boolean>;
  /** Marks a generation that has ended as removed at a time (ISO 8601), unless it is already. */
  remove(id: string, at: string): Promise<void>;
  /** Gives a generation a star, or takes it away. */
  star(id: string, isStarred: boolean): Promise<void>;
  /** The generations that completed before a time and still have their videos, oldest first; only those that follow `after`, if given. */
  completedBefore(query: CompletedBefore): Promise<Completed[]>;
  /**
   * Deletes generations that ended before a time and have no video, with their idempotency keys and callbacks. Resolves with their number. A
   * generation whose callback must still be delivered stays. The rows of the ledger stay, without the generation that they paid for.
   */
  forget(query: EndedBefore): Promise<number>;
};
