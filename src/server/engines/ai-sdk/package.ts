import { createRequire } from "node:module";
import { isAbsolute, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { usage } from "../../../errors.ts";
import type { Io } from "../../../io.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { StatusCall, VideoCall } from "./video-model.ts";

/** A model of a provider. `doStatus` takes the operation that `doStart` returned. The results are checked where they are read. */
export type SdkModel = {
  readonly provider: string;
  doStart(call: VideoCall): PromiseLike<unknown>;
  doStatus(call: StatusCall): PromiseLike<unknown>;
};

/** A model of a package, as the code that starts and polls a video uses it. */
export type Sdk = Upstream & {
  /** The provider's name for the model. */
  upstreamModel: string;
  fetch: Io["fetch"];
  /** Opens the model with a `fetch` for one call. Throws `usage` when the package cannot be used. */
  openModel(fetch: typeof globalThis.fetch): Promise<SdkModel>;
  onNote(text: string): void;
};

/** A loaded package of the AI SDK. */
export type SdkPackage = {
  version: string;
  /** Returns a model whose requests go through `fetch`. Throws `usage` when the package cannot be used. */
  openModel(id: string, fetch: typeof globalThis.fetch): SdkModel;
};

/** A file of vidgen, for `loadPackage`. */
export const besideVidgen = import.meta.url;

/**
 * Loads a package of the AI SDK by its name: the one beside vidgen first, so that no other folder can replace it, then the one of the current
 * folder. `searchFrom` contains files in the folders whose `node_modules` are searched, as Node does. Throws `usage` when the package is not found
 * or cannot be used; the messages continue the package's name.
 */
export async function loadPackage(
  name: string,
  searchFrom: readonly string[] = [besideVidgen, resolve("package.json")],
): Promise<SdkPackage> {
  const entry = searchFrom.map((file) => findEntry(name, file)).find((found) => found !== undefined);
  if (entry === undefined) throw usage("is not installed here", `npm install ${name}@latest`);
  const { create, version } = await readExports(entry).catch((error) => {
    throw usage(`cannot be loaded (${error.message})`, newerVersionHint(name));
  });
  return {
    version,
    openModel(id, fetch) {
      const provider = create?.({ fetch });
      const model = provider?.videoModel?.(id) ?? provider?.video?.(id);
      if (!model) throw usage("has no video models", otherPackagesHint);
      if (!model.doStart || !model.doStatus)
        throw usage(
          `generates a video in one long request (${version} has no doStart), and the video would be lost if that request is interrupted`,
          newerVersionHint(name),
        );
      return model as SdkModel;
    },
  };
}

const otherPackagesHint = "@ai-sdk/fal, @ai-sdk/replicate, @ai-sdk/google and @ai-sdk/xai have some.";

function newerVersionHint(name: string): string {
  return `A newer version may work: npm install ${name}@latest, with Node 22; for an older Node, npm chooses older versions.`;
}

/** Node's built-in modules have no path, and are not packages. */
function findEntry(name: string, file: string): string | undefined {
  try {
    const entry = createRequire(file).resolve(name);
    return isAbsolute(entry) ? entry : undefined;
  } catch {
    return undefined;
  }
}

type Factory = (settings: { fetch: typeof globalThis.fetch }) => {
  video?(id: string): Partial<SdkModel>;
  videoModel?(id: string): Partial<SdkModel>;
};

/** A package exports a factory such as `createFal`. Where it exports several such names, the longer ones are helpers. */
async function readExports(entry: string): Promise<{ create: Factory | undefined; version: string }> {
  const exported: Record<string, unknown> = await import(pathToFileURL(entry).href);
  const [name = ""] = Object.keys(exported)
    .filter((each) => /^create[A-Z]/.test(each) && typeof exported[each] === "function")
    .sort((a, b) => a.length - b.length);
  return { create: exported[name] as Factory | undefined, version: String(exported.VERSION ?? "its version") };
}
