import type { Capabilities, Claim, Needs, SlotLimit, Wanted } from "../store/claims.ts";

// Which generation is made next, by which engine, in whose turn. Pure: what is decided depends on these values alone.

/** An engine as it is at the moment of a decision. */
export type EngineState = Capabilities & {
  /** What the processes that share a store know its slots by. */
  slotName: string;
  /** How many it makes at once, and how many it makes now. */
  concurrency: number;
  jobs: number;
  /** How many more creates it may get, and whether it gets none for a while. */
  creates: number;
  isPaused: boolean;
  /** The generations that it last answered with 401 or 403, in that order, and whether that is why it gets none. */
  denied: readonly string[];
  isDenying: boolean;
};

type New = Extract<Wanted, { kind: "new" }>;

/** Jobs that have their images, or whose images are being fetched, at the same time. Apart from the others, which no slow server of images delays. */
const maxAhead = 4;
/** The maximum of these for one account: whose addresses do not respond, leaves the rest to others. */
const maxAheadOfAccount = 2;

/** How many more generations an engine may get now. */
export function roomOf({ isSimulation, concurrency, jobs, creates }: EngineState): number {
  // How many it makes at once may be known only later.
  const free = Math.max(0, concurrency - jobs);
  return isSimulation ? free : Math.min(free, Math.max(0, creates));
}

/** Whether an engine could make a generation that was not submitted. */
export function canMake({ models, maxImages, isSimulation }: Capabilities, needs: Needs): boolean {
  return models.includes(needs.model) && needs.images <= maxImages && !(needs.isReal && isSimulation);
}

/** The engines that can make the same, so that any of them may get what is claimed for one. */
export function groupEngines<Engine extends Capabilities>(engines: readonly Engine[]): Engine[][] {
  const keyOf = ({ models, maxImages, isSimulation }: Engine) => JSON.stringify([models, maxImages, isSimulation]);
  const keys = [...new Set(engines.map(keyOf))];
  return keys.map((key) => engines.filter((engine) => keyOf(engine) === key));
}

/**
 * Which generations a group that takes nothing tries last, in the order of the tries: while one is denied with 401 or 403, another one shows
 * whether that is because of the key or of what it asks for.
 */
export function listAvoided(group: readonly EngineState[]): string[][] {
  const denied = group.flatMap((engine) => (engine.isDenying ? engine.denied : []));
  return denied.length === 0 ? [[]] : [denied, denied.slice(-1), []];
}

/** Which engine of a group gets how many generations. `denied` are those that are left to the other engines: their keys may be good for them. */
export type Next<Engine extends EngineState> = { engine: Engine; wanted: New; limit: number; denied: string[] };

/** Returns what a group gets next: the engine with the least to do, by how much it makes at once. `undefined` when none has room. */
export function nextToMake<Engine extends EngineState>(group: readonly Engine[]): Next<Engine> | undefined {
  const load = ({ jobs, concurrency }: EngineState) => jobs / concurrency;
  const [engine, ...others] = group.filter((each) => roomOf(each) > 0).sort((a, b) => load(a) - load(b));
  if (!engine) return undefined;
  const { slotName, concurrency, isSimulation } = engine;
  const slot: SlotLimit | undefined = isSimulation ? undefined : { engine: slotName, max: concurrency };
  return {
    engine,
    wanted: { ...capabilitiesOf(engine), kind: "new", isFetched: false, slot },
    // One at a time where another engine has less to do after it.
    limit: others.length > 0 ? 1 : roomOf(engine),
    denied: engine.denied.filter((id) => others.some(({ denied }) => !denied.includes(id))),
  };
}

/** Whether no engine of a group takes anything for a while: another engine, or another process, may take what waits for it. */
export function isOut(group: readonly EngineState[]): boolean {
  return group.every(({ isPaused }) => isPaused);
}

/**
 * Returns the generation whose images are fetched next for a group, before it has room, so that a slow server of images delays no other
 * generation; `undefined` when enough are fetched. `ahead` are the jobs whose images are fetched, or wait with them for a slot.
 */
export function nextToFetch(group: readonly EngineState[], ahead: readonly Pick<Claim, "account">[]): New | undefined {
  const [engine] = group;
  if (!engine || isOut(group) || ahead.length >= maxAhead) return undefined;
  const accounts = ahead.map(({ account }) => account);
  const countOf = (account: string) => accounts.filter((each) => each === account).length;
  const exceptAccounts = accounts.filter((account) => countOf(account) >= maxAheadOfAccount);
  return { ...capabilitiesOf(engine), kind: "new", isFetched: true, exceptAccounts };
}

function capabilitiesOf({ models, maxImages, isSimulation }: Capabilities): Capabilities {
  return { models, maxImages, isSimulation };
}
