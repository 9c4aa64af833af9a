import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { usage, VidgenError } from "../../../errors.ts";
import type { ReadSocketOptions } from "../../../io.ts";
import { type Traced, traceHeaders } from "../../observe/trace.ts";
import type { ImageFile } from "../engine.ts";
import {
  describeKeyRefusal,
  describeReply,
  refusesKey,
  type ServerReply,
  type UpstreamJob,
} from "../upstream/reply.ts";
import { replyError, type SubmitSignals } from "../upstream/submit.ts";
import {
  type ConnectionUse,
  createConsistency,
  createUpstreamParts,
  headersOfGet,
  type PollFailure,
  type Upstream,
} from "../upstream/upstream.ts";
import type { ServerIo, ServerOptions } from "../videos/server.ts";
import { writeExactJson } from "./exact-json.ts";
import { isMp4, readJob, type WorkflowResult } from "./job.ts";

export type ComfyUiOptions = Pick<ServerOptions, "url" | "key" | "timeoutMs" | "onNote"> & {
  /** The nodes with the title "vidgen", by which the owner says that they make the video. */
  titledNodes: readonly string[];
  /** The time limit for a running job without progress. ComfyUI reports no progress over HTTP, so the job may not be stuck. */
  runningPatienceMs: number;
};

/** A ComfyUI server (server.py), as the parts of its engine use it. Callers interpret the replies. */
export type ComfyUi = Omit<Upstream, "poll"> & {
  isInconsistent(): boolean;
  poll(...args: Parameters<Upstream["poll"]>): Promise<(UpstreamJob & { result?: WorkflowResult }) | PollFailure>;
  /** Returns the running and the waiting jobs of all clients. Rejects when the server does not list them. */
  findQueue(signal: AbortSignal, use?: ConnectionUse): Promise<JobQueue>;
  /** Returns ComfyUI's version. Rejects with `usage` when it is too old, with `auth` when it refuses the key, and when the server is not ComfyUI. */
  findVersion(signal: AbortSignal): Promise<string>;
  /** Returns what a type of node takes, by input; `undefined` if ComfyUI does not have the type. Rejects when it cannot be had. */
  findNode(type: string, signal: AbortSignal): Promise<NodeInputs | undefined>;
  /** Uploads an image, which costs nothing and may be repeated, because the server keeps one file for the same name and content. */
  upload(image: ImageFile, signal: AbortSignal): Promise<ServerReply>;
  /** Runs a graph as a job with this id. Rejects as `fetch` does. */
  create(graph: unknown, job: string, signals: SubmitSignals & Traced): Promise<ServerReply>;
  /** Calls `onText` with each message about a job, until the connection or the signal ends. Never rejects. */
  listen?: ((job: string, options: Pick<ReadSocketOptions, "signal" | "onText">) => Promise<void>) | undefined;
  /**
   * Removes a job from the queue, and stops it if it runs; a job that has ended does not change. Rejects when the server does not accept the request.
   */
  stop(job: string, signal: AbortSignal): Promise<void>;
};

/** The ids of jobs, in the order in which they run. */
export type JobQueue = { running: string[]; waiting: string[] };

const entrySchema = z.tuple([z.number(), z.string()], z.unknown());
const queueSchema = z.object({ queue_running: z.array(entrySchema), queue_pending: z.array(entrySchema) });

/** An id that no job has, for a request that only shows whether the server has the endpoint. */
const unknownJobId = "00000000-0000-4000-8000-000000000000";

/** By input, its type or its list of values, and its settings. */
export type NodeInputs = Readonly<Record<string, unknown>>;

const inputsSchema = z.record(z.string(), z.unknown()).catch({});
const nodesSchema = z.record(
  z.string(),
  z.object({ input: z.object({ required: inputsSchema, optional: inputsSchema }) }),
);

const statsSchema = z.object({ system: z.object({ comfyui_version: z.string() }) });

/** A reply about a job contains its graph. */
const maxJobBytes = 16_000_000;
/** The reply about the queue contains the graphs of all jobs. */
const maxQueueBytes = 64_000_000;

