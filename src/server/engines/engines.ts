import { models as knownModels } from "../../client/models.ts";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { findForbiddenKind } from "../outbound/addresses.ts";
import { createOutbound } from "../outbound/outbound.ts";
import type { Engine } from "./engine.ts";
import { createPreviewEngine } from "./preview/preview.ts";
import { type Kind, kinds } from "./videos/kinds.ts";
import { createVideosEngine } from "./videos/videos.ts";

export type EngineSettings = {
  /** `[model=]url[#upstream-model]`, or `[model=]preview`. */
  engines: readonly string[];
  /** `[model=]kind`: names the kind of server of all engines, or of a model's. */
  kinds: readonly string[];
  /** The Bearer key of the servers. */
  key: string | undefined;
  timeoutMs: number;
  /** How many generations each engine makes at the same time; without it, the preview one per processor, and a server of real models 16. */
  jobs: number | undefined;
  onNote(text: string): void;
};

const usualJobs = 16;

/**
 * Reads the engines that the owner wants; the preview when there is none. One that names no model serves those of the interface that no
 * other one names. Throws `usage` for what cannot be read.
 */
export function createEngines(settings: EngineSettings, io: Pick<Io, "fetch" | "now" | "sleep" | "limit">): Engine[] {
  const { key, timeoutMs, jobs, onNote } = settings;
  const entries = settings.engines.map(readEngine);
  const findKind = createKindFinder(settings.kinds);
  const named = entries.map(({ model }) => model);
  const others = knownModels.map(({ id }) => id).filter((id) => !named.includes(id));
  if (entries.length === 0) return [createPreviewEngine({ concurrency: jobs })];
  return entries.map(({ model, server }) => {
    const models = model === undefined ? others : [model];
    if (!server) return createPreviewEngine({ models, concurrency: jobs });
    const { open } = createOutbound({ allowLoopback: () => isLoopback(server.url), clock: io });
    const options = { ...server, kind: findKind(model), key, timeoutMs, onNote };
    return createVideosEngine({ ...options, models, concurrency: jobs ?? usualJobs }, { ...io, open });
  });
}

type Entry = { model: string | undefined; server: { url: string; upstreamModel: string | undefined } | undefined };

/** Reads `[model=]url[#upstream-model]` or `[model=]preview`. */
function readEngine(text: string): Entry {
  const [, model, address = ""] = /^(?:([^=]+)=)?(https?:\/\/.+|preview)$/i.exec(text) ?? [];
  if (address === "preview") return { model, server: undefined };
  const example = "Write [model=]url[#upstream-model] or [model=]preview, such as wan-2.5=http://gpu-1:8091.";
  if (!URL.canParse(address)) throw usage(`--engine cannot be "${text}".`, example);
  const { username, password, search, hash, origin, pathname } = new URL(address);
  // The text is not repeated here, since it may contain a password.
  if (username !== "" || password !== "" || search !== "")
    throw usage(
      "--engine takes an address without a user name, a password and a query.",
      "Set VIDGEN_ENGINE_KEY for a key.",
    );
  const url = origin + pathname.replace(/(\/v1(\/videos)?)?\/*$/, "");
  return { model, server: { url, upstreamModel: decodeURIComponent(hash.slice(1)) || undefined } };
}

/** Reads `[model=]kind` texts. Returns the kind that was named for a model, or for all; `undefined` for none. */
function createKindFinder(texts: readonly string[]): (model: string | undefined) => Kind | undefined {
  const named = new Map<string | undefined, Kind>();
  for (const text of texts) {
    const [, model, id] = /^(?:(.+)=)?([^=]+)$/.exec(text) ?? [];
    const kind = kinds.find((candidate) => candidate.id === id);
    if (!kind) throw usage(`--engine-kind must be ${kinds.map((kind) => kind.id).join(", ")}, not "${id ?? text}".`);
    named.set(model, kind);
  }
  return (model) => named.get(model) ?? named.get(undefined);
}

function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || findForbiddenKind(hostname.replace(/[[\]]/g, ""), false) === "a loopback address";
}
