import type { Engine } from "../engines/engine.ts";
import type { Claim } from "../store/claims.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
import type { RenderResult } from "./make.ts";
import type { EngineState } from "./scheduler.ts";

/**
 * An engine with what it makes now: `jobs` are those of this process and, once it has looked, those of the others that share the store. `name` is
 * what they know its slots by, `open` are the creates of this process that have no reply yet. `taken` counts the creates that it took, and `denied` has the generations that it last answered with 401 or 403, each with how many it had taken by then.
 */
export type EngineSlots = {
  engine: Engine;
  name: string;
  breaker: Breaker;
  jobs: number;
  open: number;
  taken: number;
  denied: Map<string, number>;
  /** Whether it has, or may have, jobs of this service. */
  hasJobs: boolean;
};

export function createSlots(engine: Engine, options: BreakerOptions): EngineSlots {
  return {
    engine,
    name: slotNameOf(engine),
    breaker: createBreaker(options),
    jobs: 0,
    open: 0,
    taken: 0,
    denied: new Map(),
    hasJobs: false,
  };
}

/** The owner may name an engine once for each of several models, each time with slots of its own. */
export function slotNameOf({ name, upstreamModel = "", models: [model = ""] }: Engine): string {
  return [name, upstreamModel, model].join(" ");
}

/** What a decision depends on, as it is now. */
export function engineStateOf(slots: EngineSlots): EngineState & { slots: EngineSlots } {
  const { engine, name, breaker, jobs, open, denied } = slots;
  const { models, maxImages, isSimulation, concurrency } = engine;
  return {
    ...{ slots, slotName: name, models, maxImages, isSimulation, concurrency, jobs },
    creates: breaker.room(open),
    isPaused: breaker.pauseMs() > 0,
    denied: [...denied.keys()],
    isDenying: breaker.outage()?.cause === "auth",
  };
}

/** What a generation takes of an engine, until it is freed. */
export type Slot = {
  engine: Engine;
  /** Its create was taken. */
  onTaken(): void;
  /** Returns whether it denies this generation alone: it did so before, and has taken others since. */
  onMade(made: RenderResult): boolean;
  /** Returns whether it was taken until now. */
  free(): boolean;
};

/** So many denied generations are remembered: one that has ended elsewhere is not heard of. */
const maxDenied = 1_000;

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
      const isDenied = made.kind === "not submitted" && made.cause === "auth";
      if (isDenied) denied.set(id, takenBefore ?? slots.taken);
      const [oldest] = denied.keys();
      if (oldest !== undefined && denied.size > maxDenied) denied.delete(oldest);
      if (made.kind === "unclear") slots.hasJobs = true;
      if (made.kind === "not submitted") close(() => breaker.onNotTaken(made.reason, made.cause, made.retryAfterMs));
      else if (made.kind === "unclear") close(() => breaker.onUnclear(made.reason));
      else if (made.kind !== "failed") close(onTaken);
      return isDenied && takenBefore !== undefined && takenBefore < slots.taken;
    },
    free() {
      close();
      if (isFree) return false;
      slots.jobs--;
      isFree = true;
      return true;
    },
  };
}
