import { readFile } from "node:fs/promises";
import * as z from "zod";
import { unlessAborted } from "../../../abort.ts";
import { traceHeaders } from "../../observe/trace.ts";
import { type Images, listImages, type RenderRequest, replaceImages } from "../../store/generations.ts";
import { type ImageFile, type RenderTask, requiredExtras } from "../engine.ts";
import { findShapeFault, sizeOf } from "../frame-size.ts";
import { splitExtras, withoutCounts } from "../passed.ts";
import {
  classifyReply,
  prepare,
  type SubmitOptions,
  type SubmitOutcome,
  type SubmitVerdict,
  submitOnce,
} from "../upstream/submit.ts";
import { wholeSeconds } from "../videos/kinds.ts";
import { type CallResult, createCall, describeError } from "./call.ts";
import type { Sdk, SdkModel } from "./package.ts";
import type { JsonObject, VideoCall, VideoFile } from "./video-model.ts";

/** Some providers put the video into their reply, in base64. */
const maxStartBytes = 64_000_000;

const startedSchema = z.object({
  operation: z.json(),
  warnings: z.array(z.record(z.string(), z.unknown())).catch([]),
});

/** Starts a task through a package, at most once. Rejects if nothing was sent because the package itself refuses the task, as without its key. */
export async function start(task: RenderTask, sdk: Sdk, options: SubmitOptions): Promise<SubmitOutcome> {
  const { name, openModel, fetch, onNote } = sdk;
  const images = await prepare(() => {
    const fault = findOptionFault(name, task.request);
    if (fault !== undefined) throw new Error(`${fault}; nothing was submitted`);
    return readFiles(task);
  });
  return submitOnce<SubmitVerdict>(
    (signals) => {
      const call = createCall({ fetch }, signals, { maxBytes: maxStartBytes });
      const startWith = async (moved: readonly MovableOption[]): Promise<SubmitVerdict> => {
        const guard = guardStart(call.fetch, { images, signal: signals.signal });
        try {
          const model = await openModel(guard.fetch);
          const callOptions = guard.watch({
            ...toCallOptions(task.request, images, { ...sdk, model, moved }),
            headers: traceHeaders(task.request),
            abortSignal: signals.signal,
          });
          const starting = Promise.resolve(model.doStart(callOptions));
          const started = startedSchema.parse(await unlessAborted(starting, signals.signal));
          for (const warning of started.warnings) onNote(`${name} warns: ${describeWarning(warning)}`);
          return { kind: "submitted", submitted: { job: JSON.stringify(started.operation) } };
        } catch (error) {
          const ignored = guard.ignored();
          if (ignored === undefined) return classify(error, { name, prompt: task.request.prompt }, call.result());
          if (typeof ignored !== "string") return startWith(ignored);
          return { kind: "not sent", error: `${name} ignores ${ignored} with this model` };
        }
      };
      return startWith([]);
    },
    sdk,
    options,
  );
}

/** Returns why no package takes the value of an option; `undefined` if one may take it. */
export function findOptionFault(name: string, { extras }: RenderRequest): string | undefined {
  const { seed = 0, generate_audio = false } = extras;
  if (!/^-?\d+$/.test(String(seed)) || !Number.isSafeInteger(Number(seed)))
    return `${name} takes a whole number of at most ${Number.MAX_SAFE_INTEGER} as seed, not ${seed}`;
  if (!["true", "false"].includes(String(generate_audio))) return `${name} takes true or false as generate_audio`;
  return undefined;
}

function classify(
  error: unknown,
  { name, prompt }: { name: string; prompt: string },
  result: CallResult | undefined,
): SubmitVerdict {
  if (!result) return classifyUnobserved(error, name);
  if (!("status" in result)) throw result.error ?? error;
  const classified = classifyReply(result, prompt);
  return classified.kind === "refused"
    ? { ...classified, error: `${name} refused the request: ${classified.reason}` }
    : classified;
}

/** Returns the outcome of an error without a request through vidgen. An `AI_APICallError` means that the package sent a request in its own way. */
function classifyUnobserved(error: unknown, name: string): SubmitVerdict {
  const words = describeError(error).replace(/\.$/, "");
  return error instanceof Error && error.name === "AI_APICallError"
    ? { kind: "unclear", reason: `it was not sent through vidgen: ${words}` }
    : { kind: "not sent", error: `${name}: ${words}` };
}

/** The options of a call that only some packages read. The others pass on a provider option. */
const movableOptions = ["resolution", "fps", "seed", "generateAudio"] as const;
type MovableOption = (typeof movableOptions)[number];

/**
 * Leaves out the fields that the start did not set, so that the model uses its defaults. The `moved` options, and the options that only some models
 * have, are provider options.
 */
