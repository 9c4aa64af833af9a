import type { Clock } from "../../io.ts";
import { isLoopback } from "../../protocol/url.ts";
import { checkEngine } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { SubmittedWork } from "../store/claims.ts";
import type { EngineOrigin } from "../store/generations.ts";
import type { Store } from "../store/store.ts";

/**
 * An engine that the service no longer uses, and how many unfinished generations were submitted to it. Without a `reason` the engine drains: it
 * finishes them, and gets no others. With a `reason` they wait until the owner names the engine again, or cancels them.
 */
export type Retired = { engine: string; count: number; reason: string | null };

export type RetiredOptions = Pick<ServiceParts, "reopen" | "onNote"> & {
  store: Pick<Store, "begun" | "isShared">;
  clock: Pick<Clock, "limit">;
  /** The names of the engines that are used or drain. */
  usedNames(): readonly string[];
  /** Whether this process makes videos. */
  isMaking(): boolean;
  /** Called with an engine that drains from now on. */
  onOpen(engine: Engine): void;
  signal: AbortSignal;
};

/** Finds generations that were submitted to engines that the service no longer uses, and opens those that can be used. */
export function createRetired(options: RetiredOptions) {
  const { store, usedNames, onNote } = options;
  /** The engines with generations that no process uses, and why they cannot be used. */
  const missingReasons = new Map<string, string>();
  /** Engines that were missing at the last poll. They are opened at the next one, because a process that has just started may use them. */
  const missingBefore = new Set<string>();
  const opening = new Set<string>();

  const open = async ({ engine: name, count, checkpoint }: SubmittedWork) => {
    const reason = await tryOpen(name, checkpoint.origin, options);
    if (options.signal.aborted) return;
    if (reason !== undefined && missingReasons.get(name) !== reason)
      onNote(
        `${countOf(count)} for ${name}, which this service no longer uses: ${reason}. No other engine gets what was submitted, because it may be paid for. Start the service with this engine again, or cancel the generations.`,
      );
    if (reason === undefined) missingReasons.delete(name);
    else missingReasons.set(name, reason);
    if (reason === undefined)
      onNote(`${name} is no longer used: it finishes what was submitted to it, and gets nothing else.`);
  };

  return {
    /** Checks once, without waiting for an engine. Resolves with the engines that have generations. */
    async poll(): Promise<readonly SubmittedWork[]> {
      const begun = await store.begun();
      const unusedWork = begun.filter(({ engine, held }) => held === 0 && !usedNames().includes(engine));
      const unusedNames = unusedWork.map(({ engine }) => engine);
      for (const known of [...missingReasons.keys()]) if (!unusedNames.includes(known)) missingReasons.delete(known);
      for (const known of [...missingBefore]) if (!unusedNames.includes(known)) missingBefore.delete(known);
      for (const each of unusedWork) {
        if (opening.has(each.engine)) continue;
        if (store.isShared && !missingBefore.has(each.engine)) {
          missingBefore.add(each.engine);
          continue;
        }
        opening.add(each.engine);
        void open(each).finally(() => opening.delete(each.engine));
      }
      return begun;
    },
    missingEngines: (): string[] => [...missingReasons.keys()],
    /** The draining and the missing engines. */
    list(begun: readonly SubmittedWork[], draining: readonly string[]): Retired[] {
      return begun.flatMap(({ engine, count }) => {
        const reason = missingReasons.get(engine);
        if (reason === undefined && !draining.includes(engine)) return [];
        return [{ engine, count, reason: reason ?? null }];
      });
    },
  };
}

/** Opens an engine, which then drains. Resolves with the reason if it cannot be used. */
async function tryOpen(
  name: string,
  origin: EngineOrigin | undefined,
  { store: { isShared }, isMaking, reopen, onOpen, clock, signal }: RetiredOptions,
): Promise<string | undefined> {
  if (!isMaking()) return "no process that generates videos uses it, and this one serves only the API";
  if (!reopen || !origin) return "its configuration is not known";
  if (isShared && URL.canParse(name) && isLoopback(new URL(name).hostname))
    return "it is on the machine of an earlier process";
  try {
    const engine = reopen(origin, { isShared });
    const { error } = await checkEngine(engine, clock, signal);
    if (error !== null) return `it ${error}`;
    onOpen(engine);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/\.$/, "") : String(error);
  }
}

function countOf(count: number): string {
  return count === 1 ? "1 generation waits" : `${count} generations wait`;
}
