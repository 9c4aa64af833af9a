import type { FailureCode } from "../../client/http/schema.ts";
import type { Checkpoint, Engine, Images, RenderRequest } from "../engines/engine.ts";
import type { Traced } from "../observe/trace.ts";
import type { Change } from "./change.ts";

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
  /** Why it failed, where a client is to do something about that. */
  error_code?: FailureCode | undefined;
  /** When its account has removed it (ISO 8601): the video is gone, and the record stays, with what was paid. */
  removed_at?: string;
  /** Whether somebody has marked it on the page as one of the best. */
  isStarred?: boolean;
};

/** How a generation has ended, as it is written; earlier versions wrote no cost. */
export type StoredResult = Pick<StoredGeneration, "error" | "error_code" | "media"> &
  Partial<Pick<StoredGeneration, "cost">>;

/**
 * A video that is kept. `file` and `thumbnail`, a PNG of the middle frame or `null`, are names in the media store; earlier versions wrote
 * whole paths. `etag` is strong: it is made from these very bytes.
 */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null };

/** The status of a generation, but for those that no engine has begun: they are queued. */
export type State = "queued" | "running" | "completed" | "failed";

/** What a list shows of a generation; `prompt` is cut. */
export type GenerationSummary = Omit<StoredGeneration, "callback_url" | "request" | "checkpoint" | "error_code"> &
  Pick<RenderRequest, "model" | "prompt" | "aspectRatio" | "duration"> & {
    state: State;
    /** When an engine began it, or took it (ISO 8601). */
    begun_at: string | null;
    /** What was paid for it, and not given back. */
    credits: number;
    /** How many of its model are queued before it, up to 1,000; 0 when it is not queued. */
    ahead: number;
    /** The name of its label. */
    label: string | null;
  };

/** A page of a list, newest first: at most `limit` entries, older than the one called `before`. */
export type PageOf<Key> = { before?: Key | undefined; limit: number };

/** Each word of `text` is in the prompt, id, model, label or error, in whatever case. */
export type GenerationFilter = {
  state?: State | undefined;
  model?: string | undefined;
  /** Only those with a star. */
  isStarred?: true | undefined;
  /** The name of the label that they have. */
  label?: string | undefined;
  text?: string | undefined;
  account?: string | undefined;
};

/** `from` is the newest generation that is wanted, if it matches. With `after`, those newer than the one called so come, the nearest first. */
export type GenerationQuery = PageOf<string> &
  GenerationFilter & { from?: string | undefined; after?: string | undefined };

/** The generations of an account that it has not removed, newest first unless `order` says otherwise; with `after`, those behind the one called so. */
export type OwnQuery = {
  account: string;
  order?: "asc" | "desc" | undefined;
  after?: string | undefined;
  limit: number;
};

/** `before` is a time (ISO 8601). */
export type EndedBefore = { before: string; limit: number };

/** What is removed when a generation's video is, and when it ended. */
export type Completed = Pick<StoredGeneration, "id" | "media"> & { completed_at: string };

export type CompletedBefore = EndedBefore & { after?: Completed | undefined };

/**
 * How many generations of each state match the rest of a filter, how many that match it all are newer than `from`, up to 1,000, and which
 * models there are at all, in alphabetical order: where the filter has an account, those of its generations.
 */
export type GenerationTotals = { counts: Partial<Record<State, number>>; newer: number; models: string[] };

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
  account: string;
  /** In the order of the starts. */
  number: number;
  /** Whether images of other machines are fetched for it. */
  isFetched: boolean;
  /** Whether an earlier process ended while it submitted the generation: nobody knows whether an engine makes it. */
  isSubmitting: boolean;
  /** Aborts when another process has taken it over. */
  lost: AbortSignal;
  /** Throws when another process may have taken it over: this one has not said for so long that it goes on. */
  confirm(): void;
};

/**
 * Which generations a process claims, of those that nobody makes: "begun" are those that were submitted to these engines, and those of which
 * that is unclear; "new" are those that an engine can begin, where the accounts take turns: `turns` are those that had one, the last one at the
 * end, and with `before` only one that comes before that place in the order is claimed; "same" are those with these needs that were started
 * before a time (ISO 8601).
 */
export type Wanted =
  | { kind: "begun"; engines: readonly string[] }
  | ({ kind: "new"; isFetched: boolean; turns: readonly string[]; before?: Place | undefined } & Pick<
      Engine,
      "models" | "maxImages" | "isSimulation"
    >)
  | ({ kind: "same"; startedBefore: string } & Needs);

/** Where a generation stands: the index of its account in `turns`, -1 for one that had no turn, and its number. */
export type Place = { turn: number; number: number };

/** `except` are the generations that this process makes already; `ids` the only ones that are wanted. */
export type Among = { except: readonly string[]; ids?: readonly string[] | undefined };