function toCallOptions(
  request: RenderRequest,
  { images: [image], lastImage, references }: Images<VideoFile>,
  {
    model: { provider },
    upstreamModel,
    moved,
  }: { model: SdkModel; upstreamModel: string; moved: readonly MovableOption[] },
): VideoCall {
  const { prompt, unset = [], aspectRatio, resolution, extras } = request;
  const { documented, passed } = splitExtras(extras);
  const { seed, fps, size, generate_audio, ...modelOptions } = { ...withoutCounts(passed), ...documented };
  const isUnset = (field: (typeof unset)[number]) => unset.includes(field);
  // A resolution without pixels can only be sent by its name.
  const isNamed = !isUnset("resolution") && findShapeFault(request) !== undefined;
  const movedOptions = isNamed ? [...moved, "resolution" as const] : moved;
  const has = (option: MovableOption, value: unknown) => value !== undefined && !movedOptions.includes(option);
  const asProviderOptions: Record<MovableOption, object> = {
    resolution: size === undefined ? { resolution } : { size },
    fps: { fps },
    seed: { seed },
    generateAudio: { generate_audio },
  };
  // Some packages leave out a seed of 0 as if there were none.
  Object.assign(
    modelOptions,
    Number(seed) === 0 && { seed },
    ...movedOptions.map((option) => asProviderOptions[option]),
  );
  return {
    prompt,
    n: 1,
    aspectRatio: isUnset("aspectRatio") || size !== undefined ? undefined : (aspectRatio as VideoCall["aspectRatio"]),
    resolution:
      isUnset("resolution") || movedOptions.includes("resolution")
        ? undefined
        : (sizeOf({ ...request, model: upstreamModel }) as `${number}x${number}`),
    duration: isUnset("duration") ? undefined : wholeSeconds(request),
    fps: has("fps", fps) ? Number(fps) : undefined,
    seed: has("seed", seed) ? Number(seed) : undefined,
    image,
    // The first image is in both options, as the SDK passes them.
    frameImages: lastImage && [
      ...(image ? [{ image, frameType: "first_frame" as const }] : []),
      { image: lastImage, frameType: "last_frame" },
    ],
    inputReferences: references,
    generateAudio: has("generateAudio", generate_audio) ? String(generate_audio) === "true" : undefined,
    // "fal.video" is the provider "fal".
    providerOptions: { [provider.split(".")[0] ?? provider]: modelOptions as JsonObject },
  };
}

type ImageBytes = VideoFile & { type: "file"; data: Uint8Array };

async function readFiles(task: RenderTask): Promise<Images<ImageBytes>> {
  const read = async ({ format, path }: ImageFile): Promise<ImageBytes> => ({
    type: "file",
    mediaType: `image/${format}`,
    data: new Uint8Array(await readFile(path)),
  });
  return replaceImages(task, await Promise.all(listImages(task).map(read)));
}

/**
 * Returns a `fetch` that sends the start of a video only when the package has read the options of the `watch`ed call, and the body contains its
 * last image and its references, in base64, as packages send images. A package that ignores them warns at best after the video is paid for.
 * `ignored` returns what an unsent request left out: options that may be moved, or anything else in words.
 */
function guardStart(
  fetch: typeof globalThis.fetch,
  { images, signal }: { images: Images<ImageBytes>; signal: AbortSignal },
) {
  const { lastImage, references = [] } = images;
  let isSent = false;
  let ignored: readonly MovableOption[] | string | undefined;
  const allBase64 = listImages(images).map(base64Of);
  /** Whether the body contains an image, as often as the start has it. */
  const isIn = (image: ImageBytes, body: string) => {
    const base64 = base64Of(image);
    return body.split(base64).length > allBase64.filter((other) => other === base64).length;
  };
  const [unread, unreadByProvider] = [new Set<string>(), new Set<string>()];
  const findIgnored = (body: string): typeof ignored => {
    const movable = movableOptions.filter((option) => unread.has(option));
    if (movable.length > 0) return movable;
    if (lastImage && !isIn(lastImage, body)) return "the last image";
    if (!references.every((image) => isIn(image, body))) return "the references";
    return requiredExtras.find((option) => unreadByProvider.has(option));
  };
  return {
    ignored: () => ignored,
    /** Packages have names of their own for their provider, such as "googleVertex", so any name is that of the provider. */
    watch({ providerOptions, ...others }: VideoCall): VideoCall {
      const [[name, values] = ["", {}]] = Object.entries(providerOptions);
      const options = watch(values, unreadByProvider);
      const get = (_: object, key: string | symbol) => (typeof key === "string" ? options : undefined);
      const byProvider = new Proxy<VideoCall["providerOptions"]>({ [name]: options }, { get });
      return watch({ ...others, providerOptions: byProvider }, unread);
    },
    async fetch(...args: Parameters<typeof globalThis.fetch>) {
      const request = new Request(...args);
      if (isSent || signal.aborted || request.method === "GET") return fetch(request);
      ignored ??= findIgnored(await request.clone().text());
      if (ignored !== undefined) throw new Error(`${ignored} would be ignored`);
      isSent = true;
      return fetch(request);
    },
  };
}

/** Wraps an object. The names of its values are in `unread` until somebody reads them. */
function watch<Watched extends object>(object: Watched, unread: Set<string>): Watched {
  for (const [name, value] of Object.entries(object)) if (value !== undefined) unread.add(name);
  const get = (target: Watched, name: string | symbol) => {
    unread.delete(String(name));
    return Reflect.get(target, name);
  };
  return new Proxy(object, { get });
}

function base64Of({ data }: ImageBytes): string {
  return Buffer.from(data).toString("base64");
}

function describeWarning({ message, feature, setting, details }: Record<string, unknown>): string {
  return [feature ?? setting, details ?? message].filter((part) => part !== undefined).join(": ");
}
