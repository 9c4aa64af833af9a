/**
 * A ComfyUI server as its source has it (server.py, execution.py and comfy_execution/jobs.py, as of 2026), without the running of graphs: a job
 * completes `completeAfterMs` after its submit. Its oddities:
 *
 * - A node without `inputs` is taken, and nothing runs any more until a restart; one whose inputs are no object is a 500.
 * - A graph with faults in some nodes is taken with 200 and `node_errors`, and the other nodes run. Without a good node it is 400.
 * - A job's name that was chosen by the caller must, since 0.25, be a UUID in lower case. The same one may be submitted again, and runs again in
 *   place of the first one.
 * - A job that is cancelled while it waits is unknown from then on. Before 0.26 `/api/jobs/{id}/cancel` is 405, as is each POST that it does not know.
 * - Queue and history are in memory: `forget()` is a restart. The files stay.
 * - The video is under `images` in the outputs of core's SaveVideo, under `gifs` in those of VideoHelperSuite.
 *
 * Progress is told over a WebSocket alone, `/ws?clientId=`, to the client that submitted the job; `tell` says something there. A new connection of
 * a client takes the place of its earlier one.
 *
 * `fault(call)` is asked before each request, as in the fakes of `/v1/videos`; `runs` has each run, so that a second one is seen.
 */
import { Hono } from "hono";
import { parseJson } from "../../../../src/protocol/json.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { type Fault, hangUp } from "../videos/fakes/fake.ts";

type Graph = Record<string, { class_type: string; inputs: Record<string, unknown>; _meta?: { title?: string } }>;

export type Run = {
  id: string;
  graph: Graph;
  /** The body that submitted it. */
  text: string;
  /** Who is told its progress. */
  client?: string | undefined;
  atMs: number;
  hasWaited?: boolean;
  startedAtMs?: number;
  isCancelled?: boolean;
  stopsAtMs?: number;
};

export type Call = { route: string; request: Request; serve(): Promise<Response> };

export type ComfyUiOptions = {
  now?: () => number;
  completeAfterMs?: number;
  version?: string;
  /** Whether it has `/api/jobs`, as it has since December 2025. */
  hasJobs?: boolean;
  /** Types of nodes that are not installed there. */
  missing?: readonly string[];
  /** Other people's jobs: while there are any, those submitted here wait. */
  others?: () => { running: readonly string[]; waiting: readonly string[] };
  /** How long a job that is interrupted goes on, until its node looks. */
  stopAfterMs?: number;
  /** The Bearer key that a proxy in front of it wants. */
  key?: string;
  /** What it finds wrong with nodes, by their ids. */
  errors?: Readonly<Record<string, NodeError>>;
  /** What its types of nodes take, as far as a test cares; all types that are not missing are there. */
  nodes?: Readonly<Record<string, Record<string, unknown>>>;
  /** What a run puts out, by node. */
  outputs?: (run: Run) => Record<string, unknown>;
  /** The video of a run; that of the last one unless its outputs have a name of its own. */
  video?: (run: Run) => Uint8Array;
  /** The error that a run ends with. */
  failure?: (run: Run) => { node_type?: string; exception_message: string } | undefined;
  onRun?: (run: Run) => void;
  fault?: (call: Call) => Fault | Promise<Fault>;
};

type NodeError = { type: string; message: string; details: string; extra_info?: object };

/** The answer of ComfyUI 0.33 about a file of a model that it does not have, among those that it has. */
export const missingFile = (file: string, files: readonly string[] = [], input = "unet_name"): NodeError => ({
  type: "value_not_in_list",
  message: "Value not in list",
  // From 21 files on, ComfyUI leaves out the list (validate_inputs in execution.py).
  details: `${input}: '${file}' not in ${files.length > 20 ? `(list of length ${files.length})` : JSON.stringify(files)}`,
  extra_info: {
    input_name: input,
    input_config: files.length > 20 ? null : [files, {}],
    received_value: file,
  },
});

/** What core's SaveVideo has saved, in an empty folder. */
const savedVideo = ({ graph }: Run) => {
  const parts = String(graph["9"]?.inputs.filename_prefix).split("/");
  const saved = { filename: `${parts.pop()}_00001_.mp4`, subfolder: parts.join("/"), type: "output" };
  return { "9": { images: [saved], animated: [true] } };
};

