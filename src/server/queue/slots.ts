import type { Engine } from "../engines/engine.ts";
import type { Claim } from "../store/claims.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
import type { RenderResult } from "./make.ts";
import type { EngineState } from "./scheduler.ts";

/**
 * An engine and its jobs. `jobs` counts those of this process and, once read, of the others that share the store, where `name` identifies the slots.
 * `openCreates` counts this process's creates without a reply, and `takenCount` the accepted ones. `denied` maps the generations that the engine last
 * answered with 401 or 403 to the value of `takenCount` at that time.
 */
export type EngineSlots = {
  engine: Engine;
  name: string;
  breaker: Breaker;
  jobs: number;
  openCreates: number;
  takenCount: number;
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
    openCreates: 0,
    takenCount: 0,
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
  const { engine, name, breaker, jobs, openCreates, denied } = slots;
  const { models, maxImages, isSimulation, concurrency } = engine;
  return {
    slots,
    slotName: name,
    models,
    maxImages,
    isSimulation,
    concurrency,
    jobs,
    creates: breaker.room(openCreates),
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
  onResult(result: RenderResult): boolean;
  /** Returns whether the slot was still occupied. */
  free(): boolean;
};

/** The maximum number of remembered denials, which need a limit because a generation may end in another process. */
const maxDenied = 1_000;

export function occupy(slots: EngineSlots, { id, engine }: Pick<Claim, "id" | "engine">): Slot {
  const { breaker, denied } = slots;
  let [isOpen, isFree] = [engine === null, false];
  if (isOpen) slots.openCreates++;
  else slots.hasJobs = true;
  slots.jobs++;
  const close = (report: () => void = () => {}) => {
    if (!isOpen) return;
    isOpen = false;
    slots.openCreates--;
    report();
  };
  const onTaken = () => {
    slots.takenCount++;
    denied.delete(id);
    breaker.onTaken();
  };
  return {
    engine: slots.engine,
    onTaken() {
      slots.hasJobs = true;
      close(onTaken);
    },
    onResult(result) {
      const takenBefore = denied.get(id);
      denied.delete(id);
      const isDenied = result.kind === "not submitted" && result.cause === "auth";
      if (isDenied) denied.set(id, takenBefore ?? slots.takenCount);
      const [oldest] = denied.keys();
      if (oldest !== undefined && denied.size > maxDenied) denied.delete(oldest);
      if (result.kind === "unclear") slots.hasJobs = true;
      if (result.kind === "not submitted")
        close(() => breaker.onNotTaken(result.reason, result.cause, result.retryAfterMs));
      else if (result.kind === "unclear") close(() => breaker.onUnclear(result.reason));
      else if (result.kind !== "failed") close(onTaken);
      return isDenied && takenBefore !== undefined && takenBefore < slots.takenCount;
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
