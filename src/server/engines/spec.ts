import { resolve } from "node:path";
import { usage, type VidgenError } from "../../errors.ts";
import { findModel, findSimilar } from "../../protocol/models.ts";
import type { EngineOrigin } from "../store/generations.ts";
import { type Kind, kinds, maxImagesOf } from "./videos/kinds.ts";

/** An engine as `--engine` or the file of `--config` names it. Without `server` and `packageName` it is the preview. */
export type EngineSpec = {
  /** What the owner wrote, for messages: "--engine preview", or "engines[3]" of a file. */
  label: string;
  /** The models that it serves; by default, those that no other engine names. */
  models: readonly string[] | undefined;
  /** Its name in messages: "preview", its address, or its package. */
  name: string;
  /** The model's name at the server, where the owner set one. */
  upstreamModel: string | undefined;
  server: ServerSpec | undefined;
  /** The npm package of an AI SDK provider. */
  packageName?: string;
  /** The workflow file of a ComfyUI server. */
  workflowFile?: string | undefined;
  /** How many generations it runs at the same time, where the owner set this for the engine. */
  jobs?: number | undefined;
};

/** Where a key is: in an environment variable, or in a file. The key itself is never part of a specification. */
export type KeySource = { variable: string } | { file: string };

export type ServerSpec = {
  /** The server's address, without `/v1/videos`. */
  url: string;
  /** `undefined` when it must be detected. */
  kind: Kind | undefined;
  upstreamModel: string | undefined;
  /** Where its key is, if not in the variable of its host. */
  key?: KeySource | undefined;
};

/** Whether an engine was named by a flag and not in a file, so that hints can show what to type. */
export const isFromFlag = (label: string) => label.startsWith("--engine");

/** The parts of a specification, as they were written. */
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

