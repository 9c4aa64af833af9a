import type { Engine } from "../engines/engine.ts";
import type { Claim } from "../store/claims.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
import type { RenderResult } from "./make.ts";
import type { EngineState } from "./scheduler.ts";

/**
 * An engine and its jobs. `jobs` counts those of this process and, once read, of the others that share the store, where `name` identifies the slots.
 * `open` counts this process's creates without a reply, and `taken` the accepted ones. `denied` maps the generations that the engine last answered
 * with 401 or 403 to the value of `taken` at that time.
 */
export type EngineSlots = {
  engine: Engine;
  name: string;
  breaker: Breaker;
  jobs: number;
  open: number;
  taken: number;
  denied: Map<string, number>;
  /** Whether the engine has, or may have, jobs of this service. */
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

/** The owner may name an engine once for each model, each time with separate slots. */
export function slotNameOf({ name, upstreamModel = "", models: [model = ""] }: Engine): string {
  return [name, upstreamModel, model].join(" ");
}

/** Returns the current state of an engine for a decision. */
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

/** The slot of an engine that a generation occupies. */
export type Slot = {
  engine: Engine;
  /** Must be called when the create was accepted. */
  onTaken(): void;
  /** Returns whether the engine denies only this generation, which means that it has denied this one before, and accepted others since. */
  onMade(made: RenderResult): boolean;
  /** Returns whether the slot was still occupied. */
  free(): boolean;
};

/** The maximum number of remembered denials, which need a limit because a generation may end in another process. */
const maxDenied = 1_000;

export function occupy(slots: EngineSlots, { id, engine }: Pick<Claim, "id" | "engine">): Slot {
  const { breaker, denied } = slots;
  let [isOpen, isFree] = [engine === null, false];
  if (isOpen) slots.open++;
  else slots.hasJobs = true;
  slots.jobs++;
  const close = (report: () => void = () => {}) => {
    if (!isOpen) return;
    isOpen = false;
    slots.open--;
    report();
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
