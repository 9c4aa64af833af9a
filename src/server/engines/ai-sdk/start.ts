import { readFile } from "node:fs/promises";
import * as z from "zod";
import { unlessAborted } from "../../../client/http/http.ts";
import { traceHeaders } from "../../observe/trace.ts";
import type { RenderTask } from "../engine.ts";
import { judgeReply, type NoCredits, type Outcome, type SubmitOptions, submitOnce } from "../upstream/submit.ts";
import { sizeOf, wholeSeconds } from "../videos/kinds.ts";
import { type Answer, createCall, describeError } from "./call.ts";
import type { Sdk, SdkModel } from "./package.ts";
import type { JsonObject, VideoCall } from "./video-model.ts";

/** What came of a start; a refusal that is not sent comes from the package itself. */
type Started =
  | { kind: "submitted"; submitted: { job: string } }
  | Exclude<Outcome, { kind: "submitted" | "refused" }>
  | { kind: "refused"; error: string; isSent: boolean };

const startedSchema = z.object({
  operation: z.json(),
  warnings: z.array(z.record(z.string(), z.unknown())).catch([]),
});

/** Has a package start a task, at most once. Rejects when the package refuses by itself, as it does without its key: then nothing was sent. */
export async function start(task: RenderTask, sdk: Sdk, options: SubmitOptions): Promise<Started> {
  const { name, openModel, fetch, onNote } = sdk;
  const outcome = await submitOnce<Started | NoCredits>(
    async (signals) => {
      const call = createCall({ fetch }, signals);
      try {
        const model = await openModel(call.fetch);
        const given = await toCallOptions(task, model);
        const starting = Promise.resolve(
          model.doStart({ ...given, headers: traceHeaders(task.request), abortSignal: signals.signal }),
        );
        const started = startedSchema.parse(await unlessAborted(starting, signals.signal));
        for (const warning of started.warnings) onNote(`${name} warns: ${wordsOf(warning)}`);
        return { kind: "submitted", submitted: { job: JSON.stringify(started.operation) } };
      } catch (error) {
        return judge(error, name, call.answer());
      }
    },
    sdk,
    options,
  );
  if (outcome.kind === "refused" && !outcome.isSent) throw new Error(`${outcome.error}; nothing was submitted`);
  return outcome;
}

function judge(error: unknown, name: string, answer: Answer | undefined): Started | NoCredits {
  if (!answer) return judgeUnseen(error, name);
  if (!("status" in answer)) throw answer.error ?? error;
  const judged = judgeReply(answer);
  return judged.kind === "refused"
    ? { kind: judged.kind, error: `${name} refused the request: ${judged.reason}`, isSent: true }
    : judged;
}

/** An error without a request that vidgen saw; one that tells of a request was sent in the package's own way. */
function judgeUnseen(error: unknown, name: string): Started {
  const words = describeError(error).replace(/\.$/, "");
  return error instanceof Error && error.name === "AI_APICallError"
    ? { kind: "unclear", reason: `it was not sent through vidgen: ${words}` }
    : { kind: "refused", error: `${name}: ${words}`, isSent: false };
}

/** What the start left open is left to the model, as is what only some models have. */
async function toCallOptions({ request, images: [image] }: RenderTask, { provider }: SdkModel): Promise<VideoCall> {
  const { prompt, unset = [], aspectRatio, extras } = request;
  const { seed, fps, ...others } = extras;
  const isOpen = (field: (typeof unset)[number]) => unset.includes(field);
  return {
    prompt,
    n: 1,
    aspectRatio: isOpen("aspectRatio") ? undefined : (aspectRatio as `${number}:${number}`),
    resolution: isOpen("resolution") ? undefined : (sizeOf(request) as `${number}x${number}`),
    duration: isOpen("duration") ? undefined : wholeSeconds(request),
    fps: fps === undefined ? undefined : Number(fps),
    seed: seed === undefined ? undefined : Number(seed),
    image: image && {
      type: "file",
      mediaType: `image/${image.format}`,
      data: new Uint8Array(await readFile(image.path)),
    },
    frameImages: undefined,
    inputReferences: undefined,
    generateAudio: undefined,
    // "fal.video" is the provider "fal".
    providerOptions: { [provider.split(".")[0] ?? provider]: others as JsonObject },
  };
}

function wordsOf({ message, feature, setting, details }: Record<string, unknown>): string {
  return [feature ?? setting, details ?? message].filter((part) => part !== undefined).join(": ");
}
