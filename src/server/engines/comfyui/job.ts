import * as z from "zod";
import type { FailureKind } from "../../store/generations.ts";
import {
  clean,
  describeReply,
  isOutOfMemory,
  optional,
  type ServerReply,
  type UpstreamJob,
} from "../upstream/reply.ts";
import type { PollFailure } from "../upstream/upstream.ts";

const jobSchema = z.object({
  id: z.string(),
  status: z.string(),
  outputs: optional(z.record(z.string(), z.unknown())),
  execution_error: optional(
    z.object({
      node_type: optional(z.string()),
      exception_type: optional(z.string()),
      exception_message: optional(z.string()),
    }),
  ),
});

/** The result of a job: its video, and notes for the owner about how it was chosen. */
export type WorkflowResult = { video: OutputFile; notes: string[] };

/**
 * Reads the reply of `GET /api/jobs/{id}` (get_job in comfy_execution/jobs.py). A completed job without a video counts as failed. `titledNodes`
 * are the nodes whose title says that they make the video.
 */
export function readJob(
  reply: ServerReply,
  titledNodes: readonly string[],
): (UpstreamJob & { result?: WorkflowResult }) | PollFailure {
  const { data: job } = jobSchema.safeParse(reply.json);
  // A proxy's 404 says nothing about the job.
  const isMissing = reply.status === 404 && reply.json !== undefined && /job not found/i.test(reply.text);
  if (!job) return { reason: describeReply(reply), replied: reply.status, isMissing };
  const { id, status, execution_error: error } = job;
  const words = [error?.node_type, error?.exception_message].filter((part) => part !== undefined).join(": ");
  const common = {
    ...{ id, status, progress: undefined, url: undefined, error: clean(words) || undefined },
    failure: failureOfRun(error ?? {}),
  };
  if (status !== "completed") return common;
  const { outputs = {} } = job;
  const result = findResult(outputs, titledNodes);
  if (result) return { ...common, result };
  return {
    ...common,
    status: "failed",
    error: clean(`the workflow made ${describeFiles(filesIn(outputs))}`),
    failure: "no_video",
  };
}

const maxNames = 3;

function describeFiles(files: OutputFile[]): string {
  if (files.length === 0) return "no file";
  const kind = files.every(({ filename }) => imageName.test(filename)) ? "images" : "files";
  const names = files.length > maxNames ? [`${files.length} ${kind}`] : files.map(({ filename }) => filename);
  return `${names.join(", ")}, and no video`;
}

/** Returns what the error with which a job ended is for a hint. */
function failureOfRun({ exception_type: type = "", exception_message: message = "" }: RunError): FailureKind {
  if (/(^|\.)(OutOfMemoryError|MemoryError)$/.test(type) || isOutOfMemory(message)) return "memory";
  if (/outside the output folder/i.test(message)) return "prefix";
  return /missing \d+ required (positional|keyword-only) argument/.test(message) ? "inputs" : "workflow";
}

type RunError = { exception_type?: string | undefined; exception_message?: string | undefined };

const fileSchema = z.object({ filename: z.string().min(1), subfolder: z.string().catch(""), type: z.string() });

/** A file of ComfyUI, with the parameters of `/view`, and the node that made it. */
export type OutputFile = z.infer<typeof fileSchema> & { node: string; isVideo: boolean };

const videoName = /\.(mp4|m4v|mov|webm|mkv|avi|gif)$/i;
const imageName = /\.(png|apng|webp|jpe?g|avif|gif|tiff?|bmp|exr)$/i;
const animationName = /\.(png|apng|webp)$/i;

/**
 * Depending on the node, a video is listed under `images`, `gifs` or `videos`. A file of the type "input" was read, not made. Core's nodes mark an
 * animated image with `animated`, and VideoHelperSuite lists it under `gifs`.
 */
function filesIn(outputs: Record<string, unknown>): OutputFile[] {
  return Object.entries(outputs).flatMap(([node, lists]) => {
    const { animated } = { ...(lists as { animated?: unknown }) };
    const isAnimated = Array.isArray(animated) && animated.includes(true);
    return Object.entries(lists ?? {}).flatMap(([name, list]) =>
      (Array.isArray(list) ? list : [])
        .flatMap((file) => fileSchema.safeParse(file).data ?? [])
        .filter(({ type }) => type === "output" || type === "temp")
        .map((file) => {
          const isAnimation = animationName.test(file.filename) && (isAnimated || name === "gifs");
          return { ...file, node, isVideo: isAnimation || videoName.test(file.filename) };
        }),
    );
  });
}

/** Whether a file is an .mp4, by its name. */
export function isMp4({ filename }: Pick<OutputFile, "filename">): boolean {
  return /\.mp4$/i.test(filename);
}

/** Returns the video among the outputs of a job, by node; `undefined` if there is none. */
export function findResult(
  outputs: Record<string, unknown>,
  titledNodes: readonly string[],
): WorkflowResult | undefined {
  return chooseVideo(filesIn(outputs), titledNodes);
}

/**
 * Applies the rule of `vidgen help real-models`: the node with the title; else an .mp4 before other kinds of video, saved files before previews, and
 * the highest node id. The order of the outputs does not help, because it is the order in which the nodes ran.
 */
function chooseVideo(files: OutputFile[], titledNodes: readonly string[]): WorkflowResult | undefined {
  const hasTitle = ({ node }: OutputFile) => titledNodes.includes(node);
  const isSaved = ({ type }: OutputFile) => type === "output";
  let candidates = files.filter((file) => file.isVideo);
  const isChosenByTitle = candidates.some(hasTitle);
  for (const isPreferred of [hasTitle, isMp4, isSaved]) {
    const preferred = candidates.filter(isPreferred);
    if (preferred.length > 0) candidates = preferred;
  }
  const nodes = [...new Set(candidates.map(({ node }) => node))].sort(compareNodes);
  const node = nodes.at(-1);
  const video = candidates.find((file) => file.node === node);
  if (!video || nodes.length === 1 || isChosenByTitle) return video && { video, notes: [] };
  const others = nodes.slice(0, -1).join(" and ");
  return {
    video,
    notes: [
      `the video of node ${node} was taken, but node ${others} made one, too. To choose a node, give it the title "vidgen" in ComfyUI.`,
    ],
  };
}

/** A node inside a subgraph has an id such as "12:3". */
function compareNodes(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}
