import type { StoredCheckpoint } from "./generations.ts";

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
 * that is unclear; "new" are those that an engine can begin, none of `exceptAccounts`: with `isFetched` those whose images are to be fetched, else
 * all others, and those that are ready. "same" are those with these needs that were started before a time (ISO 8601). For what is new the accounts
 * take turns, each with its oldest one; the store keeps when each had its last turn, and apart from these its last turn at fetching images.
 */
export type Wanted =
  | { kind: "begun"; engines: readonly string[] }
  | ({
      kind: "new";
      isFetched: boolean;
      slot?: SlotLimit | undefined;
      exceptAccounts?: readonly string[] | undefined;
    } & Capabilities)
  | ({ kind: "same"; startedBefore: string } & Needs);

/** Of which engine what is claimed gets a slot, and how many slots it has for all processes that share the store. */
export type SlotLimit = { engine: string; max: number };

/** How many slots of an engine are taken, and which generations of this process got theirs by a claim of another process. */
export type TakenSlots = { count: number; given: readonly string[] };

/** `except` are the generations that this process makes already; `ids` the only ones that are wanted. */
export type ClaimFilter = { except: readonly string[]; ids?: readonly string[] | undefined };

/** How many generations with the same needs wait, since when the oldest one does (ISO 8601), and how many of their model some process makes. */
export type Waiting = Needs & { count: number; held: number; oldest_at: string };

/** An engine that generations were submitted to: how many, how many of them some process makes, and how far the newest one has come. */
export type Begun = { engine: string; count: number; held: number; checkpoint: StoredCheckpoint };

/** What is to be made, and by which process. When a method resolves and rejects, `Store` says. */
export type Claims = {
  /**
   * Claims up to `limit` generations for this process, oldest first, where accounts do not take turns. Where processes share the database, no other one gets them until they are
   * released; or within 30 seconds, once this process is gone. What is ready in another process gets its slot there, and is not returned.
   */
  claim(wanted: Wanted, filter: ClaimFilter & { limit: number }): Promise<Claim[]>;
  /** Lets any process claim a generation that this one has claimed. */
  release(id: string): Promise<void>;
  /** Says that this process has the images of a generation that it has claimed, which now waits for a slot. */
  ready(id: string): Promise<void>;
  /** Frees the slot of a generation that this process goes on with: its engine hardly works on it any more. */
  freeSlot(id: string): Promise<void>;
  /** The slots that are taken, by engine; only where processes share the store. One whose generation anybody may claim as new is not. */
  slots?(): Promise<Map<string, TakenSlots>>;
  /** The engines that have generations, and of which it is known that they have. */
  begun(): Promise<Begun[]>;
  /** What waits and is not being made, by its needs. */
  waiting(filter: ClaimFilter): Promise<Waiting[]>;
};
