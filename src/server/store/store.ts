import type { Checkpoint, Engine, RenderRequest } from "../engines/engine.ts";
import type { Change } from "./change.ts";

/** What was asked for. `images` are addresses, http(s) or data:; of a data: address only the beginning, once it is stored. */
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
  /** What its engine has charged for it, in USD, where that tells. */
  cost: number | null;
  /** "credits" when it failed because the owner's account with the engine's provider has none. */
  error_code?: "credits" | undefined;
};

/** How a generation has ended, as it is written; earlier versions wrote no cost. */
export type StoredResult = Pick<StoredGeneration, "error" | "error_code" | "media"> &
  Partial<Pick<StoredGeneration, "cost">>;

/**
 * A video that is kept. `file` and `thumbnail`, a PNG of the middle frame or `null`, are names in the media store; earlier versions wrote
 * whole paths. `etag` is strong: it is made from these very bytes.
 */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null };

/** What a list shows of a generation; `prompt` is cut. */
export type GenerationSummary = Omit<
  StoredGeneration,
  "callback_url" | "request" | "checkpoint" | "cost" | "error_code"
> &
  Pick<RenderRequest, "model" | "prompt">;

/** A page of a list, newest first: at most `limit` entries, older than the one called `before`. */
export type PageOf<Key> = { before?: Key | undefined; limit: number };

/** `text` is in the prompt, or begins the id; `ids` are the only generations that are wanted. */
export type GenerationQuery = PageOf<string> & {
  [Field in "status" | "model" | "text"]?: string | undefined;
} & { ids?: readonly string[] | undefined };

/** How many generations there are of each status, and which models they have, in alphabetical order. */
export type GenerationTotals = { counts: Partial<Record<StoredGeneration["status"], number>>; models: string[] };

/** The fields that change when a generation ends, and whether its account gets back what was paid. */
export type GenerationEnd = Pick<
  StoredGeneration,
  "status" | "completed_at" | "error" | "error_code" | "media" | "cost"
> & {
  isRefunded?: boolean;
};

/** `engine` is the one that has stopped making it; `null` when it was submitted to none. */
export type Cancellation = { end: GenerationEnd; engine: string | null; delivery: Delivery | undefined };

/** On what it depends which engine may make a generation. */
export type Needs = {
  model: string;
  /** How many images it starts from. */
  images: number;
  isReal: boolean;
  /** The engine that it was submitted to, and that makes it now. */
  engine: string | null;
};

/** A generation that this process may make until it ends or is released. */
export type Claim = Needs & {
  id: string;
  /** In the order of the starts. */
  number: number;
  /** Whether images of other machines are fetched for it. */
  isFetched: boolean;
  /** Whether an earlier process ended while it submitted the generation: nobody knows whether an engine makes it. */
  isSubmitting: boolean;
  /** Aborts when another process has taken it over. */
  lost: AbortSignal;
};

/**
 * Which generations a process claims, of those that nobody makes: "begun" are those that were submitted to these engines, and those of which
 * that is unclear; "new" are those that an engine can begin, started before the one with the number `before`; "same" are those with these
 * needs that were started before a time (ISO 8601).
 */
export type Wanted =
  | { kind: "begun"; engines: readonly string[] }
  | ({ kind: "new"; isFetched: boolean; before?: number | undefined } & Pick<
      Engine,
      "models" | "maxImages" | "isSimulation"
    >)
  | ({ kind: "same"; startedBefore: string } & Needs);

/** `except` are the generations that this process makes already; `ids` the only ones that are wanted. */
export type Among = { except: readonly string[]; ids?: readonly string[] | undefined };

/** How many generations with the same needs wait, and how many of their model some process makes. */
export type Waiting = Needs & { count: number; held: number };

/** Deliveries that are due now; `busy` are those that this process attempts, by the host of their receivers. */
export type DueQuery = {
  /** The time by this process's clock (ISO 8601). */
  now: string;
  limit: number;
  perHost: number;
  except: readonly string[];
  busy: Readonly<Record<string, number>>;
};

/**
 * An account that gets a key. `creditsOf` returns its credits from those that it has, which are `undefined` for a new account; what differs is a
 * row of the ledger. Without it, a new account has none.
 */
export type NewAccount = { name: string; keyHash: string; creditsOf?(had: number | undefined): number };

export type Revoked = { account: string; except?: string } | { keyHash: string };

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
  /** The id of the generation that the callback is about, and whose it is. */
  generation: string;
  account: string;
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
 * connection to a database on another machine broke off meanwhile. An error is `Unavailable` when the database, or its disk, cannot be used now.
 */
export type Store = {
  /** Resolves when something was written: a start could be kept now. */
  check(): Promise<void>;
  /** The account that a key belongs to, found by the key's hash. */
  account(keyHash: string): Promise<string | undefined>;
  /**
   * Creates the account or adds this key to one that exists, and gives it the credits that `creditsOf` says: all of it or nothing, whatever is
   * started meanwhile. Resolves with its credits. Rejects when the key belongs to another account.
   */
  addAccount(account: NewAccount): Promise<number>;
  /** Removes an account's keys but for one, or one key; all by their hashes. Resolves with how many there were. */
  removeKeys(keys: Revoked): Promise<number>;
  /** The account's credits: the sum of its rows in the ledger. Rejects when there is no such account. */
  balance(account: string): Promise<number>;
  /** Takes the credits and adds the generation and the idempotency key: all of it or nothing. */
  start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): Promise<StartOutcome>;
  /** Reads no image that came with the request. */
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** The addresses of a generation's images, whole. */
  images(id: string): Promise<string[]>;
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
  /**
   * Claims up to `limit` generations for this process, oldest first. Where processes share the database, no other one gets them until they are
   * released; or within 30 seconds, once this process is gone.
   */
  claim(wanted: Wanted, among: Among & { limit: number }): Promise<Claim[]>;
  /** Lets any process claim a generation that this one has claimed. */
  release(id: string): Promise<void>;
  /** What waits and is not being made, by its needs. */
  waiting(among: Among): Promise<Waiting[]>;
  /**
   * The deliveries to attempt now, those first that have been due for longest, and in how many milliseconds the next one is due. Where processes
   * share the database, no other one gets them for the time of an attempt.
   */
  due(query: DueQuery): Promise<{ deliveries: Delivery[]; nextMs: number }>;
  /** Whether other processes use the database, so that what is to be done may come without a change that this process hears of. */
  isShared: boolean;
  /** Calls `onChange` for every change of any process, this one included, until the returned function is called. */
  listen(onChange: (change: Change) => void): () => void;
  /** Tells all processes of a change that is not in the database. */
  publish(change: Change): void;
  /** Resolves when the changes under way are durable and the database is closed. */
  close(): Promise<void>;
};
