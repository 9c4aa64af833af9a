import type { Capabilities, Claim, EngineShare, Needs, Wanted } from "../store/claims.ts";

// Which generation is made next, by which engine, in whose turn. Pure: what is decided depends on these values alone.

/** An engine as it is at the moment of a decision. */
export type EngineState = Capabilities & {
  /** How many it makes at once: for all processes, and for this one. */
  concurrency: number;
  most: number;
  /** How many it makes now for this process. */
  jobs: number;
  /** How many more creates it may get, and whether it gets none for a while. */
  creates: number;
  isPaused: boolean;
  /** The generations that it last answered with 401 or 403, in that order, and whether that is why it gets none. */
  denied: readonly string[];
  isDenying: boolean;
};

/** A job that has its images, or whose images are being fetched, and that has no engine yet. */
export type AheadJob = Pick<Claim, "id" | "account" | "number"> & Needs;

/** The accounts that had a turn, the last one at the end. */
type Turns = readonly string[];

type New = Extract<Wanted, { kind: "new" }>;

/** Jobs that have their images, or whose images are being fetched, at the same time. Apart from the others, which no slow server of images delays. */
const maxAhead = 4;
/** The maximum of these for one account: whose addresses do not respond, leaves the rest to others. */
const maxAheadOfAccount = 2;

/** This process's part of what an engine makes at once: the shares of all processes add up to it. */
export function partOf({ concurrency }: Pick<EngineState, "concurrency">, { processes, index }: EngineShare): number {
  return Math.max(0, Math.ceil((concurrency - index) / processes));
}

/** How many more generations an engine may get now. */
export function roomOf({ isSimulation, concurrency, most, jobs, creates }: EngineState): number {
  // How many it makes at once may be known only later.
  const free = Math.max(0, Math.min(most, concurrency) - jobs);
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

/** The engine of a group that gets a generation: of those with room, the one with the least to do, by how much it makes at once. */
export function pickEngine<Engine extends EngineState>(group: readonly Engine[], id: string): Engine | undefined {
  const load = ({ jobs, concurrency }: EngineState) => jobs / concurrency;
  // One that has denied this generation comes last: another key may be good for it.
  const order = (a: EngineState, b: EngineState) =>
    Number(a.denied.includes(id)) - Number(b.denied.includes(id)) || load(a) - load(b);
  return group.filter((engine) => roomOf(engine) > 0).sort(order)[0];
}

/**
 * Which generations a group that takes nothing tries last, in the order of the tries: while one is denied with 401 or 403, another one shows
 * whether that is because of the key or of what it asks for.
 */
export function listAvoided(group: readonly EngineState[]): string[][] {
  const denied = group.flatMap((engine) => (engine.isDenying ? engine.denied : []));
  return denied.length === 0 ? [[]] : [denied, denied.slice(-1), []];
}

/** What a group with room gets: what is claimed, or else the job that has its images. */
export type Next = { wanted: New; limit: number; otherwise: AheadJob | undefined };

/** Returns what a group gets next; `undefined` when it has no room. Accounts take turns, each with its oldest generation. */
export function nextToMake(
  group: readonly EngineState[],
  { fetched, turns, avoided }: { fetched: readonly AheadJob[]; turns: Turns; avoided: readonly string[] },
): Next | undefined {
  const room = group.reduce((sum, engine) => sum + roomOf(engine), 0);
  const [engine] = group;
  if (!engine || room === 0) return undefined;
  const turnOf = ({ account }: AheadJob) => turns.indexOf(account);
  const [first] = fetched
    .filter((job) => canMake(engine, job) && !avoided.includes(job.id))
    .sort((a, b) => turnOf(a) - turnOf(b) || a.number - b.number);
  const before = first && { turn: turnOf(first), number: first.number };
  const wanted: New = { ...capabilitiesOf(engine), kind: "new", isFetched: false, turns, before };
  // One at a time where a job has its images: what comes next is before or after that one.
  return { wanted, limit: first ? 1 : room, otherwise: first };
}

/** Whether no engine of a group takes anything for a while: another engine, or another process, may take what waits for it. */
export function isOut(group: readonly EngineState[]): boolean {
  return group.every(({ most, isPaused }) => most === 0 || isPaused);
}

/**
 * Returns the generation whose images are fetched next for a group, before it has room, so that a slow server of images delays no other
 * generation; `undefined` when enough are fetched.
 */
export function nextToFetch(
  group: readonly EngineState[],
  { ahead, turns }: { ahead: readonly AheadJob[]; turns: Turns },
): New | undefined {
  const [engine] = group;
  if (!engine || isOut(group) || ahead.length >= maxAhead) return undefined;
  const accounts = ahead.map(({ account }) => account);
  const countOf = (account: string) => accounts.filter((each) => each === account).length;
  const exceptAccounts = accounts.filter((account) => countOf(account) >= maxAheadOfAccount);
  return { ...capabilitiesOf(engine), kind: "new", isFetched: true, turns, exceptAccounts };
}

function capabilitiesOf({ models, maxImages, isSimulation }: Capabilities): Capabilities {
  return { models, maxImages, isSimulation };
}
