import type { StoredCheckpoint } from "./generations.ts";

/** Which generations an engine can make. */
export type Capabilities = {
  /** Whether the engine only simulates a model. Directives in prompts and the pace apply to no other engine. */
  isSimulation: boolean;
  /** The models that it serves: identifiers of the interface, or names of the owner's own. */
  models: readonly string[];
  /** How many images a generation may start from. */
  maxImages: number;
};

/** What decides which engine may make a generation. */
export type Needs = {
  model: string;
  /** How many images the generation starts from. */
  images: number;
  isReal: boolean;
  /** The fields that vidgen does not know, each of which an engine must take (see `namesOf`); none for nearly all generations. */
  names: readonly string[];
  /** The engine that the generation was submitted to; `null` before that. */
  engine: string | null;
};

/** The names of a generation's fields, with its model, because an engine may take others for another model. */
export type NamedNeeds = Pick<Needs, "model" | "names">;

/** A generation that this process may make until it ends or is released. */
export type Claim = Needs & {
  id: string;
  account: string;
  /** In the order of the starts. */
  number: number;
  /** Whether an earlier process ended while it submitted the generation, so that it is unknown whether an engine makes it. */
  isSubmitting: boolean;
  /** Aborts when another process has taken over the generation. */
  lost: AbortSignal;
  /** Throws if another process may have taken over the generation, because this process has not renewed its claim in time. */
  confirm(): void;
};

/**
 * Which generations a process claims, of those that no process has claimed. "begun": generations that were submitted to these engines, and those
 * whose submission is unclear. "fetch": generations whose images must be fetched, and whose next try is not planned, is due at the time `at`, or is
 * planned for later than `until`: then the clock of the process that planned it was ahead. "new": generations that an engine can begin; with
 * `named`, those without names and those with one of these lists. "same": generations with these needs that were started before a time (ISO 8601).
 * For "fetch" and for "new", accounts take turns, except `exceptAccounts`, each with its oldest generation; the store keeps the last turn of each
 * account, and separately its last turn at fetching images.
 */
export type Wanted =
  | { kind: "begun"; engines: readonly string[] }
  | ({
      kind: "fetch" | "new";
      slot?: SlotLimit | undefined;
      /** ISO 8601. */
      times?: { at: string; until: string };
      exceptAccounts?: readonly string[];
      named?: readonly NamedNeeds[] | undefined;
    } & Capabilities)
  | ({ kind: "same"; startedBefore: string } & Needs);

export type WantedNew = Extract<Wanted, Capabilities>;

/** The engine whose slots the claimed generations get, and how many slots it has for all processes that share the store. */
export type SlotLimit = { engine: string; max: number };

/** `except` are the generations that this process already makes; `ids` limits the claim to these generations. */
export type ClaimFilter = { except: readonly string[]; ids?: readonly string[] | undefined };

/**
 * Generations with the same needs that wait: `count` is their number, and `oldest_at` is when the oldest one was started (ISO 8601). `held` is how
 * many generations of the same model, and with the same names if they have any, processes have claimed.
 */
export type Waiting = Needs & { count: number; held: number; oldest_at: string };

/** The unfinished generations that were submitted to an engine: their number, how many of them processes have claimed, and the newest checkpoint. */
export type SubmittedWork = { engine: string; count: number; held: number; checkpoint: StoredCheckpoint };

/** The claims of processes on generations. See `Store` for when methods resolve and reject. */
export type Claims = {
  /**
   * Claims up to `limit` generations for this process, oldest first unless accounts take turns. If processes share the database, no other one gets
   * them until they are released, or for 30 seconds after this process has died.
   */
  claim(wanted: Wanted, filter: ClaimFilter & { limit: number }): Promise<Claim[]>;
  /** Lets any process claim a generation that this process has claimed. */
  release(id: string): Promise<void>;
  /** Frees the slot of a generation that this process continues, because its engine has almost finished. */
  freeSlot(id: string): Promise<void>;
  /** The taken slots, by engine; only if processes share the store. The slot of a generation that any process may claim as new is free. */
  slots?(): Promise<Map<string, number>>;
  /** The unfinished generations that were certainly submitted, by engine. */
  begun(): Promise<SubmittedWork[]>;
  /** The different lists of names of the waiting generations, with their models. */
  named(): Promise<NamedNeeds[]>;
  /** The waiting generations that no process has claimed, by their needs. */
  waiting(filter: ClaimFilter): Promise<Waiting[]>;
};