/** How many generations with the same needs wait, since when the oldest one does (ISO 8601), and how many of their model some process makes. */
export type Waiting = Needs & { count: number; held: number; oldest_at: string };

/** How many processes use an engine, and how many of them come before this one. */
export type Share = { processes: number; before: number };

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
 * row of the ledger. Without it, a new account has none. What it throws changes nothing. With `isOnlyKey`, the keys that the account had are removed.
 */
export type NewAccount = {
  name: string;
  keyHash: string;
  creditsOf?(had: number | undefined): number;
  isOnlyKey?: boolean;
};

/** `removed` is how many keys the account had that it has no more. */
export type AddedKey = { credits: number; removed: number };

/** How many generations of an account may be unfinished at once, and how many it may start in an hour; `null` for any number. */
export type Limits = { max_running: number | null; max_per_hour: number | null };

/** An account as its owner's list has it; `keys` is how many it has. */
export type AccountRecord = Limits & { account: string; credits: number; keys: number };

/** A change of credits; one with the same `key` is made once. */
export type CreditChange = { account: string; amount: number; key: string };

/** `credits` is the balance now. Nothing was changed unless it is "added", and not `replayed`. */
export type CreditOutcome =
  | { kind: "added"; credits: number; replayed: boolean }
  | { kind: "out of range"; credits: number }
  | { kind: "key reused" }
  | { kind: "no account" };

export type Revoked = { account: string } | { keyHash: string };

/** The result of a start; `replayed` when a start with the same Idempotency-Key was executed before. */
export type StartOutcome =
  | { kind: "started"; generation: StoredGeneration; remaining_credits: number; replayed: boolean }
  | { kind: "no credits" }
  | Limited
  | { kind: "key reused" };

/** A start that was refused by a limit, and after how many seconds there may be room. */
export type Limited = { kind: "limited"; limit: keyof Limits; max: number; retryAfterSeconds: number };

/** `fd` is an open file without a name, which goes when whoever has it closes it; `size` is in bytes. */
export type DatabaseCopy = { size: number; fd: number };

/** The value of the Idempotency-Key header, and the body that came with it. */
export type Idempotency = { key: string; body: string };

