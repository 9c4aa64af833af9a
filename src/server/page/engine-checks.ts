import type { Clock } from "../../io.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";

/** A page is not shown later because an engine does not answer. */
const limitMs = 2_000;
/** Engines are asked this often, however many pages are open. */
const everyMs = 5_000;

/** Returns what asks all engines whether they can be used now. All who ask within five seconds share the answers. */
export function createEngineChecks(
  engines: readonly Engine[],
  clock: Pick<Clock, "now" | "limit">,
): () => Promise<Map<Engine, EngineCheck>> {
  const ask = async () => {
    const used = [...engines];
    const limit = clock.limit(limitMs, new AbortController().signal, new Error(`no response in ${limitMs / 1_000} s`));
    const checks = await checkEngines(used, clock, limit.signal).finally(limit.clear);
    return new Map(used.flatMap((engine, index) => (checks[index] ? [[engine, checks[index]] as const] : [])));
  };
  let last: { at: number; checks: Promise<Map<Engine, EngineCheck>> } | undefined;
  return () => {
    const now = clock.now();
    if (!last || now - last.at >= everyMs) last = { at: now, checks: ask() };
    return last.checks;
  };
}
