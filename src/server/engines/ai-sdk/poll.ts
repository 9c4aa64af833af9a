import * as z from "zod";
import { unlessAborted } from "../../../abort.ts";
import { isRecord } from "../../../protocol/json.ts";
import { isCompleted, missingMs } from "../upstream/follow.ts";
import { beginningOf, clean, describeReply, type UpstreamJob } from "../upstream/reply.ts";
import { notNowStatuses } from "../upstream/submit.ts";
import { describe, type Upstream } from "../upstream/upstream.ts";
import { type CallResult, createCall, describeError, isSuccess } from "./call.ts";
import type { Sdk, SdkModel } from "./package.ts";

const maybe = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().catch(undefined);

const videoSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("url"), url: z.string(), mediaType: maybe(z.string()) }),
  z.object({ type: z.literal("base64"), data: z.string(), mediaType: maybe(z.string()) }),
  z.object({ type: z.literal("binary"), data: z.instanceof(Uint8Array), mediaType: maybe(z.string()) }),
]);

const toldSchema = z.discriminatedUnion("status", [
  z.object({ status: z.literal("pending") }),
  // "Completed" without a video happens: its address may come later.
  z.object({ status: z.literal("completed"), videos: z.array(videoSchema).catch([]) }),
  z.object({ status: z.literal("error"), error: z.string() }),
]);

/** Some models at Replicate answer with a list, which its package cannot read: of a thumbnail and the video, or of none. */
const listSchema = z.object({ status: z.literal("succeeded"), output: z.array(z.unknown()).nullable() });

/** By the ending of an address's path, which may be followed by a signature. */
const isVideoAddress = (address: string) => /\.(mp4|m4v|mov|webm)$/i.test(new URL(address).pathname);

/** What Google tells of a video that its filter has blocked: Gemini's API in `generateVideoResponse`, Vertex's in `response` itself. */
const filteredSchema = z.object({
  generatedSamples: maybe(z.array(z.unknown())),
  videos: maybe(z.array(z.unknown())),
  raiMediaFilteredCount: maybe(z.number()),
  raiMediaFilteredReasons: maybe(z.array(z.string())),
});
const endedSchema = z.object({
  done: z.literal(true),
  response: filteredSchema.extend({ generateVideoResponse: maybe(filteredSchema) }),
});

/** What a package says instead of how a job stands; `isTold` when it could read the reply. */
type Problem = { problem: string; isTold: boolean };

/**
 * Returns what asks a package about an operation. A package may tell any trouble as the end of the video, even an HTTP 502: it counts only when
 * it repeats for 60 s in replies that are about the video. A 2xx that the package cannot read never does: the provider may have changed its
 * format, and has been paid for the video.
 */
export function createPoll({
  name,
  openModel,
  fetch,
  io,
}: Pick<Sdk, "name" | "openModel" | "fetch" | "io">): Upstream["poll"] {
  const problemsAt = new Map<string, number>();
  return async (operation, signal) => {
    const call = createCall({ fetch }, { signal });
    const told = await ask(await openModel(call.fetch), operation, signal);
    const answer = call.answer();
    const read = "problem" in told ? (findListed(answer) ?? findFiltered(answer, name)) : told;
    const found = read ?? findEmpty(answer) ?? told;
    const isProblem = "problem" in found;
    const since = isProblem && isAboutVideo(found, answer) ? (problemsAt.get(operation) ?? io.now()) : undefined;
    if (since === undefined) problemsAt.delete(operation);
    else problemsAt.set(operation, since);
    if (!isProblem) return found.url === undefined ? { ...found, noFileReason: beginningIn(answer) } : found;
    const words = (answer && !isSuccess(answer) && wordsIn(answer)) || found.problem;
    if (since !== undefined && io.now() - since >= missingMs) return jobWith({ status: "failed", error: words });
    const isMissing = answer !== undefined && "status" in answer && answer.status === 404;
    const isUnreadable = answer !== undefined && isSuccess(answer) && !found.isTold;
    const retryAfterMs = answer && "status" in answer ? answer.retryAfterMs : undefined;
    return { reason: words, isMissing, isUnreadable, retryAfterMs };
  };
}

