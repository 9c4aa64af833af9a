import type { FailureCode } from "../../protocol/schema.ts";
import type { Traced } from "../observe/trace.ts";
import type { Delivery } from "./deliveries.ts";
import type { Limited } from "./limits.ts";

/** What a generation asks of an engine, with the service's defaults filled in. */
export type RenderRequest = Traced & {
  prompt: string;
  model: string;
  /** Width to height, as in "16:9". */
  aspectRatio: string;
  /** Length of the video, in seconds. */
  duration: number;
  resolution: Resolution;
  /** The fields in which the service's defaults stand because the start left them out; a provider's model may have its own. */
  unset?: readonly ("aspectRatio" | "duration" | "resolution")[];
  /**
   * Those of `optionalExtras` and `otherExtras` that were sent, passed on to a real model as they are; and a `size` in pixels, such as "640x360",
   * which counts where aspectRatio and resolution are only near it.
   */
  extras: Record<string, ExtraValue>;
};

/** As JSON has it, but for null. */
export type ExtraValue = string | number | boolean | object;

/** Names the length of the shorter side in pixels. */
export type Resolution = "480p" | "720p" | "1080p";

/** The images of a generation, each as its address or as a file. */
export type Images<Image> = {
  /** Those that it starts from, in the order of the request. */
  images: Image[];
  /** The one that it ends with. */
  lastImage?: Image | undefined;
  /** The style references. */
  references?: Image[] | undefined;
};

/** All of them in one order, which `replaceImages` takes back. */
export function listImages<Image>({ images, lastImage, references = [] }: Images<Image>): Image[] {
  return [...images, ...(lastImage === undefined ? [] : [lastImage]), ...references];
}

/** The same number of images with others in their places. */
export function replaceImages<Image>(replaced: Images<unknown>, by: readonly Image[]): Images<Image> {
  const left = [...by];
  const images = left.splice(0, replaced.images.length);
  return {
    images,
    ...(replaced.lastImage !== undefined && { lastImage: left.shift() }),
    ...(replaced.references !== undefined && { references: left }),
  };
}

/** What was asked for. Its images are addresses, http(s) or data:; of a data: address only the beginning, once it is stored. */
export type StoredRequest = RenderRequest &
  Images<string> & {
    /** Whether a real model was offered for it: then no simulation makes it, whatever engines a later process has. */
    isReal: boolean;
    /** Whether directives in the prompt apply: they are for simulations alone, unless the service's owner wants them. */
    hasDirectives: boolean;
    /** What its client says it belongs to, such as a batch. */
    label?: Label | undefined;
  };

/** The name of what several generations belong to, and how many they will be in all, where that is known. */
export type Label = { name: string; size: number | null };

/**
 * How far a generation has come, for the next process. "submitting" is kept before a request goes out that starts a job elsewhere, and
 * "submitted" once its name is known: what is found as "submitting" may run there, and is never started again. "unconfirmed" is kept in place of
 * "submitting" where the name is chosen here: the engine asks whether the job exists, and only one that certainly does not may be started again.
 * "saved" and "finished" are kept where the reply to the request has the video itself, in a file that is whole on the disk of this machine, or says
 * where it is.
 */
export type Checkpoint =
  | { state: "rendering"; tries: number }
  | { state: "submitting" }
  | { state: "unconfirmed"; job: string }
  | { state: "submitted"; job: string }
  | { state: "saved"; file: string }
  | { state: "finished"; url: string };

/**
 * A checkpoint, with the engine that has the job, what the model is called there, where its owner named it, and when that was written (ISO
 * 8601). Several engines may have one address or package.
 */
export type StoredCheckpoint = Checkpoint & {
  engine: string;
  model?: string | undefined;
  at: string;
  origin?: EngineOrigin | undefined;
};

/** An engine as an owner names it in the file of `serve --config`, so that a later process that does not name it can ask for the job. It has no key. */
export type EngineOrigin = Readonly<Record<string, unknown>>;

/** A generation as the service keeps it: the fields of interface 2.1, its account, and what was asked for. */
export type StoredGeneration = {
  id: string;
  account: string;
  status: "processing" | "completed" | "failed";
  created_at: string;
  completed_at: string | null;
  error: string | null;
  callback_url: string | null;
  request: StoredRequest;
  /** How far an engine has come; stays as it was last when the generation ends. */
  checkpoint: StoredCheckpoint | null;
  media: Media | null;
  /** What its engine has charged for it, in USD, where that tells. */
  cost: number | null;
  /** Why it failed, where a client is to do something about that. */
  error_code?: FailureCode | undefined;
  /** What the engine's server calls the failure, where it has a word for that. */
  engine_code?: string | undefined;
  /** When its account has removed it (ISO 8601): the video is gone, and the record stays, with what was paid. */
  removed_at?: string;
  /** Whether somebody has marked it on the page as one of the best. */
  isStarred?: boolean;
};

