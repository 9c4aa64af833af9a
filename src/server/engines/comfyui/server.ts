import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { usage, VidgenError } from "../../../errors.ts";
import { type Traced, traceHeaders } from "../../observe/trace.ts";
import type { ImageFile } from "../engine.ts";
import { type Reply, readReply, refusesKey, wordsOf } from "../upstream/reply.ts";
import { answered, type SubmitSignals } from "../upstream/submit.ts";
import { createReport, type Upstream } from "../upstream/upstream.ts";
import type { ServerIo, ServerOptions } from "../videos/server.ts";
import { readJob } from "./job.ts";

export type ComfyUiOptions = Pick<ServerOptions, "url" | "key" | "timeoutMs" | "onNote">;

/** A ComfyUI server (server.py), as the parts of its engine use it. The replies are for their readers to judge. */
export type ComfyUi = Upstream & {
  /** Returns its version. Rejects when it is no ComfyUI that can be used: `usage` for an old one, `auth` when it refuses the key. */
  findVersion(signal: AbortSignal): Promise<string>;
  /** Uploads an image, which costs nothing and may be repeated: it keeps one file of the same name and content. */
  upload(image: ImageFile, signal: AbortSignal): Promise<Reply>;
  /** Has it run a graph under this name. Rejects as `fetch` does. */
  create(graph: unknown, job: string, signals: SubmitSignals & Traced): Promise<Reply>;
  /** Stops a job, or takes it out of the queue; one that has ended stays as it is. Since 0.26. */
  cancel(job: string, signal: AbortSignal): Promise<Reply>;
};

/** Since then the name of a job may be chosen by whoever submits it, so that it can be looked for. */
const leastVersion = [0, 25] as const;

const statsSchema = z.object({ system: z.object({ comfyui_version: z.string() }) });

/** A reply about a job repeats its graph. */
const maxJobBytes = 16_000_000;

export function createComfyUi({ url, key, timeoutMs, onNote }: ComfyUiOptions, io: ServerIo): ComfyUi {
  const { origin } = new URL(url);
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const read: ComfyUi["read"] = (reply, maxBytes) => readReply(reply, { maxBytes, secret: key, date: io.date() });
  const jobPath = (job: string) => `${url}/api/jobs/${encodeURIComponent(job)}`;
  const get = (address: string, signal: AbortSignal) => {
    // One of several servers behind a balancer of connections would be asked again and again.
    const own = { ...headers, "Accept-Encoding": "identity", Connection: "close" };
    return io.fetch(address, { headers: own, signal });
  };
  const post = async (path: string, request: Sent, signals: Partial<SubmitSignals>) => {
    const init = { method: "POST", headers: { ...headers, ...request.headers }, body: request.body, ...signals };
    return read(await io.fetch(`${url}${path}`, init));
  };
  return {
    name: url,
    timeoutMs,
    patienceMs: timeoutMs,
    io,
    newsAt: io.now(),
    async findVersion(signal) {
      const reply = await read(await get(`${url}/system_stats`, signal));
      const version = statsSchema.safeParse(reply.json).data?.system.comfyui_version;
      if (refusesKey(reply)) throw new VidgenError("auth", `refuses the key (HTTP ${reply.status})`);
      if (version === undefined) throw answered(reply, `does not respond like ComfyUI (${wordsOf(reply)})`);
      if (!isNewEnough(version))
        throw usage(`is ComfyUI ${version}, which is too old: ${leastVersion.join(".")} or newer is needed`);
      return version;
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
      const body = JSON.stringify({ prompt: graph, prompt_id: job });
      const own = { "Content-Type": "application/json" };
      return post("/prompt", { headers: { ...own, ...traceHeaders({ traceparent }) }, body }, signals);
    },
    cancel: (job, signal) => post(`/api/jobs/${encodeURIComponent(job)}/cancel`, { headers: {}, body: "" }, { signal }),
    async look(job, signal) {
      const reply = await read(await get(jobPath(job), signal), maxJobBytes);
      return readJob(reply, (file) => `${url}/view?${new URLSearchParams(file)}`);
    },
    contentOf: () => undefined,
    open: (address, signal) =>
      new URL(address).origin === origin ? get(address, signal) : io.open(address, { signal, accept: "video/mp4" }),
    read,
    report: createReport(onNote),
  };
}

type Sent = { headers: Record<string, string>; body: string | Uint8Array };

function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = /^v?(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number) ?? [];
  return major > leastVersion[0] || (major === leastVersion[0] && minor >= leastVersion[1]);
}