/** A callback that is still to be delivered. */
export type Delivery = Traced & {
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

/**
 * One attempt to deliver a callback: when it was signed (ISO 8601), its outcome in words, how the text of the reply begins, and after how many
 * milliseconds the outcome was there; earlier versions did not measure that.
 */
export type Attempt = { at: string; outcome: string; delivered: boolean; reply: string; ms: number | null };

/** A callback with all attempts so far; `next_at` is null when no attempt is to come, and `prompt`, the generation's, is cut. */
export type DeliveryRecord = Omit<Delivery, "attempts" | "next_at"> & {
  attempts: Attempt[];
  next_at: string | null;
  prompt: string;
};

/** "waiting" while an attempt is to come; otherwise what the last one came to. */
export type DeliveryState = "waiting" | "delivered" | "given_up";

/** The callbacks of an account, and those to a host (with its port); of all without these. */
export type DeliveryFilter = { account?: string | undefined; host?: string | undefined };

/** `generations` are the only ones whose callbacks are wanted; `before` is a webhook-id. */
export type DeliveryQuery = PageOf<string> &
  DeliveryFilter & { state?: DeliveryState | undefined; generations?: readonly string[] | undefined };

/** How many callbacks there are in each state, and the hosts that an account has used, in alphabetical order; at most a hundred. */
export type DeliveryTotals = { counts: Partial<Record<DeliveryState, number>>; hosts: string[] };

/** A change of an account's credits. */
export type LedgerEntry = {
  number: number;
  account: string;
  amount: number;
  reason: string;
  /** When they changed (ISO 8601); earlier versions wrote that of generations alone. */
  at: string | null;
  /** The generation that was paid for; `prompt` is cut, and `cost` what its engine has charged, in USD, where that tells. */
  generation: string | null;
  prompt: string | null;
  cost: number | null;
};

export type LedgerQuery = PageOf<number> & { generation?: string | undefined; account?: string | undefined };

/** `label` is the only one that is wanted. */
export type LabelQuery = { account?: string | undefined; label?: string | undefined; limit: number };

/** All generations with a label: how many there will be, where that is known, when the first was started and the last ended (ISO 8601). */
export type LabelTotals = {
  label: string;
  size: number | null;
  counts: Record<State, number>;
  /** How many of the failed ones may have been charged by their engine's provider. */
  unclear: number;
  /** What was paid, and not given back; and in USD where their engines told it. */
  credits: number;
  usd: number | null;
  started_at: string;
  ended_at: string | null;
};

/** By what spending is added up: the day of the start (UTC), the model, or the label. */
export type SpendingKey = "day" | "model" | "label";

/** `limit` is for each key. */
export type SpendingQuery = { account?: string | undefined; limit: number };

/** What the generations of a day, a model or a label have cost: credits without those given back, and USD where their engines told it. */
export type Spent = { key: string; generations: number; credits: number; usd: number | null };

export type Spending = Record<SpendingKey, Spent[]>;

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
   * started meanwhile. Rejects when the key belongs to another account.
   */
  addAccount(account: NewAccount): Promise<AddedKey>;
  /** Removes an account's keys, or one key by its hash. Resolves with how many there were. */
  removeKeys(keys: Revoked): Promise<number>;
  /** The account's credits: the sum of its rows in the ledger. Rejects when there is no such account. */
  balance(account: string): Promise<number>;
  /** Takes the credits and adds the generation and the idempotency key: all of it or nothing. A repeated key is looked for before the limits. */
  start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): Promise<StartOutcome>;
  /** What a start with this key is answered, where an earlier one has used it; changes nothing. */
  findStart(account: string, idempotency: Idempotency): Promise<StartOutcome | undefined>;
  /** Reads no image that came with the request. */
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** The addresses of a generation's images, whole. */
  images(id: string): Promise<Images<string>>;
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
  /** Records an attempt, and when the next one is due; `null` when the callback was delivered or given up. */
  recordAttempt(deliveryId: string, attempt: Attempt, next_at: string | null): Promise<void>;
  /** Makes a generation's callback due at a time (ISO 8601), also when it was delivered or given up; `undefined` when it has none. */
  resend(generation: string, at: string): Promise<Delivery | undefined>;
  /** Makes all callbacks due at a time (ISO 8601) that were given up. Resolves with how many there were. */
  resendGivenUp(filter: DeliveryFilter, at: string): Promise<number>;
  /** Newest first. */
  generations(query: OwnQuery): Promise<StoredGeneration[]>;
  /** The lists for the service's owner are of all accounts, newest first. */
  list(query: GenerationQuery): Promise<GenerationSummary[]>;
  totals(filter: GenerationFilter & { from?: string | undefined }): Promise<GenerationTotals>;
  /** The labels, the one first that was used last. */
  labels(query: LabelQuery): Promise<LabelTotals[]>;
  deliveries(query: DeliveryQuery): Promise<DeliveryRecord[]>;
  /** The counts are of the filter, the hosts of all its account has sent. */
  deliveryTotals(filter: DeliveryFilter): Promise<DeliveryTotals>;
  ledger(query: LedgerQuery): Promise<LedgerEntry[]>;
  /** The newest days, and the models and labels that have cost most. */
  spending(query: SpendingQuery): Promise<Spending>;
  /** Every account, in alphabetical order. */
  accounts(): Promise<AccountRecord[]>;
  /** Adds a number of credits to those of an account, or takes some away. */
  addCredits(change: CreditChange): Promise<CreditOutcome>;
  /** Changes the limits that are given. Resolves with all; with `undefined` when there is no such account. */
  setLimits(account: string, limits: Partial<Limits>): Promise<Limits | undefined>;
  /**
   * Claims up to `limit` generations for this process, oldest first, where accounts do not take turns. Where processes share the database, no other one gets them until they are
   * released; or within 30 seconds, once this process is gone.
   */
  claim(wanted: Wanted, among: Among & { limit: number }): Promise<Claim[]>;
  /** Lets any process claim a generation that this one has claimed. */
  release(id: string): Promise<void>;
  /** Which share this process has of each engine that it can use now; only a shared store divides them. */
  divide?(engines: readonly string[]): Promise<Map<string, Share>>;
  /** What waits and is not being made, by its needs. */
  waiting(among: Among): Promise<Waiting[]>;
  /**
   * The deliveries to attempt now, those first that have been due for longest, and in how many milliseconds the next one is due. Where processes
   * share the database, no other one gets them for the time of an attempt.
   */
  due(query: DueQuery): Promise<{ deliveries: Delivery[]; nextMs: number }>;
  /** How many callbacks are to be delivered, now or later. */
  pendingCallbacks(): Promise<number>;
  /** Whether other processes use the database, so that what is to be done may come without a change that this process hears of. */
  isShared: boolean;
  /** Calls `onChange` for every change of any process, this one included, until the returned function is called. */
  listen(onChange: (change: Change) => void): () => void;
  /** Tells all processes of a change that is not in the database. */
  publish(change: Change): void;
  /** Resolves with a copy of the database as it is at one moment; only an embedded one makes its own. */
  backup?(): Promise<DatabaseCopy>;
  /** Resolves when the changes under way are durable and the database is closed. */
  close(): Promise<void>;
};
