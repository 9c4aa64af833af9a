import { hash } from "node:crypto";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { models as knownModels, type Model } from "../../protocol/models.ts";
import { isLoopback } from "../../protocol/url.ts";
import { createOutbound } from "../outbound/outbound.ts";
import { createAiSdkEngine } from "./ai-sdk/ai-sdk.ts";
import { besideVidgen, loadPackage } from "./ai-sdk/package.ts";
import { createComfyUiEngine } from "./comfyui/comfyui.ts";
import { readWorkflow } from "./comfyui/workflow.ts";
import { defaultJobs, type Engine } from "./engine.ts";
import { createKeyFinder, type KeyReader } from "./keys.ts";
import { createPreviewEngine } from "./preview/preview.ts";
import { checkRepeats, type EngineSpec, isFromFlag, originOf, readSpec, type ServerSpec, specExample } from "./spec.ts";
import { describe } from "./upstream/upstream.ts";
import { maxImagesOf } from "./videos/kinds.ts";
import { fetchOffers, type Offer } from "./videos/offers.ts";
import type { ServerOptions } from "./videos/server.ts";
import { createVideosEngine } from "./videos/videos.ts";

export type EngineSettings = KeyReader &
  Pick<ServerOptions, "keepUpstream" | "onNote"> & {
    /** `[model=]kind[:url][#upstream-model]`, or the specification that was read from it or from a file. */
    engines: readonly (string | EngineSpec)[];
    /**
     * The time limit of a job without progress, as `--engine-timeout` sets it; by default 30 minutes, or a day for a job that ComfyUI shows as running.
     */
    timeoutMs?: number | undefined;
    /** How many generations each engine runs at the same time; by default the preview one per processor, and a server of real models 16. */
    jobs: number | undefined;
    /**
     * Whether the engines come from saved settings or a shared database, and not from the command. Then a package is not loaded from the current
     * folder, because these engines are used in every folder, and a folder from elsewhere may have another package of that name.
     */
    fromSettings?: boolean | undefined;
  };

const defaultTimeoutMs = 30 * 60_000;
const defaultRunningMs = 24 * 3_600_000;

/**
 * Creates the engines that the owner named, or the preview if there are none. An engine without a model serves those models of the interface that no
 * other engine names. Throws `usage` for an invalid specification.
 */
export function createEngines(
  settings: EngineSettings,
  io: Pick<Io, "fetch" | "readSocket" | "now" | "date" | "sleep" | "limit">,
): Engine[] {
  const { timeoutMs = defaultTimeoutMs, keepUpstream, fromSettings, onNote } = settings;
  const specs = readEngines(settings.engines);
  const findKey = createKeyFinder(specs, settings);
  if (specs.length === 0) return [createPreviewEngine({ concurrency: settings.jobs })];
  const create = ({
    label,
    models,
    server,
    packageName,
    workflowFile,
    upstreamModel = "",
    jobs: specJobs,
  }: PlannedEngine) => {
    const jobs = settings.jobs ?? specJobs;
    if (packageName !== undefined) {
      const { open } = createOutbound({ allowLoopback: () => false, clock: io });
      const options = { packageName, upstreamModel, timeoutMs, onNote };
      const load = (name: string) => loadPackage(name, fromSettings ? [besideVidgen] : undefined);
      return createAiSdkEngine({ ...options, models, concurrency: jobs ?? defaultJobs }, { ...io, open }, load);
    }
    if (!server) return createPreviewEngine({ models, concurrency: jobs });
    const { open } = createOutbound({ allowLoopback: () => isLoopback(new URL(server.url).hostname), clock: io });
    const options = { ...server, key: findKey({ label, server }), timeoutMs, keepUpstream, onNote };
    if (workflowFile !== undefined) {
      const workflow = readWorkflow(workflowFile, models);
      const runningPatienceMs = settings.timeoutMs ?? defaultRunningMs;
      const comfyUi = { ...options, runningPatienceMs, workflow, models, concurrency: jobs ?? defaultJobs };
      return createComfyUiEngine(comfyUi, { ...io, open });
    }
    return createVideosEngine({ ...options, models, concurrency: jobs }, { ...io, open });
  };
  return specs.map((spec) => {
    const { label, server, models, jobs, isSimulation } = spec;
    const [engine, origin] = [create(spec), originOf(spec)];
    const key = server && findKey({ label, server });
    const identity = hash("sha256", JSON.stringify([origin, models, jobs, key]));
    // A preview needs no origin, because nothing that was submitted to it continues elsewhere.
    // Changes the engine instead of copying it, because `concurrency` may be a getter.
    return Object.assign(engine, isSimulation ? { identity } : { origin, identity });
  });
}

