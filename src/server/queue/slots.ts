import type { Engine } from "../engines/engine.ts";
import type { Capabilities, Claim, EngineShare, Needs } from "../store/claims.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
import type { Made } from "./make.ts";

/**
 * An engine with what it makes now: `most` is how many at once for this process, `open` are the creates that have no reply yet. `taken` counts
 * the creates that it took, and `denied` has the generations that it last answered with 401 or 403, each with how many it had taken by then.
 */
export type EngineSlots = {
  engine: Engine;
  breaker: Breaker;
  most: number;
  jobs: number;
  open: number;
  taken: number;
  denied: Map<string, number>;
  /** Whether it has, or may have, jobs of this service. */
  hasJobs: boolean;
};

/** Engines that can make the same, so that any of them may get what is claimed for one. */
export type Group = { slots: EngineSlots[] } & Capabilities;

export function createSlots(engine: Engine, options: BreakerOptions): EngineSlots {
  return {
    engine,
    breaker: createBreaker(options),
    most: engine.concurrency,
    jobs: 0,
    open: 0,
    taken: 0,
    denied: new Map(),
    hasJobs: false,
  };
}

/** This process's part of what an engine makes at once: the shares of all processes add up to it. */
export function partOf({ concurrency }: Pick<Engine, "concurrency">, { processes, index }: EngineShare): number {
  return Math.max(0, Math.ceil((concurrency - index) / processes));
}

/** How many more generations an engine may get now. */
export function roomOf({ engine, breaker, most, jobs, open }: EngineSlots): number {
  // How many it makes at once may be known only later.
  const free = Math.max(0, Math.min(most, engine.concurrency) - jobs);
  return engine.isSimulation ? free : Math.min(free, Math.max(0, breaker.room(open)));
}

/** Whether an engine could make a generation that was not submitted. */
export function canMake({ models, maxImages, isSimulation }: Capabilities, needs: Needs): boolean {
  return models.includes(needs.model) && needs.images <= maxImages && !(needs.isReal && isSimulation);
}

export function groupSlots(allSlots: readonly EngineSlots[]): Group[] {
  const groups = new Map<string, Group>();
  for (const slots of allSlots) {
    const { models, maxImages, isSimulation } = slots.engine;
    const key = JSON.stringify([models, maxImages, isSimulation]);
    const group = groups.get(key) ?? { slots: [], models, maxImages, isSimulation };
    group.slots.push(slots);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** The engine with room that has the least to do, by how much it makes at once. */
export function findLeastBusy(allSlots: readonly EngineSlots[], id = ""): EngineSlots | undefined {
  const load = ({ jobs, engine }: EngineSlots) => jobs / engine.concurrency;
  // One that has denied this generation comes last: another key may be good for it.
  const order = (a: EngineSlots, b: EngineSlots) =>
    Number(a.denied.has(id)) - Number(b.denied.has(id)) || load(a) - load(b);
  return allSlots.filter((slots) => roomOf(slots) > 0).sort(order)[0];
}

/** What a generation takes of an engine, until it is freed. */
export type Slot = {
  engine: Engine;
  /** Its create was taken. */
  onTaken(): void;
  /** Returns whether it denies this generation alone: it did so before, and has taken others since. */
  onMade(made: Made): boolean;
  /** May be called again. */
  free(): void;
};

/** So many denied generations are remembered: one that has ended elsewhere is not heard of. */
const maxDenied = 1_000;

/**
 * Which generations a group that takes nothing tries last, in the order of the tries: while one is denied with 401 or 403, another one shows
 * whether that is because of the key or of what it asks for.
 */
export function listAvoided(group: Group): string[][] {
  const denied = group.slots.flatMap((slots) =>
    slots.breaker.outage()?.cause === "auth" ? [...slots.denied.keys()] : [],
  );
  return denied.length === 0 ? [[]] : [denied, denied.slice(-1), []];
}

export function occupy(slots: EngineSlots, { id, engine }: Pick<Claim, "id" | "engine">): Slot {
  const { breaker, denied } = slots;
  let [isOpen, isFree] = [engine === null, false];
  if (isOpen) slots.open++;
  else slots.hasJobs = true;
  slots.jobs++;
  const close = (tell: () => void = () => {}) => {
    if (!isOpen) return;
    isOpen = false;
    slots.open--;
    tell();
  };
  const onTaken = () => {
    slots.taken++;
    denied.delete(id);
    breaker.onTaken();
  };
  return {
    engine: slots.engine,
    onTaken() {
      slots.hasJobs = true;
      close(onTaken);
    },
    onMade(made) {
      const takenBefore = denied.get(id);
      denied.delete(id);
      const isDenied = made.kind === "not taken" && made.cause === "auth";
      if (isDenied) denied.set(id, takenBefore ?? slots.taken);
      const [oldest] = denied.keys();
      if (oldest !== undefined && denied.size > maxDenied) denied.delete(oldest);
      if (made.kind === "unclear") slots.hasJobs = true;
      if (made.kind === "not taken") close(() => breaker.onNotTaken(made.reason, made.cause, made.retryAfterMs));
      else if (made.kind === "unclear") close(() => breaker.onUnclear(made.reason));
      else if (made.kind !== "failed") close(onTaken);
      return isDenied && takenBefore !== undefined && takenBefore < slots.taken;
    },
    free() {
      close();
      if (!isFree) slots.jobs--;
      isFree = true;
    },
  };
}
