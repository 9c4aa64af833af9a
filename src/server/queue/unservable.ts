import { hash } from "node:crypto";
import type { Clock } from "../../io.ts";
import { listNames } from "../engines/passed.ts";
import { timeText } from "../engines/upstream/upstream.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Needs, Waiting } from "../store/claims.ts";
import type { Store } from "../store/store.ts";
import type { Outage } from "./breaker.ts";
import { canMake, type EngineSlots, isAsked } from "./slots.ts";

/** Time for the owner to see that an engine is missing, and to start the service with it. */
const maxWaitMs = 30 * 60_000;

export type UnservableOptions = Pick<ServiceParts, "isCommand" | "reportProblem"> & {
  allSlots: readonly EngineSlots[];
  store: Pick<Store, "isShared" | "publish">;
  clock: Pick<Clock, "now" | "date">;
};

/** How long a generation of a command waits for an engine that does not answer: less than the 60 s that a command waits for a service. */
const commandWaitMs = 55_000;
/**
 * An engine counts as unreachable after this time without an answer. Shorter than `commandWaitMs`, because the first attempt may take long to fail.
 */
const unreachableMs = 30_000;

/**
 * Generations that have waited too long for an engine: those with these needs that were started before `startedBefore` (ISO 8601), with their error.
 */
export type Unservable = {
  needs: Needs;
  startedBefore: string;
  error: string;
  error_code?: "not_submitted" | "auth" | undefined;
  /** Whether what replies at the address is not the engine. */
  failure?: "address" | undefined;
};

/** Identifies generations that wait for the same engine, in few characters. */
const missingOf = ({ engine, model, names }: Needs) =>
  engine ?? (names.length === 0 ? model : `${model} ${hash("sha256", JSON.stringify(names))}`);

/**
 * Returns a function that finds, among the waiting generations, those that must fail because no engine makes them. A missing engine is reported
 * once. If processes share the store, they tell each other which fields their engines take, and only generations with fields that none takes fail.
 */
export function createUnservableFinder({
  allSlots,
  store,
  isCommand = false,
  clock,
  reportProblem,
}: UnservableOptions) {
  /** Since when each engine, or each model that no engine serves, is missing. */
  const missingAt = new Map<string, number>();
  const dateBefore = (ms: number) => new Date(clock.date().getTime() - ms).toISOString();

  const find = ({ count, oldest_at: _, held, ...needs }: Waiting): Unservable | undefined => {
    // A generation with an engine was submitted, and may be paid for. In a service, `retired.ts` handles such generations.
    if (needs.engine !== null && !isCommand) return undefined;
    if (allSlots.some((each) => isAsked(each, needs))) return undefined;
    const missingReason = findMissingReason(needs, allSlots);
    const missing = missingOf(needs);
    const isNamed = needs.names.length > 0;
    if (missingReason === undefined) {
      missingAt.delete(missing);
      if (isNamed && store.isShared) store.publish({ kind: "servable", needs: missing, account: null });
    } else {
      const since = missingAt.get(missing) ?? clock.now();
      const what = store.isShared ? "Generations are left to other processes" : "Generations wait for an engine";
      const hint = isCommand ? "; name it with --engine" : "";
      if (!missingAt.has(missing)) reportProblem(what, new Error(`${missingReason}${hint}`));
      missingAt.set(missing, since);
      // Another process may have the engine, or be about to start.
      if ((store.isShared && !isNamed) || isCommand || clock.now() - since < maxWaitMs) return undefined;
      // Others may have been started since, at a process that has such an engine.
      const startedBefore = dateBefore(isNamed ? maxWaitMs : 0);
      return { needs, startedBefore, error: missingReason, error_code: "not_submitted" };
    }
    const suitableSlots = allSlots.filter((each) => needs.engine === null && canMake(each, needs));
    const [first] = suitableSlots;
    // While a process makes videos of this model, the waiting generations will get their turn.
    if (!first || held > 0) return undefined;
    const unusable = isCommand ? findUnusable(needs, suitableSlots, count) : undefined;
    if (unusable) return unusable;
    if (!suitableSlots.every(({ engine, breaker }) => breaker.outageMs() >= engine.timeoutMs)) return undefined;
    const { name, timeoutMs } = first.engine;
    const error = `${name} accepted no request for ${timeText(timeoutMs)}: ${first.breaker.outage()?.reason}; nothing was submitted`;
    const failure = failureOf(suitableSlots);
    return { needs, startedBefore: dateBefore(timeoutMs), error, error_code: "not_submitted", failure };
  };

  /** Notes that a process has an engine for what is missing here; without `needs`, that such news may have been missed. */
  const noteServable = (needs?: string) => {
    for (const missing of missingAt.keys())
      if (needs === undefined || missing === needs) missingAt.set(missing, clock.now());
  };

  /** Finds generations of a command whose engines do not answer, or refuse their keys. They end soon, because a person waits for the result. */
  function findUnusable(needs: Needs, suitableSlots: readonly EngineSlots[], count: number): Unservable | undefined {
    const refusals = suitableSlots.flatMap((slots) => findRefusal(slots, count) ?? []);
    const isRefused = refusals.length === suitableSlots.length;
    const isSilent = ({ breaker }: EngineSlots) => breaker.unreachableMs() >= unreachableMs;
    const isUnreachable =
      suitableSlots.some(isSilent) &&
      suitableSlots.every((slots) => isSilent(slots) || slots.breaker.outage()?.cause === "auth");
    if (!isRefused && !isUnreachable) return undefined;
    const words = suitableSlots.map(
      ({ engine, breaker }) => `${engine.name} cannot be used: ${breaker.outage()?.reason}`,
    );
    const error = `${words.join("; ")}; nothing was submitted`;
    const failure = failureOf(suitableSlots);
    if (!isRefused)
      return { needs, startedBefore: dateBefore(commandWaitMs), error, error_code: "not_submitted", failure };
    // A generation that was started since then gets its own attempt.
    const lastAttemptAt = Math.min(...refusals.map(({ lastAt }) => lastAt.getTime()));
    return { needs, startedBefore: new Date(lastAttemptAt + 1).toISOString(), error, error_code: "auth" };
  }
  return { find, noteServable };
}

function failureOf(allSlots: readonly EngineSlots[]): "address" | undefined {
  return allSlots.some(({ breaker }) => breaker.outage()?.cause === "address") ? "address" : undefined;
}

/** Returns the outage of an engine that refuses its key. If the refusal may be about the request, a second create decides. */
function findRefusal({ breaker, takenCount, denied }: EngineSlots, count: number): Outage | undefined {
  const outage = breaker.outage();
  if (outage?.cause !== "auth") return undefined;
  const isSure = denied.size > 1 || outage.lastAt > outage.since || (takenCount === 0 && count === 1);
  return isSure ? outage : undefined;
}

/** Why no engine of this process makes a generation; `undefined` if one does. */
export function findMissingReason(needs: Needs, allSlots: readonly EngineSlots[]): string | undefined {
  if (needs.engine !== null)
    return allSlots.some(({ engine }) => engine.name === needs.engine)
      ? undefined
      : `the local service no longer uses ${needs.engine}, which makes this video`;
  if (allSlots.some((each) => canMake(each, needs))) return undefined;
  const { model, names } = needs;
  if (names.length > 0 && allSlots.some((each) => canMake(each, { ...needs, names: [] })))
    return `no engine that makes ${model} takes ${listNames(names) || "this request"}`;
  return `no engine of the local service serves ${model}`;
}
