import { findModel, models as knownModels } from "../../client/models.ts";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { findForbiddenKind } from "../outbound/addresses.ts";
import { createOutbound } from "../outbound/outbound.ts";
import type { Engine } from "./engine.ts";
import { createPreviewEngine } from "./preview/preview.ts";
import { type Kind, kinds, maxImages } from "./videos/kinds.ts";
import { createVideosEngine } from "./videos/videos.ts";

export type EngineSettings = {
  /** `[model=]url[#upstream-model]`, or `[model=]preview`. */
  engines: readonly string[];
  /** `[model=]kind`: names the kind of server of all engines, or of a model's. */
  kinds: readonly string[];
  /** The Bearer key of the one server, or the keys of several by their origins. */
  key: string | ReadonlyMap<string, string> | undefined;
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
  checkRepeats(entries);
  const findKey = createKeyFinder(key, entries);
  const findKind = createKindFinder(settings.kinds, entries);
  if (entries.length === 0) return [createPreviewEngine({ concurrency: jobs })];
  const named = entries.map(({ model }) => model);
  const others = knownModels.filter(({ id }) => !named.includes(id));
  return entries.map(({ model, server }) => {
    const able = server ? others.filter(({ images }) => (images?.min ?? 0) <= maxImages) : others;
    const models = model === undefined ? able.map(({ id }) => id) : [model];
    if (models.length === 0) throw usage(`--engine ${server?.url ?? "preview"} is left without a model.`, example);
    if (!server) return createPreviewEngine({ models, concurrency: jobs });
    const { open } = createOutbound({ allowLoopback: () => isLoopback(server.url), clock: io });
    const options = { ...server, kind: findKind(model), key: findKey(server.url), timeoutMs, onNote };
    return createVideosEngine({ ...options, models, concurrency: jobs ?? usualJobs }, { ...io, open });
  });
}

type Entry = { model: string | undefined; server: { url: string; upstreamModel: string | undefined } | undefined };

const example = "Write [model=]url[#upstream-model] or [model=]preview, such as wan-2.5=http://gpu-1:8091.";

/** Reads `[model=]url[#upstream-model]` or `[model=]preview`. */
function readEngine(text: string): Entry {
  const pattern = /^(?:([^=#\s]+)=)?(?:preview|(https?:\/\/[^#\s]+)(?:#(\S+))?)$/i;
  const [isRead, model, address, upstreamModel] = pattern.exec(text) ?? [];
  if (isRead === undefined || (address !== undefined && !URL.canParse(address)))
    throw usage(`--engine cannot be "${text.replace(/\/\/.*@/, "//")}".`, example);
  if (address === undefined) return { model, server: undefined };
  const { username, password, search, origin, pathname } = new URL(address);
  // The text is not repeated here, since it may contain a password.
  if (username !== "" || password !== "" || search !== "")
    throw usage(
      "--engine takes an address without a user name, a password and a query.",
      "Set VIDGEN_ENGINE_KEY for a key.",
    );
  const { min = 0, max } = findModel(model ?? "")?.images ?? {};
  if (min > maxImages)
    throw usage(
      `--engine cannot serve ${model}: it needs ${min} to ${max} images, and servers of real models take ${maxImages}.`,
      `--engine ${model}=preview serves previews of it.`,
    );
  return { model, server: { url: origin + pathname.replace(/(\/v1(\/videos)?)?\/*$/, ""), upstreamModel } };
}

function checkRepeats(entries: readonly Entry[]): void {
  const words = entries.map(({ model, server }) =>
    [model ?? "", server?.url ?? "preview", server?.upstreamModel ?? ""].join(" "),
  );
  const repeat = entries.find((_, index) => words.indexOf(words[index] ?? "") < index);
  if (!repeat) return;
  const { model, server } = repeat;
  throw usage(
    `--engine names ${server?.url ?? "preview"}${model === undefined ? "" : ` for ${model}`} twice.`,
    "--jobs says how many generations an engine makes at the same time.",
  );
}

/** Reads `[model=]kind` texts. Returns the kind that was named for a model, or for all; `undefined` for none. */
function createKindFinder(
  texts: readonly string[],
  entries: readonly Entry[],
): (model: string | undefined) => Kind | undefined {
  const named = new Map<string | undefined, Kind>();
  for (const text of texts) {
    const [, model, id] = /^(?:(.+)=)?([^=]+)$/.exec(text) ?? [];
    const kind = kinds.find((candidate) => candidate.id === id);
    if (!kind)
      throw usage(`--engine-kind must be one of ${kinds.map((kind) => kind.id).join(", ")}, not "${id ?? text}".`);
    if (!entries.some((entry) => entry.server && (model === undefined || entry.model === model)))
      throw usage(
        `--engine-kind ${text} fits no --engine.`,
        `Add --engine ${model === undefined ? "" : `${model}=`}<url>.`,
      );
    named.set(model, kind);
  }
  return (model) => named.get(model) ?? named.get(undefined);
}

/** Returns the key of an engine. A key goes to no engine that it was not meant for: one without an origin is for one server. Throws `usage`. */
function createKeyFinder(key: EngineSettings["key"], entries: readonly Entry[]): (url: string) => string | undefined {
  const origins = new Set(entries.flatMap(({ server }) => (server ? [new URL(server.url).origin] : [])));
  if (typeof key === "string" && origins.size > 1)
    throw usage(
      "VIDGEN_ENGINE_KEY is one key, and --engine names several servers, which must not all see it.",
      `Set it to the key of each server: "${[...origins].map((origin) => `${origin}=<key>`).join(" ")}".`,
    );
  return (url) => (typeof key === "object" ? key.get(new URL(url).origin) : key);
}

function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || findForbiddenKind(hostname.replace(/[[\]]/g, ""), false) === "a loopback address";
}
