import * as z from "zod";
import { unlessAborted } from "../../../abort.ts";
import { isRecord } from "../../../protocol/json.ts";
import { isCompleted, missingMs } from "../upstream/follow.ts";
import { beginningOf, clean, describeReply, findFailure, optional, type UpstreamJob } from "../upstream/reply.ts";
import { notAcceptedStatuses } from "../upstream/submit.ts";
import { describe, type Upstream } from "../upstream/upstream.ts";
import { type CallResult, createCall, describeError, isSuccess } from "./call.ts";
import type { Sdk, SdkModel } from "./package.ts";

const videoSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("url"), url: z.string(), mediaType: optional(z.string()) }),
  z.object({ type: z.literal("base64"), data: z.string(), mediaType: optional(z.string()) }),
  z.object({ type: z.literal("binary"), data: z.instanceof(Uint8Array), mediaType: optional(z.string()) }),
]);

const statusSchema = z.discriminatedUnion("status", [
  z.object({ status: z.literal("pending") }),
  // A job may be completed without a video, whose address may come later.
  z.object({ status: z.literal("completed"), videos: z.array(videoSchema).catch([]) }),
  z.object({ status: z.literal("error"), error: z.string() }),
]);

/** Some models at Replicate return a list, which the package cannot read: a thumbnail and the video, or an empty list. */
const listReplySchema = z.object({ status: z.literal("succeeded"), output: z.array(z.unknown()).nullable() });

/** By the extension in the path; a signature may follow in the query. */
const isVideoAddress = (address: string) => /\.(mp4|m4v|mov|webm)$/i.test(new URL(address).pathname);

/** What Google returns for a video that its filter has blocked: Gemini's API in `generateVideoResponse`, Vertex's in `response` itself. */
const googleResultSchema = z.object({
  generatedSamples: optional(z.array(z.unknown())),
  videos: optional(z.array(z.unknown())),
  raiMediaFilteredCount: optional(z.number()),
  raiMediaFilteredReasons: optional(z.array(z.string())),
});
const googleDoneSchema = z.object({
  done: z.literal(true),
  response: googleResultSchema.extend({ generateVideoResponse: optional(googleResultSchema) }),
});

/** A package's answer that is not a job's status; `isReadable` when the package could read the reply. */
type Problem = { problem: string; isReadable: boolean };

/**
 * Returns the `poll` of a package's model. A package may report any error as the end of the video, even an HTTP 502, so an error counts only when it
 * repeats for 60 s in replies that are about the video. A 2xx that the package cannot read never counts, because the provider may have changed its
 * format, and has been paid for the video.
 */
export function createPoll({
  name,
  openModel,
  fetch,
  io,
}: Pick<Sdk, "name" | "openModel" | "fetch" | "io">): Upstream["poll"] {
  const problemsAt = new Map<string, number>();
  return async (operation, signal, options) => {
    const call = createCall({ fetch }, { signal }, options);
    // Where the package cannot read a reply, or calls it an error, vidgen reads it itself.
    const packageAnswer = await requestStatus(await openModel(call.fetch), operation, signal);
    const result = call.result();
    if (result && "error" in result && Object(result.error).isTooLong) throw result.error;
    const answer =
      "problem" in packageAnswer
        ? (findJobInList(result) ?? findBlockedJob(result, name) ?? findJobWithoutVideo(result) ?? packageAnswer)
        : packageAnswer;
    const isProblem = "problem" in answer;
    const problemSince =
      isProblem && isAboutVideo(answer, result) ? (problemsAt.get(operation) ?? io.now()) : undefined;
    if (problemSince === undefined) problemsAt.delete(operation);
    else problemsAt.set(operation, problemSince);
    if (!isProblem) return answer.url === undefined ? { ...answer, noFileReason: beginningOfResult(result) } : answer;
    const reason = (result && !isSuccess(result) && describeResult(result)) || answer.problem;
    if (problemSince !== undefined && io.now() - problemSince >= missingMs)
      return jobWith({ status: "failed", error: reason, failure: failureOf(result, reason) });
    const isMissing = result !== undefined && "status" in result && result.status === 404;
    const isUnreadable = result !== undefined && isSuccess(result) && !answer.isReadable;
    const retryAfterMs = result && "status" in result ? result.retryAfterMs : undefined;
    const replied = result && "status" in result ? result.status : undefined;
    return { reason, replied, isMissing, isUnreadable, retryAfterMs };
  };
}

async function requestStatus(model: SdkModel, operation: string, signal: AbortSignal): Promise<UpstreamJob | Problem> {
  try {
    const request = Promise.resolve(model.doStatus({ operation: JSON.parse(operation), abortSignal: signal }));
    const status = statusSchema.parse(await unlessAborted(request, signal));
    if (status.status === "error") return { problem: clean(status.error), isReadable: true };
    return status.status === "completed"
      ? jobWith({ status: "completed", url: findAddress(status.videos) })
      : jobWith({ status: "pending" });
  } catch (error) {
    return { problem: describeError(error), isReadable: false };
  }
}

