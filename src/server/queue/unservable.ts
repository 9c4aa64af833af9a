import type { Clock } from "../../io.ts";
import { minutes } from "../engines/upstream/upstream.ts";
import type { ReportProblem } from "../observe/problem.ts";
import type { Needs, Waiting } from "../store/claims.ts";
import type { Store } from "../store/store.ts";
import type { Outage } from "./breaker.ts";
import { canMake } from "./scheduler.ts";
import type { EngineSlots } from "./slots.ts";

/** Time for the owner to see that an engine is missing, and to start the service with it. */
const maxWaitMs = 30 * 60_000;

export type UnservableOptions = {
  allSlots: readonly EngineSlots[];
  store: Pick<Store, "isShared">;
  /** Whether the service runs inside a command: the next one may have the engine. */
  isCommand?: boolean | undefined;
  clock: Pick<Clock, "now" | "date">;
  reportProblem: ReportProblem;
};

/** So long a command waits for an engine that does not answer: it ends within the 60 s that it would wait for a service. */
const unsentMs = 55_000;
/** By then its engine has not answered for so long: the first try may take a while to fail. */
const unreachableMs = 30_000;

/**
 * Generations that have waited long enough for an engine, why, and what programs get to know: those with these needs that were started before
 * that time (ISO 8601).
 */
export type Unservable = {
  needs: Needs;
  startedBefore: string;
  error: string;
  error_code?: "not_submitted" | "auth" | undefined;
};

/** Returns what finds, in what waits, the generations that fail since no engine makes them. A missing engine is told of once. */
export function createUnservableFinder({
  allSlots,
  store,
  isCommand = false,
  clock,
  reportProblem,
}: UnservableOptions) {
  /** When each missing engine was seen to be missing first. */
  const missingAt = new Map<string, number>();
  const before = (ms: number) => new Date(clock.date().getTime() - ms).toISOString();

  return ({ count, oldest_at: _, held, ...needs }: Waiting): Unservable | undefined => {
    // What has an engine was submitted to it: its video may be made and paid for there. Of a service, `retired.ts` knows.
    if (needs.engine !== null && !isCommand) return undefined;
    const missing = findMissing(needs, allSlots);
    if (missing !== undefined) {
      const at = missingAt.get(missing) ?? clock.now();
      const what = store.isShared ? "Generations are left to other processes" : "Generations wait for an engine";
      const way = isCommand ? "; name it with --engine" : "";
      if (!missingAt.has(missing)) reportProblem(what, new Error(`${missing}${way}`));
      missingAt.set(missing, at);
      // Another process may have the engine, or be about to start.
      if (store.isShared || isCommand || clock.now() - at < maxWaitMs) return undefined;
      return { needs, startedBefore: before(0), error: missing, error_code: "not_submitted" };
    }
    const able = allSlots.filter(({ engine }) => needs.engine === null && canMake(engine, needs));
    const [first] = able;
    // As long as any process makes this model, it comes to the others as well.
    if (!first || held > 0) return undefined;
    const given = isCommand ? findUnusable(needs, able, count) : undefined;
    if (given) return given;
    if (!able.every(({ engine, breaker }) => breaker.outMs() >= engine.timeoutMs)) return undefined;
    const { name, timeoutMs } = first.engine;
    const error = `${name} accepted no request for ${minutes(timeoutMs)}: ${first.breaker.outage()?.reason}; nothing was submitted`;
    return { needs, startedBefore: before(timeoutMs), error, error_code: "not_submitted" };
  };

  /** Whoever has typed a command waits for it: one whose engines do not answer, or refuse their keys, ends soon. */
  function findUnusable(needs: Needs, able: readonly EngineSlots[], count: number): Unservable | undefined {
    const refusals = able.flatMap((slots) => findRefusal(slots, count) ?? []);
    const isRefused = refusals.length === able.length;
    const isAway = ({ breaker }: EngineSlots) => breaker.unreachableMs() >= unreachableMs;
    const isUnreachable =
      able.some(isAway) && able.every((slots) => isAway(slots) || slots.breaker.outage()?.cause === "auth");
    if (!isRefused && !isUnreachable) return undefined;
    const words = able.map(({ engine, breaker }) => `${engine.name} cannot be used: ${breaker.outage()?.reason}`);
    const error = `${words.join("; ")}; nothing was submitted`;
    if (!isRefused) return { needs, startedBefore: before(unsentMs), error, error_code: "not_submitted" };
    // One that was started since then has a try of its own.
    const last = Math.min(...refusals.map(({ lastAt }) => lastAt.getTime()));
    return { needs, startedBefore: new Date(last + 1).toISOString(), error, error_code: "auth" };
  }
}

/** One refusal may be about what a generation asks for: where another one waits, or others were taken before, a second create decides. */
function findRefusal({ breaker, taken, denied }: EngineSlots, count: number): Outage | undefined {
  const outage = breaker.outage();
  if (outage?.cause !== "auth") return undefined;
  const isSure = denied.size > 1 || outage.lastAt > outage.since || (taken === 0 && count === 1);
  return isSure ? outage : undefined;
}

function findMissing(needs: Needs, allSlots: readonly EngineSlots[]): string | undefined {
  if (needs.engine !== null)
    return allSlots.some(({ engine }) => engine.name === needs.engine)
      ? undefined
      : `the local service no longer uses ${needs.engine}, which makes this video`;
  if (allSlots.some(({ engine }) => canMake(engine, needs))) return undefined;
  return `no engine of the local service serves ${needs.model}`;
}