async function ask(model: SdkModel, operation: string, signal: AbortSignal): Promise<UpstreamJob | Problem> {
  try {
    const asking = Promise.resolve(model.doStatus({ operation: JSON.parse(operation), abortSignal: signal }));
    const told = toldSchema.parse(await unlessAborted(asking, signal));
    if (told.status === "error") return { problem: clean(told.error), isTold: true };
    return told.status === "completed"
      ? jobWith({ status: "completed", url: findAddress(told.videos) })
      : jobWith({ status: "pending" });
  } catch (error) {
    return { problem: describeError(error), isTold: false };
  }
}

function jobWith(job: Pick<UpstreamJob, "status"> & Partial<UpstreamJob>): UpstreamJob {
  return { id: undefined, progress: undefined, url: undefined, error: undefined, ...job };
}

/** The first that is a video by its type or ending, else the first. */
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

function findListed(answer: CallResult | undefined): UpstreamJob | undefined {
  const listed = answer && "json" in answer ? listSchema.safeParse(answer.json).data : undefined;
  const addresses = (listed?.output ?? []).flatMap((part) => z.url().safeParse(part).data ?? []);
  return listed && jobWith({ status: "completed", url: addresses.find(isVideoAddress) ?? addresses[0] });
}

/** Google's package takes a video that was blocked for a reply that it cannot read. */
function findFiltered(answer: CallResult | undefined, name: string): UpstreamJob | undefined {
  const { response } = endedSchema.safeParse(answer && "json" in answer ? answer.json : undefined).data ?? {};
  const told = response?.generateVideoResponse ?? response;
  if (!told || told.generatedSamples?.length || told.videos?.length) return undefined;
  const reasons = told.raiMediaFilteredReasons ?? [];
  if (reasons.length === 0 && !told.raiMediaFilteredCount) return undefined;
  const words = clean(reasons.join("; ")) || "no reason was given";
  return jobWith({ status: "failed", error: `the filter of ${name} has blocked this video: ${words}` });
}

const statusFields = ["status", "state", "task_status"];
/** Beside the words of `/v1/videos`: those of Black Forest Labs and of Kling. */
const completedWords = /^(ready|succeed)$/i;

/**
 * A completed job without its video, as fal, Black Forest Labs and Google show one, is a reply that their packages cannot read, or an error of the
 * video. It tells no error, and has nothing that could be a video or its address.
 */
function findEmpty(answer: CallResult | undefined): UpstreamJob | undefined {
  if (!answer || !isSuccess(answer) || !("json" in answer) || !isRecord(answer.json)) return undefined;
  const fields = fieldsIn(answer.json);
  const statuses = fields.flatMap(([name, value]) => (statusFields.includes(name) ? [String(value)] : []));
  const isDone = fields.some(([name, value]) => name === "done" && value === true);
  const isCompletedThere = statuses.some((word) => isCompleted({ status: word }) || completedWords.test(word));
  // What fal answers in place of the video has no status.
  const isResult = statuses.length === 0 && "video" in answer.json;
  const mayBeVideo = fields.some(([, value]) => typeof value === "string" && /^(https?:|data:|.{1000})/s.test(value));
  const hasError = fields.some(([name, value]) => /^errors?$/.test(name) && value);
  if (hasError || mayBeVideo || !(isDone || isCompletedThere || isResult)) return undefined;
  return jobWith({ status: "completed" });
}

const maxDepth = 4;

/** The fields of a reply, and of what is in it. */
function fieldsIn(value: unknown, depth = 0): [name: string, value: unknown][] {
  if (typeof value !== "object" || value === null || depth > maxDepth) return [];
  return Object.entries(value).flatMap(([name, part]) => [[name, part], ...fieldsIn(part, depth + 1)]);
}

function beginningIn(answer: CallResult | undefined): string | undefined {
  return answer && "status" in answer ? beginningOf(answer) : undefined;
}

/** A page of a proxy, a refusal of this request alone, and a 2xx that the package could not read say nothing about the video. */
function isAboutVideo({ isTold }: Problem, answer: CallResult | undefined): boolean {
  if (!answer || !("status" in answer) || answer.json === undefined) return false;
  const { status } = answer;
  if (isSuccess(answer)) return isTold;
  return status >= 400 && status < 500 && ![404, 408, ...notNowStatuses].includes(status);
}

function wordsIn(answer: CallResult): string | undefined {
  if ("status" in answer) return describeReply(answer);
  return answer.error === undefined ? undefined : describe(answer.error);
}
