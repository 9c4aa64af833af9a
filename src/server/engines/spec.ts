import { usage, type VidgenError } from "../../errors.ts";
import { findModel, findSimilar } from "../../protocol/models.ts";
import { type Kind, kinds, maxImagesOf } from "./videos/kinds.ts";

/** An engine as `--engine` names it; without `server` and `packageName` it is the preview. */
export type EngineSpec = {
  /** The model that it serves; without one, those that no other engine is named for. */
  model: string | undefined;
  /** How messages call it: "preview", its address, or its package. */
  name: string;
  /** What the model is called there, where the owner named it. */
  upstreamModel: string | undefined;
  server: ServerSpec | undefined;
  /** The npm package of a provider of the AI SDK. */
  packageName?: string;
  /** The file of the workflow that a ComfyUI server runs. */
  workflowFile?: string | undefined;
};

export type ServerSpec = {
  /** Without `/v1/videos`. */
  url: string;
  /** `undefined` when it is to be found out. */
  kind: Kind | undefined;
  upstreamModel: string | undefined;
};

const kindNames = ["preview", ...kinds.map(({ id }) => id), "comfyui", "ai-sdk"];

export const specExample = `Write [model=]kind[:url][#upstream-model], such as wan-2.5=http://gpu-1:8091, wan-2.5=${kinds[0]?.id}:http://gpu-1:8091 or preview. The kinds are ${kindNames.slice(0, -1).join(", ")} and ${kindNames.at(-1)}.`;

const pattern =
  /^(?:((?:(?!:\/\/)[^=#\s])+)=)?(?:([a-z][\w-]*)(?::(https?:\/\/[^#\s]+))?|(https?:\/\/[^#\s]+))(?:#(\S+))?$/i;

/** Reads `[model=]kind[:url][#upstream-model]`; a url alone is a server whose kind is found out. Throws `usage`. */
export function readSpec(text: string): EngineSpec {
  if (/^([^=]*=)?ai-sdk(:|$)/i.test(text)) return readSdkSpec(text);
  const [isRead, model, kindId, kindUrl, addressAlone, upstreamModel] = pattern.exec(text) ?? [];
  const isPreview = kindId?.toLowerCase() === "preview";
  const isComfyUi = kindId?.toLowerCase() === "comfyui";
  const named = kinds.find(({ id }) => id === kindId?.toLowerCase());
  const url = addressAlone ?? kindUrl ?? named?.provider?.url;
  const isKnown = isPreview
    ? url === undefined && upstreamModel === undefined
    : kindId === undefined || isComfyUi || named;
  if (isRead === undefined || !isKnown || (url !== undefined && !URL.canParse(url))) throw invalidError(text);
  if (isPreview) return { model, name: "preview", upstreamModel, server: undefined };
  if (url === undefined) throw usage(`--engine ${text} needs a URL.`, `Write ${kindId}:http://gpu-1:8091.`);
  const { username, password, search, origin, pathname } = new URL(url);
  // The text is not repeated here, since it may contain a password.
  if (username !== "" || password !== "" || search !== "")
    throw usage(
      "--engine takes a URL without a user name, a password or a query.",
      "Set the key in VIDGEN_ENGINE_KEY.",
    );
  const name = origin + pathname.replace(/(\/v1(\/videos)?)?\/*$/, "");
  if (isComfyUi && (model === undefined || upstreamModel === undefined))
    throw usage(
      `--engine ${text} needs a model and the file of a workflow that generates it.`,
      "Write model=comfyui:url#file, such as wan-2.5=comfyui:http://gpu-1:8188#wan.json.",
    );
  if (isComfyUi)
    return {
      model,
      name,
      upstreamModel,
      server: { url: name, kind: undefined, upstreamModel },
      workflowFile: upstreamModel,
    };
  const kind = named ?? kinds.find(({ provider }) => provider && new URL(provider.url).origin === origin);
  const hasModel = upstreamModel !== undefined || !findModel(model ?? "") || kind?.provider?.models[model ?? ""];
  checkImages(model, { title: kind?.title ?? "a server whose kind is not named", maxImages: maxImagesOf(kind) });
  if (kind?.provider && !hasModel)
    throw usage(
      `${kind.title} has no model that matches ${model}.`,
      `--engine ${model}=${kind.id}#<model> names one of its own models.`,
    );
  return { model, name, upstreamModel, server: { url: name, kind, upstreamModel } };
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
  checkImages(model, { title: packageName, maxImages: 1 });
  return { model, name: packageName, upstreamModel, server: undefined, packageName };
}

/** Throws `usage` for a model that needs more images than the engine takes. */
function checkImages(model: string | undefined, { title, maxImages }: { title: string; maxImages: number }): void {
  const { min = 0, max } = findModel(model ?? "")?.images ?? {};
  const able = kinds.filter((other) => maxImagesOf(other) >= min).map(({ id }) => `--engine ${model}=${id}:<url>`);
  if (min > maxImages)
    throw usage(
      `--engine cannot serve ${model}: it needs ${min} to ${max} images, and ${title} takes ${maxImages}.`,
      `${able.join(" or ")} takes them, and --engine ${model}=preview serves previews of it.`,
    );
}

/** Throws `usage` when two engines are the same. */
export function checkRepeats(specs: readonly EngineSpec[]): void {
  const words = specs.map(({ model, name, upstreamModel }) => [model ?? "", name, upstreamModel ?? ""].join(" "));
  const repeat = specs.find((_, index) => words.indexOf(words[index] ?? "") < index);
  if (!repeat) return;
  const { model, name } = repeat;
  throw usage(
    `--engine names ${name}${model === undefined ? "" : ` for ${model}`} twice.`,
    "--jobs sets how many generations an engine runs at the same time.",
  );
}