const specPattern =
  /^(?:((?:(?!:\/\/)[^=#\s])+)=)?(?:([a-z][\w-]*)(?::(https?:\/\/[^#\s]+))?|(https?:\/\/[^#\s]+))(?:#(\S+))?$/i;

/** Reads `[model=]kind[:url][#upstream-model]`. For a URL without a kind, the kind of the server is detected later. Throws `usage`. */
export function readSpec(text: string): EngineSpec {
  if (/^([^=]*=)?ai-sdk(:|$)/i.test(text)) return readSdkSpec(text);
  const [match, model, kindId, kindUrl, urlWithoutKind, upstreamModel] = specPattern.exec(text) ?? [];
  const kind = kindId?.toLowerCase();
  const isKnown =
    kind === "preview" ? kindUrl === undefined && upstreamModel === undefined : kindNames.includes(kind ?? "preview");
  const url = urlWithoutKind ?? kindUrl;
  if (match === undefined || !isKnown || (url !== undefined && !URL.canParse(url))) throw invalidError(text);
  const models = model === undefined ? undefined : [model];
  return readServer({ label: `--engine ${text}`, models, kind, url, upstreamModel });
}

/** Reads an engine that is not a package. Throws `usage`. */
export function readServer({ label, models, kind: kindId, url: writtenUrl, upstreamModel, key }: Parts): EngineSpec {
  const namedKind = kinds.find(({ id }) => id === kindId);
  const url = writtenUrl ?? namedKind?.provider?.url;
  const hintForFlag = (text: string) => (isFromFlag(label) ? text : undefined);
  if (kindId === "preview") return { label, models, name: "preview", upstreamModel, server: undefined };
  if (url === undefined) throw usage(`${label} needs a URL.`, hintForFlag(`Write ${kindId}:http://gpu-1:8091.`));
  const { username, password, search, origin, pathname } = new URL(url);
  // The text is not printed, because it may contain a password.
  if (username !== "" || password !== "" || search !== "")
    throw usage(
      `${isFromFlag(label) ? "--engine" : label} takes a URL without a user name, a password or a query.`,
      hintForFlag("Set the key in VIDGEN_ENGINE_KEY.") ?? "Name the variable that has the key in key_env.",
    );
  const name = origin + pathname.replace(/(\/v1(\/videos)?)?\/*$/, "");
  if (kindId === "comfyui" && (models === undefined || upstreamModel === undefined))
    throw usage(
      `${label} needs a model and the file of a workflow that generates it.`,
      hintForFlag("Write model=comfyui:url#file, such as wan-2.5=comfyui:http://gpu-1:8188#wan.json."),
    );
  const common = { label, models, name, upstreamModel };
  if (kindId === "comfyui")
    return { ...common, server: { url: name, kind: undefined, upstreamModel, key }, workflowFile: upstreamModel };
  const kind = namedKind ?? kinds.find(({ provider }) => provider && new URL(provider.url).origin === origin);
  for (const model of models ?? []) {
    checkImages(model, {
      label,
      title: kind?.title ?? "a server whose kind is not named",
      maxImages: maxImagesOf(kind),
    });
    if (kind?.provider && upstreamModel === undefined && findModel(model) && !kind.provider.models[model])
      throw usage(
        `${isFromFlag(label) ? "" : `${label}: `}${kind.title} has no model that matches ${model}.`,
        hintForFlag(`--engine ${model}=${kind.id}#<model> names one of its own models.`),
      );
  }
  return { ...common, server: { url: name, kind, upstreamModel, key } };
}

/** Returns the error for an invalid specification, without a possible password in it, and with a suggestion. */
function invalidError(text: string): VidgenError {
  const [, model = "", kind = ""] = /^([^=]*=)?([^=]*)$/.exec(text) ?? [];
  const isAddress = /^[\w.-]+:\d+(\/|#|$)/.test(kind);
  const [name = ""] = kind.split(/[:#]/, 1);
  const similar = isAddress ? `http://${kind}` : findSimilarKind(name);
  const guess = similar === undefined ? "" : ` Did you mean ${model}${similar}?`;
  const lines = providerHint(name) ?? specExample;
  return usage(
    `Invalid engine: --engine "${text.replace(/\/\/.*@/, "//").replace(/\?.*/s, "?...")}".${guess}`,
    `${lines}\n\`vidgen help real-models\` has a line to copy for each: OpenRouter, fal and other providers, and servers of your own.`,
  );
}

/** What to type for the name of a provider, of a model or of its maker in place of an engine; `undefined` for other names. */
function providerHint(name: string): string | undefined {
  const packages = new Map([
    ["fal", { variable: "FAL_KEY", upstreamModel: "fal-ai/veo3.1" }],
    ["replicate", { variable: "REPLICATE_API_TOKEN", upstreamModel: "google/veo-3.1" }],
  ]);
  const found = packages.get(name);
  if (found)
    return `With the key in ${found.variable}: npm install @ai-sdk/${name}@latest, and --engine "veo-3.1=ai-sdk:@ai-sdk/${name}#${found.upstreamModel}"`;
  for (const { id, provider } of kinds)
    for (const [model, upstreamModel] of Object.entries(provider?.models ?? {}))
      if (name.length > 2 && (model.startsWith(name) || upstreamModel.startsWith(`${name}/`)))
        return `With the key in ${provider?.keyVariable}: -m ${model} --engine ${id}`;
  return undefined;
}

function findSimilarKind(name: string): string | undefined {
  return kindNames.includes(name) ? undefined : findSimilar(name, kindNames);
}

/** A package by its name, never by a path, so that no file is run only because it is in a folder. */
const sdkPattern = /^([^=#\s]+)=ai-sdk:((?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*)#(\S+)$/i;

/** Reads an AI SDK engine. Both names of the model are required, because a package has many models. */
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

/** Returns the engine of a package. Throws `usage` for a model that the engine cannot make. */
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
  const suitableEngines = kinds
    .filter((other) => maxImagesOf(other) >= min)
    .map(({ id }) => `--engine ${model}=${id}:<url>`);
  if (min > maxImages)
    throw usage(
      `${isFromFlag(label) ? "--engine" : label} cannot serve ${model}: it needs ${min} to ${max} images, and ${title} takes ${maxImages}.`,
      `${suitableEngines.join(" or ")} takes them, and --engine ${model}=preview serves previews of it.`,
    );
}

/** Returns an engine as the fields of a configuration file, from which a later process creates it again (`readOrigin` in `config.ts`). */
export function originOf({ server, packageName, workflowFile, models, upstreamModel }: EngineSpec): EngineOrigin {
  const { url, kind, key } = server ?? {};
  const serverKind = workflowFile === undefined ? kind?.id : "comfyui";
  return {
    kind: packageName === undefined ? serverKind : "ai-sdk",
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
      if (isFromFlag(label))
        throw usage(
          `--engine names ${name}${forModel} twice.`,
          "--jobs sets how many generations an engine runs at the same time.",
        );
      throw usage(
        `${label} and ${earlier.label} are the same engine: ${name}${forModel}.`,
        "jobs sets how many generations an engine runs at the same time.",
      );
    }
  }
}
