import { readFile } from "node:fs/promises";
import * as z from "zod";
import { unlessAborted } from "../../../abort.ts";
import { traceHeaders } from "../../observe/trace.ts";
import { type Images, listImages, type RenderRequest, replaceImages } from "../../store/generations.ts";
import { type FailureFacts, failed, type ImageFile, type RenderTask } from "../engine.ts";
import { sizeOf } from "../frame-size.ts";
import { splitExtras, withoutCounts } from "../passed.ts";
import {
  classifyReply,
  type NoCredits,
  prepare,
  type SubmitOptions,
  type SubmitOutcome,
  submitOnce,
} from "../upstream/submit.ts";
import { wholeSeconds } from "../videos/kinds.ts";
import { type CallResult, createCall, describeError } from "./call.ts";
import type { Sdk, SdkModel } from "./package.ts";
import type { JsonObject, VideoCall, VideoFile } from "./video-model.ts";

/** The outcome of a start. If `isSent` is false, the package itself refused the task, and no request was sent. */
type StartOutcome =
  | { kind: "submitted"; submitted: { job: string } }
  | Exclude<SubmitOutcome, { kind: "submitted" | "refused" }>
  | ({ kind: "refused"; error: string; code?: string | undefined; isSent: boolean } & FailureFacts);

/** Some providers put the video into their reply, in base64. */
const maxStartBytes = 64_000_000;

const startedSchema = z.object({
  operation: z.json(),
  warnings: z.array(z.record(z.string(), z.unknown())).catch([]),
});

/** Starts a task through a package, at most once. Rejects when nothing was sent because the package itself refuses the task, such as without its key. */
export async function start(task: RenderTask, sdk: Sdk, options: SubmitOptions): Promise<StartOutcome> {
  const { name, openModel, fetch, onNote } = sdk;
  const images = await prepare(() => readFiles(task));
  const outcome = await submitOnce<StartOutcome | NoCredits>(
    async (signals) => {
      const call = createCall({ fetch }, signals, { maxBytes: maxStartBytes });
      const guard = guardImages(call.fetch, images);
      try {
        const model = await openModel(guard.fetch);
        const callOptions = toCallOptions(task.request, images, { ...sdk, model });
        const starting = Promise.resolve(
          model.doStart({ ...callOptions, headers: traceHeaders(task.request), abortSignal: signals.signal }),
        );
        const started = startedSchema.parse(await unlessAborted(starting, signals.signal));
        for (const warning of started.warnings) onNote(`${name} warns: ${describeWarning(warning)}`);
        return { kind: "submitted", submitted: { job: JSON.stringify(started.operation) } };
      } catch (error) {
        const ignoredImages = guard.ignoredImages();
        if (ignoredImages !== undefined)
          return { kind: "refused", error: `${name} ignores ${ignoredImages} with this model`, isSent: false };
        return classify(error, { name, prompt: task.request.prompt }, call.result());
      }
    },
    sdk,
    options,
  );
  if (outcome.kind === "refused" && !outcome.isSent)
    throw failed(new Error(`${outcome.error}; nothing was submitted`), { isNotSubmitted: true });
  return outcome;
}

function classify(
  error: unknown,
  { name, prompt }: { name: string; prompt: string },
  result: CallResult | undefined,
): StartOutcome | NoCredits {
  if (!result) return classifyUnobserved(error, name);
  if (!("status" in result)) throw result.error ?? error;
  const classified = classifyReply(result, prompt);
  return classified.kind === "refused"
    ? { ...classified, error: `${name} refused the request: ${classified.reason}`, isSent: true }
    : classified;
}

/** Returns the outcome of an error without a request through vidgen. An `AI_APICallError` means that the package sent a request in its own way. */
function classifyUnobserved(error: unknown, name: string): StartOutcome {
  const words = describeError(error).replace(/\.$/, "");
  return error instanceof Error && error.name === "AI_APICallError"
    ? { kind: "unclear", reason: `it was not sent through vidgen: ${words}` }
    : { kind: "refused", error: `${name}: ${words}`, isSent: false };
}

/** Leaves out the fields that the start did not set, and the options that only some models have, so that the model uses its defaults. */
function toCallOptions(
  request: RenderRequest,
  { images: [image], lastImage, references }: Images<VideoFile>,
  { model: { provider }, upstreamModel }: { model: SdkModel; upstreamModel: string },
): VideoCall {
  const { prompt, unset = [], aspectRatio, extras } = request;
  const { documented, passed } = splitExtras(extras);
  const { seed, fps, size, ...modelOptions } = { ...withoutCounts(passed), ...documented };
  const isUnset = (field: (typeof unset)[number]) => unset.includes(field);
  return {
    prompt,
    n: 1,
    aspectRatio: isUnset("aspectRatio") || size !== undefined ? undefined : (aspectRatio as `${number}:${number}`),
    resolution: isUnset("resolution")
      ? undefined
      : (sizeOf({ ...request, model: upstreamModel }) as `${number}x${number}`),
    duration: isUnset("duration") ? undefined : wholeSeconds(request),
    fps: fps === undefined ? undefined : Number(fps),
    seed: seed === undefined ? undefined : Number(seed),
    image,
    // The first image is in both options, as the SDK passes them.
    frameImages: lastImage && [
      ...(image ? [{ image, frameType: "first_frame" as const }] : []),
      { image: lastImage, frameType: "last_frame" },
    ],
    inputReferences: references,
    generateAudio: undefined,
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
 * Returns a `fetch` that sends the start of a video only when the body contains its last image and its references, in base64, as packages send
 * images. A package that ignores them warns at best after the video is paid for. `ignoredImages` returns which images an unsent request left out.
 */
function guardImages(fetch: typeof globalThis.fetch, images: Images<ImageBytes>) {
  const { lastImage, references = [] } = images;
  let isSent = lastImage === undefined && references.length === 0;
  let ignoredImages: string | undefined;
  const allBase64 = listImages(images).map(base64Of);
  /** Whether the body contains an image, as often as the start has it. */
  const isIn = (image: ImageBytes, body: string) => {
    const base64 = base64Of(image);
    return body.split(base64).length > allBase64.filter((other) => other === base64).length;
  };
  return {
    ignoredImages: () => ignoredImages,
    async fetch(...args: Parameters<typeof globalThis.fetch>) {
      const request = new Request(...args);
      if (isSent || request.method === "GET") return fetch(request);
      const body = await request.clone().text();
      if (lastImage && !isIn(lastImage, body)) ignoredImages = "the last image";
      else if (!references.every((image) => isIn(image, body))) ignoredImages = "the references";
      if (ignoredImages !== undefined) throw new Error(`${ignoredImages} would be ignored`);
      isSent = true;
      return fetch(request);
    },
  };
}

function base64Of({ data }: ImageBytes): string {
  return Buffer.from(data).toString("base64");
}

function describeWarning({ message, feature, setting, details }: Record<string, unknown>): string {
  return [feature ?? setting, details ?? message].filter((part) => part !== undefined).join(": ");
}