const ofPrompt = ({ graph }: Run) => tinyMp4(JSON.stringify(graph["6"]?.inputs.text));

export function createComfyUi(options: ComfyUiOptions = {}) {
  const { now = Date.now, completeAfterMs = 60_000, version = "0.36.0", errors: given = {}, missing = [] } = options;
  const { hasJobs = true, stopAfterMs = 0, others = () => ({ running: [], waiting: [] }) } = options;
  const { outputs = savedVideo, video = ofPrompt } = options;
  const runs: Run[] = [];
  const uploads = new Map<string, Buffer>();
  const sockets = new Map<string, (text: string) => void>();
  let memory: Run[] = [];
  let isDead = false;
  const minor = Number(version.split(".")[1]);

  /** Brings a run up to date, and tells its state there. */
  const stateOf = (run: Run) => {
    if (run.isCancelled) return "cancelled";
    const isWaiting = isDead || others().running.length > 0 || others().waiting.length > 0;
    run.hasWaited ||= isWaiting;
    if (run.startedAtMs === undefined && isWaiting) return "pending";
    run.startedAtMs ??= run.hasWaited ? now() : run.atMs;
    if (options.failure?.(run)) return "failed";
    if (now() - run.startedAtMs >= completeAfterMs) return "completed";
    if (run.stopsAtMs !== undefined && now() >= run.stopsAtMs) run.isCancelled = true;
    return run.isCancelled ? "cancelled" : "in_progress";
  };
  const find = (id: string | undefined) => memory.find((run) => run.id === id);
  const remove = (id: string) => {
    const run = find(id);
    if (!run || stateOf(run) !== "pending") return false;
    run.isCancelled = true;
    memory = memory.filter((each) => each !== run);
    return true;
  };
  const interrupt = (id: string) => {
    const run = find(id);
    if (!run || stateOf(run) !== "in_progress") return false;
    run.stopsAtMs = now() + stopAfterMs;
    stateOf(run);
    return true;
  };

  const app = new Hono();
  app.get("/system_stats", (c) => c.json({ system: { os: "posix", comfyui_version: version }, devices: [] }));
  app.get("/object_info/:type", (c) => {
    const type = c.req.param("type");
    const input = { required: options.nodes?.[type] ?? {} };
    return c.json(missing.includes(type) ? {} : { [type]: { input, output: [], name: type } });
  });
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
    const trouble = () => c.text("500 Internal Server Error\n\nServer got itself in trouble", 500);
    const text = await c.req.text();
    const body = parseJson(text);
    if (body === undefined) return trouble();
    const {
      prompt: graph,
      prompt_id: asked,
      client_id: client,
    } = body as {
      prompt: Graph;
      prompt_id?: string;
      client_id?: string;
    };
    if (Object.values(graph).some(({ inputs }) => Array.isArray(inputs))) return trouble();
    const refuse = (type: string, message: string, errors = {}) =>
      c.json({ error: { type, message, details: "", extra_info: {} }, node_errors: errors }, 400);
    const absent = Object.entries(graph).find(([, { class_type }]) => missing.includes(class_type));
    if (absent) {
      const [node_id, { class_type, _meta }] = absent;
      const node_title = _meta?.title ?? class_type;
      const message = `Node '${node_title}' not found. The custom node may not be installed.`;
      const info = { node_id, class_type, node_title };
      const error = { type: "missing_node_type", message, details: `Node ID '#${node_id}'`, extra_info: info };
      return c.json({ error, node_errors: {} }, 400);
    }
    if (minor >= 25 && asked !== undefined && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(asked))
      return refuse("invalid_prompt_id", "prompt_id must be a valid UUID");
    const errorsOf = (id: string, { class_type, inputs }: Graph[string]) => {
      const isUnknown = class_type === "LoadImage" && !uploads.has(String(inputs.image));
      const error = isUnknown
        ? {
            type: "custom_validation_failed",
            message: "Custom validation failed for node",
            details: `image - Invalid image file: ${inputs.image}`,
            extra_info: { input_name: "image" },
          }
        : given[id];
      return error ? [[id, { errors: [error], dependent_outputs: ["9"], class_type }]] : [];
    };
    const errors = Object.fromEntries(Object.entries(graph).flatMap(([id, node]) => errorsOf(id, node)));
    if (Object.values(graph).every(({ class_type }) => !/save/i.test(class_type)))
      return refuse("prompt_no_outputs", "Prompt has no outputs");
    if (Object.keys(errors).length === Object.keys(graph).length || "9" in errors)
      return refuse("prompt_outputs_failed_validation", "Prompt outputs failed validation", errors);
    const run: Run = { id: asked ?? crypto.randomUUID(), graph, text, client, atMs: now() };
    isDead ||= Object.values(graph).some(({ inputs }) => inputs === undefined);
    runs.push(run);
    memory = [...memory.filter(({ id }) => id !== run.id), run];
    options.onRun?.(run);
    return c.json({ prompt_id: run.id, number: runs.length, node_errors: errors });
  });
  app.get("/api/jobs/:id", (c) => {
    if (!hasJobs) return c.notFound();
    const run = find(c.req.param("id"));
    if (!run) return c.json({ error: "Job not found" }, 404);
    const status = stateOf(run);
    const job = { id: run.id, status, priority: 0, create_time: run.atMs };
    if (status === "cancelled") return c.json({ ...job, outputs: {} });
    if (status === "failed") return c.json({ ...job, execution_error: options.failure?.(run), outputs: {} });
    if (status !== "completed") return c.json({ ...job, outputs_count: 0, previewable_outputs_count: 0 });
    return c.json({
      ...job,
      outputs: outputs(run),
      workflow: { prompt: run.graph, extra_data: {} },
    });
  });
  app.post("/api/jobs/:id/cancel", (c) => {
    if (minor < 26) return c.text("405: Method Not Allowed", 405);
    const id = c.req.param("id");
    return c.json({ cancelled: remove(id) || interrupt(id) });
  });
  app.get("/queue", (c) => {
    const { running, waiting } = others();
    const entry = (id: string, number: number) => [number, id, {}, {}, []];
    const own = (wanted: string) => memory.filter((run) => stateOf(run) === wanted).map(({ id }) => id);
    const [runs, waits] = [
      [...running, ...own("in_progress")],
      [...waiting, ...own("pending")],
    ];
    return c.json({
      queue_running: runs.map(entry),
      queue_pending: waits.map((id, index) => entry(id, runs.length + index)),
    });
  });
  app.post("/queue", async (c) => {
    for (const id of ((await c.req.json()) as { delete: string[] }).delete) remove(id);
    return c.body("");
  });
  app.post("/interrupt", async (c) => {
    interrupt(((await c.req.json()) as { prompt_id: string }).prompt_id);
    return c.body("");
  });
  app.get("/view", (c) => {
    const { filename = "" } = c.req.query();
    const run = runs.findLast((each) => JSON.stringify(outputs(each)).includes(filename));
    if (!run) return c.body(null, 404);
    return new Response(Buffer.from(video(run)), { headers: { "Content-Type": "video/mp4" } });
  });
  app.notFound((c) => (c.req.method === "POST" ? c.text("405: Method Not Allowed", 405) : c.body("", 404)));

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
    /** Opens `/ws?clientId=`. Returns what closes it. */
    connect(url: string, send: (text: string) => void): () => void {
      const client = new URL(url).searchParams.get("clientId") ?? "";
      sockets.set(client, send);
      const status = { exec_info: { queue_remaining: memory.length } };
      send(JSON.stringify({ type: "status", data: { status, sid: client } }));
      return () => void (sockets.get(client) === send && sockets.delete(client));
    },
    /** The clients that are connected. */
    clients: () => [...sockets.keys()],
    /** Sends a message about a run to its client. */
    tell({ id, client = "" }: Run, type: string, data: object) {
      sockets.get(client)?.(JSON.stringify({ type, data: { ...data, prompt_id: id } }));
    },
    /** A restart: queue and history are gone. */
    forget() {
      memory = [];
      isDead = false;
    },
  };
}
