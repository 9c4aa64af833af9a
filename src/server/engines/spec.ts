import { findModel } from "../../client/models.ts";
import { usage } from "../../errors.ts";
import { type Kind, kinds, maxImagesOf } from "./videos/kinds.ts";

/** An engine as `--engine` names it; without `server` it is the preview. */
export type EngineSpec = {
  /** The model that it serves; without one, those that no other engine is named for. */
  model: string | undefined;
  server: ServerSpec | undefined;
};

export type ServerSpec = {
  /** Without `/v1/videos`. */
  url: string;
  /** `undefined` when it is to be found out. */
  kind: Kind | undefined;
  upstreamModel: string | undefined;
};

export const specExample = `Write [model=]kind[:url][#upstream-model], such as wan-2.5=http://gpu-1:8091, wan-2.5=${kinds[0]?.id}:http://gpu-1:8091 or preview. The kinds are preview, ${kinds.map(({ id }) => id).join(", ")}.`;

const pattern =
  /^(?:((?:(?!:\/\/)[^=#\s])+)=)?(?:([a-z][\w-]*)(?::(https?:\/\/[^#\s]+))?|(https?:\/\/[^#\s]+))(?:#(\S+))?$/i;

/** Reads `[model=]kind[:url][#upstream-model]`; a url alone is a server whose kind is found out. Throws `usage`. */
export function readSpec(text: string): EngineSpec {
  const [isRead, model, kindId, kindUrl, addressAlone, upstreamModel] = pattern.exec(text) ?? [];
  const isPreview = kindId?.toLowerCase() === "preview";
  const named = kinds.find(({ id }) => id === kindId?.toLowerCase());
  const url = addressAlone ?? kindUrl ?? named?.provider?.url;
  const isKnown = isPreview ? url === undefined && upstreamModel === undefined : kindId === undefined || named;
  if (isRead === undefined || !isKnown || (url !== undefined && !URL.canParse(url)))
    throw usage(`--engine cannot be "${text.replace(/\/\/.*@/, "//").replace(/\?.*/s, "?...")}".`, specExample);
  if (isPreview) return { model, server: undefined };
  if (url === undefined) throw usage(`--engine ${text} needs an address.`, `Write ${kindId}:http://gpu-1:8091.`);
  const { username, password, search, origin, pathname } = new URL(url);
  // The text is not repeated here, since it may contain a password.
  if (username !== "" || password !== "" || search !== "")
    throw usage(
      "--engine takes an address without a user name, a password and a query.",
      "Set VIDGEN_ENGINE_KEY for a key.",
    );
  const kind = named ?? kinds.find(({ provider }) => provider && new URL(provider.url).origin === origin);
  const hasModel = upstreamModel !== undefined || !findModel(model ?? "") || kind?.provider?.models[model ?? ""];
  const { min = 0, max } = findModel(model ?? "")?.images ?? {};
  const able = kinds.filter((other) => maxImagesOf(other) >= min).map(({ id }) => id);
  if (min > maxImagesOf(kind))
    throw usage(
      `--engine cannot serve ${model}: it needs ${min} to ${max} images, and ${kind?.title ?? "a server whose kind is not named"} takes ${maxImagesOf(kind)}.`,
      `--engine ${model}=${able.join(" or ")}:<address> takes them, and --engine ${model}=preview serves previews of it.`,
    );
  if (kind?.provider && !hasModel)
    throw usage(
      `${kind.title} has no model like ${model}.`,
      `--engine ${model}=${kind.id}#<model> names one of its own.`,
    );
  return { model, server: { url: origin + pathname.replace(/(\/v1(\/videos)?)?\/*$/, ""), kind, upstreamModel } };
}

/** Throws `usage` when two engines are the same. */
export function checkRepeats(specs: readonly EngineSpec[]): void {
  const words = specs.map(({ model, server }) =>
    [model ?? "", server?.url ?? "preview", server?.upstreamModel ?? ""].join(" "),
  );
  const repeat = specs.find((_, index) => words.indexOf(words[index] ?? "") < index);
  if (!repeat) return;
  const { model, server } = repeat;
  throw usage(
    `--engine names ${server?.url ?? "preview"}${model === undefined ? "" : ` for ${model}`} twice.`,
    "--jobs says how many generations an engine makes at the same time.",
  );
}
