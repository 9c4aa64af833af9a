import type { RenderRequest, State, StoredGeneration } from "./generations.ts";
import type { PageOf } from "./paging.ts";

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

/**
 * `from` is the newest generation that is wanted, if it matches. With `after`, those newer than the one called so come, the nearest first. `ids` are
 * the only ones that are wanted.
 */
export type GenerationQuery = PageOf<string> &
  GenerationFilter & { from?: string | undefined; after?: string | undefined; ids?: readonly string[] | undefined };

/** Where a list begins, as in a `GenerationQuery`. */
export type ListStart = Pick<GenerationQuery, "before" | "from" | "after">;

/**
 * How many generations of each state match the rest of a filter, how many that match it all are newer than `from`, up to 1,000, and which
 * models there are at all, in alphabetical order: where the filter has an account, those of its generations.
 */
export type GenerationTotals = { counts: Partial<Record<State, number>>; newer: number; models: string[] };

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

/** What the pages show of many generations. When a method resolves and rejects, `Store` says. */
export type Reports = {
  /** The lists for the service's owner are of all accounts, newest first. */
  list(query: GenerationQuery): Promise<GenerationSummary[]>;
  /** Only the states of the newest ones, which takes a fraction of what a list does. */
  states(query: LabelQuery): Promise<Pick<GenerationSummary, "id" | "state">[]>;
  /** A search counts what `list` would look at. */
  totals(filter: GenerationFilter & Omit<ListStart, "after">): Promise<GenerationTotals>;
  /** The id of the oldest generation that a search looks at, where older ones are not searched; with it as `before`, the search goes on. */
  lastSearched(filter: GenerationFilter & ListStart): Promise<string | undefined>;
  /** The labels, the one first that was used last. */
  labels(query: LabelQuery): Promise<LabelTotals[]>;
  /** The newest days, and the models and labels that have cost most. */
  spending(query: SpendingQuery): Promise<Spending>;
};
