import type { Capabilities, NamedNeeds, SlotLimit, WantedNew } from "../store/claims.ts";
import { patienceMs } from "./image-fetch.ts";

// Decides which generation is made next, by which engine, and for which account. All functions are pure.

/** The state of an engine at the moment of a decision. */
export type EngineState = Capabilities & {
  /** Identifies the engine's slots in a store that processes share. */
  slotName: string;
  /** The maximum and the current number of jobs. */
  concurrency: number;
  jobs: number;
  /** How many more creates may be sent to the engine. */
  creates: number;
  /** The generations that the engine last answered with 401 or 403, oldest first, and whether it is paused because of them. */
  denied: readonly string[];
  isDenying: boolean;
  /** The lists of names that it takes, of those that wait; `undefined` for a preview, which takes all. */
  named: readonly NamedNeeds[] | undefined;
};

/** The maximum number of generations whose images are fetched at once. */
const maxFetches = 4;
/** The maximum for one account, so that its unresponsive image servers do not block other accounts. */
const maxFetchesPerAccount = 2;

/** How many more generations an engine may get now. */
export function roomOf({ isSimulation, concurrency, jobs, creates }: EngineState): number {
  // An engine may report its concurrency only after jobs have begun.
  const free = Math.max(0, concurrency - jobs);
  return isSimulation ? free : Math.min(free, Math.max(0, creates));
}

/** Groups engines that can make the same generations, so that any engine of a group may get what is claimed for one. */
export function groupEngines<Engine extends EngineState>(engines: readonly Engine[]): Engine[][] {
  const keyOf = ({ models, maxImages, isSimulation, named }: Engine) =>
    JSON.stringify([models, maxImages, isSimulation, named]);
  const keys = [...new Set(engines.map(keyOf))];
  return keys.map((key) => engines.filter((engine) => keyOf(engine) === key));
}

/**
 * Returns the generations to avoid at each attempt to claim. After a 401 or 403, another generation shows whether the key or the request is the
 * reason.
 */
export function listAvoided(group: readonly EngineState[]): string[][] {
  const denied = group.flatMap((engine) => (engine.isDenying ? engine.denied : []));
  return denied.length === 0 ? [[]] : [denied, denied.slice(-1), []];
}

/** Which engine of a group gets how many generations. `denied` are left to the other engines, whose keys may be accepted. */
export type NextClaim<Engine extends EngineState> = {
  engine: Engine;
  wanted: WantedNew;
  limit: number;
  denied: string[];
};

/** Returns what a group makes next, by the engine with the lowest load; `undefined` if none has room. */
export function nextToMake<Engine extends EngineState>(group: readonly Engine[]): NextClaim<Engine> | undefined {
  const load = ({ jobs, concurrency }: EngineState) => jobs / concurrency;
  const [engine, ...others] = group.filter((each) => roomOf(each) > 0).sort((a, b) => load(a) - load(b));
  if (!engine) return undefined;
  const { slotName, concurrency, models, maxImages, isSimulation, named } = engine;
  const slot: SlotLimit | undefined = isSimulation ? undefined : { engine: slotName, max: concurrency };
  return {
    engine,
    wanted: { kind: "new", models, maxImages, isSimulation, named, slot },
    // If there are other engines, only one generation is claimed, because another engine may then have the lowest load.
    limit: others.length > 0 ? 1 : roomOf(engine),
    denied: engine.denied.filter((id) => others.some(({ denied }) => !denied.includes(id))),
  };
}

/**
 * Returns the generation whose images are fetched next, at the time `date`; `undefined` if enough are fetched. `accounts` are those of the fetches
 * that run.
 */
export function nextToFetch(
  engines: readonly Capabilities[],
  { accounts, date }: { accounts: readonly string[]; date: Date },
): WantedNew | undefined {
  if (accounts.length >= maxFetches) return undefined;
  const countOf = (account: string) => accounts.filter((each) => each === account).length;
  const exceptAccounts = accounts.filter((account) => countOf(account) >= maxFetchesPerAccount);
  const models = [...new Set(engines.flatMap((engine) => engine.models))];
  const maxImages = Math.max(0, ...engines.map((engine) => engine.maxImages));
  const isSimulation = engines.every((engine) => engine.isSimulation);
  const times = { at: date.toISOString(), until: new Date(date.getTime() + patienceMs).toISOString() };
  return { kind: "fetch", models, maxImages, isSimulation, times, exceptAccounts };
}
