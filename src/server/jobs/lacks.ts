import type { Clock } from "../../io.ts";
import { minutes } from "../engines/upstream/upstream.ts";
import type { Needs, Store, Waiting } from "../store/store.ts";
import type { OnTrouble } from "../trouble.ts";
import { canMake, type Place } from "./place.ts";

/** Time for the owner to see that an engine is missing, and to start the service with it. */
const maxWaitMs = 30 * 60_000;

export type LackOptions = {
  places: readonly Place[];
  store: Pick<Store, "isShared">;
  /** Whether the service runs inside a command: the next one may have the engine. */
  isCommand?: boolean | undefined;
  clock: Pick<Clock, "now" | "date">;
  onTrouble: OnTrouble;
};

/** Generations that have waited long enough for an engine, and why: those with these needs that were started before that time (ISO 8601). */
export type Given = { needs: Needs; startedBefore: string; reason: string };

/** Returns what finds, in what waits, the generations that fail since no engine makes them. A missing engine is told of once. */
export function createLackFinder({ places, store, isCommand = false, clock, onTrouble }: LackOptions) {
  /** When each missing engine was seen to be missing first. */
  const missingAt = new Map<string, number>();
  const before = (ms: number) => new Date(clock.date().getTime() - ms).toISOString();

  return ({ count: _, oldest_at: __, held, ...needs }: Waiting): Given | undefined => {
    const missing = findMissing(needs, places);
    if (missing !== undefined) {
      const at = missingAt.get(missing) ?? clock.now();
      const what = store.isShared ? "Generations are left to other processes" : "Generations wait for an engine";
      const way = isCommand ? "; name it with --engine" : "";
      if (!missingAt.has(missing)) onTrouble(what, new Error(`${missing}${way}`));
      missingAt.set(missing, at);
      // Another process may have the engine, or be about to start.
      if (store.isShared || isCommand || clock.now() - at < maxWaitMs) return undefined;
      return { needs, startedBefore: before(0), reason: missing };
    }
    const able = places.filter(({ engine }) => needs.engine === null && canMake(engine, needs));
    const [first] = able;
    const isOut = able.every(({ engine, breaker }) => breaker.outMs() >= engine.timeoutMs);
    // As long as any process makes this model, it comes to the others as well.
    if (!first || !isOut || held > 0) return undefined;
    const { name, timeoutMs } = first.engine;
    const reason = `${name} accepted no request for ${minutes(timeoutMs)}: ${first.breaker.outage()?.reason}; nothing was submitted`;
    return { needs, startedBefore: before(timeoutMs), reason };
  };
}

function findMissing(needs: Needs, places: readonly Place[]): string | undefined {
  if (needs.engine !== null)
    return places.some(({ engine }) => engine.name === needs.engine)
      ? undefined
      : `the local service no longer uses ${needs.engine}, which makes this video`;
  if (places.some(({ engine }) => canMake(engine, needs))) return undefined;
  return `no engine of the local service serves ${needs.model}`;
}