/** How a generation has ended, as it is written. */
export type StoredResult = Pick<StoredGeneration, "error" | "error_code" | "engine_code" | "media" | "cost">;

/**
 * A video that is kept. `file` and `thumbnail`, a PNG of the middle frame or `null`, are names in the media store. `etag` is strong: it is made
 * from these very bytes. No reply names the address of an unlisted one.
 */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null; isUnlisted?: boolean };

/** The status of a generation, but for those that no engine has begun: they are queued. */
export type State = "queued" | "running" | "completed" | "failed";

/** A generation that no engine has begun is queued. */
export function stateOf({ status, checkpoint }: Pick<StoredGeneration, "status" | "checkpoint">): State {
  if (status !== "processing") return status;
  return checkpoint === null ? "queued" : "running";
}

/** The value of the Idempotency-Key header, and the body that came with it. */
export type Idempotency = { key: string; body: string };

/** The result of a start; `replayed` when a start with the same Idempotency-Key was executed before. */
export type StartOutcome =
  | { kind: "started"; generation: StoredGeneration; remaining_credits: number; replayed: boolean }
  | { kind: "no credits" }
  /** The account was deleted. */
  | { kind: "no account" }
  | Limited
  | { kind: "key reused" };

/** The fields that change when a generation ends, and whether its account gets back what was paid. */
export type GenerationEnd = Pick<
  StoredGeneration,
  "status" | "completed_at" | "error" | "error_code" | "engine_code" | "media" | "cost"
> & {
  isRefunded?: boolean;
};

/** `engine` is the one that has stopped making it; `null` when it was submitted to none. */
export type Cancellation = { end: GenerationEnd; engine: string | null; delivery: Delivery | undefined };

/** `before` is a time (ISO 8601). */
export type EndedBefore = { before: string; limit: number };

/** What is removed when a generation's video is, and when it ended. */
export type Completed = Pick<StoredGeneration, "id" | "media"> & { completed_at: string };

export type CompletedBefore = EndedBefore & { after?: Completed | undefined };

/** The generations of an account that it has not removed, newest first unless `order` says otherwise; with `after`, those behind the one called so. */
export type OwnQuery = {
  account: string;
  order?: "asc" | "desc" | undefined;
  after?: string | undefined;
  limit: number;
};

/** The generations from their start on. When a method resolves and rejects, `Store` says. */
export type Generations = {
  /**
   * Takes the credits and adds the generation and the idempotency key: all of it or nothing. A repeated key is looked for before the limits. What
   * was submitted to an engine of `missing` does not count: it ends when its owner does something about it.
   */
  start(
    generation: StoredGeneration,
    cost: number,
    idempotency: Idempotency | undefined,
    missing?: readonly string[],
  ): Promise<StartOutcome>;
  /** What a start with this key is answered, where an earlier one has used it; changes nothing. */
  findStart(account: string, idempotency: Idempotency): Promise<StartOutcome | undefined>;
  /** Reads no image that came with the request. */
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** The addresses of a generation's images, whole. */
  images(id: string): Promise<Images<string>>;
  /** Newest first. */
  generations(query: OwnQuery): Promise<StoredGeneration[]>;
  /** Keeps a generation's checkpoint in place of the last one. Rejects when it has ended, or another process makes it now. */
  keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null): Promise<void>;
  /**
   * Ends a generation, adds the delivery of its callback, and gives back what was paid if it is to be refunded: all of it or nothing. Resolves
   * with false, and changes nothing, when the generation had ended before, or another process makes it now.
   */
  finish(id: string, end: GenerationEnd, delivery?: Delivery): Promise<boolean>;
  /**
   * Ends a generation as `finish` does, whichever process makes it, which then hears that it is cancelled. Resolves with false, and changes
   * nothing, when it had ended before, is being submitted, or was submitted to another engine than this one.
   */
  cancel(id: string, cancellation: Cancellation): Promise<boolean>;
  /** Marks a generation that has ended as removed at a time (ISO 8601), unless it is already. */
  remove(id: string, at: string): Promise<void>;
  /** Gives a generation a star, or takes it away. */
  star(id: string, isStarred: boolean): Promise<void>;
  /** Those that completed before a time and still have their videos, the oldest first; only those after a certain one, if it is given. */
  completedBefore(query: CompletedBefore): Promise<Completed[]>;
  /**
   * Deletes what ended before a time and has no video, with its idempotency key and callback, and resolves with how many it were. One whose
   * callback is still to be delivered stays. The rows of the ledger stay, without the generation that they paid for.
   */
  forget(query: EndedBefore): Promise<number>;
};