export function createComfyUi(options: ComfyUiOptions, io: ServerIo): ComfyUi {
  const { url, key, runningPatienceMs, titledNodes, onNote } = options;
  const parts = createUpstreamParts({ ...options, name: url }, io);
  const { read } = parts;
  const { origin } = new URL(url);
  const { readSocket } = io;
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const jobPath = (job: string) => `${url}/api/jobs/${encodeURIComponent(job)}`;
  const get = (address: string, signal: AbortSignal, use?: ConnectionUse) =>
    io.fetch(address, { headers: { ...headers, ...headersOfGet(use) }, signal });
  const post = async (path: string, request: PostBody, signals: Partial<SubmitSignals>) => {
    const init = { method: "POST", headers: { ...headers, ...request.headers }, body: request.body, ...signals };
    return read(await io.fetch(`${url}${path}`, init));
  };
  return {
    ...parts,
    runningPatienceMs,
    goneReason: "ComfyUI no longer has the file",
    async findVersion(signal) {
      const reply = await read(await get(`${url}/system_stats`, signal));
      const version = statsSchema.safeParse(reply.json).data?.system.comfyui_version;
      if (refusesKey(reply)) throw new VidgenError("auth", describeKeyRefusal(reply, { hasKey: key !== undefined }));
      if (version === undefined) throw replyError(reply, `does not respond like ComfyUI (${describeReply(reply)})`);
      // Versions with this endpoint also keep the job id that the client chooses, which vidgen needs after an unclear submit.
      const job = await read(await get(jobPath(unknownJobId), signal));
      const answer = readJob(job, titledNodes);
      // The server has the endpoint if it knows the job, or answers that there is no such job.
      if (!("reason" in answer) || answer.isMissing) return version;
      if (job.status !== 404 || job.json !== undefined)
        throw replyError(job, `does not report jobs (${describeReply(job)})`);
      throw usage(
        `is ComfyUI ${version}, which is too old: it has no /api/jobs, by which vidgen asks for a video`,
        "Update ComfyUI to 0.24 or newer.",
      );
    },
    async findNode(type, signal) {
      const reply = await read(await get(`${url}/object_info/${encodeURIComponent(type)}`, signal));
      const { data } = nodesSchema.safeParse(reply.status === 200 ? reply.json : undefined);
      if (!data) throw replyError(reply, `does not describe its nodes (${describeReply(reply)})`);
      const { input } = data[type] ?? {};
      return input && { ...input.required, ...input.optional };
    },
    async upload(image, signal) {
      const bytes = await readFile(image.path);
      const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 32);
      const form = new FormData();
      form.append("image", new Blob([bytes], { type: `image/${image.format}` }), `vidgen-${hash}.${image.format}`);
      // A Response encodes the form and chooses the boundary that its Content-Type names.
      const encoded = new Response(form);
      const contentType = encoded.headers.get("Content-Type") ?? "multipart/form-data";
      const body = new Uint8Array(await encoded.arrayBuffer());
      return post("/upload/image", { headers: { "Content-Type": contentType }, body }, { signal });
    },
    create(graph, job, { traceparent, ...signals }) {
      // Each job has a client id of its own, because ComfyUI sends the job's progress to that client.
      const body = writeExactJson({ prompt: graph, prompt_id: job, client_id: job });
      return post("/prompt", { headers: { ...jsonHeaders, ...traceHeaders({ traceparent }) }, body }, signals);
    },
    listen:
      readSocket &&
      ((job, options) => readSocket(`${url.replace(/^http/, "ws")}/ws?clientId=${job}`, { headers, ...options })),
    async findQueue(signal, use) {
      const reply = await read(await get(`${url}/queue`, signal, use), { maxBytes: maxQueueBytes });
      const { data } = queueSchema.safeParse(reply.status === 200 ? reply.json : undefined);
      if (!data) throw replyError(reply, `does not list its queue (${describeReply(reply)})`);
      const idsOf = (entries: z.infer<typeof entrySchema>[]) =>
        entries.toSorted(([one], [other]) => one - other).map(([, job]) => job);
      return { running: idsOf(data.queue_running), waiting: idsOf(data.queue_pending) };
    },
    async stop(job, signal) {
      // The endpoint that cancels a job exists only since 0.26. A job that starts between these requests is stopped by the second one.
      const requests: [string, unknown][] = [
        ["/queue", { delete: [job] }],
        ["/interrupt", { prompt_id: job }],
      ];
      for (const [path, body] of requests) {
        const reply = await post(path, { headers: jsonHeaders, body: JSON.stringify(body) }, { signal });
        if (reply.status !== 200) throw replyError(reply, describeReply(reply));
      }
    },
    async poll(job, signal, { maxBytes = maxJobBytes, onPart, ...use } = {}) {
      const reply = await read(await get(jobPath(job), signal, use), { maxBytes, onPart });
      const polled = readJob(reply, titledNodes);
      if (!("result" in polled) || !polled.result) return polled;
      const { filename, subfolder, type } = polled.result.video;
      const address = `${url}/view?${new URLSearchParams({ filename, subfolder, type })}`;
      return { ...polled, url: address, isNotMp4: !isMp4(polled.result.video) };
    },
    open: (address, signal) => (new URL(address).origin === origin ? get : parts.open)(address, signal),
    ...createConsistency(url, onNote),
  };
}

const jsonHeaders = { "Content-Type": "application/json" };

type PostBody = { headers: Record<string, string>; body: string | Uint8Array };
