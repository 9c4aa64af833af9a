import type { Clock } from "../../io.ts";
import type { Engine } from "./engine.ts";

/** An engine as its owner sees it: what kind it is, or why it cannot be used now. */
export type EngineCheck = { engine: string; models: readonly string[]; kind: string | null; error: string | null };

const limitMs = 10_000;

/** Asks all engines side by side whether they can be used now; each has 10 seconds. Free of charge. */
export async function checkEngines(
  engines: readonly Engine[],
  clock: Pick<Clock, "limit">,
  signal: AbortSignal,
): Promise<EngineCheck[]> {
  return Promise.all(engines.map((engine) => checkEngine(engine, clock, signal)));
}

export async function checkEngine(
  { name, models, check }: Engine,
  { limit }: Pick<Clock, "limit">,
  signal: AbortSignal,
): Promise<EngineCheck> {
  const timeout = limit(limitMs, signal, new Error(`no response within ${limitMs / 1_000} s`));
  const checked = { engine: name, models };
  try {
    return { ...checked, kind: await check(timeout.signal), error: null };
  } catch (error) {
    return { ...checked, kind: null, error: error instanceof Error ? error.message : String(error) };
  } finally {
    timeout.clear();
  }
}
