import type { Engine } from "../engines/engine.ts";
import type { Capabilities, Claim, EngineShare, Needs } from "../store/claims.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
import type { Made } from "./make.ts";

/** An engine with what it makes now: `most` is how many at once for this process, `open` are the creates that have no reply yet. */
export type EngineSlots = { engine: Engine; breaker: Breaker; most: number; jobs: number; open: number };

/** Engines that can make the same, so that any of them may get what is claimed for one. */
export type Group = { slots: EngineSlots[] } & Capabilities;

export function createSlots(engine: Engine, options: BreakerOptions): EngineSlots {
  return { engine, breaker: createBreaker(options), most: engine.concurrency, jobs: 0, open: 0 };
}

/** This process's part of what an engine makes at once: the shares of all processes add up to it. */
export function partOf({ concurrency }: Pick<Engine, "concurrency">, { processes, index }: EngineShare): number {
  return Math.max(0, Math.ceil((concurrency - index) / processes));
}

/** How many more generations an engine may get now. */
export function roomOf({ engine, breaker, most, jobs, open }: EngineSlots): number {
  const free = Math.max(0, most - jobs);
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
export function findLeastBusy(allSlots: readonly EngineSlots[]): EngineSlots | undefined {
  const load = ({ jobs, engine }: EngineSlots) => jobs / engine.concurrency;
  return allSlots.filter((slots) => roomOf(slots) > 0).sort((a, b) => load(a) - load(b))[0];
}

/** What a generation takes of an engine, until it is freed. */
export type Slot = {
  engine: Engine;
  /** Its create was taken. */
  onTaken(): void;
  onMade(made: Made): void;
  free(): void;
};

export function occupy(slots: EngineSlots, { engine }: Pick<Claim, "engine">): Slot {
  const { breaker } = slots;
  let isOpen = engine === null;
  if (isOpen) slots.open++;
  slots.jobs++;
  const close = (tell: () => void = () => {}) => {
    if (!isOpen) return;
    isOpen = false;
    slots.open--;
    tell();
  };
  return {
    engine: slots.engine,
    onTaken: () => close(breaker.onTaken),
    onMade(made) {
      if (made.kind === "not taken") close(() => breaker.onNotTaken(made.reason, made.cause));
      else if (made.kind === "unclear") close(() => breaker.onUnclear(made.reason));
      else if (made.kind !== "failed") close(breaker.onTaken);
    },
    free() {
      close();
      slots.jobs--;
    },
  };
}
