import { resolve } from "node:path";
import { usage, type VidgenError } from "../../errors.ts";
import { findModel, findSimilar } from "../../protocol/models.ts";
import type { EngineOrigin } from "../store/generations.ts";
import { type Kind, kinds, maxImagesOf } from "./videos/kinds.ts";

/** An engine as `--engine` or the file of `--config` names it; without `server` and `packageName` it is the preview. */
export type EngineSpec = {
  /** How messages name what the owner wrote: "--engine preview", or "engines[3]" of a file. */
  label: string;
  /** The models that it serves; without them, those that no other engine is named for. */
  models: readonly string[] | undefined;
  /** How messages call it: "preview", its address, or its package. */
  name: string;
  /** What the model is called there, where the owner named it. */
  upstreamModel: string | undefined;
  server: ServerSpec | undefined;
  /** The npm package of a provider of the AI SDK. */
  packageName?: string;
  /** The file of the workflow that a ComfyUI server runs. */
  workflowFile?: string | undefined;
  /** How many generations it makes at once, where the owner says so for this one. */
  jobs?: number | undefined;
};

/** Where a key is, which is never written itself: in a variable of the environment, or in a file. */
export type KeySource = { variable: string } | { file: string };

export type ServerSpec = {
  /** Without `/v1/videos`. */
  url: string;
  /** `undefined` when it is to be found out. */
  kind: Kind | undefined;
  upstreamModel: string | undefined;
  /** Where its key is, when that is not in the variable of its host. */
  key?: KeySource | undefined;
};

/** Whether an engine was named by a flag, not in a file: then messages say what to type. */
export const isFlag = (label: string) => label.startsWith("--engine");

/** The parts of an engine as they were written. */
type Parts = {
  label: string;
  models: readonly string[] | undefined;
  kind?: string | undefined;
  url?: string | undefined;
  upstreamModel?: string | undefined;
  key?: KeySource | undefined;
};

export const kindNames = ["preview", ...kinds.map(({ id }) => id), "comfyui", "ai-sdk"];

export const specExample = `Write [model=]kind[:url][#upstream-model], such as wan-2.5=http://gpu-1:8091, wan-2.5=${kinds[0]?.id}:http://gpu-1:8091 or preview. The kinds are ${kindNames.slice(0, -1).join(", ")} and ${kindNames.at(-1)}.`;

