import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createAiSdkEngine } from "../../src/server/engines/ai-sdk/ai-sdk.ts";
import type { SdkModel, SdkPackage } from "../../src/server/engines/ai-sdk/package.ts";
import { createComfyUiEngine } from "../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../src/server/engines/comfyui/workflow.ts";
import type { Engine } from "../../src/server/engines/engine.ts";
import type { ServerIo } from "../../src/server/engines/videos/server.ts";
import { type Call as ComfyUiCall, createComfyUi } from "../server/engines/comfyui/fake.ts";
import type { Call, Fake, FakeOptions, Job } from "../server/engines/videos/fakes/fake.ts";

// Engines that speak another protocol than `/v1/videos`, in the place of one that does.

type Options = { url: string; folder: string; timeoutMs: number; onNote(text: string): void } & Pick<
  Engine,
  "models" | "concurrency"
>;

/** The AI SDK's engine, with a package that starts its videos at a server of `/v1/videos`. */
export function createSdkEngine({ url, ...options }: Options, io: ServerIo): Engine {
  const model = (fetch: typeof globalThis.fetch): SdkModel => ({
    provider: "made-up.video",
    async doStart({ prompt }) {
      const init = {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ prompt }),
      };
      const { id } = await readJson(await fetch(`${url}/v1/videos`, init));
      return { operation: { id }, warnings: [], response: noResponse };
    },
    async doStatus({ operation }) {
      const { id } = operation as { id: string };
      const { status, error } = await readJson(await fetch(`${url}/v1/videos/${id}`));
      if (status === "failed") return { status: "error", error: String(error?.message), response: noResponse };
      if (status === "queued") return { status: "pending", response: noResponse };
      if (status !== "completed") throw new Error(`an unknown status ${status}`);
      const videos = [{ type: "url" as const, url: `${url}/v1/videos/${id}/content`, mediaType: "video/mp4" }];
      return { status: "completed", videos, warnings: [], response: noResponse };
    },
  });
  const made: SdkPackage = { version: "1.2.3", openModel: (_, fetch) => model(fetch) };
  return createAiSdkEngine({ ...options, packageName: url, upstreamModel: "wan" }, io, async () => made);
}

const noResponse = { timestamp: new Date(0), modelId: "wan", headers: {} };

async function readJson(reply: Response): Promise<{ id: string; status: string; error?: { message?: unknown } }> {
  if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
  return reply.json() as ReturnType<typeof readJson>;
}

/** The checkpoint of a job that `createSdkEngine` has started. */
export function operationOf(id: string): string {
  return JSON.stringify({ id });
}

/** Writes the workflow that the fake of ComfyUI runs, and returns its path. */
export function writeWorkflow(folder: string): string {
  const file = join(folder, ".workflow.json");
  const text = { class_type: "CLIPTextEncode", inputs: { text: "{{prompt}}" } };
  writeFileSync(
    file,
    JSON.stringify({ "6": text, "9": { class_type: "SaveVideo", inputs: { filename_prefix: "fox" } } }),
  );
  return file;
}

export function createWorkflowEngine({ folder, models, ...options }: Options, io: ServerIo): Engine {
  const workflow = readWorkflow(writeWorkflow(folder), models);
  const settings = { ...options, models, key: undefined, upstreamModel: "wan.json", workflow };
  return createComfyUiEngine({ ...settings, runningPatienceMs: options.timeoutMs }, io);
}

const routes: Readonly<Record<string, Call["route"]>> = {
  "POST /prompt": "create",
  "GET /api/jobs/{id}": "poll",
  "GET /view": "content",
};

/** The fake of ComfyUI, with its runs as jobs. */
export function createComfyUiFake({ video, fault, ...options }: FakeOptions): Fake {
  const creates: Fake["creates"] = [];
  const jobs: Fake["jobs"] = new Map();
  const comfyUi = createComfyUi({
    ...options,
    outputs: ({ id }) => ({ "9": { images: [{ filename: `${id}.mp4`, subfolder: "", type: "output" }] } }),
    failure: ({ id }) => {
      const message = jobs.get(id)?.end?.failure?.message;
      return message === undefined ? undefined : { exception_message: message };
    },
    video: ({ id }) => video?.(jobs.get(id) as Job) ?? new Uint8Array(),
    onRun({ id, graph, atMs }) {
      const fields = { prompt: graph["6"]?.inputs.text };
      const create = { encoding: "json" as const, fields, files: [], isAccepted: true };
      creates.push(create);
      jobs.set(id, { id, create, authorization: null, createdAtMs: atMs, polls: 0 });
    },
    fault: ({ route, ...call }: ComfyUiCall) => fault?.({ ...call, route: routes[route] ?? "other" }),
  });
  const end = (id: string, failure?: Partial<NonNullable<NonNullable<Job["end"]>["failure"]>>) => {
    const job = jobs.get(id);
    if (job) job.end = { atMs: 0, ...(failure && { failure: { message: "", httpStatus: 200, ...failure } }) };
  };
  const { fetch, forget } = comfyUi;
  return { fetch, creates, jobs, deleted: [], complete: (id) => end(id), fail: end, forget };
}