function jobWith(job: Pick<UpstreamJob, "status"> & Partial<UpstreamJob>): UpstreamJob {
  return { id: undefined, progress: undefined, url: undefined, error: undefined, ...job };
}

/** Returns the first file that is a video by its type or extension, else the first file. */
function findAddress(videos: z.infer<typeof videoSchema>[]): string | undefined {
  const isVideo = (video: z.infer<typeof videoSchema>) =>
    video.mediaType?.startsWith("video/") ||
    (video.type === "url" && URL.canParse(video.url) && isVideoAddress(video.url));
  const video = videos.find(isVideo) ?? videos[0];
  return video && videoUrl(video);
}

function videoUrl(video: z.infer<typeof videoSchema>): string {
  if (video.type === "url") return video.url;
  const base64 = video.type === "base64" ? video.data : Buffer.from(video.data).toString("base64");
  return `data:video/mp4;base64,${base64}`;
}

function findJobInList(result: CallResult | undefined): UpstreamJob | undefined {
  const listReply = result && "json" in result ? listReplySchema.safeParse(result.json).data : undefined;
  const addresses = (listReply?.output ?? []).flatMap((part) => z.url().safeParse(part).data ?? []);
  return listReply && jobWith({ status: "completed", url: addresses.find(isVideoAddress) ?? addresses[0] });
}

/** Google's package cannot read the reply about a blocked video. */
function findBlockedJob(result: CallResult | undefined, name: string): UpstreamJob | undefined {
  const { response } = googleDoneSchema.safeParse(result && "json" in result ? result.json : undefined).data ?? {};
  const googleResult = response?.generateVideoResponse ?? response;
  if (!googleResult || googleResult.generatedSamples?.length || googleResult.videos?.length) return undefined;
  const reasons = googleResult.raiMediaFilteredReasons ?? [];
  if (reasons.length === 0 && !googleResult.raiMediaFilteredCount) return undefined;
  const words = clean(reasons.join("; ")) || "no reason was given";
  const error = `the filter of ${name} has blocked this video: ${words}`;
  return jobWith({ status: "failed", error, failure: "refused" });
}

function failureOf(result: CallResult | undefined, reason: string): UpstreamJob["failure"] {
  return findFailure({ json: result && !isSuccess(result) && "json" in result ? result.json : { error: reason } });
}

const statusFields = ["status", "state", "task_status"];
/** More names for a completed job, used by Black Forest Labs and Kling. */
const completedWords = /^(ready|succeed)$/i;

/**
 * Finds a completed job without its video. fal, Black Forest Labs and Google return such replies, which their packages cannot read, or report as an
 * error of the video. The reply contains no error, and nothing that could be a video or its address.
 */
function findJobWithoutVideo(result: CallResult | undefined): UpstreamJob | undefined {
  if (!result || !isSuccess(result) || !("json" in result) || !isRecord(result.json)) return undefined;
  const fields = fieldsIn(result.json);
  const statuses = fields.flatMap(([name, value]) => (statusFields.includes(name) ? [String(value)] : []));
  const isDone = fields.some(([name, value]) => name === "done" && value === true);
  const isCompletedThere = statuses.some((word) => isCompleted({ status: word }) || completedWords.test(word));
  // fal's reply in place of the video has no status.
  const isVideoResult = statuses.length === 0 && "video" in result.json;
  const mayBeVideo = fields.some(([, value]) => typeof value === "string" && /^(https?:|data:|.{1000})/s.test(value));
  const hasError = fields.some(([name, value]) => /^errors?$/.test(name) && value);
  if (hasError || mayBeVideo || !(isDone || isCompletedThere || isVideoResult)) return undefined;
  return jobWith({ status: "completed" });
}

const maxDepth = 4;

/** Returns the fields of a reply and of the objects in it. */
function fieldsIn(value: unknown, depth = 0): [name: string, value: unknown][] {
  if (typeof value !== "object" || value === null || depth > maxDepth) return [];
  return Object.entries(value).flatMap(([name, part]) => [[name, part], ...fieldsIn(part, depth + 1)]);
}

function beginningOfResult(result: CallResult | undefined): string | undefined {
  return result && "status" in result ? beginningOf(result) : undefined;
}

/** Whether a problem is about the video. A proxy's page, a refusal of only this request, and a 2xx that the package could not read are not. */
function isAboutVideo({ isReadable }: Problem, result: CallResult | undefined): boolean {
  if (!result || !("status" in result) || result.json === undefined) return false;
  const { status } = result;
  if (isSuccess(result)) return isReadable;
  return status >= 400 && status < 500 && ![404, 408, ...notAcceptedStatuses].includes(status);
}

function describeResult(result: CallResult): string | undefined {
  if ("status" in result) return describeReply(result);
  return result.error === undefined ? undefined : describe(result.error);
}
