import { VidgenError } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import type { Engine } from "./engine.ts";

/** The state of an engine for its owner: its kind, or why it cannot be used now. */
export type EngineCheck = { engine: string; models: readonly string[]; kind: string | null; error: string | null };

const limitMs = 10_000;

/** Checks all engines at the same time, free of charge. Each has 10 seconds. */
export async function checkEngines(
  engines: readonly Engine[],
  clock: Pick<Clock, "limit">,
  signal: AbortSignal,
): Promise<EngineCheck[]> {
  return Promise.all(engines.map((engine) => checkEngine(engine, clock, signal)));
}

/**
 * Throws `auth` when an engine refuses its key, and `usage` when it can never be used, because generations for it would wait in vain. Any other error
 * may be temporary and is ignored.
 */
export async function checkEngineKeys(
  engines: readonly Engine[],
  { limit }: Pick<Clock, "limit">,
  signal: AbortSignal,
): Promise<void> {
  const timeout = limit(limitMs, signal, new Error("no response"));
  const checkOne = async ({ name, check }: Engine) => {
    const error = await check(timeout.signal).then(
      () => undefined,
      (thrown) => thrown,
    );
    if (error instanceof VidgenError)
      throw new VidgenError(error.code, `${name} ${error.message}.`, {
        hint: error.hint ?? (error.code === "auth" ? keyHint : undefined),
      });
  };
  await Promise.all(engines.map(checkOne)).finally(timeout.clear);
  signal.throwIfAborted();
}

const keyHint = "`vidgen doctor` shows which variables with engine keys are set.";

/** Checks one engine, free of charge, within 10 seconds. Never rejects. */
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
    const reason = error instanceof Error ? error.message : String(error);
    const hint = error instanceof VidgenError ? error.hint : undefined;
    return { ...checked, kind: null, error: hint === undefined ? reason : `${reason} (${hint})` };
  } finally {
    timeout.clear();
  }
}
