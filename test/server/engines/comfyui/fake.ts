/**
 * A ComfyUI server as its source has it (server.py, execution.py and comfy_execution/jobs.py, as of 2026), without the running of graphs: a job
 * completes `completeAfterMs` after its submit. Its oddities:
 *
 * - A graph with faults in some nodes is taken with 200 and `node_errors`, and the other nodes run. Without a good node it is 400.
 * - A job's name that was chosen by the caller must be a UUID in lower case. The same one may be submitted again, and runs again.
 * - Before 0.25 the server chooses the name itself.
 * - Queue and history are in memory: `forget()` is a restart. The files stay.
 * - The video is under `images` in the outputs of core's SaveVideo, under `gifs` in those of VideoHelperSuite.
 *
 * `fault(call)` is asked before each request, as in the fakes of `/v1/videos`; `runs` has each run, so that a second one is seen.
 */
import { Hono } from "hono";
import { tinyMp4 } from "../../../mp4.ts";
import { type Fault, hangUp } from "../videos/fakes/fake.ts";

type Graph = Record<string, { class_type: string; inputs: Record<string, unknown> }>;

export type Run = { id: string; graph: Graph; atMs: number; isCancelled?: boolean };

export type Call = { route: string; request: Request; serve(): Promise<Response> };

export type ComfyUiOptions = {
  now?: () => number;
  completeAfterMs?: number;
  version?: string;
  /** The Bearer key that a proxy in front of it wants. */
  key?: string;
  /** Ids of nodes that it finds fault with. */
  faulty?: readonly string[];
  /** What a run puts out, by node. */
  outputs?: (run: Run) => Record<string, unknown>;
  /** The video of a run; that of the last one unless its outputs have a name of its own. */
  video?: (run: Run) => Uint8Array;
  /** The error that a run ends with. */
  failure?: (run: Run) => { node_type?: string; exception_message: string } | undefined;
  onRun?: (run: Run) => void;
  fault?: (call: Call) => Fault | Promise<Fault>;
};

const savedVideo = () => ({
  "9": { images: [{ filename: "fox_00001_.mp4", subfolder: "video", type: "output" }], animated: [true] },
});

const ofPrompt = ({ graph }: Run) => tinyMp4(JSON.stringify(graph["6"]?.inputs.text));

export function createComfyUi(options: ComfyUiOptions = {}) {
  const { now = Date.now, completeAfterMs = 60_000, version = "0.36.0", faulty = [] } = options;
  const { outputs = savedVideo, video = ofPrompt } = options;
  const runs: Run[] = [];
  const uploads = new Map<string, Buffer>();
  let memory: Run[] = [];
  const isOld = Number(version.split(".")[1]) < 25;

  const app = new Hono();
  app.get("/system_stats", (c) => c.json({ system: { os: "posix", comfyui_version: version }, devices: [] }));
  app.post("/upload/image", async (c) => {
    const image = (await c.req.formData()).get("image");
    if (!(image instanceof File)) return c.body(null, 400);
    const bytes = Buffer.from(await image.arrayBuffer());
    let name = image.name;
    for (let i = 1; uploads.has(name) && !uploads.get(name)?.equals(bytes); i++)
      name = image.name.replace(/(\.\w+)$/, ` (${i})$1`);
    uploads.set(name, bytes);
    return c.json({ name, subfolder: "", type: "input" });
  });
  app.post("/prompt", async (c) => {
    const { prompt: graph, prompt_id: asked } = (await c.req.json()) as { prompt: Graph; prompt_id?: string };
    const refuse = (type: string, message: string, errors = {}) =>
      c.json({ error: { type, message, details: "", extra_info: {} }, node_errors: errors }, 400);
    if (asked !== undefined && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(asked))
      return refuse("invalid_prompt_id", "prompt_id must be a valid UUID");
    const errorsOf = (id: string, { class_type, inputs }: Graph[string]) => {
      const isUnknown = class_type === "LoadImage" && !uploads.has(String(inputs.image));
      if (!faulty.includes(id) && !isUnknown) return [];
      const error = isUnknown
        ? {
            type: "custom_validation_failed",
            message: "Custom validation failed for node",
            details: `image - Invalid image file: ${inputs.image}`,
          }
        : {
            type: "value_not_in_list",
            message: "Value not in list",
            details: "unet_name: 'wan.safetensors' not in []",
          };
      return [[id, { errors: [error], dependent_outputs: ["9"], class_type }]];
    };
    const errors = Object.fromEntries(Object.entries(graph).flatMap(([id, node]) => errorsOf(id, node)));
    if (Object.keys(errors).length === Object.keys(graph).length || "9" in errors)
      return refuse("prompt_outputs_failed_validation", "Prompt outputs failed validation", errors);
    const run = { id: isOld || asked === undefined ? crypto.randomUUID() : asked, graph, atMs: now() };
    runs.push(run);
    memory.push(run);
    options.onRun?.(run);
    return c.json({ prompt_id: run.id, number: runs.length, node_errors: errors });
  });
  app.get("/api/jobs/:id", (c) => {
    const run = memory.find(({ id }) => id === c.req.param("id"));
    if (!run) return c.json({ error: "Job not found" }, 404);
    const job = { id: run.id, priority: 0, create_time: run.atMs };
    if (run.isCancelled) return c.json({ ...job, status: "cancelled", outputs: {} });
    const failure = options.failure?.(run);
    if (failure) return c.json({ ...job, status: "failed", execution_error: failure, outputs: {} });
    if (now() - run.atMs < completeAfterMs) return c.json({ ...job, status: "in_progress", outputs_count: 0 });
    return c.json({
      ...job,
      status: "completed",
      outputs: outputs(run),
      workflow: { prompt: run.graph, extra_data: {} },
    });
  });
  app.post("/api/jobs/:id/cancel", (c) => {
    const run = memory.find(({ id, atMs }) => id === c.req.param("id") && now() - atMs < completeAfterMs);
    if (run) run.isCancelled = true;
    return c.json({ cancelled: run !== undefined });
  });
  app.get("/view", (c) => {
    const { filename = "" } = c.req.query();
    const run = runs.findLast((each) => JSON.stringify(outputs(each)).includes(filename));
    if (!run) return c.body(null, 404);
    return new Response(Buffer.from(video(run)), { headers: { "Content-Type": "video/mp4" } });
  });
  app.notFound((c) => c.text("404: Not Found", 404));

  return {
    async fetch(request: Request): Promise<Response> {
      const { pathname } = new URL(request.url);
      const call = {
        route: `${request.method} ${pathname.replace(/[0-9a-f-]{36}/, "{id}")}`,
        request: request.clone(),
      };
      const serve = async () => {
        const isKeyWrong =
          options.key !== undefined && request.headers.get("Authorization") !== `Bearer ${options.key}`;
        return isKeyWrong ? new Response("Unauthorized", { status: 401 }) : app.fetch(request);
      };
      const reply = (await options.fault?.({ ...call, serve })) ?? (await serve());
      return reply instanceof Response ? reply : hangUp(reply === "drop" ? undefined : reply, {});
    },
    runs,
    uploads,
    /** A restart: queue and history are gone. */
    forget() {
      memory = [];
    },
  };
}
