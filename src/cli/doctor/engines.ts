import { describeEngine, type EngineCheck, isPreviewOnly } from "../../connect/engines.ts";
import { engineKeyNames, findEngineKey, openRouter } from "../../connect/keys.ts";
import type { LocalConnection } from "../../connect/local.ts";
import type { Io } from "../../io.ts";
import { type Check, fail, pass } from "./check.ts";

const limitMs = 15_000;
const fix =
  "Check that it runs, and the address in `vidgen serve --engine`. Generations for it wait until it can be used, and fail after --engine-timeout.";

const drainingFix =
  "Name the engine again in `vidgen serve`, with its key: generations that it accepted, and that may be paid for, wait for it. `vidgen cancel` ends one, and its credits are not returned.";

/** What a service of this version reports about an engine: since when (ISO 8601) and why it accepts no generations. */
type EngineReport = EngineCheck & {
  out_since?: string | null;
  out_reason?: string | null;
  /** For an engine that is no longer used: how many generations were submitted to it. */
  draining?: number | null;
};

/** The engines of the local service on this machine; none if it has only the preview, or does not report them. */
export async function checkEngines(
  { baseUrl, apiKey, fetch }: Pick<LocalConnection, "baseUrl" | "apiKey" | "fetch">,
  io: Io,
): Promise<Check[]> {
  const limit = io.limit(limitMs, io.signal, new Error("no response"));
  try {
    const headers = { Authorization: `Bearer ${apiKey}` };
    const reply = await fetch(`${baseUrl}/engines`, { headers, signal: limit.signal });
    if (reply.status !== 200) return [];
    const { engines } = JSON.parse(await reply.text()) as { engines: EngineReport[] };
    return isPreviewOnly(engines) ? [] : engines.map((engine) => checkReported(engine, engines));
  } catch {
    return [];
  } finally {
    limit.clear();
  }
}

/** The variables with keys of engines, and the provider whose key is saved. The keys themselves are never shown. */
export function checkKeys(io: Io): Check[] {
  const { engine, variable } = openRouter;
  const isSaved = findEngineKey(variable, { ...io, env: { ...io.env, [variable]: undefined } }) !== undefined;
  const names = [...engineKeyNames(io.env), ...(isSaved ? [`${engine} (saved)`] : [])];
  return names.length === 0 ? [] : [pass("keys", `for engines: ${names.join(", ")}`)];
}

function checkReported(engine: EngineReport, all: readonly EngineCheck[]): Check {
  const { engine: name, error, draining = null } = engine;
  if (draining !== null) {
    const count = draining === 1 ? "1 generation" : `${draining} generations`;
    const says = `no longer used: ${name}, with ${count}`;
    return error === null
      ? pass("engine", says)
      : fail("engine", `${says}: ${error}`, { code: "network", fix: drainingFix });
  }
  const outage = engine.out_since ? `; unavailable since ${engine.out_since}: ${engine.out_reason}` : "";
  const says = `${describeEngine(engine, all)}${outage}`;
  return engine.error === null && outage === "" ? pass("engine", says) : fail("engine", says, { code: "network", fix });
}
