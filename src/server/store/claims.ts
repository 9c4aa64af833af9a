/** Which generations an engine can make. */
export type Capabilities = {
  /** Whether it stands in for a real model: directives in prompts and the pace apply to it alone. */
  isSimulation: boolean;
  /** The models that it serves: identifiers of the interface, or names of the owner's own. */
  models: readonly string[];
  /** How many images a generation may start from. */
  maxImages: number;
};

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
 * end, and with `before` only one that comes before that place in the order is claimed; none of `exceptAccounts` is. "same" are those with these
 * needs that were started before a time (ISO 8601).
 */
export type Wanted =
  | { kind: "begun"; engines: readonly string[] }
  | ({
      kind: "new";
      isFetched: boolean;
      turns: readonly string[];
      before?: QueuePosition | undefined;
      exceptAccounts?: readonly string[] | undefined;
    } & Capabilities)
  | ({ kind: "same"; startedBefore: string } & Needs);

/** Where a generation stands: the index of its account in `turns`, -1 for one that had no turn, and its number. */
export type QueuePosition = { turn: number; number: number };

/** `except` are the generations that this process makes already; `ids` the only ones that are wanted. */
export type Among = { except: readonly string[]; ids?: readonly string[] | undefined };

/** How many generations with the same needs wait, since when the oldest one does (ISO 8601), and how many of their model some process makes. */
export type Waiting = Needs & { count: number; held: number; oldest_at: string };

/** How many processes use an engine, and the index of this one among them, from 0. */
export type EngineShare = { processes: number; index: number };

/** What is to be made, and by which process. When a method resolves and rejects, `Store` says. */
export type Claims = {
  /**
   * Claims up to `limit` generations for this process, oldest first, where accounts do not take turns. Where processes share the database, no other one gets them until they are
   * released; or within 30 seconds, once this process is gone.
   */
  claim(wanted: Wanted, among: Among & { limit: number }): Promise<Claim[]>;
  /** Lets any process claim a generation that this one has claimed. */
  release(id: string): Promise<void>;
  /** Which share this process has of each engine that it can use now; only a shared store divides them. */
  divide?(engines: readonly string[]): Promise<Map<string, EngineShare>>;
  /** What waits and is not being made, by its needs. */
  waiting(among: Among): Promise<Waiting[]>;
};