/** An engine as its owner named it, with the models that it serves. */
export type PlannedEngine = Omit<EngineSpec, "models"> & Pick<Engine, "models" | "isSimulation">;

/** Reads the engines that the owner named, without their keys. Throws as `createEngines` does. */
export function readEngines(engines: readonly (string | EngineSpec)[]): PlannedEngine[] {
  const specs = engines.map((engine) => (typeof engine === "string" ? readSpec(engine) : engine));
  checkRepeats(specs);
  const namedModels = specs.flatMap(({ models = [] }) => models);
  const otherModels = knownModels.filter(({ id }) => !namedModels.includes(id));
  return specs.map((spec) => {
    const { server, label } = spec;
    const servable = server ? otherModels.filter((known) => canServe(server, known)) : otherModels;
    const models = spec.models ?? servable.map(({ id }) => id);
    if (models.length === 0 && !isFromFlag(label))
      throw usage(`${label} has no model left: the other engines serve all of them.`);
    if (models.length === 0)
      throw usage(`--engine ${spec.name} has no model left: the other engines serve all of them.`, specExample);
    return { ...spec, models, isSimulation: !server && spec.packageName === undefined };
  });
}

/** Whether a server can serve a model. A provider without an upstream model serves the models to which it has a similar one. */
function canServe({ kind, upstreamModel }: ServerSpec, { id, images }: Model): boolean {
  const models = upstreamModel === undefined ? kind?.provider?.models : undefined;
  return (images?.min ?? 0) <= maxImagesOf(kind) && (!models || models[id] !== undefined);
}

/** A model of an engine, and the models of the interface that the engine makes with it. */
export type ListedOffer = { engine: string; models: string[]; offer: Offer };

/**
 * Resolves with the models that engines list, which is free of charge; a provider's list needs no key. Throws `usage` for an engine without a list,
 * and `network` when an engine does not reply.
 */
export async function listOffers(
  { engines, ...keyReader }: Pick<EngineSettings, "engines" | "readKey">,
  io: Pick<Io, "fetch" | "limit">,
  signal: AbortSignal,
): Promise<ListedOffer[]> {
  const specs = readEngines(engines);
  const findKey = createKeyFinder(specs, keyReader);
  const lists = specs.map(async ({ label, name, server, workflowFile, models }) => {
    if (!server || workflowFile !== undefined)
      throw usage(`${name} does not list its models.`, "OpenRouter and your own servers do.");
    const { url, kind, upstreamModel } = server;
    const key = kind?.provider ? undefined : findKey({ label, server });
    const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    const offers = await fetchOffers({ url, kind, headers }, io, signal).catch((error) => {
      signal.throwIfAborted();
      throw new VidgenError("network", `${name} does not list its models: ${describe(error)}.`, { cause: error });
    });
    const upstreamModelOf = (model: string) => upstreamModel ?? kind?.provider?.models[model];
    return offers.map((offer) => ({
      engine: name,
      offer,
      models: models.filter((model) => upstreamModelOf(model) === offer.id),
    }));
  });
  return (await Promise.all(lists)).flat();
}
