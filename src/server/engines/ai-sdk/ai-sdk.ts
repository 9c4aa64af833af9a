import { VidgenError } from "../../../errors.ts";
import type { Io } from "../../../io.ts";
import { keepLoaded } from "../../keep-loaded.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import type { Engine } from "../engine.ts";
import { resumeOrSubmit } from "../upstream/finish.ts";
import { createUpstreamParts, paidPatienceMs, type Upstream } from "../upstream/upstream.ts";
import type { ServerOptions } from "../videos/server.ts";
import { loadPackage, type Sdk, type SdkModel, type SdkPackage } from "./package.ts";
import { createPoll } from "./poll.ts";
import { findOptionFault, start } from "./start.ts";

export type AiSdkOptions = Pick<Engine, "models" | "concurrency"> &
  Pick<ServerOptions, "timeoutMs" | "onNote"> & {
    /** The package's name on npm, such as "@ai-sdk/fal". */
    packageName: string;
    /** The provider's name for the model. */
    upstreamModel: string;
  };

/**
 * Returns the engine for a model of an AI SDK provider, whose package is the user's own and reads its key from the environment. Its checkpoint is the
 * operation that the package returns when it starts a video.
 */
export function createAiSdkEngine(
  { packageName: name, upstreamModel, timeoutMs, onNote, models, concurrency }: AiSdkOptions,
  io: Pick<Io, "fetch"> & Upstream["io"] & Pick<Outbound, "open">,
  load: (name: string) => Promise<SdkPackage> = loadPackage,
): Engine {
  // The package may be installed after a failed try.
  const findPackage = keepLoaded(() => load(name));
  const parts = createUpstreamParts({ name, timeoutMs, onNote }, io);
  const sdkFor = (model: string): Sdk => {
    const openModel: Sdk["openModel"] = async (fetch) => (await findPackage()).openModel(model, fetch);
    return {
      ...parts,
      upstreamModel: model,
      patienceMs: paidPatienceMs(timeoutMs),
      lastChangeAt: io.now(),
      poll: createPoll({ name, openModel, fetch: io.fetch, io }),
      onNote,
      openModel,
      fetch: io.fetch,
    };
  };
  const sdk = sdkFor(upstreamModel);
  return {
    name,
    upstreamModel,
    isSimulation: false,
    models,
    maxImages: 1,
    // The package does not say which of these a model takes, so `guardImages` does not send a start that leaves them out.
    takesLastImage: true,
    maxReferences: 12,
    concurrency,
    timeoutMs,
    render(task, options) {
      const { model = upstreamModel } = options.resume ?? {};
      // The package requests a job's status through the job's model, which may belong to another engine by now.
      const upstream = model === upstreamModel ? sdk : sdkFor(model);
      return resumeOrSubmit(task, () => start(task, sdk, options), { upstream, ...options });
    },
    findFault: async (request) => findOptionFault(name, request),
    async check() {
      await checkKey(await sdk.openModel(sendNothing));
      return `AI SDK ${(await findPackage()).version}`;
    },
  };
}

const sendNothing = () => Promise.reject(new Error("nothing is sent"));

/** Throws `auth` if the package says which variable is missing. A package reads its key only for a request, so this begins one that is not sent. */
async function checkKey(model: SdkModel): Promise<void> {
  try {
    await model.doStatus({ operation: {} });
  } catch (error) {
    const words = error instanceof Error && /key is missing/i.test(error.message) ? error.message : "";
    const variables = words.match(/\b[A-Z]+(_[A-Z0-9]+)+\b/g) ?? [];
    if (variables.length > 0)
      throw new VidgenError("auth", `has no key: ${variables.join(" or ")} is not set`, {
        hint: `export ${variables.at(-1)}=...`,
      });
  }
}