const pattern =
  /^(?:((?:(?!:\/\/)[^=#\s])+)=)?(?:([a-z][\w-]*)(?::(https?:\/\/[^#\s]+))?|(https?:\/\/[^#\s]+))(?:#(\S+))?$/i;

/** Reads `[model=]kind[:url][#upstream-model]`; a url alone is a server whose kind is found out. Throws `usage`. */
export function readSpec(text: string): EngineSpec {
  if (/^([^=]*=)?ai-sdk(:|$)/i.test(text)) return readSdkSpec(text);
  const [isRead, model, kindId, kindUrl, addressAlone, upstreamModel] = pattern.exec(text) ?? [];
  const kind = kindId?.toLowerCase();
  const isKnown =
    kind === "preview" ? kindUrl === undefined && upstreamModel === undefined : kindNames.includes(kind ?? "preview");
  const url = addressAlone ?? kindUrl;
  if (isRead === undefined || !isKnown || (url !== undefined && !URL.canParse(url))) throw invalidError(text);
  const models = model === undefined ? undefined : [model];
  return readServer({ label: `--engine ${text}`, models, kind, url, upstreamModel });
}

/** Reads an engine that is no package. Throws `usage`. */
export function readServer({ label, models, kind: kindId, url: written, upstreamModel, key }: Parts): EngineSpec {
  const named = kinds.find(({ id }) => id === kindId);
  const url = written ?? named?.provider?.url;
  const hint = (text: string) => (isFlag(label) ? text : undefined);
  if (kindId === "preview") return { label, models, name: "preview", upstreamModel, server: undefined };
  if (url === undefined) throw usage(`${label} needs a URL.`, hint(`Write ${kindId}:http://gpu-1:8091.`));
  const { username, password, search, origin, pathname } = new URL(url);
  // The text is not repeated here, since it may contain a password.
  if (username !== "" || password !== "" || search !== "")
    throw usage(
      `${hint("--engine") ?? label} takes a URL without a user name, a password or a query.`,
      hint("Set the key in VIDGEN_ENGINE_KEY.") ?? "Name the variable that has the key in key_env.",
    );
  const name = origin + pathname.replace(/(\/v1(\/videos)?)?\/*$/, "");
  if (kindId === "comfyui" && (models === undefined || upstreamModel === undefined))
    throw usage(
      `${label} needs a model and the file of a workflow that generates it.`,
      hint("Write model=comfyui:url#file, such as wan-2.5=comfyui:http://gpu-1:8188#wan.json."),
    );
  const own = { label, models, name, upstreamModel };
  if (kindId === "comfyui")
    return { ...own, server: { url: name, kind: undefined, upstreamModel, key }, workflowFile: upstreamModel };
  const kind = named ?? kinds.find(({ provider }) => provider && new URL(provider.url).origin === origin);
  for (const model of models ?? []) {
    checkImages(model, {
      label,
      title: kind?.title ?? "a server whose kind is not named",
      maxImages: maxImagesOf(kind),
    });
    if (kind?.provider && upstreamModel === undefined && findModel(model) && !kind.provider.models[model])
      throw usage(
        `${isFlag(label) ? "" : `${label}: `}${kind.title} has no model that matches ${model}.`,
        hint(`--engine ${model}=${kind.id}#<model> names one of its own models.`),
      );
  }
  return { ...own, server: { url: name, kind, upstreamModel, key } };
}

/** A text that is no engine, without what may be a password in it, and with what was probably meant. */
function invalidError(text: string): VidgenError {
  const [, model = "", kind = ""] = /^([^=]*=)?([^=]*)$/.exec(text) ?? [];
  const isAddress = /^[\w.-]+:\d+(\/|#|$)/.test(kind);
  const [name = ""] = kind.split(/[:#]/, 1);
  const similar = isAddress ? `http://${kind}` : findSimilarKind(name);
  const guess = similar === undefined ? "" : ` Did you mean ${model}${similar}?`;
  return usage(
    `Invalid engine: --engine "${text.replace(/\/\/.*@/, "//").replace(/\?.*/s, "?...")}".${guess}`,
    `${specExample}\n\`vidgen help real-models\` has a line to copy for each: OpenRouter, fal and other providers, and servers of your own.`,
  );
}

function findSimilarKind(name: string): string | undefined {
  return kindNames.includes(name) ? undefined : findSimilar(name, kindNames);
}

/** A package by its name alone, never by a path: what lies in a folder is not run because it lies there. */
const sdkPattern = /^([^=#\s]+)=ai-sdk:((?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*)#(\S+)$/i;

/** A package has models of many kinds: both names of the model are needed. */
function readSdkSpec(text: string): EngineSpec {
  const [, model, packageName, upstreamModel] = sdkPattern.exec(text) ?? [];
  if (packageName === undefined)
    throw usage(
      `Invalid engine: --engine "${text}".`,
      "Write model=ai-sdk:package#model-of-the-provider, such as kling-2.6=ai-sdk:@ai-sdk/fal#fal-ai/kling-video/v2.6/pro/text-to-video; see `vidgen help real-models`.",
    );
  return readPackage({
    label: `--engine ${text}`,
    models: model === undefined ? [] : [model],
    packageName,
    upstreamModel,
  });
}

/** An engine of a package. Throws `usage` for a model that it cannot make. */
export function readPackage({
  label,
  models,
  packageName,
  upstreamModel,
}: Omit<Parts, "models"> & { models: readonly string[]; packageName: string }): EngineSpec {
  for (const model of models) checkImages(model, { label, title: packageName, maxImages: 1 });
  return { label, models, name: packageName, upstreamModel, server: undefined, packageName };
}

/** Throws `usage` for a model that needs more images than the engine takes. */
function checkImages(
  model: string,
  { label, title, maxImages }: { label: string; title: string; maxImages: number },
): void {
  const { min = 0, max } = findModel(model)?.images ?? {};
  const able = kinds.filter((other) => maxImagesOf(other) >= min).map(({ id }) => `--engine ${model}=${id}:<url>`);
  if (min > maxImages)
    throw usage(
      `${isFlag(label) ? "--engine" : label} cannot serve ${model}: it needs ${min} to ${max} images, and ${title} takes ${maxImages}.`,
      `${able.join(" or ")} takes them, and --engine ${model}=preview serves previews of it.`,
    );
}

/** How an engine is named in a file, from which `readOrigin` of `config.ts` makes it again in a later process. */
export function originOf({ server, packageName, workflowFile, models, upstreamModel }: EngineSpec): EngineOrigin {
  const { url, kind, key } = server ?? {};
  const ownKind = workflowFile === undefined ? kind?.id : "comfyui";
  return {
    kind: packageName === undefined ? ownKind : "ai-sdk",
    url,
    models,
    ...(workflowFile === undefined ? { upstream_model: upstreamModel } : { workflow: resolve(workflowFile) }),
    package: packageName,
    ...(key && ("file" in key ? { key_file: key.file } : { key_env: key.variable })),
  };
}

/** Throws `usage` when two engines are the same. */
export function checkRepeats(specs: readonly EngineSpec[]): void {
  const seen = new Map<string, EngineSpec>();
  for (const spec of specs) {
    const { label, models = [""], name, upstreamModel = "" } = spec;
    for (const model of models) {
      const key = JSON.stringify([model, name, upstreamModel]);
      const earlier = seen.get(key);
      seen.set(key, spec);
      if (!earlier) continue;
      const forModel = model === "" ? "" : ` for ${model}`;
      if (isFlag(label))
        throw usage(
          `--engine names ${name}${forModel} twice.`,
          "--jobs sets how many generations an engine runs at the same time.",
        );
      throw usage(
        `${label} is ${name}${forModel}, as ${earlier.label} is.`,
        "jobs sets how many generations an engine runs at the same time.",
      );
    }
  }
}
