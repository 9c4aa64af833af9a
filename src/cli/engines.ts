import { checkApiKey } from "../client/credentials.ts";
import { models as knownModels } from "../client/models.ts";
import { usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { readNumber, readTime } from "./command.ts";

/** The flags of `serve` about what makes the videos. */
type EngineFlags = {
  engine?: string[] | undefined;
  engineTimeout: string;
  jobs?: string | undefined;
};

/** The engines' settings from flags and environment; `leastJobs` is the smallest number that `--jobs` may be. Throws `usage`. */
export function readEngineSettings(
  { engine = [], engineTimeout, jobs }: EngineFlags,
  { env }: Pick<Io, "env">,
  { leastJobs }: { leastJobs: number },
) {
  return {
    engines: engine,
    key: readEngineKey(env.VIDGEN_ENGINE_KEY ?? ""),
    timeoutMs: readTime(engineTimeout, "--engine-timeout"),
    jobs: jobs === undefined ? undefined : readNumber(jobs, "--jobs", { least: leastJobs, most: 1_000 }),
  };
}

/** One key, or several as `origin=key origin=key`. */
function readEngineKey(text: string): string | Map<string, string> | undefined {
  const name = "VIDGEN_ENGINE_KEY";
  if (text === "") return undefined;
  const entries = text
    .trim()
    .split(/\s+/)
    .map((word) => /^(https?:\/\/[^=]+)=(.+)$/.exec(word));
  if (!entries[0]) return checkApiKey(text, name);
  return new Map(
    entries.map((entry) => {
      const [, origin = "", key = ""] = entry ?? [];
      if (!URL.canParse(origin)) throw usage(`${name} must be one key, or an address and its key for each server.`);
      return [new URL(origin).origin, checkApiKey(key, name)];
    }),
  );
}

/** The prices of `--credits-per`, by model. Throws `usage` for what is no price, and for a model that no engine serves. */
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
        throw usage(`--credits-per ${text}: no engine serves ${model}.`, `They serve ${[...served].join(", ")}.`);
      return [model, readNumber(text.slice(at + 1), `--credits-per ${model}`, { most: Number.MAX_SAFE_INTEGER })];
    }),
  );
}

/** An engine of the local service, as `GET /engines` and `serve --json` show it: `error` goes on from its name. */
export type EngineCheck = { engine: string; models: readonly string[]; kind: string | null; error: string | null };

/** Whether there is anything to tell: the preview alone always works. */
export function isPreviewAlone(engines: readonly Pick<EngineCheck, "engine">[]): boolean {
  return engines.every(({ engine }) => engine === "preview");
}

/** Such as "wan-2.5: http://gpu-1:8091 (vLLM-Omni)"; `all` are the engines of the service. */
export function describeEngine(
  { engine, models, kind, error }: EngineCheck,
  all: readonly Pick<EngineCheck, "models">[],
): string {
  const state = error ?? (kind === engine ? "" : `(${kind})`);
  return `${nameModels(models, all)}: ${engine} ${state}`.trim();
}

/** Most servers serve one model; one that takes the rest is not worth a list. */
function nameModels(models: readonly string[], all: readonly Pick<EngineCheck, "models">[]): string {
  const served = all.flatMap(({ models }) => models);
  const isRest = models.length > 1 && knownModels.every(({ id }) => served.includes(id));
  if (!isRest) return models.join(", ");
  return models.length === knownModels.length ? "all models" : "all other models";
}
