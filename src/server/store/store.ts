import type { Checkpoint, RenderRequest } from "../engines/engine.ts";

/** What was asked for. `images` are addresses, http(s) or data:. */
export type StoredRequest = RenderRequest & {
  images: string[];
  /** Whether a real model was offered for it: then no simulation makes it, whatever engines a later process has. */
  isReal: boolean;
  /** Whether directives in the prompt apply: they are for simulations alone, unless the service's owner wants them. */
  hasDirectives: boolean;
};

/** A checkpoint, with the engine that has the job and when that was written (ISO 8601). */
export type StoredCheckpoint = Checkpoint & { engine: string; at: string };

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
};

/**
 * A video on disk. `file` and `thumbnail`, a PNG of the middle frame or `null`, are names in the folder of the videos; earlier versions
 * wrote whole paths. `etag` is strong: it is made from these very bytes.
 */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null };

/** The fields that change when a generation ends. */
export type GenerationEnd = Pick<StoredGeneration, "status" | "completed_at" | "error" | "media">;

/** The result of a start; `replayed` when a start with the same Idempotency-Key was executed before. */
export type StartOutcome =
  | { kind: "started"; generation: StoredGeneration; remaining_credits: number; replayed: boolean }
  | { kind: "no credits" }
  | { kind: "key reused" };

/** The value of the Idempotency-Key header, and the body that came with it. */
export type Idempotency = { key: string; body: string };

/** A callback that is still to be delivered. */
export type Delivery = {
  /** The webhook-id: the same for every attempt. */
  id: string;
  /** The id of the generation that the callback is about. */
  generation: string;
  url: string;
  /** Stored, not built again for each attempt, so that every attempt signs the same bytes. */
  body: string;
  /** How many attempts were made so far. */
  attempts: number;
  /** When the next attempt is due (ISO 8601). */
  next_at: string;
};

/** One attempt to deliver a callback: when it was made (ISO 8601), and its outcome in words. */
export type Attempt = { at: string; outcome: string; delivered: boolean };

/**
 * The service's state. Every method is async, so that a database on another machine can implement it. A method that changes something
 * resolves when the change is durable; when it rejects, nothing was changed.
 */
export type Store = {
  /** The account that a key belongs to, found by the key's hash. */
  account(keyHash: string): Promise<string | undefined>;
  /**
   * Creates the account, or adds this key to an account that exists. A new account has no credits. Rejects when the key belongs to another
   * account.
   */
  addAccount(account: { name: string; keyHash: string }): Promise<void>;
  /** The account's credits: the sum of its rows in the ledger. Rejects when there is no such account. */
  balance(account: string): Promise<number>;
  /** Adds or takes credits as a row of the ledger, so that the account has this many, whatever is started meanwhile. */
  setBalance(account: string, credits: number): Promise<void>;
  /** Takes the credits and adds the generation and the idempotency key: all of it or nothing. */
  start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): Promise<StartOutcome>;
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** Generations that are still processing, oldest first: a restarted service resumes them. */
  unfinished(): Promise<StoredGeneration[]>;
  /** Keeps a generation's checkpoint in place of the last one. */
  keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null): Promise<void>;
  /**
   * Ends a generation and adds the delivery of its callback: both or neither. Resolves with false, and changes nothing, when the generation
   * had ended before.
   */
  finish(id: string, end: GenerationEnd, delivery?: Delivery): Promise<boolean>;
  /** Deliveries that have an attempt to come, by the time when it is due. */
  pendingDeliveries(): Promise<Delivery[]>;
  /** Records an attempt, and when the next one is due; `null` when the callback was delivered or given up. */
  recordAttempt(deliveryId: string, attempt: Attempt, next_at: string | null): Promise<void>;
  /** Resolves when the changes under way are durable and the database is closed. */
  close(): Promise<void>;
};
