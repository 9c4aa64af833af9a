import type { Clock } from "../../io.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";

/** How long a page waits for the engines. */
const limitMs = 2_000;
/** How long a check is reused, whatever the number of open pages. */
const reuseMs = 5_000;

/** Returns a function that checks all engines. Calls within five seconds share the results, unless the engines have changed. */
export function createEngineChecks(
  engines: readonly Engine[],
  clock: Pick<Clock, "now" | "limit">,
): () => Promise<Map<Engine, EngineCheck>> {
  const check = async (used: readonly Engine[]) => {
    const limit = clock.limit(limitMs, new AbortController().signal, new Error(`no response in ${limitMs / 1_000} s`));
    const checks = await checkEngines(used, clock, limit.signal).finally(limit.clear);
    return new Map(used.flatMap((engine, index) => (checks[index] ? [[engine, checks[index]] as const] : [])));
  };
  let last: { at: number; used: readonly Engine[]; checks: Promise<Map<Engine, EngineCheck>> } | undefined;
  return () => {
    const [now, used] = [clock.now(), [...engines]];
    const isSame = last?.used.length === used.length && last.used.every((engine, index) => engine === used[index]);
    if (!last || !isSame || now - last.at >= reuseMs) last = { at: now, used, checks: check(used) };
    return last.checks;
  };
}
