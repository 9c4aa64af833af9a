import type { Checkpoint, RenderRequest } from "../engines/engine.ts";
import type { Change } from "./change.ts";

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
 * A video that is kept. `file` and `thumbnail`, a PNG of the middle frame or `null`, are names in the media store; earlier versions wrote
 * whole paths. `etag` is strong: it is made from these very bytes.
 */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null };

/** What a list shows of a generation; `prompt` is cut. Its request may hold images of many megabytes. */
export type GenerationSummary = Omit<StoredGeneration, "callback_url" | "request" | "checkpoint"> &
  Pick<RenderRequest, "model" | "prompt">;

/** A page of a list, newest first: at most `limit` entries, older than the one called `before`. */
export type PageOf<Key> = { before?: Key | undefined; limit: number };

/** `text` is in the prompt, or begins the id; `ids` are the only generations that are wanted. */
export type GenerationQuery = PageOf<string> & {
  [Field in "status" | "model" | "text"]?: string | undefined;
} & { ids?: readonly string[] | undefined };

/** How many generations there are of each status, and which models they have, in alphabetical order. */
export type GenerationTotals = { counts: Partial<Record<StoredGeneration["status"], number>>; models: string[] };

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

/** One attempt to deliver a callback: when it was signed (ISO 8601), its outcome in words, and how the text of the reply begins. */
export type Attempt = { at: string; outcome: string; delivered: boolean; reply: string };

/** A callback with all attempts so far; `next_at` is null when no attempt is to come. */
export type DeliveryRecord = Omit<Delivery, "attempts" | "next_at"> & { attempts: Attempt[]; next_at: string | null };

/** `generations` are the only ones whose callbacks are wanted; `before` is a webhook-id. */
export type DeliveryQuery = PageOf<string> & { generations?: readonly string[] | undefined };

/** A change of an account's credits; `generation` is the one that was paid for. */
export type LedgerEntry = {
  number: number;
  account: string;
  amount: number;
  reason: string;
  generation: string | null;
  /** When that generation was started. */
  created_at: string | null;
};

export type LedgerQuery = PageOf<number> & { generation?: string | undefined };

/**
 * The service's state. A method that changes something resolves when the change is durable; when it rejects, nothing was changed, unless the
 * connection to a database on another machine broke off meanwhile. An error has `isUnavailable: true` when the database cannot be reached now.
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
  /** Keeps a generation's checkpoint in place of the last one. Rejects when another process makes the generation now. */
  keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null): Promise<void>;
  /**
   * Ends a generation and adds the delivery of its callback: both or neither. Resolves with false, and changes nothing, when the generation
   * had ended before, or another process makes it now.
   */
  finish(id: string, end: GenerationEnd, delivery?: Delivery): Promise<boolean>;
  /** Records an attempt, and when the next one is due; `null` when the callback was delivered or given up. */
  recordAttempt(deliveryId: string, attempt: Attempt, next_at: string | null): Promise<void>;
  /** Makes a generation's callback due at a time (ISO 8601), also when it was delivered or given up; `undefined` when it has none. */
  resend(generation: string, at: string): Promise<Delivery | undefined>;
  /** The lists for the service's owner are of all accounts, newest first. */
  list(query: GenerationQuery): Promise<GenerationSummary[]>;
  totals(): Promise<GenerationTotals>;
  deliveries(query: DeliveryQuery): Promise<DeliveryRecord[]>;
  ledger(query: LedgerQuery): Promise<LedgerEntry[]>;
  /** Every account with its credits, in alphabetical order. */
  balances(): Promise<{ account: string; credits: number }[]>;
  /** Resolves when the changes under way are durable and the database is closed. */
  close(): Promise<void>;
};

/** What a database that one process has for itself tells that process at its start: what earlier processes left undone. */
export type Backlog = {
  /** Generations that are still processing, oldest first. */
  unfinished(): Promise<StoredGeneration[]>;
  /** Deliveries that have an attempt to come, by the time when it is due. */
  pendingDeliveries(): Promise<Delivery[]>;
};

/**
 * Where processes that share a database get their work from. Each generation and each delivery that is due goes to one of them; when that
 * process is gone, to another one within 30 seconds.
 */
export type Work = {
  /** Begins to take work for this process, and to tell it of changes. */
  start(workers: Workers): void;
  /** Tells all processes of a change that is not in the database. */
  publish(change: Change): void;
  /** Takes no more work; once what was taken has come to rest, hands back what has not ended, and resolves. */
  close(): Promise<void>;
};

/** What one process does with its work. */
export type Workers = {
  /** How many more generations it can take now. */
  room(): number;
  /** Whether it has an engine for a generation. */
  canMake(generation: StoredGeneration): boolean;
  /** Makes a generation, and resolves when it has ended or the process stops. `lost` aborts when another process has taken it over. */
  make(generation: StoredGeneration, lost: AbortSignal): Promise<void>;
  /** Attempts a delivery; resolves with false when it cannot be attempted now. */
  deliver(delivery: Delivery): Promise<boolean>;
  /** Called for every change of any process, this one included. */
  onChange(change: Change): void;
};
