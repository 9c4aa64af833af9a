import { models as knownModels, type Model } from "../../client/models.ts";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { findForbiddenKind } from "../outbound/addresses.ts";
import { createOutbound } from "../outbound/outbound.ts";
import { createAiSdkEngine } from "./ai-sdk/ai-sdk.ts";
import { createComfyUiEngine } from "./comfyui/comfyui.ts";
import { readWorkflow } from "./comfyui/workflow.ts";
import type { Engine } from "./engine.ts";
import { createKeyFinder, type ReadKey } from "./keys.ts";
import { createPreviewEngine } from "./preview/preview.ts";
import { checkRepeats, type EngineSpec, readSpec, type ServerSpec, specExample } from "./spec.ts";
import { maxImagesOf } from "./videos/kinds.ts";
import { createVideosEngine } from "./videos/videos.ts";

export type EngineSettings = {
  /** `[model=]kind[:url][#upstream-model]`. */
  engines: readonly string[];
  readKey: ReadKey;
  timeoutMs: number;
  /** Whether servers keep what they have made. */
  keepUpstream?: boolean | undefined;
  /** How many generations each engine makes at the same time; without it, the preview one per processor, and a server of real models 16. */
  jobs: number | undefined;
  onNote(text: string): void;
};

const usualJobs = 16;

/**
 * Reads the engines that the owner wants; the preview when there is none. One that names no model serves those of the interface that no
 * other one names. Throws `usage` for what cannot be read.
 */
export function createEngines(
  settings: EngineSettings,
  io: Pick<Io, "fetch" | "now" | "date" | "sleep" | "limit">,
): Engine[] {
  const { readKey, timeoutMs, keepUpstream, jobs, onNote } = settings;
  const specs = readEngines(settings.engines);
  const findKey = createKeyFinder(specs, readKey);
  if (specs.length === 0) return [createPreviewEngine({ concurrency: jobs })];
  return specs.map(({ models, server, packageName, workflowFile, upstreamModel = "" }) => {
    if (packageName !== undefined) {
      const { open } = createOutbound({ allowLoopback: () => false, clock: io });
      const options = { packageName, upstreamModel, timeoutMs, onNote };
      return createAiSdkEngine({ ...options, models, concurrency: jobs ?? usualJobs }, { ...io, open });
    }
    if (!server) return createPreviewEngine({ models, concurrency: jobs });
    const { open } = createOutbound({ allowLoopback: () => isLoopback(server.url), clock: io });
    const options = { ...server, key: findKey(server), timeoutMs, keepUpstream, onNote };
    if (workflowFile !== undefined) {
      const workflow = readWorkflow(workflowFile, models);
      return createComfyUiEngine({ ...options, workflow, models, concurrency: jobs ?? usualJobs }, { ...io, open });
    }
    return createVideosEngine({ ...options, models, concurrency: jobs ?? usualJobs }, { ...io, open });
  });
}

/** An engine as it is named, with the models that it serves. */
export type PlannedEngine = EngineSpec & Pick<Engine, "models">;

/** Reads the engines that the owner wants, which needs no key. Throws as `createEngines` does. */
export function readEngines(texts: readonly string[]): PlannedEngine[] {
  const specs = texts.map(readSpec);
  checkRepeats(specs);
  const named = specs.map(({ model }) => model);
  const others = knownModels.filter(({ id }) => !named.includes(id));
  return specs.map((spec) => {
    const { model, server } = spec;
    const able = server ? others.filter((known) => canServe(server, known)) : others;
    const models = model === undefined ? able.map(({ id }) => id) : [model];
    if (models.length === 0) throw usage(`--engine ${spec.name} is left without a model.`, specExample);
    return { ...spec, models };
  });
}

/** A provider without an upstream model serves what it has something like. */
function canServe({ kind, upstreamModel }: ServerSpec, { id, images }: Model): boolean {
  const models = upstreamModel === undefined ? kind?.provider?.models : undefined;
  return (images?.min ?? 0) <= maxImagesOf(kind) && (!models || models[id] !== undefined);
}

function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || findForbiddenKind(hostname.replace(/[[\]]/g, ""), false) === "a loopback address";
}
