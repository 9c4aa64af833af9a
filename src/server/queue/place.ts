import type { Engine } from "../engines/engine.ts";
import type { Claim, Needs, Share } from "../store/store.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
import type { Made } from "./make.ts";

/** An engine with what it makes now: `most` is how many at once for this process, `open` are the creates that have no reply yet. */
export type Place = { engine: Engine; breaker: Breaker; most: number; jobs: number; open: number };

/** Engines that can make the same, so that any of them may get what is claimed for one. */
export type Group = { places: Place[] } & Pick<Engine, "models" | "maxImages" | "isSimulation">;

export function createPlace(engine: Engine, options: BreakerOptions): Place {
  return { engine, breaker: createBreaker(options), most: engine.concurrency, jobs: 0, open: 0 };
}

/** This process's part of what an engine makes at once: the shares of all processes add up to it. */
export function partOf({ concurrency }: Pick<Engine, "concurrency">, { processes, before }: Share): number {
  return Math.max(0, Math.ceil((concurrency - before) / processes));
}

/** How many more generations an engine may get now. */
export function roomOf({ engine, breaker, most, jobs, open }: Place): number {
  const free = Math.max(0, most - jobs);
  return engine.isSimulation ? free : Math.min(free, Math.max(0, breaker.room(open)));
}

/** Whether an engine could make a generation that was not submitted. */
export function canMake({ models, maxImages, isSimulation }: Omit<Group, "places">, needs: Needs): boolean {
  return models.includes(needs.model) && needs.images <= maxImages && !(needs.isReal && isSimulation);
}

export function groupPlaces(places: readonly Place[]): Group[] {
  const groups = new Map<string, Group>();
  for (const place of places) {
    const { models, maxImages, isSimulation } = place.engine;
    const key = JSON.stringify([models, maxImages, isSimulation]);
    const group = groups.get(key) ?? { places: [], models, maxImages, isSimulation };
    group.places.push(place);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** The engine with room that has the least to do, by how much it makes at once. */
export function findLeastBusy(places: readonly Place[]): Place | undefined {
  const load = ({ jobs, engine }: Place) => jobs / engine.concurrency;
  return places.filter((place) => roomOf(place) > 0).sort((a, b) => load(a) - load(b))[0];
}

/** What a generation takes of an engine, until it is freed. */
export type Slot = {
  engine: Engine;
  /** Its create was taken. */
  onTaken(): void;
  onMade(made: Made): void;
  free(): void;
};

export function occupy(place: Place, { engine }: Pick<Claim, "engine">): Slot {
  const { breaker } = place;
  let isOpen = engine === null;
  if (isOpen) place.open++;
  place.jobs++;
  const close = (tell: () => void = () => {}) => {
    if (!isOpen) return;
    isOpen = false;
    place.open--;
    tell();
  };
  return {
    engine: place.engine,
    onTaken: () => close(breaker.onTaken),
    onMade(made) {
      if (made.kind === "not taken") close(() => breaker.onNotTaken(made.reason, made.cause));
      else if (made.kind === "unclear") close(() => breaker.onUnclear(made.reason));
      else if (made.kind !== "failed") close(breaker.onTaken);
    },
    free() {
      close();
      place.jobs--;
    },
  };
}
