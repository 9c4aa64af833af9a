import type { GenerationState, RenderRequest, StoredGeneration } from "./generations.ts";
import type { PageOf } from "./paging.ts";

/** What a list shows of a generation; `prompt` is cut. */
export type GenerationSummary = Omit<StoredGeneration, "callback_url" | "request" | "checkpoint" | "error_code"> &
  Pick<RenderRequest, "model" | "prompt" | "aspectRatio" | "duration"> & {
    state: GenerationState;
    /** When an engine began or accepted it (ISO 8601); `null` if that is not known. */
    begun_at: string | null;
    /** The name of the engine that makes it or has made it. */
    engine: string | null;
    /** The credits that were paid for the generation and not returned. */
    credits: number;
    /** How many generations of the same model are queued before this one, up to 1,000; 0 when it is not queued. */
    ahead: number;
    /** The name of its label. */
    label: string | null;
  };

/** Each word of `text` must be in the prompt, id, model, label or error, ignoring case. */
export type GenerationFilter = {
  state?: GenerationState | undefined;
  model?: string | undefined;
  /** Selects only generations with a star. */
  isStarred?: true | undefined;
  /** The name of their label. */
  label?: string | undefined;
  text?: string | undefined;
  account?: string | undefined;
};

/**
 * `from` is the newest generation to return, if it matches. `after` selects generations newer than this id, nearest first. `ids` limits the result to
 * these generations.
 */
export type GenerationQuery = PageOf<string> &
  GenerationFilter & { from?: string | undefined; after?: string | undefined; ids?: readonly string[] | undefined };

/** Where a list begins, as in a `GenerationQuery`. */
export type ListStart = Pick<GenerationQuery, "before" | "from" | "after">;

/**
 * How many generations of each state match the rest of a filter; how many that match all of it are newer than `from`, up to 1,000; and all models in
 * alphabetical order, of the filter's account if there is one.
 */
export type GenerationTotals = { counts: Partial<Record<GenerationState, number>>; newer: number; models: string[] };

/** `label` limits the result to this label. */
export type LabelQuery = { account?: string | undefined; label?: string | undefined; limit: number };

/** All generations of an account with a label: how many there will be, if known, when the first was started and the last ended (ISO 8601). */
export type LabelTotals = {
  label: string;
  account: string;
  size: number | null;
  counts: Record<GenerationState, number>;
  /** How many of the failed generations may have been charged by their engine's provider. */
  unclear: number;
  /** The credits that were paid and not returned, and the cost in USD if the engines report it. */
  credits: number;
  usd: number | null;
  started_at: string;
  ended_at: string | null;
};

/** What spending is grouped by: the day of the start (UTC), the model, the label of an account, or the account. */
export type SpendingKey = "day" | "model" | "label" | "account";

/** `limit` is for each key. */
export type SpendingQuery = { account?: string | undefined; limit: number };

/**
 * What the generations of one key have cost: credits, except returned ones, and USD if the engines report it. `unclear` of them, which are not
 * deleted, may have been charged by their engine's provider at a cost that nobody knows.
 */
export type Spent = {
  key: string;
  /** The account of a label. */
  account: string | undefined;
  generations: number;
  credits: number;
  usd: number | null;
  unclear: number;
};

export type Spending = Record<SpendingKey, Spent[]>;

/** Whether an account has any batches, callbacks, and changes of credits. */
export type Kinds = { batches: boolean; callbacks: boolean; credits: boolean };

/** What the pages show of many generations. See `Store` for when methods resolve and reject. */
export type Reports = {
  /** Newest first. The service's owner sees all accounts. */
  list(query: GenerationQuery): Promise<GenerationSummary[]>;
  /** Only the states of the newest generations, in a fraction of the time of a list. */
  states(query: LabelQuery): Promise<Pick<GenerationSummary, "id" | "state">[]>;
  /** A search counts only what `list` would read. */
  totals(filter: GenerationFilter & Omit<ListStart, "after">): Promise<GenerationTotals>;
  /** The id of the oldest generation that a search reads, if it leaves older ones out; with this id as `before`, the search continues. */
  lastSearched(filter: GenerationFilter & ListStart): Promise<string | undefined>;
  /** The labels of each account, most recently used first. */
  labels(query: LabelQuery): Promise<LabelTotals[]>;
  kindsOf(account: string): Promise<Kinds>;
  /** The newest days, and the models, labels and accounts that have cost most. */
  spending(query: SpendingQuery): Promise<Spending>;
};
