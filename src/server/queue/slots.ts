import type { Clock } from "../../io.ts";
import type { Engine, Passes } from "../engines/engine.ts";
import { takesNames } from "../engines/passed.ts";
import type { RenderResult } from "../outcomes.ts";
import type { Claim, NamedNeeds, Needs } from "../store/claims.ts";
import { type Breaker, type BreakerOptions, createBreaker } from "./breaker.ts";
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
  /** What the engine takes of fields that vidgen does not know, by model, once it has answered; and when it was last asked. */
  taken: Map<string, Passes | undefined>;
  askedAt: Map<string, number>;
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
    taken: new Map(),
    askedAt: new Map(),
  };
}

/** The owner may name an engine once for each model, each time with separate slots. */
export function slotNameOf({ name, upstreamModel = "", models: [model = ""] }: Engine): string {
  return [name, upstreamModel, model].join(" ");
}

const askAgainMs = 10_000;

/** Asks an engine what it takes for these models, in the background. Calls `onChange` when that is not what it took before. */
export function askTaken(
  { engine, taken, askedAt }: EngineSlots,
  models: readonly string[],
  { clock, onChange }: { clock: Pick<Clock, "now">; onChange(): void },
): void {
  for (const model of models.filter((each) => engine.models.includes(each))) {
    if (clock.now() - (askedAt.get(model) ?? Number.NEGATIVE_INFINITY) < askAgainMs) continue;
    askedAt.set(model, clock.now());
    void engine.passes?.(model).then((answer) => {
      const isSame = taken.has(model) && JSON.stringify(answer) === JSON.stringify(taken.get(model));
      taken.set(model, answer);
      if (!isSame) onChange();
    });
  }
}

/** Whether an engine could make a generation that was not submitted. */
export function canMake({ engine, taken }: Pick<EngineSlots, "engine" | "taken">, needs: Needs): boolean {
  const { models, maxImages, isSimulation } = engine;
  if (!models.includes(needs.model) || needs.images > maxImages) return false;
  return isSimulation ? !needs.isReal : takesNames(taken.get(needs.model), needs.names, engine);
}

/** Whether it is not known yet if an engine takes the fields of a generation that it could make otherwise. */
export function isAsked(slots: Pick<EngineSlots, "engine" | "taken">, needs: Needs): boolean {
  const { engine, taken } = slots;
  return (
    needs.names.length > 0 &&
    !taken.has(needs.model) &&
    !engine.isSimulation &&
    engine.passes !== undefined &&
    canMake(slots, { ...needs, names: [] })
  );
}

/** Returns the current state of an engine for a decision; `named` are the lists of names that wait. */
export function engineStateOf(slots: EngineSlots, named: readonly NamedNeeds[]): EngineState & { slots: EngineSlots } {
  const { engine, name, breaker, jobs, openCreates, denied, taken } = slots;
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
    named: isSimulation ? undefined : named.filter(({ model, names }) => takesNames(taken.get(model), names, engine)),
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
