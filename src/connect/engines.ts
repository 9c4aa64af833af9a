import { readFileSync } from "node:fs";
import { checkApiKey } from "../client/http/redaction.ts";
import { systemReason, usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { models as knownModels } from "../protocol/models.ts";
import { findEngineKey } from "./keys.ts";
import { findEngineSetting } from "./settings.ts";
import { readNumber, readTime } from "./values.ts";

/** The engine flags of `serve`. */
type EngineFlags = {
  engine?: string[] | undefined;
  engineTimeout?: string | undefined;
  keepUpstream?: boolean | undefined;
  jobs?: string | undefined;
};

type ServiceFlags = {
  local?: boolean | undefined;
  baseUrl?: string | undefined;
  engine?: string[] | undefined;
  engineTimeout?: string | undefined;
};

/** Adds `--local`, which `--engine` implies. Throws `usage` for `--engine` with `--base-url`. */
export function withEngineFlag<Flags extends ServiceFlags>(flags: Flags): Flags {
  if (flags.engine === undefined) return flags;
  if (flags.baseUrl !== undefined) throw usage("--engine and --base-url cannot be combined.");
  return { ...flags, local: true };
}

/**
 * As `withEngineFlag`, for a command that starts generations: without a flag that names a service, the engine
 * setting applies.
 */
export async function withEngine<Flags extends ServiceFlags>(flags: Flags, io: Io): Promise<Flags> {
  const withLocal = withEngineFlag(flags);
  if (withLocal.local || withLocal.baseUrl !== undefined) return checkEngineTimeout(withLocal);
  const engine = await findEngineSetting(io);
  return checkEngineTimeout(engine === undefined ? withLocal : { ...withLocal, engine, local: true });
}

/** Returns the flags. Throws `usage` for an invalid `--engine-timeout`, or one without an engine. */
export function checkEngineTimeout<
  Flags extends Omit<ServiceFlags, "engine"> & { engine?: readonly string[] | undefined },
>(flags: Flags): Flags {
  const { engine, engineTimeout } = flags;
  if (engineTimeout !== undefined && engine === undefined)
    throw usage("--engine-timeout needs --engine: it limits how long that engine may show no progress.");
  readEngineTimeout(engineTimeout);
  return flags;
}

function readEngineTimeout(text: string | undefined): number | undefined {
  return text === undefined ? undefined : readTime(text, "--engine-timeout");
}

/** The engines' settings from flags and environment; `minJobs` is the minimum of `--jobs`. Throws `usage`. */
export function readEngineSettings(
  { engine = [], engineTimeout, keepUpstream, jobs }: EngineFlags,
  io: Pick<Io, "env" | "home" | "platform">,
  { minJobs }: { minJobs: number },
) {
  return {
    engines: engine,
    readKey(name: string) {
      const text = findEngineKey(name, io);
      return text ? checkApiKey(text, name) : undefined;
    },
    readKeyFile(path: string, label: string) {
      let text: string;
      try {
        text = readFileSync(path, "utf8");
      } catch (error) {
        throw usage(`${label}: cannot read ${path}: ${systemReason(error)}.`);
      }
      return checkApiKey(text, `${label}: ${path}`);
    },
    keepUpstream: keepUpstream ?? Boolean(io.env.VIDGEN_KEEP_UPSTREAM),
    timeoutMs: readEngineTimeout(engineTimeout),
    jobs: jobs === undefined ? undefined : readNumber(jobs, "--jobs", { min: minJobs, max: 1_000 }),
  };
}

/** The prices of `--credits-per`, by model. Throws `usage` for an invalid price, and for a model that no engine serves. */
export function readCreditsPer(
  texts: readonly string[],
  engines: readonly Pick<EngineCheck, "models">[],
): Map<string, number> {
  const served = new Set(engines.flatMap(({ models }) => models));
  return new Map(
    texts.map((text) => {
      const at = text.lastIndexOf("=");
      const model = text.slice(0, Math.max(at, 0));
      if (model === "") throw usage(`--credits-per must be model=number, such as wan-2.5=10, not "${text}".`);
      if (!served.has(model))
        throw usage(
          `--credits-per ${text}: no engine serves ${model}.`,
          `The engines serve ${[...served].join(", ")}.`,
        );
      return [model, readNumber(text.slice(at + 1), `--credits-per ${model}`, { max: Number.MAX_SAFE_INTEGER })];
    }),
  );
}

/**
 * An engine of the local service, as in `GET /engines` and `serve --json`; `error` is a phrase that continues
 * the engine's name.
 */
export type EngineCheck = { engine: string; models: readonly string[]; kind: string | null; error: string | null };

/** Whether there are only previews, which always work. */
export function isPreviewOnly(engines: readonly Pick<EngineCheck, "engine">[]): boolean {
  return engines.every(({ engine }) => engine === "preview");
}

/** Describes an engine, such as "wan-2.5: http://gpu-1:8091 (vLLM-Omni)"; `all` has all engines of the service. */
export function describeEngine(
  { engine, models, kind, error }: EngineCheck,
  all: readonly Pick<EngineCheck, "models">[],
): string {
  const state = error ?? (kind === engine ? "" : `(${kind})`);
  return `${nameModels(models, all)}: ${engine} ${state}`.trim();
}

/** The models of an engine; "all other models" instead of a long list. */
function nameModels(models: readonly string[], all: readonly Pick<EngineCheck, "models">[]): string {
  const served = all.flatMap(({ models }) => models);
  // If all known models are served, an engine with several of them is the one for the models that no other engine has.
  const isRest = models.length > 1 && knownModels.every(({ id }) => served.includes(id));
  if (!isRest) return models.join(", ");
  return models.length === knownModels.length ? "all models" : "all other models";
}
